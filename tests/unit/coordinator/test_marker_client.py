"""The way of a decision's markers to the marker sender and of its answer back."""

import asyncio
import time
from dataclasses import replace

from tests.unit.coordinator.txn_rows import PREPARE_COMMIT, stored

from oncelog.api.v1 import controller_pb2, storage_pb2
from oncelog.api.v1 import marker_sender_pb2 as pb
from oncelog.ids import CoordinatorEpoch, Partition, ProducerEpoch, ProducerId
from oncelog.machine import Send
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.metadata import MetadataFollower
from oncelog.telemetry import spans
from oncelog.telemetry.recorder import TraceRecorder
from oncelog.trace import TransactionTrace
from oncelog_coordinator import marker_client
from oncelog_coordinator.core.markers import (
    MARKER_SENDER,
    DecisionKey,
    DeliveryOutcome,
    MarkersWanted,
    MarkerWanted,
)
from oncelog_coordinator.marker_client import MarkerClient, MarkersAtOnce
from oncelog_coordinator.settings import CoordinatorSettings

SLOTS = 4


class Sender:
    """Never ends a delivery to the topic `offline`; answers OVERLOADED as often as it is told to."""

    def __init__(self, overloaded=0):
        self.overloaded = overloaded

    async def DeliverMarkers(self, request, context=None, timeout=None):  # noqa: N802
        if request.markers[0].partitions[0].topic == "offline":
            await asyncio.Event().wait()
        if self.overloaded:
            self.overloaded -= 1
            return pb.DeliverMarkersResponse(outcome=pb.OVERLOADED)
        return pb.DeliverMarkersResponse(outcome=pb.DELIVERED)


def wanted(name, topic):
    marker = MarkerWanted(ProducerId(1), ProducerEpoch(0), True, 0, (Partition(topic, 0),))
    return Send(MARKER_SENDER, MarkersWanted(DecisionKey("txn", name, 1), (marker,)))


def directory_of(sender):
    return LocalDirectory(storage=None, coordinator=None, controller=None, marker_sender=sender)


async def delivered(sender, sends):
    """The first answer that comes back."""
    return await answered(MetadataFollower(1, None), directory_of(sender), sends)


async def answered(metadata, directory, sends, meanwhile=None):
    first = asyncio.get_running_loop().create_future()
    client = MarkerClient(
        0,
        CoordinatorEpoch(0),
        metadata,
        directory,
        CoordinatorSettings(),
        asyncio.Semaphore(SLOTS),
        MarkersAtOnce(metadata, directory),
        first.set_result,
    )
    for send in sends:
        client.send(send)
    if meanwhile is not None:
        await meanwhile()
    async with asyncio.timeout(20):
        answer = await first
    await client.stop()
    return answer


def test_stuck_partitions_do_not_hold_up_the_others():
    stuck = [wanted(f"stuck-{number}", "offline") for number in range(SLOTS)]
    answer = asyncio.run(delivered(Sender(), [*stuck, wanted("fine", "orders")]))
    assert answer.decision_key.name == "fine"
    assert answer.outcome is DeliveryOutcome.DELIVERED


def test_an_overloaded_sender_is_asked_again():
    answer = asyncio.run(delivered(Sender(overloaded=2), [wanted("fine", "orders")]))
    assert answer.outcome is DeliveryOutcome.DELIVERED


async def test_a_frozen_sender_is_left_when_metadata_chooses_another():
    class Frozen:
        def __init__(self):
            self.was_called = asyncio.Event()

        async def DeliverMarkers(self, request, context=None):  # noqa: N802
            self.was_called.set()
            await asyncio.Event().wait()

    class Chosen(LocalDirectory):
        chosen = None

        def marker_sender(self):
            return self.chosen

    metadata = MetadataFollower(1, None)
    frozen = Frozen()
    directory = Chosen(storage=None, coordinator=None, controller=None, marker_sender=None)
    directory.chosen = DirectStub(frozen)

    async def freeze():
        await frozen.was_called.wait()
        directory.chosen = DirectStub(Sender())
        snapshot = controller_pb2.MetadataSnapshot()
        metadata.apply_update(controller_pb2.MetadataUpdate(metadata_offset=0, snapshot=snapshot))

    answer = await answered(metadata, directory, [wanted("fine", "orders")], freeze)
    assert answer.outcome is DeliveryOutcome.DELIVERED


async def test_a_sender_that_froze_does_not_keep_a_node_from_stopping(monkeypatch):
    monkeypatch.setattr(marker_client, "CANCEL_TIMEOUT_S", 0.05)

    class Frozen:
        async def CancelShard(self, request, context=None):  # noqa: N802
            await asyncio.Event().wait()

    client = MarkerClient(
        0,
        CoordinatorEpoch(0),
        MetadataFollower(1, None),
        directory_of(Frozen()),
        CoordinatorSettings(),
        asyncio.Semaphore(SLOTS),
        MarkersAtOnce(MetadataFollower(1, None), directory_of(Frozen())),
        lambda delivered: None,
    )
    assert await asyncio.wait_for(client.cancel_at_sender(), 5) is None


