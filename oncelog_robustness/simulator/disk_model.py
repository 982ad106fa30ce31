"""What a disk has: which bytes and names survive a power cut for certain, and what may become of the rest.

The model is that of a journaling file system (ext4 with data=ordered or data=writeback, xfs), held to no more than
`man fsync` promises:

- A synced file has at least the bytes that were synced. What was written after may be there, be missing, or be there in
  part: a page of what was added may be zeros (its extent was allocated, its data was not written), a page that was
  overwritten is the old or the new one. Either whole page: a page is never mixed. What several writes added may end at
  any byte, which is more than the ends of writes and pages where it really may. What one write added within a page is
  there or not.
- Names made, renamed and removed in a folder become durable in the order in which that was done: a power cut keeps some
  first part of them, never a later one without an earlier. A rename is one step. Two folders know nothing of each
  other, and syncing a file does not sync its name (real journals are stronger here: one log for everything).
- A truncation is in the journal before or after the cut: then the file has its old bytes, or ends no shorter than what
  it was truncated to.
- After a failed sync the pages that it should have written are clean and lost: later syncs succeed without them.

Nothing here touches the real file system; `disk` does, and brings the bytes.
"""

import random
from dataclasses import dataclass, field
from typing import Final

PAGE_BYTES: Final = 4096


@dataclass(slots=True, eq=False)
class SimFile:
    """Of the synced bytes only those are kept in memory that are different in the real file by now."""

    number: int
    """As an inode number: the same in every run of a seed."""
    size: int = 0
    synced_size: int = 0
    shortest: int | None = None
    """The lowest size that it was truncated to since the last sync, if that took synced bytes away."""
    replaced: list[tuple[int, bytes]] = field(default_factory=list)
    """What stood in the synced part before a write or truncation, in order."""
    lost: list[tuple[int, bytes]] = field(default_factory=list)
    """What a failed sync left on the disk: no later one writes there, unless somebody writes there again."""
    growths: int = 0
    """Writes since the last sync that made it longer."""
    mtime_ns: int = 0
    has_real_mtime: bool = True
    attic_path: str = ""
    """Where the real file is after its name was removed, as long as a power cut could bring it back."""

    @property
    def is_synced(self) -> bool:
        return (
            self.size == self.synced_size
            and not self.replaced
            and not self.lost
            and self.shortest is None
        )

    def synced_bytes_at(self, position: int, count: int) -> int:
        """How many of the bytes about to be overwritten are synced ones that the caller must give to `replaced`."""
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
        # Of one place the oldest content is what the disk has.
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
        """The machine starts again: what is there is what the disk has."""
        self.size = self.synced_size = size
        self.replaced.clear()
        self.lost.clear()
        self.shortest = None
        self.growths = 0

    # Power cuts.

    def on_disk(self, current: bytes) -> bytes:
        """The synced bytes; `current` is what the file held at the end."""
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
        """One of the contents that the disk may have."""
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
    """The first `end` bytes, page by page what was synced or what was written over it."""
    if old[:end] == new[:end]:
        return old[:end]
    pages = []
    for begin in range(0, end, PAGE_BYTES):
        behind = min(begin + PAGE_BYTES, end)
        is_new = draw.random() < 0.5 and len(new) >= behind
        pages.append((new if is_new else old)[begin:behind])
    return b"".join(pages)


def _without(parts: list[tuple[int, bytes]], begin: int, behind: int) -> list[tuple[int, bytes]]:
    """What of these lies outside of [begin, behind)."""
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
    """Since the last sync, in order."""
    leavers: list["Node"] = field(default_factory=list)
    """What lost its name since then: a power cut may bring it back."""

    def changed(self, change: Change) -> None:
        _apply(self.names, change, self.leavers)
        self.changes.append(change)

    def synced(self) -> list["Node"]:
        """Returns what no power cut can bring back any more."""
        self.synced_names = dict(self.names)
        self.changes.clear()
        gone, self.leavers = self.leavers, []
        return gone

    def after_power_cut(self, draw: random.Random) -> dict[str, "Node"]:
        """The names in it: some first part of the changes was in the journal."""
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
