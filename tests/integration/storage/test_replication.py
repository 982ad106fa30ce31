"""Three replicas of a partition: followers copy, acks=all waits for them, a leader's end loses nothing."""

import asyncio

from tests.integration.storage.replica_cluster import (
    TOPIC,
    batch,
    contents,
    differences,
    running_cluster,
)
from tests.integration.storage.storage_node import txn_batch, until

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import TRANSACTION_STATE_TOPIC


async def test_acks_all_waits_for_every_in_sync_replica(cluster):
    cluster.controller.topic()
    for number in range(20):
        answer = await cluster.produce(batch(3))
        assert (answer.error_code, answer.base_offset) == (0, 3 * number)
        ends = [node.held().log.log_end_offset for node in cluster.nodes.values()]
        assert ends == [3 * number + 3] * 3
    await cluster.caught_up()
    assert differences(cluster) == {}


async def test_who_waits_at_a_leader_that_is_replaced_is_not_told_yes(cluster):
    cluster.controller.topic()
    cluster.cut_off.add(2)
    waiting = asyncio.create_task(cluster.produce(batch(3)))
    leader = cluster.nodes[1].held()
    await until(lambda: leader.log.log_end_offset == 3)
    leader.release_waiters()
    assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_all_batches_of_a_request_have_its_timeout_at_once(cluster):
    """One after the other they would have taken twelve times as long."""
    names = [f"t{number}" for number in range(12)]
    for name in names:
        cluster.controller.topic(name, replicas=(1, 2))
    cluster.cut_off.add(2)
    request = pb.ProduceRequest(
        acks=-1,
        timeout_ms=1_000,
        partitions=[
            pb.PartitionRecords(topic=name, partition=0, records=bytes(batch())) for name in names
        ],
    )
    async with asyncio.timeout(8):
        answer = await cluster.nodes[1].storage.Produce(request, None)
    assert [one.error_code for one in answer.partitions] == [ErrorCode.REQUEST_TIMED_OUT] * 12


async def test_transactions_are_the_same_on_every_replica(cluster):
    cluster.controller.topic()
    for producer_id in (7, 8, 9):
        for sequence in (0, 2):
            answer = await cluster.produce(
                txn_batch(producer_id, sequence, 2),
                transactional_id=f"t{producer_id}",
            )
            assert answer.error_code == 0
    assert await cluster.mark(7, 0, commit=False) == 0
    assert await cluster.mark(8, 0, commit=True) == 0
    await cluster.caught_up()
    assert differences(cluster) == {}
    assert len(contents(cluster.nodes[2].held())["aborted"]) == 1
    assert cluster.nodes[3].held().last_stable_offset == 8


async def test_the_next_leader_has_all_that_was_acknowledged(cluster):
    cluster.controller.topic()
    await cluster.fill(5, batch(2))
    cluster.cut_off.update((2, 3))
    # Only the leader has this one; it is not acknowledged.
    assert (await cluster.produce(batch(), timeout_ms=50)).error_code
    await cluster.kill(1)
    cluster.cut_off.clear()
    assert cluster.controller.partition().leader == 2
    assert (await cluster.produce(batch(4))).base_offset == 10
    await cluster.start(1)
    await until(lambda: cluster.isr() == [2, 3, 1])
    await cluster.caught_up()
    assert differences(cluster) == {}
    assert contents(cluster.nodes[1].held())["epochs"] == [(0, 0), (1, 10)]


async def test_a_new_leader_tells_no_end_below_what_was_acknowledged(cluster):
    """KIP-207: until its followers have told it how far the log is committed, it says that it does not know."""
    cluster.controller.topic()
    assert (await cluster.produce(batch(10))).error_code == 0
    # What acknowledged it is the followers' own fetch; that it is committed, its answer would tell them.
    cluster.cut_off.update((2, 3))
    await cluster.kill(1)
    leader = cluster.leader()
    assert (leader.node_id, leader.held().high_watermark) == (2, 0), "this test needs one that lags"
    answer = await leader.list_offset(TOPIC, -1)
    assert answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    cluster.cut_off.clear()
    async with asyncio.timeout(30):
        while (answer := await leader.list_offset(TOPIC, -1)).error_code:
            assert answer.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
            await asyncio.sleep(0.005)
    assert answer.offset == 10


async def test_a_new_leaders_end_is_told_only_when_it_is_known(tmp_path):
    async with running_cluster(tmp_path, replica_high_watermark_linger_ms=60_000) as cluster:
        cluster.controller.topic()
        await cluster.fill(3, batch())
        assert cluster.nodes[2].held().high_watermark < 3
        cluster.cut_off.add(3)
        cluster.controller.change(leader=2)
        task = asyncio.create_task(cluster.leader().list_offset(TOPIC, -1))
        await asyncio.sleep(0)
        assert not task.done()
        cluster.cut_off.clear()
        assert (await task).offset == 3


async def test_a_new_leader_knows_the_greatest_coordinator_epoch(cluster):
    async def append(epoch, producer_id):
        records = batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
        leader = cluster.leader(TRANSACTION_STATE_TOPIC)
        answer = await leader.append(TRANSACTION_STATE_TOPIC, records, coordinator_epoch=epoch)
        return answer.error_code

    cluster.controller.topic(TRANSACTION_STATE_TOPIC)
    assert await append(7, 1) == 0
    await cluster.kill(1)
    assert cluster.controller.partition(TRANSACTION_STATE_TOPIC).leader == 2
    assert await append(6, 2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await append(7, 3) == 0


async def test_a_verification_does_not_outlive_its_leadership(cluster):
    """The marker of its transaction may have gone to the leader that was there in between."""
    cluster.controller.topic()
    assert (await cluster.produce(batch())).error_code == 0
    cluster.coordinator.gate = asyncio.Event()
    late = asyncio.create_task(cluster.produce(txn_batch(7, 0), transactional_id="t7", mode=1))
    await until(lambda: cluster.coordinator.calls)
    cluster.controller.change(leader=2)
    assert await cluster.mark(7, 0, commit=False) == 0
    await cluster.caught_up()
    cluster.controller.change(leader=1)
    cluster.coordinator.gate.set()
    assert (await late).error_code == ErrorCode.INVALID_TXN_STATE
