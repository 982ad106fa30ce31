"""The leader epochs of a log and their start offsets: `leader-epoch-checkpoint`, Kafka's text format.

```
0                  version
2                  count
0 0                leader epoch, start offset
3 120
```

With this table a follower, or a consumer after a failover, finds the offset where two histories part.
"""

from bisect import bisect_right
from collections.abc import Sequence

from oncelog.errors import OncelogError


class CorruptLeaderEpochs(OncelogError):
    """A `leader-epoch-checkpoint` that is unreadable. The leader epochs must be read from the batches."""


class LeaderEpochs:
    """The leader epochs of one log in ascending order, with their ascending start offsets."""

    def __init__(self, entries: Sequence[tuple[int, int]] = ()) -> None:
        self._leader_epochs = [leader_epoch for leader_epoch, _ in entries]
        self._start_offsets = [start_offset for _, start_offset in entries]

    @property
    def latest(self) -> int:
        """The highest leader epoch of the log; -1 while nothing was written."""
        return self._leader_epochs[-1] if self._leader_epochs else -1

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._leader_epochs, self._start_offsets, strict=True))

    def assign(self, leader_epoch: int, start_offset: int) -> bool:
        """Add a leader epoch whose records begin at `start_offset`. Return True if anything changed.

        An epoch that is not above the latest changes nothing.
        """
        if leader_epoch <= self.latest:
            return False
        # An epoch that wrote nothing before the next one came leaves no trace.
        while self._start_offsets and self._start_offsets[-1] >= start_offset:
            del self._leader_epochs[-1], self._start_offsets[-1]
        self._leader_epochs.append(leader_epoch)
        self._start_offsets.append(start_offset)
        return True

    def truncate_from(self, offset: int) -> bool:
        """Remove the leader epochs that began at or above `offset`, whose records are gone. Return True if there were
        any.
        """
        count = len(self._start_offsets)
        while count and self._start_offsets[count - 1] >= offset:
            count -= 1
        changed = count < len(self._start_offsets)
        del self._leader_epochs[count:], self._start_offsets[count:]
        return changed

    def truncate_to_start(self, log_start_offset: int) -> bool:
        """Remove the leader epochs that ended before the log's start. The epoch that spans the start begins there now.

        Returns True if anything changed.
        """
        index = bisect_right(self._start_offsets, log_start_offset) - 1
        if index < 0 or (index == 0 and self._start_offsets[0] == log_start_offset):
            return False
        self._leader_epochs = self._leader_epochs[index:]
        self._start_offsets = [log_start_offset, *self._start_offsets[index + 1 :]]
        return True

    def leader_epoch_of(self, offset: int) -> int:
        """Return the leader epoch that wrote this offset; -1 if it is unknown."""
        index = bisect_right(self._start_offsets, offset) - 1
        return self._leader_epochs[index] if index >= 0 else -1

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (largest leader epoch here that is not above `leader_epoch`, its end offset); (-1, -1) if unknown
        (KIP-101).
        """
        if leader_epoch < 0 or not self._leader_epochs or leader_epoch > self.latest:
            return -1, -1
        if leader_epoch == self.latest:
            return leader_epoch, log_end_offset
        higher = bisect_right(self._leader_epochs, leader_epoch)
        if higher == 0:
            return leader_epoch, self._start_offsets[0]
        return self._leader_epochs[higher - 1], self._start_offsets[higher]


def encode_leader_epochs(epochs: LeaderEpochs) -> str:
    entries = epochs.entries()
    lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
    return "\n".join(lines) + "\n"


def decode_leader_epochs(text: str) -> LeaderEpochs:
    """Read the text of a `leader-epoch-checkpoint`. Raises CorruptLeaderEpochs."""
    try:
        version, count, *rows, rest = text.split("\n")
        entries = [(int(row.split(" ")[0]), int(row.split(" ")[1])) for row in rows if row]
        # A number that was cut short is a number: only the end of its line says that it is whole.
        if int(version) != 0 or int(count) != len(entries) or rest:
            raise ValueError
    except (ValueError, IndexError):
        raise CorruptLeaderEpochs("leader epoch checkpoint is malformed") from None
    if entries != sorted(set(entries)) or len({epoch for epoch, _ in entries}) != len(entries):
        raise CorruptLeaderEpochs("leader epochs are out of order")
    return LeaderEpochs(entries)
