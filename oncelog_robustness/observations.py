"""Observations inside a cluster: the state of replicas, shards and decisions, for checkers of invariants.

The simulator observes all of this at every step; outside it is read from the metadata, the
logs and the REST interface.
"""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """The state of one replica of one partition at one moment."""

    at_ms: int
    node_id: int
    node_incarnation: int
    topic: str
    partition: int
    is_leader: bool
    leader_epoch: int
    start_offset: int
    high_watermark: int
    last_stable_offset: int | None
    """The LSO of a leader; None for a follower, which has none."""
    end_offset: int
    topic_id: str = ""
    """The topic's id, which tells the topic from a deleted one of the same name; empty if the
    observer does not know it."""
    start_over_count: int = 0
    """The number of times that this replica was emptied since its process began: it was damaged, or
    below the leader's log start."""


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """One batch in the log of one replica."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_transactional: bool
    is_control: bool
    marker: str
    """The type of marker, `commit` or `abort`; empty for any other batch."""
    coordinator_epoch: int
    """The coordinator epoch of a marker; -1 for any other batch."""
    checksum: int
    """A checksum of the batch's bytes without the leader epoch, so that it is the same in every replica."""
    is_sound: bool = True
    """False if the batch fails its own CRC, so that no other field of it can be relied on."""


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """The whole log of one replica, read after the run healed, or behind a power cut before the node starts again."""

    node_id: int
    topic: str
    partition: int
    start_offset: int
    high_watermark: int
    batches: tuple[BatchSeen, ...]
    is_compacted: bool = False
    topic_id: str = ""
    at_ms: int = 0
    is_part: bool = False
    """True if only the last batches were kept: they tell where the log ended, not what was in it."""
    whole_until: int | None = None
    """The offset of the first hole or damaged batch in the whole log, or else of its end; None for a whole log."""

    @property
    def end_offset(self) -> int:
        return max(self.start_offset, self.batches[-1].last_offset + 1 if self.batches else 0)

    def end_alone(self) -> "ReplicaLog":
        """Return the part of the log that tells where it ended, and up to where it was whole."""
        whole_until = self.start_offset
        for batch in self.batches:
            if batch.base_offset > whole_until or not batch.is_sound:
                break
            whole_until = batch.last_offset + 1
        return replace(self, batches=self.batches[-1:], is_part=True, whole_until=whole_until)


@dataclass(frozen=True, slots=True)
class ShardOwned:
    """A coordinator made a shard active: loaded, and answering requests."""

    at_ms: int
    node_id: int
    node_incarnation: int
    topic: str
    shard: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class StateRecorded:
    """A transaction record, read back from a shard's log after healing, in log order.

    A tombstone has the state `Dead`, the producer id -1 and the epoch -1.
    """

    shard: int
    offset: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: tuple[tuple[str, int], ...]
    next_owner: tuple[int, int] | None = None
    """The producer id and epoch of the new producer for which the transaction was kept
    (KIP-939); None if it was not."""


@dataclass(frozen=True, slots=True)
class ProducerIdsGiven:
    """A block of producer ids that a controller returned."""

    at_ms: int
    controller_id: int
    first_producer_id: int
    count: int


@dataclass(frozen=True, slots=True)
class MetadataWritten:
    """An append of a controller to the metadata journal, as its success was reported to the controller."""

    at_ms: int
    controller_id: int
    controller_epoch: int
    first_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Synced:
    """A replica that syncs every append reported the records below `end_offset` as written, and they were committed.

    Neither a power cut nor a truncation may take them back.
    """

    at_ms: int
    node_id: int
    topic: str
    partition: int
    end_offset: int


@dataclass(slots=True)
class Observations:
    replicas: list[ReplicaState] = field(default_factory=list)
    logs: list[ReplicaLog] = field(default_factory=list)
    shards: list[ShardOwned] = field(default_factory=list)
    states: list[StateRecorded] = field(default_factory=list)
    blocks: list[ProducerIdsGiven] = field(default_factory=list)
    metadata: list[MetadataWritten] = field(default_factory=list)
    synced: list[Synced] = field(default_factory=list)
    is_healed: bool = False
    """True if the run was healed and given its time; a transaction that is still open then is stuck."""
