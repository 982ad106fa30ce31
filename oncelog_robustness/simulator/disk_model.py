"""The model of a disk: which bytes and names survive a power cut for certain, and what may become of the rest.

The model is a journaling file system (ext4 with data=ordered or data=writeback, xfs) of which only the promises
of `man fsync` are used:

- A synced file has at least the bytes that were synced. Bytes that were written after may be there, be missing, or be
  there in part. An added page may be zeros (its extent was allocated, its data was not written); an overwritten page
  is the old or the new one. A page is never mixed. The bytes that several writes added may end anywhere; a real file
  would end only where a write or a page ends. The bytes that one write added within a page are there or not.
- Changes of names in a folder become durable in their order: a power cut keeps some first part of them, never a later
  one without an earlier. A rename is one step. Two folders are independent of each other, and syncing a file does not
  sync its name (real journals are stronger here: one log for everything).
- A truncation has reached the journal before the power cut, or not. If it has not, the file has its old bytes. If it
  has, the file is no shorter than the size that it was truncated to.
- After a failed sync the pages that it should have written are clean and lost: later syncs succeed without them.

Nothing here touches the real file system; `disk` does, and brings the bytes.
"""

import random
from dataclasses import dataclass, field
from typing import Final

PAGE_BYTES: Final = 4096


@dataclass(slots=True, eq=False)
class SimFile:
    """The model of one file: how much of it is synced. The content is in the real file; memory holds only
    those synced bytes that were overwritten or cut off since."""

    number: int
    """The file's inode number, the same in every run of a seed."""
    size: int = 0
    synced_size: int = 0
    shortest: int | None = None
    """The lowest size that the file was truncated to since the last sync, if that removed synced bytes."""
    replaced: list[tuple[int, bytes]] = field(default_factory=list)
    """The synced bytes that each write or truncation has replaced since the last sync, with their positions,
    in order."""
    lost: list[tuple[int, bytes]] = field(default_factory=list)
    """The old bytes that are still on the disk where a sync failed, with their positions. Later syncs leave
    them there, unless somebody writes at that place again."""
    growths: int = 0
    """The number of writes since the last sync that made the file longer."""
    mtime_ns: int = 0
    has_real_mtime: bool = True
    attic_path: str = ""
    """The real file's path after its name was removed, as long as a power cut could bring it back."""

    @property
    def is_synced(self) -> bool:
        return (
            self.size == self.synced_size
            and not self.replaced
            and not self.lost
            and self.shortest is None
        )

    def synced_bytes_at(self, position: int, count: int) -> int:
        """Return how many of the `count` bytes that are about to be overwritten at `position` are synced. The
        caller must first add the old content of these to `replaced`."""
        return max(0, min(position + count, self.size, self.synced_size) - position)

    def written(self, position: int, count: int) -> None:
        if position + count > self.size:
            self.growths += 1
            self.size = position + count
        if self.lost:
            self.lost = _without(self.lost, position, position + count)

    def truncated(self, size: int) -> None:
        if size < self.synced_size:
            self.shortest = size if self.shortest is None else min(self.shortest, size)
        self.lost = _without(self.lost, size, max(size, self.size))
        self.size = size

    def synced(self) -> None:
        self.synced_size = self.size
        self.replaced.clear()
        self.shortest = None
        self.growths = 0

    def sync_failed(self) -> None:
        # If a place was replaced several times, the disk has its oldest content.
        for position, old in self.replaced:
            known = [(begin, begin + len(kept)) for begin, kept in self.lost]
            parts = [(position, old)]
            for begin, behind in known:
                parts = _without(parts, begin, behind)
            self.lost += parts
        self.replaced.clear()
        if self.size > self.synced_size:
            self.lost.append((self.synced_size, bytes(self.size - self.synced_size)))
            self.synced_size = self.size

    def settled(self, size: int) -> None:
        """Count the file, with `size` bytes, as wholly synced: a power cut has just decided what its content
        is."""
        self.size = self.synced_size = size
        self.replaced.clear()
        self.lost.clear()
        self.shortest = None
        self.growths = 0

    # Power cuts.

    def on_disk(self, current: bytes) -> bytes:
        """Return the content that the last sync has made certain, without what was written since. `current`
        is the content just before the power cut."""
        content = bytearray(current)
        for position, old in reversed(self.replaced):
            content.extend(bytes(max(0, position - len(content))))
            content[position : position + len(old)] = old
        content = content[: self.synced_size]
        content.extend(bytes(self.synced_size - len(content)))
        return self._without_lost(bytes(content))

    def _without_lost(self, content: bytes) -> bytes:
        if not self.lost:
            return content
        real = bytearray(content)
        for position, old in self.lost:
            real[position : position + len(old)] = old
        return bytes(real[: len(content)])

    def after_power_cut(self, current: bytes, draw: random.Random) -> bytes:
        """Draw one of the contents that the file may have after a power cut. `current` is its content just before."""
        safe, current = self.on_disk(current), self._without_lost(current)
        fate = draw.random()
        if fate < 0.25:
            return safe
        if fate < 0.5:
            return current
        if self.shortest is None:
            kept = self.synced_size
        elif draw.random() < 0.5:
            # The truncation never happened; nor did what was written behind it, which has other blocks.
            kept = self.shortest
            return _old_or_new(safe, current, kept, draw) + safe[kept:]
        else:
            kept = min(self.shortest, self.synced_size)
        ends = [kept, len(current)]
        if self.growths > 1 or kept // PAGE_BYTES < (len(current) - 1) // PAGE_BYTES:
            ends.append(draw.randint(min(kept, len(current)), len(current)))
        end = max(kept, draw.choice(ends))
        added = bytearray(current[kept:end])
        for page in range(kept - kept % PAGE_BYTES, end, PAGE_BYTES):
            if draw.random() < 0.2:
                begin, behind = max(page - kept, 0), min(page + PAGE_BYTES - kept, len(added))
                added[begin:behind] = bytes(behind - begin)
        return _old_or_new(safe, current, kept, draw) + bytes(added)


