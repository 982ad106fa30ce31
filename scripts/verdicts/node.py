"""The process of a broker: its command, and what says that it serves. It can be started again by its pid file.

    VERIFY_PID_FILE=FOLDER/kafka-1.pid python -m scripts.verdicts.node

That is the `--restart` of `oncelog verify` here. Beside a pid file lies a file of JSON that says how to start the
process, as a service manager would have it.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from oncelog.errors import OncelogError
from oncelog_server.cluster.os_process import ProcessRef, end_process, start_process
from oncelog_server.cluster.tail import tail_of

PID_FILE_VARIABLE: Final = "VERIFY_PID_FILE"
"""The variable in which `oncelog verify` names the pid file of the broker to start."""
START_TIMEOUT_S: Final = 110.0
"""Seconds that a broker has to start. It is less than `oncelog verify` gives the command."""
STOP_TIMEOUT_S: Final = 30.0
LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as a process. It serves when its log has `ready_line`, or when it has written `ready_file`."""

    name: str
    command: tuple[str, ...]
    log: str
    ready_line: str = ""
    ready_file: str = ""

    def pid_file(self, folder: Path) -> Path:
        return folder / f"{self.name}.pid"

    def write(self, folder: Path) -> None:
        """Write how to start this node, for `main`."""
        (folder / f"{self.name}.json").write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def of(cls, pid_file: Path) -> Self:
        """Return the node of this pid file. Raises OncelogError if there is none."""
        try:
            content = json.loads(pid_file.with_suffix(".json").read_text())
        except (OSError, ValueError) as error:
            raise OncelogError(f"nothing says how to start {pid_file}: {error}") from error
        return cls(**{**content, "command": tuple(content["command"])})

    def serves(self, log_bytes: int) -> bool:
        """True if the process serves. `log_bytes` is the size that its log had when it was started."""
        if self.ready_file:
            return Path(self.ready_file).exists()
        with Path(self.log).open("rb") as log:
            log.seek(log_bytes)
            return self.ready_line.encode() in log.read()


def start(nodes: Sequence[Node], folder: Path) -> None:
    """Start nodes at once, write their pid files, and wait until each serves. Raises OncelogError with the end of the
    log of one that does not. Such a process runs on, and its pid file names it."""
    seen: dict[str, int] = {}
    started: dict[str, ProcessRef] = {}
    for node in nodes:
        log = Path(node.log)
        seen[node.name] = log.stat().st_size if log.exists() else 0
        if node.ready_file:
            Path(node.ready_file).unlink(missing_ok=True)
        ref = started[node.name] = start_process(node.command, log, {}, folder)
        write_pid(node.pid_file(folder), ref)
    deadline = time.monotonic() + START_TIMEOUT_S
    for node in nodes:
        while not node.serves(seen[node.name]):
            failure = ""
            if not started[node.name].is_alive:
                failure = "ended while it started"
            elif time.monotonic() > deadline:
                failure = f"does not serve within {START_TIMEOUT_S:.0f} s"
            if failure:
                said = tail_of(Path(node.log))
                raise OncelogError(f"{node.name} {failure}:\n{said}")
            time.sleep(LOOK_S)


def write_pid(pid_file: Path, ref: ProcessRef) -> None:
    """Write the process id, and behind it the time of the start: the system gives an id again."""
    partial = pid_file.with_suffix(".partial")
    partial.write_text(f"{ref.pid} {ref.created}\n")
    partial.replace(pid_file)


def stop(pid_files: Sequence[Path]) -> None:
    """End the processes of these pid files, frozen ones as well, and kill those that do not end in time. `main` starts
    none of them again."""
    found = []
    for pid_file in pid_files:
        pid_file.with_suffix(".json").unlink(missing_ok=True)
        if pid_file.exists():
            pid, created = pid_file.read_text().split()
            found.append(ProcessRef(int(pid), float(created)))
    for ref in found:
        ref.signal(signal.SIGTERM)
        ref.signal(signal.SIGCONT)
    for ref in found:
        end_process(ref, signal.SIGTERM, STOP_TIMEOUT_S)


def main() -> int:
    pid_file = Path(os.environ[PID_FILE_VARIABLE])
    try:
        start([Node.of(pid_file)], pid_file.parent)
    except OncelogError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
