"""The list of records over which a program iterates one by one, and its position within the list."""

from collections.abc import Iterator
from typing import Final

from oncelog.client.core.consumer_record import ConsumerRecord
from oncelog.client.core.fetching import FetchCore
from oncelog.client.core.partition_state import PartitionState
from oncelog.ids import Partition

_NO_OFFSET: Final = -1


class Hand:
    """The records of one partition that the program takes one at a time. The fetcher's position is behind the whole
    list; the program's is within it."""

    __slots__ = ("_last_of_list", "last", "rest")

    def __init__(self) -> None:
        self.rest: Iterator[ConsumerRecord] = iter(())
        self.last: ConsumerRecord | None = None
        """The record that the program took last; None between two lists."""
        self._last_of_list = _NO_OFFSET

    def walk(self, batch: list[ConsumerRecord]) -> ConsumerRecord:
        """Begin to hand out a list, which must not be empty, and return its first record."""
        self.rest, self._last_of_list = iter(batch), batch[-1].offset
        self.last = next(self.rest)
        return self.last

    def next(self) -> ConsumerRecord | None:
        """Return the list's next record; None: the list has come to its end."""
        for record in self.rest:
            self.last = record
            return record
        self.last = None
        return None

    def take(self, count: int) -> list[ConsumerRecord]:
        """Return the next records of the list that the program has not taken yet, `count` at most."""
        if self.last is None:
            return []
        left = list(self.rest)
        self.rest = iter(left[count:])
        self.last = left[count - 1] if left[count:] else None
        return left[:count]

    def is_of(self, partition: Partition) -> bool:
        return self.last is not None and self.last.topic_partition == partition

    def drop(self) -> None:
        self.rest, self.last = iter(()), None

    def put_back(self, core: FetchCore) -> None:
        """Drop the list, and move the fetcher back so that the remaining records are fetched again."""
        last = self.last
        self.drop()
        if last is not None and last.offset != self._last_of_list:
            partition = last.topic_partition
            if core.state(partition) is not None:
                core.seek(partition, last.offset + 1, last.leader_epoch)

    def position(self, state: PartitionState) -> int:
        """Return the offset of the next record that the program gets; -1: it is not known."""
        last = self.last
        if (
            last is None
            or last.topic_partition != state.partition
            or last.offset == self._last_of_list
        ):
            return state.position
        return last.offset + 1
