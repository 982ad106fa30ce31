"""The data folder of one `oncelog up`: a lock on it makes sure that two processes never write one log."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final, Self

from oncelog.errors import OncelogError

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700


def make_private(folder: Path) -> None:
    """Make `folder`, for this user alone. A folder that exists keeps its mode. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(PRIVATE_FOLDER, exist_ok=True)


def open_privately(path: str, flags: int) -> int:
    """Open a file so that a new one is readable for this user alone. Pass it as `open(opener=…)`."""
    return os.open(path, flags, PRIVATE_FILE)


class DataFolder:
    """A data folder that is locked when the `with` block is entered and released at its end. An ephemeral one is a new
    temporary folder, whatever `path` says, and is removed at the end.

    Raises OncelogError when the folder cannot be written or another process holds it.
    """

    def __init__(self, path: Path, *, is_ephemeral: bool) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="oncelog-")) if is_ephemeral else path.absolute()
        self._is_ephemeral = is_ephemeral
        self._lock_fd = -1

    def __enter__(self) -> Self:
        lock_path = self.path / "oncelog.lock"
        try:
            make_private(self.path)
            self._lock_fd = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise OncelogError(
                f"cannot write the data folder {self.path}: {error.strerror}; "
                "choose another with --data, or --ephemeral"
            ) from error
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._lock_fd, 32, 0).decode().strip() or "unknown"
            os.close(self._lock_fd)
            raise OncelogError(
                f"the data folder {self.path} is in use by process {holder}; "
                "stop that one, or choose another folder with --data"
            ) from error
        os.ftruncate(self._lock_fd, 0)
        os.pwrite(self._lock_fd, f"{os.getpid()}\n".encode(), 0)
        return self

    def __exit__(self, *_exc: object) -> None:
        os.close(self._lock_fd)
        if self._is_ephemeral:
            shutil.rmtree(self.path, ignore_errors=True)
