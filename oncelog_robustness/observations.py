"""What an observer inside a cluster saw: the state of replicas, shards and decisions, for checkers of invariants.

The simulator observes all of it at every step; outside it is read from the metadata, the logs and the REST interface.
"""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One replica of one partition at one moment."""

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
    """Only a leader has one."""
    end_offset: int
    topic_id: str = ""
    """Tells a topic from a deleted one of the same name; empty where the observer does not know it."""
    start_over_count: int = 0
    """How often this replica was emptied since its process began: damaged, or overtaken by the leader's log start."""


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """A batch in the log of one replica."""

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
    """`commit`, `abort`, or empty."""
    coordinator_epoch: int
    """Of a marker, else -1."""
    checksum: int
    """Over the bytes as they stand there, without the leader epoch: the same in every replica."""
    is_sound: bool = True
    """False: its own CRC says that it is damaged, so that nothing else in it can be relied on."""


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
    """Only its last batches were kept: it tells where the log ended, not what was in it."""
    whole_until: int | None = None
    """Of a part: where the first hole or damaged batch of the whole was, or its end."""

    @property
    def end_offset(self) -> int:
        return max(self.start_offset, self.batches[-1].last_offset + 1 if self.batches else 0)

    def end_alone(self) -> "ReplicaLog":
        """The part of it that tells where it ended, and up to where it was whole."""
        whole_until = self.start_offset
        for batch in self.batches:
            if batch.base_offset > whole_until or not batch.is_sound:
                break
            whole_until = batch.last_offset + 1
        return replace(self, batches=self.batches[-1:], is_part=True, whole_until=whole_until)


@dataclass(frozen=True, slots=True)
class ShardOwned:
    """A coordinator made a shard active: loaded, and answering."""

    at_ms: int
    node_id: int
    node_incarnation: int
    topic: str
    shard: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class StateRecorded:
    """One transaction record, read back from a shard's log after healing, in log order.

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
    """Of a transaction that was kept for a new producer: that one's id and epoch (KIP-939)."""


@dataclass(frozen=True, slots=True)
class ProducerIdsGiven:
    """A block that a controller answered with."""

    at_ms: int
    controller_id: int
    first_producer_id: int
    count: int


@dataclass(frozen=True, slots=True)
class MetadataWritten:
    """What a controller appended to the metadata journal, as it was told of it."""

    at_ms: int
    controller_id: int
    controller_epoch: int
    first_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Synced:
    """With fsync on every append, this replica told of all below as written, and it was committed.

    A power cut may not take it back, nor may a truncation.
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
    """The run was healed and given its time; what is still open then is stuck."""
