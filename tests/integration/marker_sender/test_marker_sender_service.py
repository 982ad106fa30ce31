"""The marker sender as a coordinator sees it, with leaders that can be told to hang, refuse, break and move.

The leaders here are scripted because a real one cannot be asked to misbehave; delivery to real storage nodes is part
of the tests of whole transactions.
"""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from oncelog.api.v1 import controller_pb2 as metadata_pb
from oncelog.api.v1 import marker_sender_pb2 as pb
from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.errors import ErrorCode
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.metadata import MetadataFollower
from oncelog_marker_sender import sender
from oncelog_marker_sender.settings import MarkerSenderSettings
from oncelog_marker_sender.wiring import build_marker_sender

DEADLINE_S = 90


class ScriptedLeader:
    """Writes every marker it is sent, unless told otherwise: the next answers come from `codes` or `failures`."""

    def __init__(self):
        self.requests = []
        self.codes = []
        self.failures = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.in_flight = 0
        self.in_flight_max = 0

    async def WriteTxnMarkers(self, request, context):  # noqa: N802
        self.requests.append(request)
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            await self.gate.wait()
        finally:
            self.in_flight -= 1
        if self.failures:
            raise self.failures.pop(0)
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        return storage_pb2.WriteTxnMarkersResponse(
            results=[
                storage_pb2.MarkerResult(
                    producer_id=marker.producer_id,
                    partitions=[
                        types_pb2.PartitionError(
                            topic=found.topic, partition=found.partition, error_code=code
                        )
                        for found in marker.partitions
                    ],
                )
                for marker in request.markers
            ]
        )

    def sent(self):
        """(producer id, topic-partition) of everything sent, in order."""
        return [
            (marker.producer_id, f"{found.topic}-{found.partition}")
            for request in self.requests
            for marker in request.markers
            for found in marker.partitions
        ]


class Cluster:
    """Metadata and leaders; it is the directory too."""

    def __init__(self, node_ids=(1, 2), **topics):
        self.leaders = {node_id: ScriptedLeader() for node_id in node_ids}
        self.follower = MetadataFollower(1, None)
        self.topics = {}
        self.offset = -1
        if topics:
            self.tell(**topics)

    def storage(self, node_id):
        return DirectStub(self.leaders[node_id])

    def tell(self, **topics):
        """New metadata: each topic's leaders, partition by partition; None removes the topic."""
        self.topics.update(topics)
        self.offset += 1
        snapshot = metadata_pb.MetadataSnapshot(
            topics=[
                metadata_pb.Topic(
                    name=name,
                    partitions=[
                        metadata_pb.Partition(partition=number, leader=leader)
                        for number, leader in enumerate(leaders)
                    ],
                )
                for name, leaders in self.topics.items()
                if leaders is not None
            ]
        )
        self.follower.apply_update(
            metadata_pb.MetadataUpdate(metadata_offset=self.offset, snapshot=snapshot)
        )


@asynccontextmanager
async def marker_sender(cluster, **settings):
    values = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, **settings}
    role = build_marker_sender(MarkerSenderSettings(**values), cluster.follower, cluster)
    await role.start()
    try:
        yield DirectStub(role.servicer)
    finally:
        await role.stop()


def delivery(*markers, shard=7, coordinator_epoch=3):
    """Each marker is (producer id, "topic-partition", …)."""
    return pb.DeliverMarkersRequest(
        shard=shard,
        markers=[
            storage_pb2.TxnMarker(
                producer_id=producer_id,
                producer_epoch=5,
                commit=True,
                coordinator_epoch=coordinator_epoch,
                transaction_version=2,
                trace=types_pb2.TraceContext(traceparent="00-1-2-01"),
                partitions=[
                    types_pb2.TopicPartition(
                        topic=text.rpartition("-")[0], partition=int(text.rpartition("-")[2])
                    )
                    for text in partitions
                ],
            )
            for producer_id, *partitions in markers
        ],
    )


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110  (conditions of the scripted leaders, not events)
            await asyncio.sleep(0)


