"""The rows that go between Spark and the walks. All numbers are 64-bit integers, and -1 means none."""

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """The kinds of events that a walk yields: what it found. Each says what the other fields of the event mean."""

    LOG = "log"
    """A replica's log was read, from `offset` to before `end_offset`. `total` counts the batches whose checksum holds.
    """
    TRANSACTION = "transaction"
    """A transaction has ended. Its first record is at `offset`, its marker at `end_offset`. `total` counts its batches;
    `outcome` is the marker's type.
    """
    STANDSTILL = "standstill"
    """The last stable offset stood at `offset` while the log grew to `end_offset`. The open transaction of
    `producer_id` was the cause.
    """
    OPEN = "open-transaction"
    """The log has no marker of this transaction. `offset` and `end_offset` are those of its first and its last record.
    """
    HANGING = "hanging-transaction"
    """An open transaction, with the fields of `OPEN`, that no coordinator is going to end."""
    EMPTY_MARKER = "marker-without-records"
    HOLE = "hole"
    """The log lacks the offsets from `offset` to before `end_offset`."""
    OVERLAP = "overlap"
    """After offset `offset` - 1 comes a batch that begins at `end_offset`, which is smaller: offsets repeat."""
    DAMAGED = "damaged"
    """`total` batches from `offset` on fail their checksum."""
    UNREADABLE = "unreadable"
    """`total` bytes after offset `offset` - 1 are no batches."""
    TORN_END = "torn-end"
    """What follows offset `offset` - 1, the end of the last sound batch, is damaged or not whole. A crash leaves this,
    or a node that is writing now. A node cuts it off when it starts.
    """
    SEQUENCE_GAP = "sequence-gap"
    """The producer's batch at `offset` begins with `sequence`, but `expected` was due: batches are missing."""
    DUPLICATE = "duplicate"
    """The producer's batch at `offset` begins with `sequence`, which was there before; `expected` was due."""
    EPOCH_WENT_BACK = "producer-epoch-went-back"
    """The batch at `offset` has an older producer epoch than `expected`, the epoch of the producer's batch before it.
    """


FAULTS: Final = frozenset(
    {
        Kind.HANGING,
        Kind.HOLE,
        Kind.OVERLAP,
        Kind.DAMAGED,
        Kind.UNREADABLE,
        Kind.SEQUENCE_GAP,
        Kind.DUPLICATE,
        Kind.EPOCH_WENT_BACK,
    }
)
"""The kinds of events that no healthy log has. Events of the other kinds are information."""


class BatchRow(NamedTuple):
    """One batch of one replica's log as its header describes it, or a stretch of bytes that are no batch."""

    replica: str
    topic: str
    partition: int
    segment: int
    """Base offset of the batch's file. With `position` it orders the batches, even where damage has changed their
    offsets.
    """
    position: int
    log_start: int
    is_compacted: bool
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
    """`commit` or `abort` if the batch is a marker, else empty."""
    time_ms: int
    """The largest timestamp of its records, as their clients or the leader set it."""
    is_sound: bool
    """True if the batch's checksum holds."""
    unreadable_bytes: int
    """Above 0: the row stands for so many bytes that are no batch, and its fields from `base_offset` on mean nothing.
    """


class LogFacts(NamedTuple):
    """The facts about a log that `ProducerWalk` needs to check a producer's batches in it."""

    is_whole: bool
    """True if no record was ever removed from the log, as by retention or compaction."""
    first_leader_epoch: int
    damaged: tuple[int, ...]
    """The offsets at which damaged stretches begin, ascending: nobody knows whose batches those were."""


class Event(NamedTuple):
    """Something that a walk found in a log: a fault, a transaction, or a summary. `kind` says what the other fields
    mean.
    """

    replica: str
    topic: str
    partition: int
    kind: str
    offset: int
    end_offset: int
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    expected: int = -1
    from_ms: int = -1
    to_ms: int = -1
    total: int = 0
    outcome: str = ""
    """`commit` or `abort`; `open` for a standstill that lasts. For the kind `log`: `whole` if no record was ever
    removed from the log.
    """


_DDL: Final[dict[object, str]] = {
    str: "string",
    int: "bigint",
    bool: "boolean",
    bytes: "binary",
    list[str]: "array<string>",
}


def ddl(row: type[tuple[object, ...]]) -> str:
    """Return Spark's schema, as DDL text, for rows of a class of named tuples."""
    return ", ".join(f"{name} {_DDL[kind]}" for name, kind in row.__annotations__.items())
