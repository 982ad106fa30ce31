"""Files of a storage node: a bounded set of open ones, and writes that happen whole or not at all."""

import errno
import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from oncelog.errors import OncelogError
from oncelog_storage.core.segment_files import DELETED_SUFFIX, TEMPORARY_SUFFIX

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
"""The mode of new folders: only this user may read records."""


class StorageFailed(OncelogError):
    """A file could not be read or written, so the partition answers KAFKA_STORAGE_ERROR.

    The text is one line that also says what to do.
    """


class PassingShortage(StorageFailed):
    """The process has no descriptor or memory left: nothing is wrong with the data, and a later try may work."""


class NotInMemory(Exception):
    """A read would have to wait for the disk: the operating system does not hold this part of the file in memory.

    This is no StorageFailed and no OSError: nothing failed, and only `segment_reader` catches it.
    """

    def __init__(self, path: str, position: int, size_bytes: int) -> None:
        super().__init__(f"{path} at byte {position}")
        self.path = path
        self.position = position
        self.size_bytes = size_bytes


_NO_WAIT: int = getattr(os, "RWF_NOWAIT", 0)
"""The flag of a read that must not wait for the disk; 0 if the system has none, and then every read may wait."""
_NO_WAIT_UNKNOWN: Final = (errno.EOPNOTSUPP, errno.EINVAL)
"""The error numbers of a filesystem that does not know `RWF_NOWAIT`."""
_PIECE_BYTES: Final = 1 << 20

_SHORTAGES: Final = {
    errno.EMFILE: "raise this process's limit of open files (ulimit -n)",
    errno.ENFILE: "raise the machine's limit of open files (fs.file-max)",
    errno.ENOMEM: "give it more memory",
}
"""The error numbers of a shortage of descriptors or memory, with the way out of each."""


def is_passing_shortage(error: OSError) -> bool:
    return error.errno in _SHORTAGES


def way_out(error: OSError, otherwise: str = "check the disk") -> str:
    """Return what an operator can do about an error. A disk on which no more files may be opened is not at fault."""
    return _SHORTAGES.get(error.errno or 0, otherwise)


def way_out_of_damage(data_dir: str) -> str:
    """Return what an operator can do about damaged records. Every error about them ends with it."""
    return (
        "restore it from a backup, or stop the node and run"
        f" 'oncelog storage repair {data_dir}', which shows first what would be lost"
    )


def read_failed(directory: Path, error: OSError) -> StorageFailed:
    """Return the error for a failed read of a partition's files: a shortage, or a failure of the disk."""
    kind = PassingShortage if is_passing_shortage(error) else StorageFailed
    return kind(f"cannot read {directory}: {error.strerror}; {way_out(error)}")


def machine_boot_id() -> str:
    """Return the id of the machine's last start, another one after each start; "" if the system does not tell."""
    try:
        return _BOOT_ID.read_text().strip()
    except (OSError, ValueError):
        return ""


