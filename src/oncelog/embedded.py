"""A log that runs for as long as a block of code does: for tests, notebooks and examples.

    with oncelog.running() as log:
        ...  # any Kafka client, at log.bootstrap_servers

It is `oncelog up` in a child process, on free ports, with data that is removed at the end. A child and not a thread:
the caller keeps its event loop, its garbage collector and its signals. The child ends when the block does, and also
when the caller is killed: it watches a pipe that only the caller holds.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypedDict

from oncelog.errors import OncelogError
from oncelog.faults import Faults

START_TIMEOUT_S: Final = 90.0
"""Seconds that a start may take: usually one, half a minute on a busy machine. A start that fails ends sooner."""
STOP_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.01
_LOG_CHARS_MAX: Final = 4_000


@dataclass(frozen=True, slots=True)
class RunningLog:
    """The addresses, the data folder and the process id of a running log."""

    bootstrap_servers: str
    """host:port for a Kafka client."""
    rest_url: str
    """The address of the gateway: REST below /v1, the console, /metrics."""
    data: Path
    pid: int
    given_faults: Faults | None = field(default=None, repr=False)

    @property
    def faults(self) -> Faults:
        """The faults that a test can make. Raises OncelogError for a log that was started without `faults=True`."""
        if self.given_faults is None:
            raise OncelogError(
                "this log takes no faults: start it with oncelog.running(faults=True), or use the fixture"
                " oncelog_broker"
            )
        return self.given_faults


@contextmanager
def running(
    *,
    data: Path | str | None = None,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
    faults: bool = False,
    timeout_s: float = START_TIMEOUT_S,
) -> Iterator[RunningLog]:
    """Run a log while the block runs. Raises OncelogError, with the end of its log, if it does not start.

    `data` is a folder to keep; without it the data is removed at the end. Port 0 takes a free one. `environment` holds
    settings, `{"ONCELOG_LISTENER_NUM_PARTITIONS": "4"}`; settings.md of the documentation lists them. `ONCELOG_*`
    variables of the caller do not count: a test means the same on every machine. With `faults`, `log.faults` makes
    things go wrong (ADR 0045).
    """
    with tempfile.TemporaryDirectory(prefix="oncelog-running-") as made:
        own = Path(made)
        folder = own / "data" if data is None else Path(data).absolute()
        ready = own / "ready.json"
        settings = {
            **_environment(environment or {}),
            "ONCELOG_DATA": str(folder),
            "ONCELOG_PORT": str(port),
            "ONCELOG_GATEWAY_PORT": "0",
            "ONCELOG_READY_FILE": str(ready),
        }
        ours, theirs = socket.socketpair()
        with (own / "log").open("wb") as log, ours, theirs:
            channel = [str(theirs.fileno())] if faults else []
            process = subprocess.Popen(
                [sys.executable, "-m", "oncelog_server.child", *channel],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=settings,
                pass_fds=[theirs.fileno()] if faults else [],
                # The child has its own session: Ctrl-C at the caller's terminal ends the block, which ends the child.
                start_new_session=True,
            )
            theirs.close()
            try:
                found = _await_ready(process, ready, own / "log", timeout_s)
                given = Faults(ours) if faults else None
                yield RunningLog(found["bootstrap"], found["gateway"], folder, process.pid, given)
            finally:
                _stop(process)


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if not _is_ours(name)}
    return {**others, **given}


def _is_ours(name: str) -> bool:
    return name.upper().startswith("ONCELOG_")


class _Addresses(TypedDict):
    """The fields that are read from the file which says that the log is ready."""

    bootstrap: str
    gateway: str


def _await_ready(
    process: "subprocess.Popen[bytes]", ready: Path, log: Path, timeout_s: float
) -> _Addresses:
    deadline = time.monotonic() + timeout_s
    while not ready.exists():
        ended = process.poll()
        if ended is not None or time.monotonic() > deadline:
            what = (
                f"ended with code {ended}"
                if ended is not None
                else f"was not ready in {timeout_s:g} s"
            )
            said = log.read_text(errors="replace")[-_LOG_CHARS_MAX:].strip()
            raise OncelogError(f"oncelog {what}: {said}")
        time.sleep(_POLL_S)
    found: _Addresses = json.loads(ready.read_text())
    return found


def _stop(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None, "it was started with a pipe"
    process.terminate()
    process.stdin.close()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
