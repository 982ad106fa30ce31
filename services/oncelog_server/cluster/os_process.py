"""Processes that outlive the command that started them. They are found again by process id and start time, never by the
id alone.

Each leads a session of its own, so neither a Ctrl-C nor the end of the terminal reaches it. The command that started it
is its parent and must reap it (take its exit status). Another command finds it in the state file and cannot reap it.
For both, a process that has ended and waits to be reaped counts as ended.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from oncelog_server.data_folder import open_privately

POLL_S: Final = 0.01
FREEZE_TIMEOUT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """A reference to one process of this machine, by process id and start time. The system gives an id again, but not
    the same pair.
    """

    pid: int
    created: float

    @property
    def state(self) -> str:
        """The state of the process: `running`, `paused` or `dead`."""
        found = self._found()
        if found is None:
            return "dead"
        try:
            status = found.status()
        except psutil.NoSuchProcess:
            return "dead"
        if status in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return "dead"
        return "paused" if status == psutil.STATUS_STOPPED else "running"

    @property
    def is_alive(self) -> bool:
        return self.state != "dead"

    @property
    def rss_bytes(self) -> int:
        found = self._found()
        try:
            return 0 if found is None else int(found.memory_info().rss)
        except psutil.Error:
            return 0

    def signal(self, number: int) -> None:
        """Send a signal to this process alone. Nothing happens when it has ended."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def signal_tree(self, number: int) -> "tuple[ProcessRef, ...]":
        """Send a signal to this process and to all that descend from it. Return references to all of them."""
        found = self._found()
        if found is None:
            return ()
        if number in (signal.SIGKILL, signal.SIGSTOP):
            # A child that it starts behind the list would be spared, also one of a fork that is under way.
            self._freeze()
        children: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            children = found.children(recursive=True)
        tree = (self, *(ProcessRef(child.pid, child.create_time()) for child in children))
        # The parent first: it must not see its children die and act on it.
        for process in tree:
            process.signal(number)
        return tree

    def end_tree(self, timeout_s: float) -> None:
        """Send SIGKILL to this process and all that descend from it, and wait for their ends, `timeout_s` for each."""
        for process in self.signal_tree(signal.SIGKILL):
            process.wait(timeout_s)

    def _freeze(self) -> None:
        """Send SIGSTOP, and wait until the process stands still. That takes a moment on a busy machine."""
        self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + FREEZE_TIMEOUT_S
        while self.state == "running" and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process has ended. False when it has not in time."""
        deadline = time.monotonic() + timeout_s
        while self.is_alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        self.reap()
        return True

    def reap(self) -> None:
        """Take the exit status of a child that has ended, so that the system can forget it. Does nothing for a process
        that is no child of ours.
        """
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)

    def _found(self) -> psutil.Process | None:
        try:
            found = psutil.Process(self.pid)
            return found if abs(found.create_time() - self.created) < 1.0 else None
        except psutil.NoSuchProcess:
            return None


def ref_of(pid: int) -> ProcessRef:
    """Return the reference of the process with this pid. Raises psutil.NoSuchProcess."""
    return ProcessRef(pid, psutil.Process(pid).create_time())


def is_running(pid: int) -> bool:
    """True if a process with this pid lives. A process that only waits to be reaped does not."""
    try:
        return ref_of(pid).is_alive
    except psutil.NoSuchProcess:
        return False


def start_process(
    command: Sequence[str], log: Path, environment: Mapping[str, str], folder: Path
) -> ProcessRef:
    """Start a process in a session of its own, in the working directory `folder`. It writes to the end of `log`.
    `environment` is added to the variables of this process.
    """
    with open(log, "ab", opener=open_privately) as output:
        started = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            cwd=folder,
            start_new_session=True,
        )
    # Until somebody reaps it, even a process that ended at once can be looked up.
    ref = ref_of(started.pid)
    # The object's destructor would complain about a running child; it is `wait` and `reap` that watch over it.
    started.returncode = 0
    return ref


def end_process(ref: ProcessRef, number: int, timeout_s: float) -> bool:
    """Send the signal `number` to a process, and SIGKILL if it has not ended in time. True when it ended by itself."""
    ref.signal(number)
    # A paused process learns of its end only when it goes on, and may wait for its children.
    ref.signal_tree(signal.SIGCONT)
    if ref.wait(timeout_s):
        return True
    ref.end_tree(timeout_s)
    return False