def _old_or_new(old: bytes, new: bytes, end: int, draw: random.Random) -> bytes:
    """Return the first `end` bytes; each page is either the synced one or the one written over it."""
    if old[:end] == new[:end]:
        return old[:end]
    pages = []
    for begin in range(0, end, PAGE_BYTES):
        behind = min(begin + PAGE_BYTES, end)
        is_new = draw.random() < 0.5 and len(new) >= behind
        pages.append((new if is_new else old)[begin:behind])
    return b"".join(pages)


def _without(parts: list[tuple[int, bytes]], begin: int, behind: int) -> list[tuple[int, bytes]]:
    """Return the pieces of `parts` (each a position and bytes) that lie outside of the range [begin,
    behind)."""
    kept = []
    for position, content in parts:
        left, right = content[: max(0, begin - position)], content[max(0, behind - position) :]
        if begin >= position + len(content) or behind <= position:
            kept.append((position, content))
            continue
        if left:
            kept.append((position, left))
        if right:
            kept.append((position + len(content) - len(right), right))
    return kept


@dataclass(frozen=True, slots=True)
class Made:
    name: str
    node: "Node"


@dataclass(frozen=True, slots=True)
class Removed:
    name: str


@dataclass(frozen=True, slots=True)
class Renamed:
    name: str
    new_name: str


Change = Made | Removed | Renamed


@dataclass(slots=True, eq=False)
class SimFolder:
    number: int
    names: dict[str, "Node"] = field(default_factory=dict)
    synced_names: dict[str, "Node"] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    """The changes of names since the last sync, in order."""
    leavers: list["Node"] = field(default_factory=list)
    """The files and folders that lost their name since the last sync; a power cut may bring them back."""

    def changed(self, change: Change) -> None:
        _apply(self.names, change, self.leavers)
        self.changes.append(change)

    def synced(self) -> list["Node"]:
        """Count the folder's names as synced. Return the files and folders that were removed before, which no
        power cut can bring back any more."""
        self.synced_names = dict(self.names)
        self.changes.clear()
        gone, self.leavers = self.leavers, []
        return gone

    def after_power_cut(self, draw: random.Random) -> dict[str, "Node"]:
        """Draw the names that the folder has after a power cut: the synced names with the first few, all or
        none of the later changes."""
        fate = draw.random()
        count = len(self.changes)
        if fate > 0.6:
            count = draw.randint(0, count)
        elif fate > 0.3:
            count = 0
        names = dict(self.synced_names)
        for change in self.changes[:count]:
            _apply(names, change, [])
        return names

    def settled(self, names: dict[str, "Node"]) -> None:
        self.names = dict(names)
        self.synced_names = dict(names)
        self.changes.clear()
        self.leavers.clear()


Node = SimFile | SimFolder


def _apply(names: dict[str, Node], change: Change, leavers: list[Node]) -> None:
    match change:
        case Made(name, node):
            names[name] = node
        case Removed(name):
            leavers.append(names.pop(name))
        case Renamed(name, new_name):
            replaced = names.get(new_name)
            if replaced is not None:
                leavers.append(replaced)
            names[new_name] = names.pop(name)
