"""Who is in the ISR, what acks=all is told when it is too small, and what becomes of replicas that come and go."""

import asyncio

from tests.integration.storage.replica_cluster import TOPIC, batch, differences, running_cluster
from tests.integration.storage.storage_node import until

from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog_storage.core.checkpoint_files import decode_checkpoint


async def test_a_slow_follower_leaves_the_isr_and_comes_back(tmp_path):
    async with running_cluster(tmp_path, replica_lag_time_max_ms=1_000) as cluster:
        cluster.controller.topic(min_insync_replicas=2)
        assert (await cluster.produce(batch())).error_code == 0
        cluster.cut_off.add(3)
        # Committed once the follower is out: nobody has to ask again.
        assert (await cluster.produce(batch(), timeout_ms=20_000)).error_code == 0
        assert cluster.isr() == [1, 2]
        replication = cluster.leader().role.replication
        assert (
            replication.metrics().under_replicated_count == replication.proposals.shrink_count == 1
        )
        cluster.cut_off.clear()
        await until(lambda: cluster.isr() == [1, 2, 3], 20)
        await cluster.caught_up()
        assert differences(cluster) == {}
        metrics = cluster.leader().role.replication.metrics()
        assert metrics.under_replicated_count == 0
        assert metrics.follower_lag == {(TOPIC, 0, 2): 0, (TOPIC, 0, 3): 0}


async def test_a_silent_follower_of_an_idle_partition_leaves_the_isr(tmp_path):
    async with running_cluster(tmp_path, replica_lag_time_max_ms=100) as cluster:
        cluster.controller.topic()
        assert (await cluster.produce(batch())).error_code == 0
        await cluster.caught_up()
        cluster.cut_off.add(2)
        await until(lambda: cluster.isr() == [1, 3], 20)


async def test_too_few_in_sync_replicas_are_told_around_the_append(cluster):
    cluster.controller.topic(min_insync_replicas=2)
    cluster.cut_off.update((2, 3))
    waiting = asyncio.create_task(cluster.produce(batch(), timeout_ms=20_000))
    await until(lambda: cluster.leader().held().log.log_end_offset == 1)
    cluster.controller.change(isr=[1])
    answer = await waiting
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    answer = await cluster.produce(batch())
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await cluster.produce(batch(), acks=1)).error_code == 0
    assert cluster.leader().held().high_watermark == 0
    cluster.cut_off.clear()
    await until(lambda: cluster.leader().held().high_watermark == 2, 20)


async def test_a_pending_expansion_counts_for_the_high_watermark(cluster):
    cluster.controller.topic()
    cluster.controller.holds_back = asyncio.Event()
    cluster.controller.change(isr=[1, 2])
    state = cluster.leader().held().replicas
    await until(lambda: state.pending is not None, 20)
    cluster.cut_off.add(3)
    answer = await cluster.produce(batch(), timeout_ms=50)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    cluster.cut_off.clear()
    await until(lambda: cluster.leader().held().high_watermark == 1, 20)
    cluster.controller.holds_back.set()
    await until(lambda: cluster.isr() == [1, 2, 3], 20)


async def test_a_reassigned_partition_is_deleted_where_it_was(tmp_path):
    async with running_cluster(tmp_path, replica_removal_delay_ms=0) as cluster:
        cluster.controller.topic(replicas=(1, 2))
        await cluster.fill(10, batch(5))
        cluster.controller.change(replicas=[1, 2, 3])
        await until(lambda: cluster.isr() == [1, 2, 3], 20)
        cluster.controller.change(replicas=[1, 3], isr=[1, 3])
        folder = tmp_path / "2" / f"{TOPIC}-0"
        await until(lambda: not folder.exists(), 20)
        assert (await cluster.produce(batch())).base_offset == 50
        await cluster.caught_up()
        assert differences(cluster) == {}


async def test_a_restarted_replica_knows_the_high_watermark_again(cluster, tmp_path):
    cluster.controller.topic()
    await cluster.fill(3, batch())
    await cluster.caught_up()
    await cluster.nodes[2].role.replication.write_high_watermarks()
    await cluster.kill(2)
    text = (tmp_path / "2" / "replication-offset-checkpoint").read_text()
    assert decode_checkpoint(text) == {Partition(TOPIC, 0): 3}
    cluster.cut_off.add(2)
    node = await cluster.start(2)
    assert node.held().high_watermark == 3


async def test_a_replica_begins_with_the_batch_of_the_log_start(cluster):
    cluster.controller.topic(replicas=(1, 2))
    assert (await cluster.produce(batch(5))).error_code == 0
    assert (await cluster.produce(batch(5))).error_code == 0
    await cluster.delete_records(7, timeout_ms=0)
    cluster.controller.change(replicas=[1, 2, 3])
    await until(lambda: cluster.isr() == [1, 2, 3], 20)
    await cluster.caught_up()
    held = cluster.nodes[3].held()
    assert (held.log.log_start_offset, held.log.segments[0].base_offset) == (7, 5)
    assert differences(cluster) == {}
    await cluster.kill(3)
    node = await cluster.start(3)
    assert (node.held().log.log_start_offset, node.held().log.log_end_offset) == (7, 10)


async def test_a_node_that_starts_is_whole_once_it_is_in_sync(cluster):
    cluster.controller.topic(partitions=3)
    await cluster.fill(3, batch())
    await cluster.kill(2)
    await cluster.fill(3, batch())
    cluster.cut_off.add(2)
    node = await cluster.start(2)
    whole = asyncio.create_task(node.role.replication.in_sync())
    await cluster.fill(3, batch())
    assert not whole.done()
    cluster.cut_off.clear()
    async with asyncio.timeout(30):
        await whole
    for index in range(3):
        assert 2 in cluster.controller.partition(index=index).isr


async def test_a_node_that_cannot_be_in_sync_is_not_held(tmp_path, caplog):
    async with running_cluster(tmp_path, in_sync_wait_max_ms=50) as cluster:
        cluster.controller.topic()
        await cluster.kill(2)
        cluster.cut_off.add(2)
        node = await cluster.start(2)
        async with asyncio.timeout(30):
            await node.role.replication.in_sync()
        assert "orders-0 is not in sync yet" in caplog.text


async def test_without_a_living_leader_a_start_waits_for_nobody(cluster):
    cluster.controller.topic(replicas=(1, 2))
    await cluster.kill(2)
    await cluster.kill(1)
    assert cluster.leader() is None
    node = await cluster.start(2)
    async with asyncio.timeout(30):
        await node.role.replication.in_sync()
    assert cluster.isr() == [1]
