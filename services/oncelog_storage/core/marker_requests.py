"""A WriteTxnMarkers request at a leader's node: its markers by partition, what coordinators must be asked, the answers.

Markers of one partition are written together, whatever their order in the request; `markers` decides which.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, Offset, Partition, SeenTransaction
from oncelog_storage.core.markers import StartQuestion, needs_its_start
from oncelog_storage.core.messages import (
    LedPartitions,
    MarkerAnswer,
    MarkerResult,
    Messages,
    TxnMarker,
)
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import MarkerRequest


class Asked(NamedTuple):
    """A marker that a request has for one partition, and the message that takes its result."""

    wanted: MarkerRequest
    answer: MarkerAnswer


def by_partition(
    markers: Sequence[TxnMarker], results: Messages[MarkerResult], *, is_verification_on: bool
) -> dict[Partition, list[Asked]]:
    """Return the markers of a request by partition, each with its result message, which is added to `results`.

    Without verification a leader does not know when a transaction began. Then the transactional.id of a marker is left
    out, so that no coordinator is asked.
    """
    groups: dict[Partition, list[Asked]] = {}
    for marker in markers:
        result = results.add(producer_id=marker.producer_id)
        wanted = MarkerRequest(
            marker.producer_id,
            marker.producer_epoch,
            marker.commit,
            marker.coordinator_epoch,
            marker.transaction_version,
            marker.transaction_start_ms,
            marker.transactional_id if is_verification_on else "",
            seen_by(marker),
        )
        for each in marker.partitions:
            answer = result.partitions.add(topic=each.topic, partition=each.partition)
            partition = Partition(each.topic, each.partition)
            groups.setdefault(partition, []).append(Asked(wanted, answer))
    return groups


def seen_by(marker: TxnMarker) -> SeenTransaction | None:
    """Return the open transaction that an operator saw before sending this marker.

    None: no operator sent the marker, or an older gateway did.
    """
    if not marker.HasField("seen"):
        return None
    return SeenTransaction(Offset(marker.seen.start_offset), Offset(marker.seen.last_offset))


class StartQuestions:
    """The transactions of a request whose start times the coordinators must be asked for, each once.

    A start that no coordinator tells stays unknown, and the marker is refused.
    """

    def __init__(
        self, groups: dict[Partition, list[Asked]], replica_manager: LedPartitions[PartitionReplica]
    ) -> None:
        self._by_transaction: dict[tuple[str, int], list[StartQuestion]] = {}
        for partition, group in groups.items():
            try:
                led = replica_manager.led(*partition)
            except KafkaError:
                continue
            for wanted, _ in group:
                if needs_its_start(led, wanted):
                    key = (wanted.transactional_id, wanted.producer_id)
                    questions = self._by_transaction.setdefault(key, [])
                    questions.append(StartQuestion.about(led, wanted))

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield (transactional.id, producer id) of each transaction whose coordinator must be asked for its start."""
        return iter(self._by_transaction)

    def __len__(self) -> int:
        return len(self._by_transaction)

    def learn(self, starts: Sequence[int | None], now: int) -> None:
        """Store the coordinators' answers, in the order of the questions. None: no coordinator answered. Times are in
        ms.
        """
        for start_ms, questions in zip(starts, self._by_transaction.values(), strict=True):
            for question in questions:
                question.learn(start_ms, now)


def require_own_marker(partition: Partition) -> None:
    """Raise KafkaError for a partition of `__consumer_offsets`, for which this leader may not write markers by itself.

    The group's coordinator must write them, or would not know of them (ADR 0015).
    """
    if partition.topic == CONSUMER_OFFSETS_TOPIC:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"markers for {partition} go to the coordinator of that group shard",
        )


def awaited_offset(led: PartitionReplica, codes: Sequence[ErrorCode]) -> int | None:
    """Return the offset whose commit the response must wait for: the last marker's. None: there is nothing to wait
    for.
    """
    last_offset = led.log.log_end_offset - 1
    is_awaited = led.high_watermark <= last_offset and ErrorCode.NONE in codes
    return last_offset if is_awaited else None
