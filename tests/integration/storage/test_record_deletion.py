"""DeleteRecords with replicas: answered when none of the in-sync ones has what was deleted."""

import asyncio

from tests.integration.storage.replica_cluster import TOPIC, batch, running_cluster
from tests.integration.storage.storage_node import until

from oncelog.api.v1 import storage_pb2
from oncelog.errors import ErrorCode


async def delete(cluster, before_offset, timeout_ms=10_000):
    leader = cluster.nodes[cluster.controller.partition().leader]
    answer = await leader.role.servicer.DeleteRecords(
        storage_pb2.DeleteRecordsRequest(
            partitions=[
                storage_pb2.DeleteRecordsRequest.Partition(
                    topic=TOPIC, partition=0, before_offset=before_offset
                )
            ],
            timeout_ms=timeout_ms,
        ),
        None,
    )
    return answer.partitions[0].error_code, answer.partitions[0].low_watermark


async def test_it_is_answered_when_every_in_sync_replica_begins_there(tmp_path):
    async with running_cluster(tmp_path) as cluster:
        cluster.controller.topic()
        for _ in range(5):
            assert (await cluster.produce(batch(3))).error_code == 0
        assert await delete(cluster, 7) == (0, 7)
        starts = [node.held().log.log_start_offset for node in cluster.nodes.values()]
        assert starts == [7, 7, 7]
        assert await delete(cluster, 3) == (0, 7), "a start never moves back"
        assert await delete(cluster, -1) == (0, 15)
        assert await delete(cluster, 16) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_an_in_sync_replica_that_does_not_answer_is_waited_for(tmp_path):
    async with running_cluster(tmp_path) as cluster:
        cluster.controller.topic()
        for _ in range(5):
            assert (await cluster.produce(batch(3))).error_code == 0
        cluster.cut_off.add(3)
        assert await delete(cluster, 7, 50) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        waiting = asyncio.create_task(delete(cluster, 9))
        await asyncio.sleep(0)
        cluster.cut_off.clear()
        assert await waiting == (0, 9)


async def test_an_empty_replica_begins_where_it_began_after_a_kill(tmp_path):
    """As a leader that begins at 0 again it would give offsets a second time."""
    async with running_cluster(tmp_path) as cluster:
        cluster.controller.topic()
        await cluster.kill(3)
        for _ in range(5):
            assert (await cluster.produce(batch(3))).error_code == 0
        assert await delete(cluster, -1) == (0, 15)
        await cluster.start(3)
        await until(lambda: 3 in cluster.controller.partition().isr)
        await cluster.caught_up()
        await cluster.kill(3)
        cluster.cut_off.add(3)
        node = await cluster.start(3)
        log = node.held().log
        assert (log.log_start_offset, log.log_end_offset) == (15, 15)
        cluster.cut_off.clear()
