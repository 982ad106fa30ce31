"""The events of a partition leader for the live feed (docs/events.md).

A transaction begins to write, a batch is refused, or a marker is written.
"""

import time
from typing import Final

from oncelog.errors import ErrorCode, error_code_of
from oncelog.ids import Partition
from oncelog.record.batch import BatchHeader
from oncelog.telemetry.feed import Feed
from oncelog_storage.core.partition_values import MarkerRequest
from oncelog_storage.hosted_partition import HostedPartition

REFUSAL_PAUSE_S: Final = 1.0
REFUSALS_MAX: Final = 10_000

_OF_PRODUCERS: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""The refusals that become events: those that say something of the producer, and a partition that takes no writes."""


class StorageEvents:
    """The events of this node's partition leaders.

    The same refusal of the same producer is published once a second, with the count of those before it.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._refused: dict[tuple[Partition, int, int], tuple[float, int]] = {}

    def appended(
        self, transactional_id: str, led: HostedPartition, header: BatchHeader, base_offset: int
    ) -> None:
        """Publish a transactional batch that opens a transaction in its partition. Other batches are no events."""
        entry = led.log.producers.get(header.producer_id)
        if entry is None or entry.current_txn_first_offset != base_offset:
            return
        self._feed.publish(
            "opened",
            transactional_id=transactional_id,
            topic=led.partition.topic,
            partition=led.partition.partition,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            offset=base_offset,
        )

    def refused(
        self,
        transactional_id: str,
        client: tuple[str, str],
        partition: Partition,
        header: BatchHeader,
        error_code: int,
    ) -> None:
        """Publish the refusal of a batch with a producer id."""
        if error_code not in _OF_PRODUCERS or header.producer_id < 0:
            return
        key = (partition, header.producer_id, error_code)
        now = time.monotonic()
        published_at, count = self._refused.pop(key, (-REFUSAL_PAUSE_S, 0))
        if now - published_at < REFUSAL_PAUSE_S:
            self._refused[key] = (published_at, count + 1)
            return
        self._refused[key] = (now, 0)
        if len(self._refused) > REFUSALS_MAX:
            del self._refused[next(iter(self._refused))]
        name = {"transactional_id": transactional_id} if transactional_id else {}
        self._feed.publish(
            "refused",
            **name,
            request="Produce",
            error=error_code_of(error_code).name,
            count=count + 1,
            topic=partition.topic,
            partition=partition.partition,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            client_id=client[0],
            client_host=client[1],
        )

    def marker(
        self,
        partition: Partition,
        wanted: MarkerRequest,
        error_code: int,
        offset: int,
        last_stable_offset: int,
    ) -> None:
        """Publish a marker. `offset` is the marker's, or that of the last marker in the same write."""
        self._feed.publish(
            "marker",
            topic=partition.topic,
            partition=partition.partition,
            producer_id=wanted.producer_id,
            producer_epoch=wanted.producer_epoch,
            outcome="commit" if wanted.is_commit else "abort",
            coordinator_epoch=wanted.coordinator_epoch,
            error_code=error_code,
            offset=offset,
            last_stable_offset=last_stable_offset,
        )
