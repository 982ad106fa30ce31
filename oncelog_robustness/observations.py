"""The observations of a cluster's inside: offsets and logs of replicas, the coordinators that owned shards, recorded
decisions. Checkers of invariants judge them.

The simulator observes all of this at every step. In a run against real processes it is read from the metadata, the
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
    """The number of times that this replica was emptied since its process began, because it was damaged or ended
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
    """The log of one replica, read when the run had healed, or after a power cut before the node started again."""

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
    """Only where `is_part` is true: the offset of the first hole or damaged batch in the log as it was, or else the
    log's end. None: `batches` has the whole log."""

    @property
    def end_offset(self) -> int:
        return max(self.start_offset, self.batches[-1].last_offset + 1 if self.batches else 0)

    def end_alone(self) -> "ReplicaLog":
        """Return this log with its last batch alone, to save memory. `whole_until` of the result says up to where
        the log had no hole and no damage."""
        whole_until = self.start_offset
        for batch in self.batches:
            if batch.base_offset > whole_until or not batch.is_sound:
                break
            whole_until = batch.last_offset + 1
        return replace(self, batches=self.batches[-1:], is_part=True, whole_until=whole_until)


@dataclass(frozen=True, slots=True)
class ShardOwned:
    """One activation: a coordinator has loaded a shard (a partition of `__transaction_state` or
    `__consumer_offsets`) and answers requests for it."""

    at_ms: int
    node_id: int
    node_incarnation: int
    topic: str
    shard: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class StateRecorded:
    """One record of `__transaction_state`: a state of a transactional id, read back from the log after healing.
    They are kept in the order of the log.

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
    """The producer id and epoch of the newest producer that took the transactional id over and kept its open
    transaction (KIP-939, keepPreparedTxn). None: no producer did."""


@dataclass(frozen=True, slots=True)
class ProducerIdsGiven:
    """A block of producer ids that a controller gave away: `count` ids from `first_producer_id` on."""

    at_ms: int
    controller_id: int
    first_producer_id: int
    count: int


@dataclass(frozen=True, slots=True)
class MetadataWritten:
    """One append of a controller to the metadata journal, the log of all metadata changes. It is observed when the
    controller learns that it succeeded."""

    at_ms: int
    controller_id: int
    controller_epoch: int
    first_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Synced:
    """A promise of one replica that syncs every append: it reported the records below `end_offset` as written, and
    they are committed.

    Neither a power cut nor a truncation may take these records back.
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
    """True if all faults have ended and the cluster had time to recover. A transaction that is still open at that
    time is stuck."""
