"""The disks of the simulated hosts: real files in a temporary folder, and what a kernel and a disk do to them.

    disks = SimDisks(world, root)
    install_disks(disks)                  # oncelog_robustness.simulator.disk_calls: production code's file calls
    settings.data_dir = disks.folder("storage-1")

Production code does its real operations on real files. The layer between knows the host and the process
of each operation, so that

- a killed process loses its descriptors and its locks and nothing else: the page cache is the kernel's;
- `crash_after` kills a process between two file operations of one step, or in the middle of a write;
- after `power_cut` a disk has all synced bytes, and of the rest whatever `disk_model` allows, drawn from the stream
  `disk.<host>`;
- disks are slow (`slow`): the work of storage's threads takes longer. A write by the event loop itself takes no time,
  as everything on the loop, so it cannot be slow in virtual time;
- disks are full (`fill`), their syncs fail (`fail_syncs`), and bits of files at rest turn over (`flip_bit`).
"""

import os
import random
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncelog_robustness.simulator.disk_model import Made, Node, SimFile, SimFolder
from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.process import ProcessKilled, ProcessState, SimProcess, owner

if TYPE_CHECKING:
    from oncelog_robustness.simulator.world import World

THREADS_OF_DISKS: Final = "storage-"
"""The beginning of the names of the threads that work on disks."""
_ATTIC: Final = ".attic"

# Taken before anything is replaced: what the disk does itself never goes through the replacements.
_close, _open, _read_at = os.close, os.open, os.pread
_mkdir, _rename, _rmdir, _scandir, _stat = os.mkdir, os.rename, os.rmdir, os.scandir, os.stat
_unlink, _utime, _write_at = os.unlink, os.utime, os.pwrite


@dataclass(slots=True, eq=False)
class OpenFile:
    disk: "SimHostDisk"
    node: Node
    process: SimProcess | None
    name: str
    is_appending: bool


@dataclass(slots=True, eq=False)
class SimHostDisk:
    """The disk of one simulated host: its folders, the room that is left on it, and the faults that it has
    now."""

    host: str
    path: str
    root: SimFolder
    delay_s: float = 0.0
    free_bytes: int | None = None
    """The bytes that still fit on the disk; None for more than will ever be written."""
    failing_syncs: int = 0
    """The number of next syncs that fail."""
    power_cuts: int = 0

    @property
    def is_full(self) -> bool:
        return self.free_bytes == 0

    def room_for(self, growth: int) -> int | None:
        """Return None if a file may grow by `growth` bytes; otherwise return how many bytes still fit."""
        if self.free_bytes is None or growth <= self.free_bytes:
            return None
        return self.free_bytes

    def use(self, growth: int) -> None:
        if self.free_bytes is not None and growth != 0:
            self.free_bytes = max(0, self.free_bytes - growth)


@dataclass(slots=True)
class Place:
    """A path on a simulated disk. `folder` is None for the top of a disk, and where a folder on the way is missing;
    `path` is relative to the top."""

    disk: SimHostDisk
    folder: SimFolder | None
    path: str

    @property
    def name(self) -> str:
        return self.path.rpartition(os.sep)[2]

    @property
    def node(self) -> Node | None:
        if not self.path:
            return self.disk.root
        return None if self.folder is None else self.folder.names.get(self.name)


