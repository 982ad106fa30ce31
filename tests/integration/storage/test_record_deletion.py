"""DeleteRecords with replicas: answered when none of the in-sync ones has what was deleted."""

import asyncio

from tests.integration.storage.replica_cluster import batch
from tests.integration.storage.storage_node import until

from oncelog.errors import ErrorCode


async def test_it_is_answered_when_every_in_sync_replica_begins_there(cluster):
    cluster.controller.topic()
    await cluster.fill(5, batch(3))
    assert await cluster.delete_records(7) == (0, 7)
    starts = [node.held().log.log_start_offset for node in cluster.nodes.values()]
    assert starts == [7, 7, 7]
    assert await cluster.delete_records(3) == (0, 7), "a start never moves back"
    assert await cluster.delete_records(-1) == (0, 15)
    assert await cluster.delete_records(16) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_an_in_sync_replica_that_does_not_answer_is_waited_for(cluster):
    cluster.controller.topic()
    await cluster.fill(5, batch(3))
    cluster.cut_off.add(3)
    assert await cluster.delete_records(7, 50) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    waiting = asyncio.create_task(cluster.delete_records(9))
    await asyncio.sleep(0)
    cluster.cut_off.clear()
    assert await waiting == (0, 9)


async def test_an_empty_replica_begins_where_it_began_after_a_kill(cluster):
    """As a leader that begins at 0 again it would give offsets a second time."""
    cluster.controller.topic()
    await cluster.kill(3)
    await cluster.fill(5, batch(3))
    assert await cluster.delete_records(-1) == (0, 15)
    await cluster.start(3)
    await until(lambda: 3 in cluster.isr())
    await cluster.caught_up()
    await cluster.kill(3)
    cluster.cut_off.add(3)
    node = await cluster.start(3)
    log = node.held().log
    assert (log.log_start_offset, log.log_end_offset) == (15, 15)
    cluster.cut_off.clear()
