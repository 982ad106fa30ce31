"""The client that sends the markers of a shard's decisions to the marker sender, and reports the outcome to the state
machine.

There is one task per decision, because a delivery ends only when every partition leader has its marker. Repeating the
call is safe: a marker that is already written is harmless (docs/kafka-facts.md, 8.11). When the shard is lost, its
tasks are cancelled. The shard's next owner finds in the log which markers are still to be sent.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from typing import Final, Protocol, cast

from oncelog.api.v1 import marker_sender_pb2 as pb
from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.errors import OncelogError
from oncelog.ids import CoordinatorEpoch, Partition
from oncelog.machine import Send
from oncelog.rpc import plain
from oncelog.rpc.backoff import Backoff
from oncelog.rpc.direct import takes_plain
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog.rpc.owner_calls import answer_of_owner
from oncelog.telemetry import spans
from oncelog_coordinator.core.markers import (
    MARKER_SENDER,
    SINK_MACHINE,
    DecisionKey,
    DeliveryOutcome,
    MarkersDelivered,
    MarkersWanted,
    MarkerWanted,
)
from oncelog_coordinator.core.txn_state import TxnMetadata
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.transaction_traces import trace_of_marker

_log = logging.getLogger(__name__)

_OUTCOMES: Final = {
    pb.DELIVERED: DeliveryOutcome.DELIVERED,
    pb.FENCED: DeliveryOutcome.FENCED,
    pb.CANCELLED: DeliveryOutcome.CANCELLED,
}


DELIVERY_TIMEOUT_S: Final = 3_600.0
"""The most seconds that one call waits for a delivery. A partition may be without a leader for long; asking again
changes nothing."""

CANCEL_TIMEOUT_S: Final = 2.0
"""The most seconds to wait for CancelShard. A node that stops waits for the answer, and a frozen marker sender never
answers."""

DESCRIBE_TIMEOUT_S: Final = 1.0
"""The most seconds to wait for DescribeDeliveries. Without an answer a description names every partition."""

SLOT_HELD_S: Final = 1.0
"""The seconds after which a delivery gives its slot back; any delivery whose partitions are available ends before."""


AT_ONCE_MAX: Final = 100
"""The most partitions of one decision whose markers are written in one step of the event loop."""


class DeliversAtOnce(Protocol):
    """A marker sender in this process, which writes markers without a wait. `takes_plain` recognises it."""

    def DeliverAtOnce(self, request: plain.DeliverMarkersRequest) -> Sequence[bool]: ...  # noqa: N802


class MarkersAtOnce:
    """Gathers the transactions that all shards of this process decide in one turn of the event loop; sends their
    markers together.

    If the marker sender and the leaders are in this process, too, the markers are written without a wait.
    """

    def __init__(self, metadata: MetadataFollower, directory: Directory) -> None:
        self._metadata = metadata
        self._directory = directory
        self._gathered: list[tuple[MarkerClient, MarkersWanted, plain.TxnMarker]] = []

    def takes(self, wanted: MarkersWanted) -> bool:
        if len(wanted.markers) != 1 or not 0 < len(wanted.markers[0].partitions) <= AT_ONCE_MAX:
            return False
        try:
            sender = self._directory.marker_sender()
        except KeyError:
            return False
        return spans.recorder is None and takes_plain(sender, "DeliverAtOnce")

    def gather(
        self, client: "MarkerClient", wanted: MarkersWanted, marker: plain.TxnMarker
    ) -> None:
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._deliver)
        self._gathered.append((client, wanted, marker))

    def _deliver(self) -> None:
        gathered = [one for one in self._gathered if not one[0].is_stopped]
        self._gathered.clear()
        request = plain.DeliverMarkersRequest(
            [marker for _, _, marker in gathered], self._metadata.image.metadata_offset
        )
        try:
            delivered = cast(DeliversAtOnce, self._directory.marker_sender()).DeliverAtOnce(request)
        except Exception:
            # Not swallowed: the decisions are durable and their markers are owed whatever went wrong.
            _log.exception("markers could not be written at once; they go the long way")
            delivered = [False] * len(gathered)
        for (client, wanted, _), is_delivered in zip(gathered, delivered, strict=True):
            try:
                client.tried(wanted, is_delivered=is_delivered)
            except Exception:
                # The failure of one decision is logged, as in a task of its own: the other decisions go on.
                _log.exception("markers of %s", wanted.decision_key.name)


class MarkerClient:
    """Sends the markers of one shard's decided transactions, under one coordinator epoch.

    `slots` bounds the deliveries of the whole process. `with_attempt_trace` adds the trace to markers that end an
    attempt (one try to write a Spark micro-batch).
    """

    def __init__(
        self,
        shard: int,
        coordinator_epoch: CoordinatorEpoch,
        metadata: MetadataFollower,
        directory: Directory,
        settings: CoordinatorSettings,
        slots: asyncio.Semaphore,
        at_once: MarkersAtOnce,
        feed_back: Callable[[MarkersDelivered], None],
        with_attempt_trace: Callable[[MarkersWanted], MarkersWanted] = lambda wanted: wanted,
    ) -> None:
        self._shard = shard
        self._coordinator_epoch = coordinator_epoch
        self._metadata = metadata
        self._directory = directory
        self._settings = settings
        self._slots = slots
        self._at_once = at_once
        self.is_stopped = False
        self._feed_back = feed_back
        self._with_attempt_trace = with_attempt_trace
        self._tasks: set[asyncio.Task[None]] = set()
        self._missing: dict[DecisionKey, tuple[MarkerWanted, ...]] = {}
        """The unwritten markers of decisions whose delivery was refused in part. Only those are sent again."""

    def send(self, effect: Send) -> None:
        """Start the delivery of the markers that the state machine's `Send` effect names. This returns at once."""
        assert effect.destination == MARKER_SENDER, effect
        wanted = effect.message
        assert isinstance(wanted, MarkersWanted), effect
        missing = self._missing.get(wanted.decision_key)
        if missing is not None:
            wanted = replace(wanted, markers=missing)
        if spans.recorder is not None and wanted.decision_key.machine == SINK_MACHINE:
            wanted = self._with_attempt_trace(wanted)
        if self._at_once.takes(wanted):
            self._at_once.gather(self, wanted, self._plain(wanted.markers[0]))
        else:
            self._begin(wanted)

    def tried(self, wanted: MarkersWanted, *, is_delivered: bool) -> None:
        """Tell the state machine that the markers are written. If they could not be written at once, start the ordinary
        delivery.
        """
        if is_delivered:
            self._missing.pop(wanted.decision_key, None)
            self._feed_back(MarkersDelivered(wanted.decision_key, DeliveryOutcome.DELIVERED))
        else:
            self._begin(wanted)

    def _begin(self, wanted: MarkersWanted) -> None:
        task = asyncio.create_task(
            self._deliver(wanted),
            name=f"markers {wanted.decision_key.name}",
            context=spans.detached_context(),
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel the deliveries that are under way."""
        self.is_stopped = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cancel_at_sender(self) -> None:
        """Tell the marker sender that this node no longer owns the shard, so that it stops its deliveries.

        This only saves work: leaders refuse markers of an old coordinator epoch.
        """
        request = pb.CancelShardRequest(
            shard=self._shard, coordinator_epoch=self._coordinator_epoch
        )
        try:
            await self._directory.marker_sender().CancelShard(request, timeout=CANCEL_TIMEOUT_S)
        except Exception as error:
            _log.info("marker sender was not told that shard %d moved: %r", self._shard, error)

    async def _deliver(self, wanted: MarkersWanted) -> None:
        if not any(marker.partitions for marker in wanted.markers):
            self._feed_back(MarkersDelivered(wanted.decision_key, DeliveryOutcome.DELIVERED))
            return
        request, began_ns = self._request(wanted), time.time_ns()
        is_traced = request.markers[0].HasField("trace")
        with _delivery_span(wanted) if is_traced else spans.NOTHING as span:
            outcome = await self._delivered(wanted, request)
            span.set(**{"oncelog.outcome": outcome.outcome.value})
        if not is_traced and trace_of_marker(wanted.markers[0]) is not None:
            # It took so long that the transaction is late now, and is kept.
            _delivery_span(wanted, began_ns).end()
        self._feed_back(outcome)

    async def _delivered(
        self, wanted: MarkersWanted, request: pb.DeliverMarkersRequest
    ) -> MarkersDelivered:
        backoff = Backoff(self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms)
        await self._slots.acquire()
        slot = _Slot(self._slots)
        timer = asyncio.get_running_loop().call_later(SLOT_HELD_S, slot.give_back)
        try:
            while True:
                try:
                    response = await self._ask(request)
                    if response.outcome != pb.OVERLOADED:
                        break
                    await backoff.pause()
                except Exception as error:
                    _log.info("markers of %s: %s; trying again", wanted.decision_key.name, error)
                    await backoff.pause()
        finally:
            timer.cancel()
            slot.give_back()
        self._note_missing(wanted, response)
        return MarkersDelivered(
            wanted.decision_key,
            _OUTCOMES[response.outcome],
            tuple(Partition(gone.topic, gone.partition) for gone in response.dropped),
        )

    def _note_missing(self, wanted: MarkersWanted, response: pb.DeliverMarkersResponse) -> None:
        if response.outcome == pb.DELIVERED:
            self._missing.pop(wanted.decision_key, None)
        elif response.refused:
            refused = {
                (one.producer_id, Partition(each.topic, each.partition))
                for one in response.refused
                for each in one.partitions
            }
            self._missing[wanted.decision_key] = tuple(_narrowed(wanted.markers, refused))

    async def missing(self, txn: TxnMetadata) -> tuple[Partition, ...]:
        """Return the partitions of this decided transaction that lack their marker.

        All of them, if the marker sender does not say which.
        """
        partitions = txn.partitions
        for markers in self._missing.values():
            refused = [one for one in markers if one.producer_id == txn.producer_id]
            if refused:
                partitions = tuple(each for one in refused for each in one.partitions)
        request = pb.DescribeDeliveriesRequest(producer_ids=[txn.producer_id])
        try:
            sender = self._directory.marker_sender()
            answer = await sender.DescribeDeliveries(request, timeout=DESCRIBE_TIMEOUT_S)
        except (OncelogError, OSError, TimeoutError, KeyError) as error:
            _log.info(
                "which markers of %s are missing is not known: %r", txn.transactional_id, error
            )
            return partitions
        for delivery in answer.deliveries:
            waiting = {Partition(one.topic, one.partition) for one in delivery.missing}
            return tuple(each for each in partitions if each in waiting)
        return partitions

    async def _ask(self, request: pb.DeliverMarkersRequest) -> pb.DeliverMarkersResponse:
        """Send the request to the marker sender, and return its response.

        The wait ends early if the metadata names another marker sender: a frozen one never answers.
        """
        sender = self._directory.marker_sender()

        def is_chosen(_: MetadataImage) -> bool:
            try:
                return self._directory.marker_sender() is sender
            except KeyError:
                return True  # There is no other one.

        request.metadata_offset = self._metadata.image.metadata_offset
        call = sender.DeliverMarkers(request)
        return await answer_of_owner(call, DELIVERY_TIMEOUT_S, self._metadata, is_chosen)

    def _plain(self, marker: MarkerWanted) -> plain.TxnMarker:
        return plain.TxnMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.commit,
            self._coordinator_epoch,
            marker.transaction_version,
            max(0, marker.start_timestamp),
            marker.transactional_id,
            marker.partitions,
            self._shard,
        )

    def _request(self, wanted: MarkersWanted) -> pb.DeliverMarkersRequest:
        return pb.DeliverMarkersRequest(
            shard=self._shard,
            markers=[
                storage_pb2.TxnMarker(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    commit=marker.commit,
                    coordinator_epoch=self._coordinator_epoch,
                    transaction_version=marker.transaction_version,
                    transaction_start_ms=max(0, marker.start_timestamp),
                    transactional_id=marker.transactional_id,
                    partitions=[
                        types_pb2.TopicPartition(topic=topic, partition=partition)
                        for topic, partition in marker.partitions
                    ],
                    trace=trace_of_marker(marker),
                )
                for marker in wanted.markers
            ],
        )


def _narrowed(
    markers: Sequence[MarkerWanted], refused: Container[tuple[int, Partition]]
) -> Iterator[MarkerWanted]:
    for marker in markers:
        found = tuple(each for each in marker.partitions if (marker.producer_id, each) in refused)
        if found:
            yield replace(marker, partitions=found)


def _delivery_span(wanted: MarkersWanted, start_ns: int = 0) -> spans.Span | spans.Nothing:
    """Return the trace span that covers a delivery of markers, from the decision to the last marker."""
    return spans.outermost(
        "markers",
        spans.Kind.INTERNAL,
        trace=wanted.markers[0].trace,
        start_ns=start_ns,
        attributes={
            "oncelog.commit": wanted.markers[0].commit,
            "oncelog.partitions": sum(len(marker.partitions) for marker in wanted.markers),
        },
    )


class _Slot:
    """One of the node's slots for deliveries. A delivery that takes longer than SLOT_HELD_S gives its slot back and
    continues.

    So a partition that cannot take its markers does not hold up other deliveries.
    """

    __slots__ = ("_slots",)

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots: asyncio.Semaphore | None = slots

    def give_back(self) -> None:
        if self._slots is not None:
            self._slots.release()
            self._slots = None