def sending(stub, request):
    return asyncio.ensure_future(stub.DeliverMarkers(request))


async def test_each_leader_gets_all_that_the_marker_says():
    cluster = Cluster(a=[1, 2], b=[1])
    async with marker_sender(cluster) as stub:
        answer = await stub.DeliverMarkers(delivery((5, "a-0", "a-1", "b-0")))
    assert (answer.outcome, list(answer.dropped)) == (pb.DELIVERED, [])
    assert cluster.leaders[1].sent() == [(5, "a-0"), (5, "b-0")]
    assert cluster.leaders[2].sent() == [(5, "a-1")]
    for leader in cluster.leaders.values():
        (marker,) = leader.requests[0].markers
        assert (marker.producer_epoch, marker.commit, marker.coordinator_epoch) == (5, True, 3)
        assert marker.transaction_version == 2
        assert marker.trace.traceparent == "00-1-2-01"


async def test_what_queues_behind_a_request_goes_in_the_next_one():
    cluster = Cluster(a=[1])
    leader = cluster.leaders[1]
    async with marker_sender(cluster) as stub:
        leader.gate.clear()
        calls = [sending(stub, delivery((n, "a-0"))) for n in range(50)]
        await until(lambda: leader.requests)
        queues = await stub.DescribeQueues(pb.DescribeQueuesRequest())
        await until(lambda: not any(call.done() for call in calls))
        leader.gate.set()
        answers = await asyncio.gather(*calls)
    assert {answer.outcome for answer in answers} == {pb.DELIVERED}
    assert [len(request.markers) for request in leader.requests] == [1, 49]
    assert leader.in_flight_max == 1
    assert [queue.node_id for queue in queues.queues] == [1]


@pytest.mark.parametrize("failure", [OSError("reset"), TimeoutError(), AssertionError("bug")])
async def test_a_broken_call_goes_again_until_it_is_answered(failure, caplog):
    cluster = Cluster(a=[1])
    cluster.leaders[1].failures = [failure, failure, failure]
    with caplog.at_level(logging.WARNING):
        async with marker_sender(cluster) as stub:
            answer = await stub.DeliverMarkers(delivery((5, "a-0")))
    assert answer.outcome == pb.DELIVERED
    assert len(cluster.leaders[1].requests) == 4
    level = logging.ERROR if isinstance(failure, AssertionError) else logging.WARNING
    assert [record.levelno for record in caplog.records] == [level] * 3


async def test_an_unforeseen_code_is_logged_and_the_marker_goes_again(caplog):
    cluster = Cluster(a=[1])
    cluster.leaders[1].codes = [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NOT_ENOUGH_REPLICAS]
    with caplog.at_level(logging.ERROR):
        async with marker_sender(cluster) as stub:
            answer = await stub.DeliverMarkers(delivery((5, "a-0")))
    assert answer.outcome == pb.DELIVERED
    assert len(cluster.leaders[1].requests) == 3
    (record,) = caplog.records
    assert "CORRUPT_MESSAGE" in record.message


async def test_a_leader_that_hangs_is_given_up_and_asked_again():
    cluster = Cluster(a=[1])
    leader = cluster.leaders[1]
    leader.gate.clear()
    async with marker_sender(cluster, request_timeout_ms=20) as stub:
        call = sending(stub, delivery((5, "a-0")))
        await until(lambda: len(leader.requests) >= 2)
        leader.gate.set()
        assert (await call).outcome == pb.DELIVERED


async def test_markers_follow_a_leader_that_moves():
    cluster = Cluster(a=[1])
    cluster.leaders[1].codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1000
    async with marker_sender(cluster) as stub:
        call = sending(stub, delivery((5, "a-0")))
        await until(lambda: len(cluster.leaders[1].requests) >= 2)
        cluster.tell(a=[2])
        assert (await call).outcome == pb.DELIVERED
    assert cluster.leaders[2].sent() == [(5, "a-0")]


