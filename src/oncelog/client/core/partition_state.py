"""The state of one partition that a consumer reads, and the requests that follow from it."""

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from oncelog.client.core.cluster_view import NO_NODE
from oncelog.client.core.consumer_record import Chunk
from oncelog.client.core.log_places import LATEST_TIMESTAMP
from oncelog.client.core.visibility import AbortedTransaction
from oncelog.client.errors import ClientError, TimedOutError
from oncelog.errors import ErrorCode
from oncelog.ids import Partition

NEVER: Final = float("inf")
CHUNKS_MAX: Final = 2
"""The most fetched chunks of a partition: one that the program takes records from, and the next one."""
FETCH_BYTES_MAX: Final = 2**31 - 1
PREFERRED_MS: Final = 300_000
"""Milliseconds for which a nearby replica is read; then the leader is asked again (KIP-392)."""
RESET_BY_DURATION: Final = -10_000
"""A timestamp that stands for the time which the shell computes by its clock."""


class Stage(Enum):
    FIND = "find"
    RESET = "reset"
    VALIDATE = "validate"
    FETCH = "fetch"
    FAILED = "failed"


class Lookup(NamedTuple):
    """A question to a partition's leader (ListOffsets): which offset has this time? `timestamp_ms` may be EARLIEST or
    LATEST. The answer counts only while `version` is the position's."""

    partition: Partition
    timestamp_ms: int
    version: int
    leader_epoch: int


class Validation(NamedTuple):
    """A question to a partition's leader (OffsetForLeaderEpoch): where does the log of the position's epoch end? The
    answer counts only while `version` is the position's."""

    partition: Partition
    offset_epoch: int
    leader_epoch: int
    version: int


class FetchPart(NamedTuple):
    partition: Partition
    offset: int
    leader_epoch: int
    max_bytes: int
    version: int
    topic_id: bytes = b""
    """The topic's id; empty: the cluster has no ids."""


class Fetch(NamedTuple):
    node_id: int
    max_bytes: int
    parts: tuple[FetchPart, ...]


class FetchAnswer(NamedTuple):
    """The part of a leader's Fetch answer that is about one partition."""

    error: ErrorCode
    records: bytes = b""
    aborted: tuple[AbortedTransaction, ...] = ()
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    preferred_replica: int = NO_NODE


class Step(NamedTuple):
    """The requests that the consumer's core wants sent now. Lookups and validations are grouped by the node to ask."""

    fetches: tuple[Fetch, ...]
    finds: tuple[tuple[Partition, int], ...]
    """Partitions whose committed offset is wanted, with their versions."""
    lookups: Mapping[int, list[Lookup]]
    validations: Mapping[int, list[Validation]]
    wants_metadata: bool
    next_ms: float
    has_failed: bool = False
    """True if a partition has an error that the program must be told."""


class PartitionState:
    __slots__ = (
        "attempts",
        "chunks",
        "error",
        "failing",
        "fetch_position",
        "high_watermark",
        "is_asked",
        "is_held",
        "is_id_refused",
        "is_paused",
        "last_stable_offset",
        "log_start_offset",
        "max_bytes",
        "offset_epoch",
        "partition",
        "position",
        "position_epoch",
        "preferred_replica",
        "preferred_until_ms",
        "reset_to",
        "retry_at_ms",
        "stage",
        "topic_id",
        "validated_epoch",
        "version",
    )

    def __init__(self, partition: Partition, stage: Stage, max_bytes: int) -> None:
        self.partition = partition
        self.stage = stage
        self.version = 0
        """A number that grows when the position is moved otherwise than by reading."""
        self.position = -1
        self.position_epoch = -1
        """The leader's epoch of the record before the position, as it is committed; -1: not known."""
        self.fetch_position = -1
        self.offset_epoch = -1
        """The leader's epoch of the record before the fetch position; -1: not known."""
        self.validated_epoch = -1
        """The leader's epoch under which the position is known to be right."""
        self.chunks: deque[Chunk] = deque()
        self.topic_id = b""
        """The id of the topic that the position belongs to; empty: nothing was read from there yet."""
        self.is_id_refused = False
        """True if a leader said that it has no such topic."""
        self.is_asked = False
        """True while a request for the partition is under way: a fetch, or that of its stage."""
        self.is_paused = False
        self.is_held = False
        """True until the program has been told of the assignment. It may ask for the position;
        nothing is fetched yet."""
        self.retry_at_ms = 0.0
        self.attempts = 0
        self.reset_to = LATEST_TIMESTAMP
        self.max_bytes = max_bytes
        self.error: ClientError | None = None
        self.failing = ErrorCode.NONE
        """The error because of which the partition is asked for again and again."""
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.preferred_replica = NO_NODE
        self.preferred_until_ms = 0.0

    def move_to(self, offset: int, offset_epoch: int, stage: Stage) -> None:
        """Set the offset from which the partition is read on. Records fetched so far are dropped, and so are answers to
        requests under way.
        """
        self.version += 1
        self.position = self.fetch_position = offset
        self.offset_epoch = self.position_epoch = offset_epoch
        self.validated_epoch, self.topic_id, self.is_id_refused = -1, b"", False
        self.chunks.clear()
        self.stage, self.is_asked, self.error = stage, False, None
        self.failing = ErrorCode.NONE
        self.retry_at_ms, self.attempts = 0.0, 0

    @property
    def has_room(self) -> bool:
        return len(self.chunks) < CHUNKS_MAX

    def lag(self, position: int, reads_committed: bool) -> int | None:
        """Return the offsets from `position` to where reading ends, by the last fetch answer; None: there was no answer
        yet."""
        end = self.last_stable_offset if reads_committed else self.high_watermark
        return None if min(end, position) < 0 else max(0, end - position)

    def undecided(self, end: int, timeout_s: float | None) -> TimedOutError:
        return TimedOutError(
            f"{self.partition} is not decided up to offset {end} after {timeout_s:g} s: a transaction is open at "
            f"offset {self.last_stable_offset}; Admin.describe_producers() says whose"
        )
