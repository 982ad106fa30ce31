"""The progress of consumer groups, partition by partition, and the open transactions that hold them back."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog_gateway.core.held_back import (
    Holder,
    Unread,
    is_blocked,
    longest,
    may_be_blocked,
    unread,
    where_it_stands,
)
from oncelog_gateway.records_behind import RecordsBehind
from oncelog_gateway.resources import LsoHolder, PartitionStatus
from oncelog_gateway.roles import Roles

LOOKS_MAX: Final = 100
LOOKS_AT_ONCE: Final = 8
"""Partitions that are read at the same time, to see whether a group has only markers and aborted records left before an
open transaction.
"""
LOOK_OFFSETS_MAX: Final = 1_000
LOOK_BYTES_MAX: Final = 64 << 10
"""Bytes that are read of one such partition. If they do not reach the last stable offset, the group does not count as
blocked.
"""


class Reading(NamedTuple):
    """The progress of one group in one partition: its committed offset, its lag, and the transaction that holds back
    the rest. The lag is computed once, because there may be thousands of these.
    """

    group_id: str
    partition: Partition
    offset: int | None
    status: PartitionStatus | None
    ends: tuple[int, int, int] | None
    """Committed offset, last stable offset and high watermark; None: one of them is not known."""
    unread: Unread | None
    held_by: LsoHolder | None
    """The transaction that holds back what the group has not read; None where there is none."""

    @property
    def place(self) -> "Place":
        return self.group_id, self.partition


class Standing(NamedTuple):
    """The progress of one group in all its partitions together, and the transaction that blocks it for the longest."""

    lag: int | None
    """The group's lag in offsets, summed over its partitions; None: it is known for no partition."""
    committed_count: int
    """Number of partitions in which the group has committed an offset."""
    readable: int
    held_back: int
    blocked_by: LsoHolder | None
    blocked_in: Partition | None
    """The partition where a transaction blocks the group for the longest; None: the group is not blocked."""

    @property
    def holder(self) -> Holder | None:
        return None if self.blocked_by is None else holder_of(self.blocked_by)

    @property
    def words(self) -> str:
        if not self.committed_count:
            return "has committed nothing"
        return where_it_stands(self.lag, self.holder)


Place = tuple[str, Partition]
"""A group's id and one of its partitions."""


class GroupsBlocked(NamedTuple):
    places: Set[Place]
    """Groups and partitions where a group is blocked."""
    group_count: int
    failures: Sequence[KafkaError]
    """Failures of coordinators that did not say which groups there are."""


def standing_of(readings: Iterable[Reading], blocked: Set[Place]) -> Standing:
    known = [(one, one.unread) for one in readings]
    sums = [found for _, found in known if found is not None]
    held = {
        holder_of(holder): (holder, one.partition)
        for one, _ in known
        if one.place in blocked and (holder := one.held_by) is not None
    }
    worst = longest(list(held))
    blocked_by, blocked_in = (None, None) if worst is None else held[worst]
    return Standing(
        sum(map(sum, sums)) if sums else None,
        sum(one.offset is not None for one, _ in known),
        sum(one.readable for one in sums),
        sum(one.held_back for one in sums),
        blocked_by,
        blocked_in,
    )


def holder_of(found: LsoHolder) -> Holder:
    return Holder(
        found.transactional_id,
        found.producer_id,
        found.age_ms,
        found.idle_ms,
        found.hanging,
        found.first_record_age_ms,
    )


class BlockedReadings:
    """Finds consumer groups that an open transaction blocks: they have read all that a read_committed consumer gets of
    a partition, up to the transaction's first record.

    Mostly the offsets tell. Records are fetched only from a partition that a transaction has held back for long.
    """

    def __init__(self, roles: Roles) -> None:
        self._records = RecordsBehind(roles)

    async def where(
        self,
        offsets: Mapping[str, Iterable[tuple[Partition, int]]],
        statuses: Mapping[Partition, PartitionStatus],
    ) -> Set[Place]:
        """Return each (group, partition) where the group is blocked, from the offsets that groups have committed.

        Mostly two offsets decide that: a group at the last stable offset is blocked, and one beyond it is not. For the
        others `among` looks into the partition.
        """
        stable = {
            partition: status.last_stable_offset
            for partition, status in statuses.items()
            if status.last_stable_offset is not None and status.lso_lag
        }
        blocked: set[Place] = set()
        doubtful: list[Reading] = []
        for group_id, of_group in offsets.items():
            for partition, offset in of_group:
                at = stable.get(partition)
                if at is None or not 0 <= offset <= at:
                    continue
                if offset == at:
                    blocked.add((group_id, partition))
                else:
                    doubtful.append(_reading(group_id, partition, offset, statuses[partition]))
        return blocked | await self.among(doubtful)

    async def among(self, readings: Iterable[Reading]) -> Set[Place]:
        """Return the (group, partition) of those readings that are blocked: a read_committed reader has no record left
        before an open transaction. Where the offsets do not tell, the partition is read.
        """
        blocked: set[Place] = set()
        looks: dict[tuple[Partition, int], list[Reading]] = {}
        for one in readings:
            ends, holder = one.ends, one.held_by
            if ends is None or holder is None or not may_be_blocked(*ends):
                continue
            assert one.unread is not None, one
            readable = one.unread.readable
            if not readable:
                blocked.add(one.place)
            elif readable <= LOOK_OFFSETS_MAX and holder_of(holder).holds_for_long:
                looks.setdefault((one.partition, ends[0]), []).append(one)
        chosen = list(looks.values())[:LOOKS_MAX]
        turns = asyncio.Semaphore(LOOKS_AT_ONCE)
        answers = await asyncio.gather(*(self._is_blocked(same[0], turns) for same in chosen))
        for same, is_so in zip(chosen, answers, strict=True):
            if is_so:
                blocked.update(one.place for one in same)
        return blocked

    async def _is_blocked(self, reading: Reading, turns: asyncio.Semaphore) -> bool:
        ends = reading.ends
        assert ends is not None, reading
        async with turns:
            found = await self._records.count(reading.partition, ends[0], ends[1], LOOK_BYTES_MAX)
        return found is not None and is_blocked(*ends, found)


def readings_of(
    group_id: str,
    offsets: Iterable[tuple[Partition, int]],
    statuses: Mapping[Partition, PartitionStatus],
) -> list[Reading]:
    """Return how far one group has read in each partition, from its committed offsets. The offset -1 means that it has
    committed none there.
    """
    return [
        _reading(group_id, partition, offset if offset >= 0 else None, statuses.get(partition))
        for partition, offset in offsets
    ]


def _reading(
    group_id: str, partition: Partition, offset: int | None, status: PartitionStatus | None
) -> Reading:
    if (
        offset is None
        or status is None
        or status.last_stable_offset is None
        or status.high_watermark is None
    ):
        return Reading(group_id, partition, offset, status, None, None, None)
    ends = (offset, status.last_stable_offset, status.high_watermark)
    found = unread(*ends)
    held_by = status.lso_holder if found.held_back else None
    return Reading(group_id, partition, offset, status, ends, found, held_by)
