"""Replacements of Python's file calls (`os.open`, `os.write`, `os.rename` and the like) under simulation.
Each works on the real file and keeps the model in `disk` up to date. It fails, or kills its process, where a fault of
the disk wants that.

Paths and descriptors outside of the simulated disks pass through. Reads are not replaced: there is no fault that only
a read sees.
"""

import builtins
import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

from oncelog_robustness.simulator.disk import OpenFile, SimDisks, SimHostDisk
from oncelog_robustness.simulator.disk_model import Made, Removed, Renamed, SimFile, SimFolder
from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.seams import replace
from oncelog_storage import files

_os_close, _os_fstat, _os_ftruncate, _os_listdir = os.close, os.fstat, os.ftruncate, os.listdir
_os_lseek, _os_mkdir, _os_open, _os_pread = os.lseek, os.mkdir, os.open, os.pread
_os_pwrite, _os_rename, _os_rmdir, _os_scandir = os.pwrite, os.rename, os.rmdir, os.scandir
_os_stat, _os_unlink, _os_utime, _os_write = os.stat, os.unlink, os.utime, os.write
_os_fsync, _os_fdatasync, _os_pwritev = os.fsync, os.fdatasync, os.pwritev
_io_open = io.open

_WRITING: Final = os.O_WRONLY | os.O_RDWR
_WRITING_MODES: Final = frozenset("wax+")


def install_disks(disks: SimDisks) -> None:
    """Replace the file calls of this interpreter by those of the simulated disks, for all production code and
    for ever."""
    _replace_file_calls(disks)
    replace(files, "machine_boot_id", disks.boot_id)
    # What this machine holds in memory must not tell runs apart: a read takes no time, and is never elsewhere.
    replace(files, "_NO_WAIT", 0)
    disks.slow_threads()


def _replace_file_calls(disks: SimDisks) -> None:
    calls = _FileCalls(disks)
    names = _NameCalls(disks, calls)
    for name in ("open", "close", "write", "pwrite", "pwritev", "ftruncate", "truncate"):
        replace(os, name, getattr(calls, name))
    for name in ("fsync", "fdatasync", "utime", "stat"):
        replace(os, name, getattr(calls, name))
    for name in ("mkdir", "rmdir", "unlink", "rename", "listdir", "scandir"):
        replace(os, name, getattr(names, name))
    replace(os, "remove", names.unlink)
    replace(os, "replace", names.rename)
    for name in ("link", "symlink"):
        replace(os, name, _refused(name, disks, getattr(os, name)))
    replace(io, "open", names.open_object)
    replace(builtins, "open", names.open_object)
    # The other way goes through descriptors of folders, which no other production code uses.
    replace(shutil, "_use_fd_functions", False)


