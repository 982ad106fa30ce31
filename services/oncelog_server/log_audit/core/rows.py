"""The rows that go between Spark and the walks. All numbers are 64-bit integers, and -1 means none."""

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """The kinds of events that a walk yields: what it found. Each says what the other fields of the event mean."""

    LOG = "log"
    """A replica's log was read: from `offset` to `end_offset`, in `total` batches."""
    TRANSACTION = "transaction"
    """A transaction has ended. Its first record is at `offset`, its marker at `end_offset`. `total` counts its batches;
    `outcome` is the marker's type.
    """
    STANDSTILL = "standstill"
    """The last stable offset stood at `offset` until the log's end was `end_offset`, because of this producer."""
    OPEN = "open-transaction"
    """Records without a marker: `offset` and `end_offset` are its first and its last one."""
    HANGING = "hanging-transaction"
    """One of those that no coordinator is going to end."""
    EMPTY_MARKER = "marker-without-records"
    HOLE = "hole"
    """The offsets from `offset` up to `end_offset` are not there."""
    OVERLAP = "overlap"
    """Behind offset `offset` - 1 the log goes on at `end_offset`, which was there before."""
    DAMAGED = "damaged"
    """`total` batches from `offset` on fail their checksum."""
    UNREADABLE = "unreadable"
    """`total` bytes behind offset `offset` - 1 are no batches."""
    TORN_END = "torn-end"
    """The same behind the last sound batch: a crash or a writer that runs leaves it, and a start cuts it off."""
    SEQUENCE_GAP = "sequence-gap"
    """The producer's batch at `offset` has `sequence`; `expected` is missing."""
    DUPLICATE = "duplicate"
    """The producer's batch at `offset` has a sequence that was there before; `expected` was due."""
    EPOCH_WENT_BACK = "producer-epoch-went-back"
    """The batch at `offset` is of an older epoch than `expected`, which wrote before it."""


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
"""The kinds of events that no healthy log has. The other findings are there to be known."""


class BatchRow(NamedTuple):
    """One batch of one replica's log as its header describes it, or a stretch of bytes that are no batch."""

    replica: str
    topic: str
    partition: int
    segment: int
    """With `position` the place in the log: the order of files, which damage to offsets does not change."""
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
    """`commit`, `abort`, or empty."""
    time_ms: int
    """The largest timestamp of its records, as their clients or the leader set it."""
    is_sound: bool
    """False: it fails its checksum."""
    unreadable_bytes: int
    """Above 0: the row stands for so many bytes, and has no other facts."""


class LogFacts(NamedTuple):
    """The facts about a log that `ProducerWalk` needs to check a producer's batches in it."""

    is_whole: bool
    """Nothing was ever taken out of it."""
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
    """`commit` or `abort`; `open` while it stands still. Of a log: `whole` if nothing was ever taken out of it."""


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
