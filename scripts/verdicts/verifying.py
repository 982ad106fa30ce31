"""`oncelog verify` as a process, as a user runs it: its output on the terminal and in a file, and its peak memory."""

import contextlib
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.verdicts.targets import Running

ROOT: Final = Path(__file__).resolve().parents[2]
LOG: Final = "verify.log"
LOOK_S: Final = 0.25
END_TIMEOUT_S: Final = 300.0
_PEAK: Final = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Order:
    """The options of the run that all targets have in common, as they were typed."""

    lasts: str
    fault_every: str
    seed: int


@dataclass(frozen=True, slots=True)
class Ran:
    exit_code: int
    peak_bytes: int
    """The most memory that the process of `oncelog verify` had resident, without its clients."""


def words_of(order: Order, running: Running, java_classpath: str, folder: Path) -> list[str]:
    """Return the words of the command behind `oncelog`."""
    words = ["verify", running.bootstrap, "--for", order.lasts]
    words += ["--fault-every", order.fault_every, "--seed", str(order.seed)]
    for pid_file in running.pid_files:
        words += ["--pid-file", str(pid_file)]
    words += ["--restart", running.restart]
    if java_classpath:
        words += ["--java-classpath", java_classpath]
    return [*words, "--folder", str(folder)]


def verify(words: Sequence[str], log: Path) -> Ran:
    """Run the command until it ends. A Ctrl-C is passed on: the command heals the brokers and ends. Then
    KeyboardInterrupt is raised."""
    process = subprocess.Popen(
        [sys.executable, "-m", "oncelog_server", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        # A Ctrl-C of the terminal would reach it beside the one that is passed on, and a second one ends it at once.
        start_new_session=True,
    )
    with process, _peak_of(process.pid) as peak:
        try:
            _tell(process, log)
        except KeyboardInterrupt:
            _interrupt(process, log)
            raise
        code = process.wait()
    return Ran(code, peak.read_bytes)


def _interrupt(process: "subprocess.Popen[str]", log: Path) -> None:
    """Pass a Ctrl-C on and wait for the end. One more Ctrl-C is passed on as well: then it ends at once."""
    process.send_signal(signal.SIGINT)
    try:
        try:
            _tell(process, log)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_TIMEOUT_S)
    finally:
        # The brokers are stopped next, and it would start them again.
        process.kill()
        process.wait()


def _tell(process: "subprocess.Popen[str]", log: Path) -> None:
    """Print what the process says, and append it to the log, until it says nothing more."""
    assert process.stdout is not None
    with log.open("a") as file:
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)


class _Peak:
    """Reads the peak of a process's resident memory again and again: nobody knows it when the process has ended."""

    def __init__(self, pid: int) -> None:
        self.read_bytes = 0
        self._status = Path(f"/proc/{pid}/status")
        self._has_ended = threading.Event()

    def read_on(self) -> None:
        while not self._has_ended.wait(LOOK_S):
            with contextlib.suppress(OSError):
                found = _PEAK.search(self._status.read_text())
                self.read_bytes = int(found[1]) * 1024 if found else self.read_bytes

    def end(self) -> None:
        self._has_ended.set()


@contextmanager
def _peak_of(pid: int) -> Iterator[_Peak]:
    peak = _Peak(pid)
    thread = threading.Thread(target=peak.read_on, name="peak memory", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        peak.end()
        thread.join()
