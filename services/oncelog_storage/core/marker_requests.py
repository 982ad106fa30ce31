"""A request of markers at a leader's node: grouped by partition, whose coordinators are asked, and what is answered.

Markers of one partition are written together, whatever their order in the request; `markers` decides which.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, Offset, SeenTransaction
from oncelog.ids import Partition as PartitionName
from oncelog_storage.core.markers import StartQuestion, needs_its_start
from oncelog_storage.core.messages import Leaders, MarkerAnswer, MarkerResult, Messages, TxnMarker
from oncelog_storage.core.partition import Partition
from oncelog_storage.core.partition_values import MarkerRequest


class Asked(NamedTuple):
    """A marker for one partition, and where its answer goes."""

    wanted: MarkerRequest
    answer: MarkerAnswer


def by_partition(
    markers: Sequence[TxnMarker], results: Messages[MarkerResult], *, is_verification_on: bool
) -> dict[PartitionName, list[Asked]]:
    """While nothing is verified a leader does not know when a transaction began, and whose marker it is does not
    count."""
    groups: dict[PartitionName, list[Asked]] = {}
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
            partition = PartitionName(each.topic, each.partition)
            groups.setdefault(partition, []).append(Asked(wanted, answer))
    return groups


def seen_by(marker: TxnMarker) -> SeenTransaction | None:
    """What the operator saw who sent it; None: it is no operator's, or of an older gateway."""
    if not marker.HasField("seen"):
        return None
    return SeenTransaction(Offset(marker.seen.start_offset), Offset(marker.seen.last_offset))


class StartQuestions:
    """Asked of coordinators, once for each transaction. What nobody answers stays unknown; its marker is refused."""

    def __init__(
        self, groups: dict[PartitionName, list[Asked]], leaders: Leaders[Partition]
    ) -> None:
        self._by_transaction: dict[tuple[str, int], list[StartQuestion]] = {}
        for partition, group in groups.items():
            try:
                leader = leaders.get(*partition)
            except KafkaError:
                continue
            for wanted, _ in group:
                if needs_its_start(leader, wanted):
                    key = (wanted.transactional_id, wanted.producer_id)
                    questions = self._by_transaction.setdefault(key, [])
                    questions.append(StartQuestion.about(leader, wanted))

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """(transactional id, producer id) of each."""
        return iter(self._by_transaction)

    def __len__(self) -> int:
        return len(self._by_transaction)

    def learn(self, starts: Sequence[int | None], now: int) -> None:
        """In their order; None: nobody answered."""
        for start_ms, questions in zip(starts, self._by_transaction.values(), strict=True):
            for question in questions:
                question.learn(start_ms, now)


def require_own_marker(partition: PartitionName) -> None:
    """Raises KafkaError: written here, the shard's coordinator would not know of it (ADR 0015)."""
    if partition.topic == CONSUMER_OFFSETS_TOPIC:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"markers for {partition} go to the coordinator of that group shard",
        )


def awaited_offset(leader: Partition, codes: Sequence[ErrorCode]) -> int | None:
    """The last offset of what was just written, where it is not committed yet. None: there is nothing to wait for."""
    last_offset = leader.state.log_end_offset - 1
    is_awaited = leader.high_watermark <= last_offset and ErrorCode.NONE in codes
    return last_offset if is_awaited else None