class SimDisks:
    """The disks of all hosts of one simulated run. They know which bytes and names are synced, and carry out
    faults. `root` must be empty; everything below it is simulated."""

    def __init__(self, world: "World", root: Path) -> None:
        self._world = world
        self._top = str(root.absolute() / "disks")
        self.prefix = self._top + os.sep
        self.attic = self.prefix + _ATTIC + os.sep
        os.makedirs(self.attic)
        self._hosts: dict[str, SimHostDisk] = {}
        self.descriptors: dict[int, OpenFile] = {}
        self._numbers = 0
        self._watched: set[SimProcess] = set()
        self._crashes: dict[SimProcess, int] = {}
        self._delay_before: Callable[[Executor | None], float] | None = None

    def slow_threads(self) -> None:
        """Make the work of storage's threads take longer while their host's disk is slow, from now on and for
        ever."""
        self._delay_before = self._world.executor_delay_s
        self._world.executor_delay_s = self._thread_delay_s

    def boot_id(self) -> str:
        """Return a text in place of the kernel's boot id: each power cut of the running process's host
        changes it. Empty if the running code belongs to no process."""
        process = owner()
        return "" if process is None else f"start {self.host(process.host).power_cuts}"

    def folder(self, host: str) -> Path:
        """Return the folder in which `host` has its files."""
        return Path(self.host(host).path)

    def host(self, name: str) -> SimHostDisk:
        found = self._hosts.get(name)
        if found is None:
            assert os.sep not in name, name
            assert name.lstrip(".") == name != "", name
            path = self.prefix + name
            _mkdir(path)
            found = self._hosts[name] = SimHostDisk(name, path, SimFolder(self.next_number()))
        return found

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def trace(self, disk: SimHostDisk, operation: str, name: str, size: int | str = "") -> None:
        self._world.trace("disk", disk.host, operation, name, size)

    # ------------------------------------------------------------------------------------------------ processes

    def enter(self) -> SimProcess | None:
        """Return the process that makes a file call.
        Raises ProcessKilled for a dead process, whose stack is being unwound."""
        process = owner()
        if process is not None and process.state is ProcessState.DEAD:
            raise ProcessKilled(repr(process))
        return process

    def opened_as(self, descriptor: int) -> OpenFile | None:
        """Return the open file of a descriptor, or None if it is not a simulated one.
        Raises ProcessKilled as `enter` does."""
        file = self.descriptors.get(descriptor)
        if file is None:
            self.enter()
        return file

    def enter_change(self, last_words: Callable[[], None] | None = None) -> None:
        """Count one change of a disk, just before it is made. If `crash_after` wants the running process dead
        at this change, call `last_words` (it may write a part of the data), kill the process and raise
        ProcessKilled."""
        process = self.enter()
        if not self._crashes or process is None or process not in self._crashes:
            return
        left = self._crashes[process] - 1
        self._crashes[process] = left
        if left < 0:
            if last_words is not None:
                last_words()
            del self._crashes[process]
            self._world.trace("disk", process.host, "killed-in-step", process.name)
            self.happened(Effect.KILLED_IN_STEP)
            process.end()
            raise ProcessKilled(repr(process))

    def crash_after(self, process: SimProcess, operations: int) -> None:
        """Kill `process` after `operations` more changes of a disk, in the middle of whatever it does."""
        self._crashes[process] = operations

    def disarm(self, process: SimProcess) -> None:
        """Take back a `crash_after` that was not reached."""
        self._crashes.pop(process, None)

    def opened(
        self,
        process: SimProcess | None,
        descriptor: int,
        place: "Place",
        node: Node,
        *,
        is_appending: bool,
    ) -> None:
        self.descriptors[descriptor] = OpenFile(place.disk, node, process, place.path, is_appending)
        if process is not None and process not in self._watched:
            self._watched.add(process)
            process.on_end(lambda: self._close_all_of(process))

    def _close_all_of(self, process: SimProcess) -> None:
        for descriptor, file in list(self.descriptors.items()):
            if file.process is process:
                del self.descriptors[descriptor]
                _close(descriptor)

    def _thread_delay_s(self, executor: Executor | None) -> float:
        assert self._delay_before is not None
        delay_s = self._delay_before(executor)
        name = getattr(executor, "_thread_name_prefix", "")
        process = owner()
        if process is None or not name.startswith(THREADS_OF_DISKS):
            return delay_s
        disk = self._hosts.get(process.host)
        if disk is None or not disk.delay_s:
            return delay_s
        self.happened(Effect.DISK_SLOW)
        draw = self._world.streams.stream(f"disk.{process.host}.delay")
        return delay_s + draw.expovariate(1 / disk.delay_s)

    def happened(self, effect: Effect) -> None:
        self._world.effects[effect] += 1

    # ----------------------------------------------------------------------------------------------- whose file

    def located(self, path: object, *, at: int | None = None) -> "Place | None":
        """Return the place of this path on a simulated disk; None for any other path."""
        if at is not None or isinstance(path, int):
            return None
        text = os.fspath(path)  # type: ignore[call-overload]
        if not isinstance(text, str) or not text.startswith(self.prefix):
            return None
        host, *names = text[len(self.prefix) :].rstrip(os.sep).split(os.sep)
        disk = self.host(host)
        if not names:
            return Place(disk, None, "")
        folder = disk.root
        for name in names[:-1]:
            node = folder.names.get(name)
            if not isinstance(node, SimFolder):
                return Place(disk, None, os.sep.join(names))
            folder = node
        return Place(disk, folder, os.sep.join(names))

    def adopt(self, place: "Place", path: str, *, is_new: bool) -> Node:
        """Add a real file or folder to the model of the disk and return its node. If it `is_new`, its name
        and bytes are not synced yet. Otherwise it was made without the simulated calls and counts as
        synced."""
        assert place.folder is not None, path
        status = _stat(path)
        if stat.S_ISDIR(status.st_mode):
            node: Node = SimFolder(self.next_number())
        else:
            node = SimFile(self.next_number(), status.st_size, 0 if is_new else status.st_size)
            self.touched(node)
        if is_new:
            place.folder.changed(Made(place.name, node))
        else:
            place.folder.names[place.name] = place.folder.synced_names[place.name] = node
        return node

    def touched(self, node: SimFile) -> None:
        node.mtime_ns = time.time_ns()
        node.has_real_mtime = False

    def draw(self, disk: SimHostDisk) -> random.Random:
        return self._world.streams.stream(f"disk.{disk.host}")

    def draw_order(self, disk: SimHostDisk) -> random.Random:
        return self._world.streams.stream(f"disk.{disk.host}.order")

    def leave(self, disk: SimHostDisk, node: Node, real_path: str) -> None:
        """Move a file that loses its name into a hidden folder, from which a power cut can bring it back."""
        if isinstance(node, SimFile):
            node.attic_path = f"{self.attic}{node.number}"
            _rename(real_path, node.attic_path)
            disk.use(-node.size)

    def forget(self, gone: list[Node]) -> None:
        """Delete the files in `gone` for good, because no power cut can bring them back any more."""
        for node in gone:
            if isinstance(node, SimFolder):
                self.forget(node.leavers)
                self.forget([file for file in node.names.values() if isinstance(file, SimFolder)])
            elif node.attic_path:
                _unlink(node.attic_path)
                node.attic_path = ""

    def stamp_real_mtimes(self, folder: SimFolder, path: str) -> None:
        """Set the modification times of a folder's real files to those of the simulation, before somebody
        scans the folder."""
        for name, node in folder.names.items():
            if isinstance(node, SimFile) and not node.has_real_mtime:
                _utime(f"{path}{os.sep}{name}", ns=(node.mtime_ns, node.mtime_ns))
                node.has_real_mtime = True

    # ------------------------------------------------------------------------------------------------------- faults

    def slow(self, host: str, delay_s: float) -> None:
        """Make the work of storage's threads take `delay_s` longer on average; 0 ends that."""
        self.host(host).delay_s = delay_s

    def fill(self, host: str, free_bytes: int = 0) -> None:
        """Let only `free_bytes` more fit on the disk; deleting makes room.
        A write that does not fit whole is cut short."""
        self.host(host).free_bytes = free_bytes

    def fail_syncs(self, host: str, count: int) -> None:
        """Let the next `count` syncs fail with EIO; the bytes that they should have written never reach the disk."""
        self.host(host).failing_syncs = count

    def heal(self, host: str) -> None:
        """End all faults of the disk: it is fast, has room and syncs again. Bytes that were lost stay
        lost."""
        disk = self.host(host)
        disk.delay_s, disk.free_bytes, disk.failing_syncs = 0.0, None, 0

    def flip_bit(self, host: str, suffixes: tuple[str, ...] = (".log",)) -> str | None:
        """Turn over one bit of a file that nobody writes and whose name ends in one of `suffixes`. Return its path;
        None if no such file has bytes.

        In each folder the last `.log` file by name is the one that is written.
        """
        disk, draw = self.host(host), self.draw(self.host(host))
        found = [path for path, _ in self._at_rest(disk.root, disk.path, suffixes)]
        if not found:
            return None
        path = draw.choice(sorted(found))
        descriptor = _open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            position = draw.randrange(os.fstat(descriptor).st_size)
            bit = draw.randrange(8)
            _write_at(
                descriptor, bytes([_read_at(descriptor, 1, position)[0] ^ (1 << bit)]), position
            )
        finally:
            _close(descriptor)
        name = path.removeprefix(disk.path + os.sep)
        self.trace(disk, "bit-flip", name, f"{position}.{bit}")
        self.happened(Effect.BIT_FLIPPED)
        return name

    def _at_rest(
        self, folder: SimFolder, path: str, suffixes: tuple[str, ...]
    ) -> Iterator[tuple[str, SimFile]]:
        logs = sorted(name for name in folder.names if name.endswith(suffixes))
        for name in logs[:-1]:
            node = folder.names[name]
            if isinstance(node, SimFile) and node.size:
                yield f"{path}{os.sep}{name}", node
        for name, node in folder.names.items():
            if isinstance(node, SimFolder):
                yield from self._at_rest(node, f"{path}{os.sep}{name}", suffixes)

    # --------------------------------------------------------------------------------------------------- power cuts

    def power_cut(self, host: str) -> None:
        """Cut the power of `host`, whose processes have all ended. Of the bytes and names that were not
        synced a draw decides what is kept, lost or torn."""
        disk = self.host(host)
        users = [file for file in self.descriptors.values() if file.disk is disk]
        assert not users, f"{users[0].process} still has {users[0].name} open"
        self._world.trace("disk", host, "power-cut")
        disk.power_cuts += 1
        before = f"{self.attic}host-{host}"
        _rename(disk.path, before)
        places: dict[SimFile, str] = {}
        _find_files(disk.root, before, places)
        self._settle(disk, disk.root, disk.path, places)
        _remove_all(before)
        for path in places.values():
            if path.startswith(self.attic) and path.count(os.sep) == self.attic.count(os.sep):
                _unlink(path)

    def _settle(
        self, disk: SimHostDisk, folder: SimFolder, path: str, places: dict[SimFile, str]
    ) -> None:
        """Make the real folder at `path` as the power cut leaves it: draw the names and bytes that survive.
        `places` has the path of each file before the cut; each file that survives is taken out of it."""
        draw = self.draw(disk)
        _mkdir(path)
        changes = len(folder.changes)
        names = folder.after_power_cut(draw)
        if changes:
            self.trace(disk, "names-after-cut", path.removeprefix(self.prefix), len(names))
            if names != folder.names:
                self.happened(Effect.NAMES_LOST)
        for name in sorted(names):
            node, target = names[name], f"{path}{os.sep}{name}"
            if isinstance(node, SimFolder):
                self._settle(disk, node, target, places)
                continue
            source = places.pop(node)
            if not node.is_synced:
                content = _read_all(source)
                survived = node.after_power_cut(content, draw)
                if survived != content:
                    is_whole = survived == node.on_disk(content)
                    self.happened(Effect.UNSYNCED_LOST if is_whole else Effect.FILE_TORN)
                _write_all(source, survived)
                self.trace(
                    disk,
                    "torn",
                    target.removeprefix(self.prefix),
                    f"{node.synced_size}/{len(survived)}/{len(content)}",
                )
                node.settled(len(survived))
            _rename(source, target)
            node.attic_path = ""
            node.has_real_mtime = False
        folder.settled(names)


def _find_files(folder: SimFolder, path: str, places: dict[SimFile, str]) -> None:
    """Fill `places` with the real path of each file that a power cut can leave."""
    for name, node in folder.names.items():
        place = f"{path}{os.sep}{name}"
        if isinstance(node, SimFolder):
            _find_files(node, place, places)
        else:
            places[node] = place
    for node in folder.leavers:
        if isinstance(node, SimFolder):
            _find_files(node, "", places)
        else:
            places[node] = node.attic_path


def _remove_all(path: str) -> None:
    with _scandir(path) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                _remove_all(entry.path)
            else:
                _unlink(entry.path)
    _rmdir(path)


def _read_all(path: str) -> bytes:
    descriptor = _open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _read_at(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        _close(descriptor)


def _write_all(path: str, content: bytes) -> None:
    descriptor = _open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        written = 0
        while written < len(content):
            written += _write_at(descriptor, content[written:], written)
    finally:
        _close(descriptor)
