"""The locks that commands hold while they work, so that several commands may work on one cluster at a time.

```
cluster.lock         whole     `up` and `down` alone; commands for one process share it
locks/<name>.lock    one       the command that stops or starts this process
state.lock           moment    one change of the state file: read it, start or forget a process, write it
```

Always in this order, so no two commands wait for each other. A process is started and written down while `state.lock`
is held: a reader of the state file sees both or neither. Locks are of the open file: they end with the command, however
it ends, and hold between threads too.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from oncelog.errors import OncelogError
from oncelog_server.cluster.os_process import POLL_S
from oncelog_server.data_folder import PRIVATE_FILE, make_private

WAIT_S: Final = 30.0
"""Seconds to wait for a lock: longer than a restart takes on a busy machine. Then it is better to say what is in the
way.
"""


@contextmanager
def whole_cluster(folder: Path, *, is_shared: bool = False) -> Iterator[None]:
    """Hold the lock of the whole cluster: alone, or with `is_shared` together with others that share it. Raises
    OncelogError when the folder cannot be written, or another command works on the cluster for too long.
    """
    try:
        make_private(folder)
        lock = _opened(folder / "cluster.lock")
    except OSError as error:
        raise OncelogError(
            f"cannot write the folder {folder}: {error.strerror}; choose another with --folder"
        ) from error
    with _held(lock, f"the cluster in {folder}", is_shared=is_shared):
        yield


@contextmanager
def one_process(folder: Path, name: str) -> Iterator[None]:
    """Hold the lock of one process. Raises OncelogError when another command stops or starts that process for too
    long.
    """
    make_private(folder / "locks")
    lock = _opened(folder / "locks" / f"{name}.lock")
    with _held(lock, f"{name} of the cluster in {folder}"):
        yield


@contextmanager
def state_file(folder: Path) -> Iterator[None]:
    with _held(_opened(folder / "state.lock"), f"the state of the cluster in {folder}"):
        yield


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)


@contextmanager
def _held(lock: int, what: str, *, is_shared: bool = False) -> Iterator[None]:
    try:
        _take(lock, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX, what)
        yield
    finally:
        os.close(lock)


def _take(lock: int, kind: int, what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OncelogError(
                    f"another command works on {what}, for {WAIT_S:.0f} s by now; try again when it has ended"
                ) from None
            time.sleep(POLL_S)
        else:
            return