async def test_a_frozen_leader_is_left_once_another_leads():
    cluster = Cluster(orders=[1, 2])
    cluster.leaders[1].gate.clear()
    async with marker_sender(cluster, request_timeout_ms=3_600_000) as sender:
        delivering = asyncio.create_task(sender.DeliverMarkers(delivery((9, "orders-0"))))
        await until(lambda: cluster.leaders[1].in_flight == 1)
        cluster.tell(orders=[2, 2])
        assert (await delivering).outcome == pb.DELIVERED
        assert cluster.leaders[2].sent() == [(9, "orders-0")]


async def test_markers_wait_for_a_leader_and_for_the_first_metadata():
    cluster = Cluster()
    async with marker_sender(cluster) as stub:
        early = sending(stub, delivery((5, "a-0")))
        await asyncio.sleep(0)
        queues = (await stub.DescribeQueues(pb.DescribeQueuesRequest())).queues
        assert [(queue.node_id, queue.depth) for queue in queues] == [(-1, 1)]
        cluster.tell(a=[-1])
        late = sending(stub, delivery((6, "a-0")))
        await asyncio.sleep(0)
        assert not early.done()
        cluster.tell(a=[1])
        assert (await early).outcome == (await late).outcome == pb.DELIVERED
    assert cluster.leaders[1].sent() == [(5, "a-0"), (6, "a-0")]


async def test_a_node_nobody_knows_yet_is_asked_again():
    cluster = Cluster(node_ids=(1,), a=[9])
    async with marker_sender(cluster) as stub:
        call = sending(stub, delivery((5, "a-0")))
        await asyncio.sleep(0)
        cluster.leaders[9] = ScriptedLeader()
        assert (await call).outcome == pb.DELIVERED


async def test_a_partition_not_heard_of_is_not_taken_for_deleted():
    """The coordinator that asks knows the topic already."""
    cluster = Cluster(a=[1])
    async with marker_sender(cluster) as stub:
        request = delivery((5, "new-0"))
        request.metadata_offset = cluster.offset + 1
        call = sending(stub, request)
        await asyncio.sleep(0)
        cluster.tell(new=[2])
        answer = await call
    assert (answer.outcome, list(answer.dropped)) == (pb.DELIVERED, [])
    assert cluster.leaders[2].sent() == [(5, "new-0")]


async def test_who_hears_no_news_sends_its_callers_elsewhere(monkeypatch):
    monkeypatch.setattr(sender, "_METADATA_WAIT_S", 0.01)

    cluster = Cluster(a=[1])
    async with marker_sender(cluster) as stub:
        request = delivery((5, "new-0"))
        request.metadata_offset = cluster.offset + 1
        assert (await stub.DeliverMarkers(request)).outcome == pb.OVERLOADED


async def test_deleted_partitions_are_dropped_and_named():
    cluster = Cluster(a=[1], b=[-1])
    async with marker_sender(cluster) as stub:
        answer = await stub.DeliverMarkers(delivery((5, "a-0", "a-7", "gone-0")))
        assert answer.outcome == pb.DELIVERED
        assert [(d.topic, d.partition) for d in answer.dropped] == [("a", 7), ("gone", 0)]
        call = sending(stub, delivery((5, "b-0")))
        await asyncio.sleep(0)
        cluster.tell(b=None)
        assert [d.topic for d in (await call).dropped] == ["b"]


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
async def test_a_fenced_marker_holds_up_no_other_partition(code):
    cluster = Cluster(a=[1, 2], b=[1])
    cluster.leaders[1].codes = [code]
    async with marker_sender(cluster) as stub:
        cluster.leaders[2].gate.clear()
        call = sending(stub, delivery((5, "a-0", "a-1")))
        await until(lambda: cluster.leaders[1].requests and cluster.leaders[2].requests)
        asked = pb.DescribeDeliveriesRequest(producer_ids=[5, 6])
        (found,) = (await stub.DescribeDeliveries(asked)).deliveries
        assert {(one.topic, one.partition) for one in found.missing} == {("a", 0), ("a", 1)}
        cluster.leaders[2].gate.set()
        answer = await call
        assert answer.outcome == pb.FENCED
        (refused,) = answer.refused
        (partition,) = refused.partitions
        assert (refused.producer_id, partition.topic, partition.partition) == (5, "a", 0)
        assert partition.error_code == code
        assert not (await stub.DescribeDeliveries(asked)).deliveries
        assert cluster.leaders[2].sent() == [(5, "a-1")]


