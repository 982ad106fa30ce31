"""A client as a process of the operating system: forked, so that its work may be any closure, and killed by SIGKILL.

It writes lines to a file of its own, one system call a line. The lines that a killed process wrote are in the file; the
line in which it died is not. Its parent reads the file while it grows, and reads the rest when the process has died.
"""

import asyncio
import ctypes
import json
import os
import signal
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, NoReturn

from oncelog_robustness.history import AnyOperation, History

_RECORD, _WORD, _SETTLE, _ERROR = "record", "word", "settle", "error"
_PR_SET_PDEATHSIG: Final = 1
Work = Callable[["ClientChild"], Coroutine[Any, Any, None]]


class ClientChild:
    """A workload's client as its own code sees it, inside the forked process. It reports each operation as a
    line in a file, which its parent reads."""

    is_running = True

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)

    def record(self, operation: AnyOperation) -> None:
        self._write_line(_RECORD, operation)

    def last_word(self, key: str, operation: AnyOperation) -> None:
        self._write_line(_WORD, operation, key)

    def settle(self, key: str, operation: AnyOperation) -> None:
        self._write_line(_SETTLE, operation, key)

    def fail(self, error: str) -> None:
        self._write({"kind": _ERROR, "error": error})

    def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def ended(self) -> None:
        raise RuntimeError("a process does not outlive itself")

    def _write_line(self, kind: str, operation: AnyOperation, key: str = "") -> None:
        line = operation_line(operation)
        self._write({"kind": kind, "key": key, "line": line})

    def _write(self, content: dict[str, str]) -> None:
        os.write(self._descriptor, json.dumps(content).encode() + b"\n")


def operation_line(operation: AnyOperation) -> str:
    """Return the operation as the one line of JSON that a history file has for it."""
    _, line = History(operations=[operation]).lines()
    return line


class ClientParent:
    """A workload's client as its parent sees it, in the process that forked it: the parent reads what it
    reports, and can kill it."""

    def __init__(self, name: str, path: Path, record: Callable[[str], None]) -> None:
        """Make a client that has not started; `record` is called with each line of the history that it writes."""
        self.name = name
        self.error = ""
        self._path = path
        self._record = record
        self._read_bytes = 0
        self._words: dict[str, str] = {}
        self._is_killed = False
        self._ended = asyncio.Event()
        self._pid = -1
        self._pidfd = -1

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    def start(self, work: Work, become: Callable[[ClientChild], None]) -> None:
        """Fork the client and run `work` in it. In the child `become` is called first: it tells the child's
        copy of the lab that it belongs to this client."""
        pid = os.fork()
        if pid == 0:
            _live(ClientChild(self.name, self._path), work, become)
        self._pid = pid
        self._pidfd = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._has_ended)

    def kill(self) -> None:
        if self.is_running:
            self._is_killed = True
            os.kill(self._pid, signal.SIGKILL)

    def last_word(self, key: str, operation: AnyOperation) -> None:
        raise RuntimeError("only a process itself has last words")

    def settle(self, key: str, operation: AnyOperation) -> None:
        raise RuntimeError("only a process itself settles them")

    async def ended(self) -> None:
        await self._ended.wait()

    def read_on(self) -> None:
        """Read and record the lines that the client has written since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                content = file.read()
        except FileNotFoundError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, content: dict[str, str]) -> None:
        if content["kind"] == _ERROR:
            self.error = content["error"]
        elif content["kind"] == _WORD:
            self._words[content["key"]] = content["line"]
        else:
            self._words.pop(content["key"], None)
            self._record(content["line"])

    def _has_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        _, status = os.waitpid(self._pid, 0)
        self.read_on()
        for line in self._words.values():
            self._record(line)
        if status != 0 and not self._is_killed and not self.error:
            self.error = f"{self.name} ended with {os.waitstatus_to_exitcode(status)}"
        self._path.unlink(missing_ok=True)
        self._ended.set()


def _live(process: ClientChild, work: Work, become: Callable[[ClientChild], None]) -> NoReturn:
    """Run `work` in the forked child, report an exception of it to the parent, and exit. This never returns
    into the parent's code."""
    code = 1
    try:
        # A client whose lab is gone would work for nobody.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        asyncio._set_running_loop(None)
        become(process)
        asyncio.run(work(process))
        code = 0
    except BaseException:
        process.fail(traceback.format_exc())
    finally:
        os._exit(code)