@contextmanager
def opened(path: str | Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Yield a descriptor of this file or folder while the block runs. Raises OSError."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class OpenFiles:
    """File descriptors by path; the least recently used is closed when there are too many.

    Only the event loop's thread may use it: a descriptor may be closed by the next call.
    """

    def __init__(self, open_files_max: int) -> None:
        assert open_files_max >= 2
        self._open_files_max = open_files_max
        self._descriptors: OrderedDict[str, int] = OrderedDict()
        self._memory_only_in: int | None = None
        """The thread that must not wait for the disk: the event loop's, within one step.

        Other threads read segments too.
        """
        self._piece: mmap.mmap | None = None

    def __len__(self) -> int:
        return len(self._descriptors)

    def get(self, path: str, *, create: bool = False) -> int:
        """Return a descriptor for reading and writing. Raises OSError."""
        descriptor = self._descriptors.get(path)
        if descriptor is not None:
            self._descriptors.move_to_end(path)
            return descriptor
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        descriptor = os.open(path, flags, FILE_MODE)
        self._descriptors[path] = descriptor
        if len(self._descriptors) > self._open_files_max:
            _, oldest = self._descriptors.popitem(last=False)
            os.close(oldest)
        return descriptor

    # Reading.

    @contextmanager
    def memory_only(self) -> Iterator[None]:
        """Make reads in this block raise NotInMemory instead of waiting for the disk.

        Nothing may be awaited in the block.
        """
        before = self._memory_only_in
        self._memory_only_in = threading.get_ident() if _NO_WAIT else None
        try:
            yield
        finally:
            self._memory_only_in = before

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let reads in this block wait, because they must not end half-way.

        In another thread every read waits anyway.
        """
        if self._memory_only_in != threading.get_ident():
            yield
            return
        before, self._memory_only_in = self._memory_only_in, None
        try:
            yield
        finally:
            self._memory_only_in = before

    def pread(self, descriptor: int, path: str, size_bytes: int, position: int) -> bytes:
        """Read bytes of an open file. Raises OSError, NotInMemory."""
        if self._memory_only_in is None or self._memory_only_in != threading.get_ident():
            return os.pread(descriptor, size_bytes, position)
        found = self._held(descriptor, size_bytes, position)
        # Less is held than was asked for, or the file ends.
        if len(found) < size_bytes and position + len(found) < os.fstat(descriptor).st_size:
            raise NotInMemory(path, position, size_bytes)
        return found

    def _held(self, descriptor: int, size_bytes: int, position: int) -> bytes:
        """Return as many of these bytes, from the first on, as the operating system holds in memory. Raises OSError."""
        if self._piece is None:
            # Whole pages: the kernel copies several times faster into them.
            self._piece = mmap.mmap(-1, _PIECE_BYTES)
        found: list[bytes] = []
        while size_bytes > 0:
            wanted = memoryview(self._piece)[: min(size_bytes, _PIECE_BYTES)]
            try:
                count = os.preadv(descriptor, (wanted,), position, _NO_WAIT)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno not in _NO_WAIT_UNKNOWN:
                    raise
                count = os.preadv(descriptor, (wanted,), position)
            found.append(bytes(wanted[:count]))
            position += count
            size_bytes -= count
            if count < len(wanted):
                break
        return found[0] if len(found) == 1 else b"".join(found)

    def read_end(self, path: str, bytes_max: int | None = None) -> tuple[bytes, int]:
        """Return (the last bytes of a file that is not kept open, the size of the whole file).

        Raises OSError, NotInMemory.
        """
        with opened(path) as descriptor:
            size = os.fstat(descriptor).st_size
            wanted = size if bytes_max is None else min(size, bytes_max)
            return self.pread(descriptor, path, wanted, size - wanted), size

    def close(self, path: str) -> None:
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close_all(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


def write_fully(
    descriptor: int, buffers: tuple[bytes | memoryview, ...], size_bytes: int, position: int
) -> None:
    """Write all of `buffers`, which are `size_bytes` long, at `position`.

    Raises OSError; the caller must cut off the bytes that were written by then.
    """
    written = os.pwritev(descriptor, buffers, position)
    if written == size_bytes:
        return
    # A short write tells that something is wrong; the next attempt learns what (ENOSPC, EIO, EDQUOT).
    rest = memoryview(b"".join(buffers))[written:]
    while rest:
        count = os.pwrite(descriptor, rest, position + size_bytes - len(rest))
        rest = rest[count:]


def write_atomically(path: Path, data: bytes, *, sync: bool) -> None:
    """Replace the file: after a crash it holds the old content or the new. With `sync`, after a power cut too.

    Raises OSError.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    write_file(temporary, data, sync=sync)
    os.replace(temporary, path)
    if sync:
        sync_directory(path.parent)


def write_file(path: str | Path, data: bytes, *, sync: bool) -> None:
    """Write a file anew. A crash may leave any part of it. Raises OSError."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        write_fully(descriptor, (data,), len(data), 0)
        if sync:
            os.fsync(descriptor)


def write_at(path: str, position: int, data: bytes) -> None:
    """Write `data` at `position`, end the file behind it, and sync. Raises OSError."""
    with opened(path, os.O_WRONLY | os.O_CREAT) as descriptor:
        write_fully(descriptor, (data,), len(data), position)
        os.ftruncate(descriptor, position + len(data))
        os.fdatasync(descriptor)


def rename_deleted(path: str | Path) -> str:
    """Rename a file that is to be removed later, and return its new name. Raises OSError.

    The file's inode number in the name keeps it unique: a log may begin again at an offset where an older file still
    waits.
    """
    renamed = f"{path}.{os.stat(path).st_ino}{DELETED_SUFFIX}"
    os.rename(path, renamed)
    return renamed


def touch(path: str) -> None:
    """Make the file, empty, if it is not there. Raises OSError."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def sync_file(path: str) -> None:
    """Sync the content of this file, so that it survives a power cut. Raises OSError."""
    with opened(path, os.O_RDWR) as descriptor:
        os.fdatasync(descriptor)


def make_folder(path: Path) -> None:
    """Make `path` and the folders that are missing above it, so that a power cut does not take them away.

    Raises OSError.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(FOLDER_MODE, exist_ok=True)
    for folder in missing:
        sync_directory(folder.parent)


def sync_directory(path: Path) -> None:
    """Sync this folder, so that names made, renamed and removed in it survive a power cut. Raises OSError."""
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)