@pytest.mark.parametrize("ending", ["cancel_shard", "stop"])
async def test_a_caller_is_let_go_though_its_own_request_hangs(ending):
    cluster = Cluster(a=[1, 2])
    hanging, other = cluster.leaders[1], cluster.leaders[2]
    async with marker_sender(cluster) as stub:
        hanging.gate.clear()
        other.gate.clear()
        call = sending(stub, delivery((5, "a-0", "a-1")))
        await until(lambda: hanging.requests and other.requests)
        behind = sending(stub, delivery((6, "a-0"), shard=8))
        if ending == "cancel_shard":
            request = pb.CancelShardRequest(shard=7, coordinator_epoch=3)
            assert (await stub.CancelShard(request)).cancelled == 1
            assert (await call).outcome == pb.CANCELLED
            hanging.gate.set()
            assert (await behind).outcome == pb.DELIVERED
    if ending == "stop":
        assert {(await call).outcome, (await behind).outcome} == {pb.OVERLOADED}


async def test_full_queues_answer_overloaded_and_take_up_again():
    cluster = Cluster(a=[1])
    leader = cluster.leaders[1]
    async with marker_sender(cluster, queued_markers_max=2) as stub:
        leader.gate.clear()
        calls = [sending(stub, delivery((n, "a-0"))) for n in range(2)]
        await asyncio.sleep(0)
        full = await stub.DeliverMarkers(delivery((9, "a-0")))
        assert full.outcome == pb.OVERLOADED
        leader.gate.set()
        assert {(await call).outcome for call in calls} == {pb.DELIVERED}
        assert (await stub.DeliverMarkers(delivery((9, "a-0")))).outcome == pb.DELIVERED
    assert leader.sent().count((9, "a-0")) == 1


async def test_a_caller_that_gives_up_takes_only_its_own_markers():
    cluster = Cluster(a=[1])
    leader = cluster.leaders[1]
    async with marker_sender(cluster) as stub:
        leader.gate.clear()
        first = sending(stub, delivery((5, "a-0")))
        await until(lambda: leader.requests)
        second = sending(stub, delivery((6, "a-0")))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        leader.gate.set()
        assert (await second).outcome == pb.DELIVERED
        queues = (await stub.DescribeQueues(pb.DescribeQueuesRequest())).queues
        assert list(queues) == []
    assert leader.sent() == [(5, "a-0"), (6, "a-0")]


async def test_stopping_sends_callers_elsewhere_and_leaves_no_task():
    """CANCELLED would say that the shard moved away, and its coordinator would wait for news of that before it asks."""
    cluster = Cluster(a=[-1, 1, 2])
    cluster.leaders[2].gate.clear()
    async with marker_sender(cluster) as stub:
        held = sending(stub, delivery((5, "a-0")))
        both = sending(stub, delivery((6, "a-1", "a-2")))
        await until(lambda: cluster.leaders[2].requests)
    assert (await held).outcome == (await both).outcome == pb.OVERLOADED
    assert (await stub.DeliverMarkers(delivery((7, "a-1")))).outcome == pb.OVERLOADED
    cluster.tell(a=[1, 1, 1])
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if "markers to" in task.get_name()]
