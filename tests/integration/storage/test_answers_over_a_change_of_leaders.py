"""What was asked of one leader, and is answered when another one leads or has led: nothing of that is believed."""

import asyncio

import pytest
from tests.integration.storage.replica_cluster import TOPIC, batch, running_cluster
from tests.integration.storage.storage_node import FakeCoordinator, txn_batch, until

from oncelog.api.v1 import coordinator_pb2
from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.rpc import transaction_starts


@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_batch_that_another_leader_dropped_is_not_acknowledged(cluster, comes_back):
    """The answer of a request waits for one partition after the other. By the time it comes to the second one the
    offset there is taken by another leader's record, and committed."""

    cluster.controller.topic("slow", replicas=(1, 3))
    cluster.controller.topic("moved", replicas=(1, 2))
    cluster.cut_off.update((2, 3))
    request = pb.ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        partitions=[
            pb.PartitionRecords(topic=name, partition=0, records=batch(value=b"mine"))
            for name in ("slow", "moved")
        ],
    )
    sent = asyncio.create_task(cluster.nodes[1].storage.Produce(request, None))
    held = cluster.nodes[1].held("moved")
    await until(lambda: held.log.log_end_offset == 1)
    cluster.controller.change("moved", leader=2)
    cluster.cut_off.discard(2)
    assert (await cluster.produce(batch(value=b"theirs"), "moved")).base_offset == 0
    await cluster.caught_up("moved")
    if comes_back:
        cluster.controller.change("moved", leader=1)
        await cluster.caught_up("moved")
    cluster.cut_off.discard(3)
    slow, moved = (await sent).partitions
    assert slow.error_code == 0
    assert b"mine" not in held.log.read(0, 1, 1 << 20).records
    assert moved.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class SlowToDescribe(FakeCoordinator):
    """Tells what it knew when it was asked, and keeps answers back while `is_holding`, until `opened`."""

    def __init__(self):
        super().__init__()
        self.held_up = 0
        self.is_holding = False
        self.opened = asyncio.Event()

    async def DescribeTransactions(self, request, context=None, timeout=None):  # noqa: N802
        found = coordinator_pb2.TransactionDescription(
            transactional_id="pay",
            producer_id=9,
            transaction_start_time_ms=self.transaction_start_ms,
        )
        if self.is_holding:
            self.held_up += 1
            await self.opened.wait()
        return coordinator_pb2.DescribeTransactionsResponse(transactions=[found])


async def send(cluster, sequence):
    records = txn_batch(9, sequence)
    answer = await cluster.produce(records, transactional_id="pay", mode=0)
    return answer.error_code


async def mark(cluster, node_id, start_ms=1_000):
    (code,) = await cluster.nodes[node_id].mark(TOPIC, (9, 0, True, 0, 0, start_ms, "pay"))
    return code


async def test_an_answer_is_not_kept_over_a_change_of_leaders(tmp_path, monkeypatch):
    """It was asked for one marker. By the time it comes another leader has written that, the next transaction has begun
    there, and this node leads again: the marker is late now, and the answer would call the open transaction its own."""
    monkeypatch.setattr(transaction_starts, "TIMEOUT_S", 10.0)

    async with running_cluster(tmp_path, nodes=(1, 2)) as cluster:
        cluster.controller.topic(replicas=(1, 2))
        coordinator = cluster.coordinator = SlowToDescribe()
        coordinator.transaction_start_ms = 1_000
        assert await send(cluster, 0) == 0
        await cluster.caught_up()
        cluster.controller.change(leader=2)
        coordinator.is_holding = True
        held_up = asyncio.create_task(mark(cluster, 2))
        await until(lambda: coordinator.held_up)
        coordinator.is_holding = False
        cluster.controller.change(leader=1)
        assert await mark(cluster, 1) == 0
        coordinator.transaction_start_ms = 2_000
        assert await send(cluster, 1) == 0
        await cluster.caught_up()
        cluster.controller.change(leader=2)
        coordinator.opened.set()
        assert await held_up == ErrorCode.REQUEST_TIMED_OUT
        assert cluster.nodes[2].held().log.producers.ongoing_count == 1


async def test_a_leader_without_the_news_calls_no_marker_late(tmp_path):
    """It has the transaction before open still, which ended elsewhere. What it takes for an old marker is the newest,
    from a marker sender that knows of no successor either; told that it is written, that one brings it nowhere else."""

    async with running_cluster(tmp_path, nodes=(1, 2)) as cluster:
        cluster.controller.topic(replicas=(1, 2))
        coordinator = cluster.coordinator = SlowToDescribe()
        coordinator.transaction_start_ms = 1_000
        assert await send(cluster, 0) == 0
        await cluster.caught_up()
        cluster.controller.stop_telling(1)
        cluster.controller.change(leader=2, isr=[2])
        assert await mark(cluster, 2) == 0
        coordinator.transaction_start_ms = 2_000
        assert await send(cluster, 1) == 0
        task = asyncio.create_task(mark(cluster, 1, 2_000))
        await asyncio.sleep(0.2)
        cluster.controller.tell_again(1)
        assert await task == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await cluster.caught_up()
        assert await mark(cluster, 2, 2_000) == 0
        assert cluster.nodes[2].held().log.producers.ongoing_count == 0
