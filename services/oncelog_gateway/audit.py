"""The audit log: append-only JSON lines of who tried to change what through REST, from where, when, and with what
outcome.

Each attempt has two lines with the same `audit_id`. The first is on disk before anything is done, and the second
follows with the outcome. An attempt without a second line therefore means that the gateway's process ended in between.
The state of the cluster then shows whether the change was made. If the first line cannot be written, nothing is done:
each change must leave a trace.
"""

import asyncio
import errno
import json
import os
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from oncelog.errors import ErrorCode, KafkaError
from oncelog.runtime.clock import Clock
from oncelog_gateway.operators import Operator


@dataclass(slots=True)
class Attempt:
    """One attempt to change something, while it is being done. The code that does it sets `outcome` and `detail` here,
    which then go into the audit log.
    """

    audit_id: str
    detail: str = ""
    outcome: str = "done"
    """The outcome so far: `done`, or `dry_run`."""


class AuditLog:
    """Writes the audit log, a file at `path` that is created with its folder on first use."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def attempt(
        self, operator: Operator, action: str, target: Mapping[str, object]
    ) -> AsyncIterator["Attempt"]:
        """Write both lines of an attempt: the first before the `async with` block, which does the change, and the
        second after it. The block sets the outcome's detail, or raises why the change was not made.
        """
        attempt = Attempt(await self._attempted(operator, action, target))
        try:
            yield attempt
        except BaseException as error:
            await self._failed(attempt.audit_id, error)
            raise
        await self._ended(attempt.audit_id, attempt.outcome, attempt.detail)

    async def _attempted(
        self, operator: Operator, action: str, target: Mapping[str, object]
    ) -> str:
        """Write the first line of an attempt, and return its audit id once the line is on disk. Raises
        KafkaError(KAFKA_STORAGE_ERROR) when it cannot be written.
        """
        audit_id = uuid.uuid4().hex
        await self._append(
            {
                "audit_id": audit_id,
                "event": "attempted",
                "time_ms": self._clock.now(),
                "action": action,
                **asdict(operator),
                "target": target,
            }
        )
        return audit_id

    async def refused(
        self, operator: Operator, target: Mapping[str, object], error: KafkaError
    ) -> None:
        """Write both lines of an attempt that was refused before it began, such as for a missing role."""
        await self._failed(await self._attempted(operator, "refused_act", target), error)

    async def _ended(self, audit_id: str, outcome: str, detail: str) -> None:
        """Write the second line of an attempt: how it ended. `outcome` is `done`, `dry_run`, `refused` or `unknown`."""
        await self._append(
            {
                "audit_id": audit_id,
                "event": "ended",
                "time_ms": self._clock.now(),
                "outcome": outcome,
                "detail": detail,
            }
        )

    async def _failed(self, audit_id: str, error: BaseException) -> None:
        """Write the second line of an attempt that raised `error`. After a timeout or a cancelled request the change
        may still have been made: its outcome is then `unknown`.
        """
        is_known = (
            isinstance(error, KafkaError) and error.error_code is not ErrorCode.REQUEST_TIMED_OUT
        )
        await self._ended(audit_id, "refused" if is_known else "unknown", str(error))

    async def _append(self, line: Mapping[str, object]) -> None:
        content = json.dumps(line).encode("ascii") + b"\n"
        async with self._lock:
            try:
                await asyncio.to_thread(_append_durably, self._path, content)
            except OSError as error:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"the audit log {self._path} cannot be written ({error.strerror}), and nothing is done without it; "
                    "make room or set ONCELOG_GATEWAY_AUDIT_PATH",
                ) from error


def _append_durably(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        if os.write(fd, content) != len(content):
            # A torn line would swallow the next one too.
            os.ftruncate(fd, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)
    finally:
        os.close(fd)
