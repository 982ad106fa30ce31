"""The audit log as REST and the console show it: a list of acts. Each act is read from the two lines that the log has
of it.
"""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.resources import Page, Resource, paged

READ_BYTES_MAX: Final = 16 << 20
"""Bytes that are read from the end of the audit file: some 40,000 acts."""
NEWEST_BYTES_MAX: Final = 1 << 20
"""Bytes that are read for a page that shows the newest acts alone, and that is read again every few seconds."""

_OF_EARLIER_VERSIONS: Final[dict[str, object]] = {
    # Lines of versions without a login have no caller.
    "caller": "anonymous",
    "remote_address": "unknown",
    **dict.fromkeys(("role", "route", "reason", "user", "forwarded_for", "user_agent")),
}
"""Values of the fields that audit lines of earlier versions lack."""

Outcome = Literal["under_way", "done", "dry_run", "refused", "unknown"]


class Act(Resource):
    """An attempt to change something."""

    audit_id: str
    time_ms: int
    action: str = Field(examples=["terminate_transaction"])
    target: dict[str, object]
    outcome: Outcome = Field(
        description="under_way: no outcome is written, and none will be if its gateway ended meanwhile; unknown: it "
        "was asked for, and nobody answered"
    )
    detail: str
    ended_time_ms: int | None
    caller: str = Field(description="who showed which token, or anonymous")
    role: str | None
    remote_address: str = Field(description="of the connection")
    route: str | None
    reason: str | None = Field(description="what the caller gave as one")
    user: str | None = Field(description="X-Forwarded-User of a trusted proxy")
    forwarded_for: str | None = Field(description="X-Forwarded-For of a trusted proxy")
    user_agent: str | None


class ActPage(Page):
    acts: list[Act]
    since_time_ms: int | None = Field(
        description="older acts are in the file alone, which is longer than what is read here; null: these are all"
    )


class Acts:
    """Reads the file that this gateway's `AuditLog` writes, and returns its acts: what callers changed, or tried to."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def newest(self, acts_max: int) -> list[Act]:
        """Return the newest `acts_max` acts, the newest first."""
        acts, _ = await asyncio.to_thread(_read, self._path, NEWEST_BYTES_MAX)
        return acts[: -acts_max - 1 : -1]

    async def page(
        self, paging: PageRequest, *, action: str, outcome: str, caller: str, since_ms: int
    ) -> ActPage:
        """Return one page of the acts (entries of the audit log) that match the filters, the newest first.

        Raises KafkaError for an invalid cursor.
        """
        acts, is_whole = await asyncio.to_thread(_read, self._path, READ_BYTES_MAX)
        found = [
            one
            for one in acts
            if action in ("", one.action)
            and outcome in ("", one.outcome)
            and caller in ("", one.caller)
            and one.time_ms >= since_ms
        ]
        rows, about = paged(found, lambda one: (-one.time_ms, one.audit_id), paging)
        since = None if is_whole or not acts else acts[0].time_ms
        return ActPage(acts=rows, since_time_ms=since, **about)


def _read(path: Path, bytes_max: int) -> tuple[list[Act], bool]:
    """Return the acts in the last `bytes_max` bytes of the audit file, first those that began first, and whether this
    is the whole file. Blocks; lines that are no acts are left out.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - bytes_max, 0))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return [], True
    attempted: dict[str, dict[str, object]] = {}
    ended: dict[str, dict[str, object]] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            (attempted if entry["event"] == "attempted" else ended)[entry["audit_id"]] = entry
        except (ValueError, KeyError, TypeError):
            continue
    acts: list[Act] = []
    for audit_id, one in attempted.items():
        # Pydantic's ValidationError is a ValueError: the file may be of a newer version.
        with contextlib.suppress(KeyError, ValueError):
            acts.append(_act(one, ended.get(audit_id, {})))
    return acts, size <= bytes_max


def _act(attempted: dict[str, object], ended: dict[str, object]) -> Act:
    return Act.model_validate(
        {
            **_OF_EARLIER_VERSIONS,
            **attempted,
            "outcome": ended.get("outcome", "under_way"),
            "detail": ended.get("detail", ""),
            "ended_time_ms": ended.get("time_ms"),
        }
    )