async def test_a_delivery_that_became_late_has_its_span(monkeypatch):
    """The trace was unkept when the markers left, so that they carry none; late transactions are kept."""
    late_ms = 150
    recorder = TraceRecorder(print, 0.0, late_ms=late_ms)
    monkeypatch.setattr(spans, "recorder", recorder)

    class Slow(Sender):
        waits_s = 0.0

        async def DeliverMarkers(self, request, context=None, timeout=None):  # noqa: N802
            assert not request.markers[0].HasField("trace")
            await asyncio.sleep(self.waits_s)
            return await super().DeliverMarkers(request)

    for waits_s, spans_waiting in ((0.0, 0), (2 * late_ms / 1_000, 1)):
        send = wanted("slow", "orders")
        now_ns = time.time_ns()
        marker = replace(
            send.message.markers[0],
            trace=TransactionTrace(1 << 63, 2, now_ns),
            start_timestamp=now_ns // 1_000_000,
        )
        Slow.waits_s = waits_s
        await delivered(Slow(), [replace(send, message=replace(send.message, markers=(marker,)))])
        assert recorder.spans_waiting == spans_waiting


class Refusing(Sender):
    """Refuses the markers of the topic `refused`; all others are written."""

    def __init__(self):
        super().__init__()
        self.asked = []

    async def DeliverMarkers(self, request, context=None, timeout=None):  # noqa: N802
        (marker,) = request.markers
        self.asked.append([one.topic for one in marker.partitions])
        refused = storage_pb2.MarkerResult(producer_id=marker.producer_id)
        refused.partitions.add(topic="refused", partition=0, error_code=52)
        return pb.DeliverMarkersResponse(outcome=pb.FENCED, refused=[refused])

    async def DescribeDeliveries(self, request, context=None, timeout=None):  # noqa: N802
        return pb.DescribeDeliveriesResponse()


async def test_only_what_was_refused_is_sent_again():
    """Otherwise every partition that has its marker would get another one every few seconds."""
    sender, outcomes = Refusing(), asyncio.Queue()
    client = MarkerClient(
        0,
        CoordinatorEpoch(0),
        MetadataFollower(1, None),
        directory_of(sender),
        CoordinatorSettings(),
        asyncio.Semaphore(SLOTS),
        MarkersAtOnce(MetadataFollower(1, None), directory_of(sender)),
        outcomes.put_nowait,
    )
    send = wanted("pay", "orders")
    partitions = (Partition("orders", 0), Partition("refused", 0))
    marker = replace(send.message.markers[0], partitions=partitions)
    send = Send(MARKER_SENDER, replace(send.message, markers=(marker,)))
    described = stored(PREPARE_COMMIT, partitions=partitions, producer_id=ProducerId(1))
    assert await client.missing(described) == partitions
    for _ in range(2):
        client.send(send)
        async with asyncio.timeout(20):
            assert (await outcomes.get()).outcome is DeliveryOutcome.FENCED
    assert sender.asked == [["orders", "refused"], ["refused"]]
    assert await client.missing(described) == (Partition("refused", 0),)
    await client.stop()


class AtOnce(Sender):
    """Writes at once what is of `orders`; everything else is delivered the long way."""

    direct_methods = {"DeliverAtOnce": "deliver_at_once"}  # noqa: RUF012

    def __init__(self, error=None):
        super().__init__()
        self.error = error
        self.tried, self.delivered = [], []

    def deliver_at_once(self, request, context):
        self.tried.append([one.partitions[0].topic for one in request.markers])
        if self.error is not None:
            raise self.error
        return [one.partitions[0].topic == "orders" for one in request.markers]

    async def DeliverMarkers(self, request, context=None):  # noqa: N802
        self.delivered.append(request.markers[0].partitions[0].topic)
        return await super().DeliverMarkers(request)


def clients(sender, *feeds):
    """Of as many shards as there are feeds, in one process."""
    metadata, directory = MetadataFollower(1, None), directory_of(DirectStub(sender))
    slots, at_once = asyncio.Semaphore(SLOTS), MarkersAtOnce(metadata, directory)
    settings = CoordinatorSettings()
    return [
        MarkerClient(
            shard, CoordinatorEpoch(0), metadata, directory, settings, slots, at_once, feed
        )
        for shard, feed in enumerate(feeds)
    ]


async def test_decisions_of_one_turn_get_their_markers_together():
    sender, outcomes = AtOnce(), asyncio.Queue()
    shards = clients(sender, outcomes.put_nowait, outcomes.put_nowait)
    for client, topic in zip(shards, ("orders", "far"), strict=True):
        client.send(wanted(topic, topic))
    assert sender.tried == [], "nothing is decided within another decision"
    async with asyncio.timeout(20):
        names = [(await outcomes.get()).decision_key.name for _ in shards]
    assert (names, sender.tried, sender.delivered) == (
        ["orders", "far"],
        [["orders", "far"]],
        ["far"],
    )


async def test_markers_that_break_the_short_way_go_the_long_one():
    sender, outcomes = AtOnce(RuntimeError("our fault")), asyncio.Queue()
    (client,) = clients(sender, outcomes.put_nowait)
    client.send(wanted("fine", "orders"))
    async with asyncio.timeout(20):
        assert (await outcomes.get()).outcome is DeliveryOutcome.DELIVERED
    assert sender.delivered == ["orders"]


async def test_a_shard_that_left_is_told_of_no_markers():
    sender, outcomes = AtOnce(), asyncio.Queue()
    staying, leaving = clients(sender, outcomes.put_nowait, outcomes.put_nowait)
    leaving.send(wanted("left", "orders"))
    staying.send(wanted("here", "orders"))
    await leaving.stop()
    async with asyncio.timeout(20):
        assert (await outcomes.get()).decision_key.name == "here"
    assert outcomes.empty()
    await staying.stop()
