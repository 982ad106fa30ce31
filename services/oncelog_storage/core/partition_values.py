"""What a partition is told and what it answers with."""

from typing import NamedTuple

from oncelog.ids import SeenTransaction
from oncelog.record.control import Marker, MarkerType, encode_marker


class Leadership(NamedTuple):
    """What the metadata image says of this partition."""

    leader: int
    leader_epoch: int
    is_here: bool
    isr_count: int
    replica_count: int


class Appended(NamedTuple):
    """Where a batch stands. `log_append_time` is -1 under CreateTime."""

    base_offset: int
    last_offset: int
    log_append_time: int
    is_duplicate: bool = False


class Divergence(NamedTuple):
    """The last leader epoch that leader and follower share, and where it ends at the leader."""

    leader_epoch: int
    end_offset: int


class FollowerPosition(NamedTuple):
    """What a follower says of its log. `last_fetched_leader_epoch` is -1 when it holds nothing."""

    fetch_offset: int
    last_fetched_leader_epoch: int
    log_start_offset: int


class PositionTaken(NamedTuple):
    """What a follower's position changed at the leader."""

    diverging: Divergence | None
    has_log_start_moved: bool = False
    has_high_watermark_moved: bool = False
    may_join: bool = False
    """It has what a member of the ISR must have."""


class MarkerRequest(NamedTuple):
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int
    transaction_start_ms: int = 0
    """0: unknown."""
    transactional_id: str = ""
    """Of a TV1 transaction, told by our own marker sender."""
    seen: SeenTransaction | None = None
    """By an operator. None: the marker ends whatever is open."""


class MarkerToWrite(NamedTuple):
    """A transaction's end to be written into this partition."""

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
