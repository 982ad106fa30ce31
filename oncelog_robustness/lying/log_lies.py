"""Bugs that the proxy plants in what a log has: a written batch is lost, doubled, moved, or shown too
early."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from oncelog.protocol import versions
from oncelog_robustness.lying.batches import (
    Batch,
    batches_of,
    changed,
    emptied,
    is_abort_marker,
    moved,
    without_producer,
)
from oncelog_robustness.lying.exchange import Exchange, Own
from oncelog_robustness.lying.lie import Lie, Spot

READ_COMMITTED: Final = 1
READ_UNCOMMITTED: Final = 0


def with_partitions(response: Any, change: Callable[[str, Any], Any]) -> Any:
    """Return a Fetch response with each partition replaced; `change` receives the topic's name and the partition."""
    topics = tuple(
        replace(topic, partitions=tuple(change(topic.topic, one) for one in topic.partitions))
        for topic in response.responses
    )
    return replace(response, responses=topics)


def partitions_of(response: Any) -> Iterator[tuple[str, Any]]:
    for topic in response.responses:
        for one in topic.partitions:
            yield topic.topic, one


class DropBatch(Lie):
    """A lie that drops a batch for all readers: it is gone from the log, and its offsets stay."""

    name = "drop-batch"
    says = "a batch that was acknowledged is not in the log"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._dropped: dict[Spot, None] = {}

    def forged_response(self, exchange: Exchange, response: Any) -> Any:
        if exchange.api_key == versions.PRODUCE:
            for topic in response.responses:
                for one in topic.partition_responses:
                    if int(one.error_code) == 0 and self.moments.strikes():
                        spot = Spot(topic.name, one.index, one.base_offset)
                        self._dropped[spot] = None
                        self.told.append(f"dropped {spot}")
        elif exchange.api_key == versions.FETCH and self._dropped:
            return with_partitions(response, self._without)
        return response

    def _without(self, topic: str, partition: Any) -> Any:
        def change(batch: Batch) -> bytes:
            spot = Spot(topic, partition.partition_index, batch.header.base_offset)
            return emptied(batch) if spot in self._dropped else batch.content

        return replace(partition, records=changed(partition.records, change))


class RepeatBatch(Lie):
    name = "repeat-batch"
    says = "a batch is appended a second time"

    def asked(self, exchange: Exchange) -> None:
        if exchange.api_key != versions.PRODUCE or not self.moments.strikes():
            return
        request = exchange.request
        topic = request.topic_data[0]
        partition = topic.partition_data[0]
        again = replace(partition, records=without_producer(partition.records))
        copy = replace(
            request,
            transactional_id=None,
            topic_data=(replace(topic, partition_data=(again,)),),
        )
        exchange.after.append(Own(versions.PRODUCE, exchange.version, copy))
        self.told.append(f"repeated a batch of {topic.name}-{partition.index}")


class ShowAborted(Lie):
    """A lie that shows the records of an aborted transaction. It leaves the transaction out of the aborted
    ones in a Fetch response, and does so every time from then on."""

    name = "show-aborted"
    says = "records of an aborted transaction are shown at read_committed"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._is_shown: dict[tuple[str, int, int, int], bool] = {}

    def forged_response(self, exchange: Exchange, response: Any) -> Any:
        if exchange.api_key != versions.FETCH:
            return response
        return with_partitions(response, self._with_less)

    def _with_less(self, topic: str, partition: Any) -> Any:
        kept = []
        for one in partition.aborted_transactions or ():
            key = (topic, partition.partition_index, one.producer_id, one.first_offset)
            if key not in self._is_shown:
                self._is_shown[key] = self.moments.strikes()
                if self._is_shown[key]:
                    self.told.append(f"shows what {key[2]} aborted in {key[0]}-{key[1]}@{key[3]}")
            if not self._is_shown[key]:
                kept.append(one)
        if partition.aborted_transactions is None:
            return partition
        return replace(partition, aborted_transactions=tuple(kept))


class ReorderBatches(Lie):
    """A lie that swaps two batches of one producer and one size, so that every other offset stays as it was."""

    name = "reorder-batches"
    says = "two batches of a producer stand in the log in the wrong order"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._instead: dict[Spot, bytes] = {}

    def forged_response(self, exchange: Exchange, response: Any) -> Any:
        if exchange.api_key != versions.FETCH:
            return response
        return with_partitions(response, self._with_pairs_swapped)

    def _with_pairs_swapped(self, topic: str, partition: Any) -> Any:
        index = partition.partition_index
        before: Batch | None = None
        for batch in batches_of(partition.records):
            spots = [
                Spot(topic, index, one.header.base_offset)
                for one in (before, batch)
                if one is not None
            ]
            is_known = any(spot in self._instead for spot in spots)
            may_swap = before is not None and not is_known and _may_be_swapped(before, batch)
            if before is not None and may_swap and self.moments.strikes():
                self._instead[spots[0]] = moved(batch, before.header.base_offset)
                self._instead[spots[1]] = moved(before, batch.header.base_offset)
                self.told.append(f"swapped {spots[0]} and {spots[1]}")
            before = batch

        def change(batch: Batch) -> bytes:
            return self._instead.get(Spot(topic, index, batch.header.base_offset), batch.content)

        return replace(partition, records=changed(partition.records, change))


def _may_be_swapped(one: Batch, other: Batch) -> bool:
    return (
        one.is_data
        and other.is_data
        and one.header.producer_id == other.header.producer_id >= 0
        and one.header.is_transactional == other.header.is_transactional
        and one.header.last_offset_delta == other.header.last_offset_delta
        and one.header.next_offset == other.header.base_offset
    )


class StableOffsetTooFar(Lie):
    """A lie that shows read_committed readers what lies beyond the last stable offset. It asks the broker for
    everything, and finds the aborted transactions by their markers."""

    name = "lso-too-far"
    says = "the last stable offset is the high watermark: records of open transactions are shown at read_committed"

    def asked(self, exchange: Exchange) -> None:
        request = exchange.request
        if exchange.api_key != versions.FETCH or request.isolation_level != READ_COMMITTED:
            return
        if self.moments.strikes() and not self.told:
            self.told.append("reads past the last stable offset from now on")
        if self.moments.has_come:
            exchange.request = replace(request, isolation_level=READ_UNCOMMITTED)
            exchange.note = self.name

    def forged_response(self, exchange: Exchange, response: Any) -> Any:
        if exchange.note != self.name:
            return response

        def change(topic: str, partition: Any) -> Any:
            found = tuple(
                exchange.types.AbortedTransaction(producer_id=producer_id, first_offset=offset)
                for producer_id, offset in _aborted_in(partition.records)
            )
            return replace(
                partition,
                last_stable_offset=partition.high_watermark,
                aborted_transactions=found,
            )

        return with_partitions(response, change)


def _aborted_in(records: Any) -> Iterator[tuple[int, int]]:
    """Yield the producer id and the first offset of each transaction whose abort marker is in the records."""
    opened: dict[int, int] = {}
    for batch in batches_of(records):
        header = batch.header
        if not header.is_control:
            if header.is_transactional:
                opened.setdefault(header.producer_id, header.base_offset)
            continue
        first = opened.pop(header.producer_id, header.base_offset)
        if is_abort_marker(batch):
            yield header.producer_id, first
