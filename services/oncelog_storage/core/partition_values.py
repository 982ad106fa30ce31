"""The arguments and results of `PartitionReplica`'s methods, as tuples."""

from typing import NamedTuple

from oncelog.ids import SeenTransaction
from oncelog.record.control import Marker, MarkerType, encode_marker


class Leadership(NamedTuple):
    """The leader of a partition and its leader epoch, as the metadata image says. `is_here` is True if this node is the
    leader.
    """

    leader: int
    leader_epoch: int
    is_here: bool
    isr_count: int
    replica_count: int


class Appended(NamedTuple):
    """The place of an appended batch in the log. `log_append_time` is in ms, or -1 under CreateTime."""

    base_offset: int
    last_offset: int
    log_append_time: int
    is_duplicate: bool = False


class Divergence(NamedTuple):
    """The last leader epoch that leader and follower share, and the offset where it ends at the leader."""

    leader_epoch: int
    end_offset: int


class FollowerPosition(NamedTuple):
    """The position of a follower's log. `last_fetched_leader_epoch` is -1 when the log is empty."""

    fetch_offset: int
    last_fetched_leader_epoch: int
    log_start_offset: int


class PositionTaken(NamedTuple):
    """The result at a leader that has counted a follower's fetch position.

    Either the logs diverge, or the follower's log start and the high watermark may have moved, and it may join the ISR.
    """

    diverging: Divergence | None
    has_log_start_moved: bool = False
    has_high_watermark_moved: bool = False
    may_join: bool = False
    """True if the follower has all that a member of the ISR must have."""


class MarkerRequest(NamedTuple):
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int
    transaction_start_ms: int = 0
    """The time when the transaction began, in ms; 0: unknown."""
    transactional_id: str = ""
    """The transactional.id of a TV1 transaction, if oncelog's own marker sender sent the marker."""
    seen: SeenTransaction | None = None
    """The open transaction that an operator saw. None: the marker ends any open transaction of the producer."""


class MarkerToWrite(NamedTuple):
    """A transaction marker, with its encoded control batch, that is to be written into a partition's log."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    batch: bytearray


def marker_to_write(request: MarkerRequest, now: int) -> MarkerToWrite:
    marker = Marker(
        MarkerType.COMMIT if request.is_commit else MarkerType.ABORT, request.coordinator_epoch
    )
    batch = encode_marker(
        marker,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        timestamp=now,
    )
    return MarkerToWrite(
        request.producer_id,
        request.producer_epoch,
        request.coordinator_epoch,
        request.is_commit,
        batch,
    )
