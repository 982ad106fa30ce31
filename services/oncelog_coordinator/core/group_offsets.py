"""The offsets of groups: committed ones, those that wait for a transaction's marker, and their producers
(docs/kafka-facts.md, 5.2, 9; KIP-447).

An offset committed in a transaction is pending until the marker comes. A commit makes it the group's offset, unless a
later record of the log has committed a newer one. An abort drops it. A reader that wants stable offsets is told to wait
while one is pending.

Producer epochs and coordinator epochs are compared here as a partition's leader compares them. The leader must not
refuse what the state machine has already applied.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from oncelog.errors import ErrorCode
from oncelog.ids import (
    NO_COORDINATOR_EPOCH,
    NO_TIMESTAMP,
    PRODUCER_EPOCH_MAX,
    Millis,
    Offset,
    Partition,
    ProducerId,
    SeenTransaction,
)
from oncelog_coordinator.core.group_events import EndTransaction
from oncelog_coordinator.core.group_records import (
    OffsetCommitted,
    OffsetTombstone,
    TransactionEnded,
)

NEVER_ENDED = -1


class CommittedOffset(NamedTuple):
    """One group's committed offset of one partition. `record_offset` is where its record is in the shard's log."""

    record_offset: Offset
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: Millis
    expire_timestamp: Millis = NO_TIMESTAMP
    topic_id: bytes = b""

    def is_of(self, topic_id: bytes) -> bool:
        """True if the offset counts for this topic id.

        An offset or a question without a topic id matches by the topic's name alone.
        """
        return not self.topic_id or not topic_id or self.topic_id == topic_id


@dataclass(slots=True)
class GroupProducer:
    """The state that a shard keeps of a transactional producer that committed offsets here: its epochs, open
    transaction, last marker.

    A partition's leader keeps the same of its producers.
    """

    producer_epoch: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    is_open: bool = False
    opened: SeenTransaction | None = None
    """The first and the last offset, so far, of the open transaction's records in the shard's log; None: no transaction
    is open."""
    last_marker: int = NEVER_ENDED
    last_timestamp: int = -1


ValueT = TypeVar("ValueT")
_Offsets = dict[Partition, CommittedOffset]


class GroupOffsets:
    """The committed and pending offsets of all groups of one shard (a partition of `__consumer_offsets`)."""

    def __init__(self) -> None:
        self._committed: dict[str, _Offsets] = {}
        self._pending: dict[ProducerId, dict[str, _Offsets]] = {}
        self._open: dict[str, dict[Partition, dict[ProducerId, None]]] = {}
        self._producers: dict[ProducerId, GroupProducer] = {}

    # ------------------------------------------------------------------------------------------- questions

    def of(self, group_id: str) -> _Offsets:
        return self._committed.get(group_id, {})

    def is_pending(self, group_id: str, partition: Partition) -> bool:
        return partition in self._open.get(group_id, ())

    def pending_partitions(self, group_id: str) -> tuple[Partition, ...]:
        return tuple(self._open.get(group_id, ()))

    def pending_producers(self, group_id: str, partition: Partition) -> tuple[ProducerId, ...]:
        return tuple(self._open.get(group_id, {}).get(partition, ()))

    def any_is_of(self, group_id: str, partition: Partition, topic_id: bytes) -> bool:
        """True if the group has an offset of this partition, committed or pending, that belongs to this topic id.

        A topic that was deleted and made again has the same name but another id.
        """
        found = [self.of(group_id).get(partition)]
        found += (
            self._pending[producer_id][group_id].get(partition)
            for producer_id in self.pending_producers(group_id, partition)
        )
        return any(entry is not None and entry.is_of(topic_id) for entry in found)

    def has_any(self, group_id: str) -> bool:
        return group_id in self._committed or group_id in self._open

    def producer(self, producer_id: ProducerId) -> GroupProducer | None:
        return self._producers.get(producer_id)

    def __eq__(self, other: object) -> bool:
        """True if the two have equal offsets and producers."""
        return isinstance(other, GroupOffsets) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_empty(self) -> bool:
        return not self._committed and not self._open and not self._producers

    def forgettable(self, now: Millis, expiration_ms: Millis) -> Iterator[ProducerId]:
        """Yield the producers that the shard may forget: no open transaction, and nothing written for
        `expiration_ms`.
        """
        for producer_id, producer in self._producers.items():
            if not producer.is_open and now - producer.last_timestamp >= expiration_ms:
                yield producer_id

    def marker_error(self, event: EndTransaction) -> ErrorCode:
        """Return the error that refuses this transaction marker, as a partition's leader would (docs/kafka-facts.md, 9,
        "Markers").

        NONE: it is accepted. Under TV2 each end of a transaction raises the producer epoch. So a marker at the known
        epoch is late, and must not end the transaction that has begun since.
        """
        producer = self._producers.get(event.producer_id)
        if event.seen is not None and (producer is None or producer.opened != event.seen):
            return ErrorCode.INVALID_TXN_STATE
        if producer is None:
            return ErrorCode.NONE
        known = producer.producer_epoch
        if event.transaction_version >= 2:
            is_harmless_repeat = event.producer_epoch == known and (
                not producer.is_open or known == PRODUCER_EPOCH_MAX
            )
            if event.producer_epoch <= known and not is_harmless_repeat:
                return ErrorCode.INVALID_PRODUCER_EPOCH
        elif event.producer_epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if event.coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    # ------------------------------------------------------------------------------------------- changes

    def committed(self, at: Offset, record: OffsetCommitted) -> None:
        entry = CommittedOffset(
            at,
            record.offset,
            record.leader_epoch,
            record.metadata,
            record.commit_timestamp,
            record.expire_timestamp,
            record.topic_id,
        )
        if record.producer_id < 0:
            self._committed.setdefault(record.group_id, {})[record.partition] = entry
            return
        producer = self._producers.get(record.producer_id)
        if producer is None:
            producer = self._producers[record.producer_id] = GroupProducer(record.producer_epoch)
        producer.producer_epoch = record.producer_epoch
        producer.is_open = True
        start_offset = at if producer.opened is None else producer.opened.start_offset
        producer.opened = SeenTransaction(start_offset, at)
        producer.last_timestamp = record.commit_timestamp
        groups = self._pending.setdefault(record.producer_id, {})
        groups.setdefault(record.group_id, {})[record.partition] = entry
        partitions = self._open.setdefault(record.group_id, {})
        partitions.setdefault(record.partition, {})[record.producer_id] = None

    def removed(self, record: OffsetTombstone) -> None:
        """Remove the group's offset of this partition, committed and pending."""
        group_id, partition = record.group_id, record.partition
        _drop(self._committed, group_id, partition)
        for producer_id in self._open.get(group_id, {}).get(partition, {}):
            groups = self._pending[producer_id]
            _drop(groups, group_id, partition)
            if not groups:
                del self._pending[producer_id]
        _drop(self._open, group_id, partition)

    def ended(self, at: Offset, record: TransactionEnded) -> tuple[str, ...]:
        """Apply a transaction marker: a commit makes the producer's pending offsets the groups', an abort drops them.

        Returns the groups that had such offsets.
        """
        producer = self._producers.get(record.producer_id)
        if producer is None:
            producer = self._producers[record.producer_id] = GroupProducer(record.producer_epoch)
        producer.producer_epoch = record.producer_epoch
        producer.coordinator_epoch = record.coordinator_epoch
        producer.is_open = False
        producer.opened = None
        producer.last_marker = at
        producer.last_timestamp = record.timestamp
        groups = self._pending.pop(record.producer_id, {})
        for group_id, offsets in groups.items():
            for partition, entry in offsets.items():
                self._close(group_id, partition, record.producer_id)
                if record.is_commit:
                    known = self._committed.setdefault(group_id, {}).get(partition)
                    if known is None or known.record_offset < entry.record_offset:
                        self._committed[group_id][partition] = entry
        return tuple(groups)

    def _close(self, group_id: str, partition: Partition, producer_id: ProducerId) -> None:
        producers = self._open[group_id][partition]
        del producers[producer_id]
        if not producers:
            _drop(self._open, group_id, partition)

    def forget(self, producer_ids: tuple[ProducerId, ...]) -> None:
        for producer_id in producer_ids:
            del self._producers[producer_id]


def _drop(groups: dict[str, dict[Partition, ValueT]], group_id: str, partition: Partition) -> None:
    offsets = groups.get(group_id)
    if offsets is not None and offsets.pop(partition, None) is not None and not offsets:
        del groups[group_id]
