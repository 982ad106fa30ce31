"""The decision which markers of ended transactions a leader writes (docs/kafka-facts.md, 3, 9).

Under TV1 a marker may belong to another transaction than the one that is open (`verification`). After an election or a
restart the leader may not know when the open one began. Then its coordinator is asked first.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from oncelog.errors import ErrorCode
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import MarkerRequest, MarkerToWrite, marker_to_write
from oncelog_storage.core.verification import KnownStart, Verifications

TV2: Final = 2


def is_late(partition: PartitionReplica, request: MarkerRequest) -> bool | None:
    """True if the marker belongs to another transaction than the open one. None: this leader does not know.

    A marker of TV2 is never late: its epoch says to which transaction it belongs.
    """
    if request.transaction_version >= TV2:
        return False
    return partition.verifications.is_late_marker(
        request.producer_id,
        request.transaction_start_ms,
        partition.log.producers.has_any_ongoing_transaction(request.producer_id),
    )


def needs_its_start(partition: PartitionReplica, request: MarkerRequest) -> bool:
    """True if the coordinator must be asked for the start time of the producer's transaction, before this marker is
    written or refused.

    It is asked also about a marker that looks late, which means of an earlier transaction. This node may have lost the
    leadership without knowing. The open transaction may have ended elsewhere, and a marker that is called late here may
    be lost.
    """
    return bool(request.transactional_id) and is_late(partition, request) is not False


class StartQuestion(NamedTuple):
    """A question to the coordinator: when did the transaction of one marker begin?

    `known` is the start that this leader knew when it asked. The answer is stored in `verifications`, those of the
    leadership that asked. If this node loses the leadership and gets it back meanwhile, its new leadership has others,
    and ignores the answer: another leader may have let the next transaction in.
    """

    verifications: Verifications
    wanted: MarkerRequest
    known: KnownStart | None

    @classmethod
    def about(cls, partition: PartitionReplica, wanted: MarkerRequest) -> "StartQuestion":
        verifications = partition.verifications
        return cls(verifications, wanted, verifications.known_start(wanted.producer_id))

    def learn(self, start_ms: int | None, now: int) -> None:
        """Store the coordinator's answer with the partition's verifications. `start_ms` None: no coordinator
        answered.
        """
        producer_id = self.wanted.producer_id
        if self.known is not None and start_ms in (None, self.wanted.transaction_start_ms):
            self.verifications.forget_start(producer_id, self.known)
        if start_ms is not None:
            self.verifications.learn_start(producer_id, start_ms, now)


def check_marker(partition: PartitionReplica, request: MarkerRequest) -> ErrorCode | None:
    """Return the code NONE if the transaction marker is to be written, or the error code with which its sender is
    answered.

    None instead of a code: the marker is late, that is, its transaction has ended already. Nothing is written, and the
    sender is told that all is well. REQUEST_TIMED_OUT: this leader does not know yet whether the marker is late, so the
    sender must send it again.
    """
    producers = partition.log.producers
    if request.seen is not None and not producers.is_as_seen(request.producer_id, request.seen):
        return ErrorCode.INVALID_TXN_STATE
    late = is_late(partition, request)
    if late:
        return None
    # A marker of Kafka's own API names no transactional.id, and is written as Kafka writes it.
    if late is None and request.transactional_id:
        return ErrorCode.REQUEST_TIMED_OUT
    return producers.check_marker(
        request.producer_id,
        request.producer_epoch,
        request.coordinator_epoch,
        request.transaction_version,
    )


class MarkerBatch(NamedTuple):
    """Markers to write together, and one error code for each marker request so far."""

    markers: list[MarkerToWrite]
    codes: list[ErrorCode]


def marker_batches(
    partition: PartitionReplica, requests: Sequence[MarkerRequest], now: int
) -> Iterator[MarkerBatch]:
    """Yield the markers of these requests in batches. The caller writes each batch before it takes the next.

    The check of a producer's second marker needs the first one applied.
    """
    codes: list[ErrorCode] = []
    markers: list[MarkerToWrite] = []
    seen: set[int] = set()
    for request in requests:
        if request.producer_id in seen:
            yield MarkerBatch(markers, codes)
            markers, seen = [], set()
        code = check_marker(partition, request)
        codes.append(code or ErrorCode.NONE)
        if code is ErrorCode.NONE:
            seen.add(request.producer_id)
            markers.append(marker_to_write(request, now))
    yield MarkerBatch(markers, codes)