def _refused(name: str, disks: SimDisks, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        assert disks.located(target) is None, f"os.{name} is not simulated"
        return real(source, target, *args, **kwargs)

    return call


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


class _FileCalls:
    """The replacements of calls on the contents of files: open, close, write, truncate, sync, stat."""

    def __init__(self, disks: SimDisks) -> None:
        self._disks = disks

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        disks = self._disks
        place = disks.located(path, at=dir_fd)
        if place is None:
            return _os_open(path, flags, mode, dir_fd=dir_fd)
        process = disks.enter()
        node = place.node
        is_new = node is None and bool(flags & os.O_CREAT)
        is_emptied = bool(flags & os.O_TRUNC and flags & _WRITING)
        if is_new or is_emptied:
            disks.enter_change()
        if is_new and place.disk.is_full:
            disks.happened(Effect.DISK_FULL)
            raise _error(errno.ENOSPC, str(path))
        if is_emptied and isinstance(node, SimFile) and node.size:
            self._truncated(place.disk, node, os.fspath(path), 0)
        descriptor = _os_open(path, flags, mode)
        if node is None:
            # A file that exists and was not made through these calls counts as synced.
            node = disks.adopt(place, os.fspath(path), is_new=is_new)
        disks.opened(process, descriptor, place, node, is_appending=bool(flags & os.O_APPEND))
        return descriptor

    def close(self, descriptor: int) -> None:
        # A dead process has lost its descriptor already, and the number may be another's.
        self._disks.enter()
        self._disks.descriptors.pop(descriptor, None)
        _os_close(descriptor)

    def write(self, descriptor: int, data: Any) -> int:
        file = self._disks.opened_as(descriptor)
        if file is None:
            return _os_write(descriptor, data)
        assert isinstance(file.node, SimFile)
        at = file.node.size if file.is_appending else _os_lseek(descriptor, 0, os.SEEK_CUR)
        count = self._written(descriptor, file, file.node, memoryview(data).cast("B"), at)
        if not file.is_appending:
            _os_lseek(descriptor, at + count, os.SEEK_SET)
        return count

    def pwrite(self, descriptor: int, data: Any, position: int) -> int:
        file = self._disks.opened_as(descriptor)
        if file is None:
            return _os_pwrite(descriptor, data, position)
        assert isinstance(file.node, SimFile)
        return self._written(descriptor, file, file.node, memoryview(data).cast("B"), position)

    def pwritev(
        self, descriptor: int, buffers: Sequence[Any], position: int, flags: int = 0
    ) -> int:
        file = self._disks.opened_as(descriptor)
        if file is None:
            return _os_pwritev(descriptor, buffers, position, flags)
        assert isinstance(file.node, SimFile)
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        return self._written(descriptor, file, file.node, memoryview(data).cast("B"), position)

    def _written(
        self, descriptor: int, file: OpenFile, node: SimFile, data: memoryview, position: int
    ) -> int:
        disks, disk = self._disks, file.disk

        def write(part: memoryview) -> int:
            synced = node.synced_bytes_at(position, len(part))
            if synced > 0:
                node.replaced.append((position, _read_behind(descriptor, synced, position)))
            count = _os_pwrite(descriptor, part, position)
            disk.use(position + count - node.size)
            node.written(position, count)
            disks.touched(node)
            return count

        disks.enter_change(lambda: _ignore(write(data[: disks.draw(disk).randint(0, len(data))])))
        room = disk.room_for(position + len(data) - node.size)
        if room is not None:
            disks.happened(Effect.DISK_FULL)
            fits = max(0, node.size + room - position)
            if not fits:
                disks.trace(disk, "full", file.name, len(data))
                raise _error(errno.ENOSPC, file.name)
            data = data[:fits]
        return write(data)

    def ftruncate(self, descriptor: int, length: int) -> None:
        file = self._disks.opened_as(descriptor)
        if file is None:
            _os_ftruncate(descriptor, length)
            return
        assert isinstance(file.node, SimFile)
        self._disks.enter_change()
        self._truncated(file.disk, file.node, f"/proc/self/fd/{descriptor}", length)
        _os_ftruncate(descriptor, length)

    def truncate(self, path: Any, length: int) -> None:
        descriptor = self.open(path, os.O_WRONLY)
        try:
            self.ftruncate(descriptor, length)
        finally:
            self.close(descriptor)

    def _truncated(self, disk: SimHostDisk, node: SimFile, path: str, length: int) -> None:
        cut = node.synced_bytes_at(length, node.size - length)
        if cut > 0:
            node.replaced.append((length, _read_path(path, cut, length)))
        if length != node.size:
            disk.use(min(0, length - node.size))
            node.truncated(length)
            self._disks.touched(node)

    def fsync(self, descriptor: int) -> None:
        if not self._synced(descriptor):
            _os_fsync(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        if not self._synced(descriptor):
            _os_fdatasync(descriptor)

    def _synced(self, descriptor: int) -> bool:
        disks = self._disks
        file = disks.opened_as(descriptor)
        if file is None:
            return False
        disks.enter_change()
        node, disk = file.node, file.disk
        if disk.failing_syncs > 0:
            disk.failing_syncs -= 1
            if isinstance(node, SimFile):
                node.sync_failed()
            disks.trace(disk, "sync-failed", file.name)
            raise _error(errno.EIO, file.name)
        if isinstance(node, SimFile):
            disks.trace(disk, "sync", file.name, node.size)
            node.synced()
        else:
            disks.trace(disk, "sync", file.name, len(node.changes))
            disks.forget(node.synced())
        return True

    def utime(self, path: Any, times: Any = None, *, ns: Any = None, **kwargs: Any) -> None:
        place = self._disks.located(path)
        if place is None:
            if ns is None:
                _os_utime(path, times, **kwargs)
            else:
                _os_utime(path, ns=ns, **kwargs)
            return
        assert ns is not None, "only utime(path, ns=...) is simulated"
        _os_utime(path, ns=ns)
        if isinstance(place.node, SimFile):
            place.node.mtime_ns, place.node.has_real_mtime = ns[1], True

    def stat(self, path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        """Return the file's status with the inode number and the time of the simulation."""
        found = _os_stat(path, *args, **kwargs)
        place = self._disks.located(path)
        if place is None or place.node is None:
            return found
        node = place.node
        fields = list(found)
        fields[1] = node.number
        if isinstance(node, SimFolder):
            return os.stat_result(fields)
        fields[8] = node.mtime_ns // 1_000_000_000
        return os.stat_result(
            fields, {"st_mtime_ns": node.mtime_ns, "st_mtime": node.mtime_ns / 1e9}
        )


def _ignore(_result: object) -> None:
    return


def _read_behind(descriptor: int, count: int, position: int) -> bytes:
    try:
        return _os_pread(descriptor, count, position)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
    # The file was opened for writing only.
    return _read_path(f"/proc/self/fd/{descriptor}", count, position)


def _read_path(path: str, count: int, position: int) -> bytes:
    descriptor = _os_open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _os_pread(descriptor, count, position)
    finally:
        _os_close(descriptor)


class _NameCalls:
    """The replacements of calls on the names in folders: make, remove, rename, list."""

    def __init__(self, disks: SimDisks, files: _FileCalls) -> None:
        self._disks = disks
        self._files = files

    def open_object(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if _WRITING_MODES & set(mode) and not isinstance(file, int):
            place = self._disks.located(file)
            assert place is None, f"open({file!r}, {mode!r}) is not simulated: use os.open"
        return _io_open(file, mode, *args, **kwargs)

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        place = self._disks.located(path, at=dir_fd)
        if place is None:
            _os_mkdir(path, mode, dir_fd=dir_fd)
            return
        self._disks.enter_change()
        if place.disk.is_full and place.node is None:
            self._disks.happened(Effect.DISK_FULL)
            raise _error(errno.ENOSPC, str(path))
        _os_mkdir(path, mode)
        assert place.folder is not None
        place.folder.changed(Made(place.name, SimFolder(self._disks.next_number())))

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        place = self._disks.located(path, at=dir_fd)
        if place is None:
            _os_rmdir(path, dir_fd=dir_fd)
            return
        self._disks.enter_change()
        _os_rmdir(path)
        assert place.folder is not None
        place.folder.changed(Removed(place.name))

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        place = self._disks.located(path, at=dir_fd)
        node = None if place is None else place.node
        if place is None or place.folder is None or not isinstance(node, SimFile):
            _os_unlink(path, dir_fd=dir_fd)
            return
        self._disks.enter_change()
        self._disks.leave(place.disk, node, os.fspath(path))
        place.folder.changed(Removed(place.name))

    def rename(self, source: Any, target: Any, **kwargs: Any) -> None:
        place, new_place = self._disks.located(source), self._disks.located(target)
        if place is None or new_place is None:
            assert place is new_place, "a rename into or out of a simulated disk"
            _os_rename(source, target, **kwargs)
            return
        self._disks.enter_change()
        replaced = new_place.node
        assert not isinstance(replaced, SimFolder), f"a rename onto the folder {target}"
        node = place.node or self._disks.adopt(place, os.fspath(source), is_new=False)
        assert place.folder is new_place.folder, "a rename between folders is not simulated"
        assert place.folder is not None
        if replaced is not None and replaced is not node:
            self._disks.leave(place.disk, replaced, os.fspath(target))
        _os_rename(source, target)
        self._disks.trace(place.disk, "rename", place.path, new_place.name)
        place.folder.changed(Renamed(place.name, new_place.name))

    def listdir(self, path: Any = ".") -> list[Any]:
        place = self._disks.located(path)
        if place is None:
            return _os_listdir(path)
        names = sorted(_os_listdir(path))
        # A real file system has an order of its own; nobody may depend on it.
        self._disks.draw_order(place.disk).shuffle(names)
        return names

    def scandir(self, path: Any = ".") -> Any:
        place = self._disks.located(path)
        if place is None:
            return _os_scandir(path)
        if isinstance(place.node, SimFolder):
            self._disks.stamp_real_mtimes(place.node, os.fspath(path))
        with _os_scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        self._disks.draw_order(place.disk).shuffle(entries)
        return _Entries(entries)


class _Entries:
    """The iterator that `os.scandir` returns, over simulated entries."""

    def __init__(self, entries: list["os.DirEntry[str]"]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator["os.DirEntry[str]"]:
        return self._entries

    def __next__(self) -> "os.DirEntry[str]":
        return next(self._entries)

    def close(self) -> None:
        self._entries = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
