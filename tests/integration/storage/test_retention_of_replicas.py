"""What retention and DeleteRecords take away on replicas: their next start must not need it."""

import asyncio
import errno

from tests.integration.storage.replica_cluster import TOPIC, batch, running_cluster
from tests.integration.storage.storage_node import txn_batch, until

from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog_storage import replica_manager
from oncelog_storage.core.checkpoint_files import decode_checkpoint


def pair(path):
    """Two nodes that write their high watermarks down when they are asked to."""
    return running_cluster(path, nodes=(1, 2), high_watermark_checkpoint_interval_ms=3_600_000)


async def test_a_marker_that_the_next_start_needs_is_not_deleted(tmp_path):
    """A start after a crash takes a producer snapshot from below the high watermark as it was written down. Here that
    knows the transaction as open, and its marker lies behind it."""

    async with pair(tmp_path) as cluster:
        cluster.controller.topic(replicas=(1, 2), segment_bytes=1024, file_delete_delay_ms=0)
        role = cluster.nodes[1].role
        await open_and_checkpoint(cluster)
        await end_and_delete(cluster)
        await role.maintenance.enforce_retention()
        await cluster.kill(1)
        node = await cluster.start(1)
        assert node.held().log.producers.ongoing_count == 0
        await cluster.caught_up()
        await node.role.replication.write_high_watermarks()
        await node.role.maintenance.enforce_retention()
        assert node.held().log.segments[0].base_offset > 2, "what no start needs any more goes"


async def test_a_snapshot_without_segments_behind_is_the_last_choice(tmp_path):
    """The file of high watermarks is not synced, so after a power cut it may be an older one than retention knew."""
    async with pair(tmp_path) as cluster:
        cluster.controller.topic(replicas=(1, 2), segment_bytes=1024, file_delete_delay_ms=0)
        role = cluster.nodes[1].role
        await open_and_checkpoint(cluster)
        file = tmp_path / "1" / "replication-offset-checkpoint"
        older = file.read_text()
        await end_and_delete(cluster)
        await cluster.caught_up()
        await role.maintenance.checkpoint_all()
        await role.replication.write_high_watermarks()
        assert file.read_text() != older
        await role.maintenance.enforce_retention()
        assert cluster.nodes[1].held().log.segments[0].base_offset > 2
        await cluster.kill(1)
        file.write_text(older)
        node = await cluster.start(1)
        assert node.held().log.producers.ongoing_count == 0


async def open_and_checkpoint(cluster):
    """A transaction is open in the checkpoint of node 1, and below the high watermark that is written down."""
    answer = await cluster.produce(txn_batch(7, 0), transactional_id="t7", mode=2)
    assert answer.error_code == 0
    await cluster.caught_up()
    await cluster.nodes[1].role.maintenance.checkpoint_all()
    await cluster.nodes[1].role.replication.write_high_watermarks()


async def end_and_delete(cluster):
    """Its marker, much behind it, and all of that deleted."""
    assert await cluster.mark(7, 0, commit=True) == 0
    await cluster.fill(30, batch(5))
    await cluster.delete_records(-1, timeout_ms=0)


async def test_high_watermarks_not_written_are_written_later(tmp_path, monkeypatch):
    """And until then nobody believes that they are: which snapshots stay depends on it."""
    async with pair(tmp_path) as cluster:
        cluster.controller.topic(replicas=(1, 2))
        assert (await cluster.produce(batch(5))).error_code == 0
        await cluster.caught_up()
        role = cluster.nodes[1].role
        with monkeypatch.context() as full:
            full.setattr(replica_manager, "write_checkpoints", no_space)
            await role.replication.write_high_watermarks()
        assert role.log_directory.high_watermarks == {}
        await role.replication.write_high_watermarks()
        text = (tmp_path / "1" / "replication-offset-checkpoint").read_text()
        assert decode_checkpoint(text) == {Partition(TOPIC, 0): 5}


async def test_a_failed_write_brings_no_deleted_topic_back(tmp_path, monkeypatch):
    """The next topic of its name would begin with its high watermark."""
    async with pair(tmp_path) as cluster:
        cluster.controller.topic(replicas=(1, 2))
        assert (await cluster.produce(batch(5))).error_code == 0
        await cluster.caught_up()
        role = cluster.nodes[1].role
        await role.replication.write_high_watermarks()
        assert (await cluster.produce(batch(5))).error_code == 0
        await cluster.caught_up()
        with monkeypatch.context() as full:
            full.setattr(replica_manager, "write_checkpoints", no_space)
            writing = asyncio.create_task(role.replication.write_high_watermarks())
            await asyncio.sleep(0)
            role.log_directory.forget(Partition(TOPIC, 0))
            await writing
        assert role.log_directory.high_watermarks == {}


def no_space(*_args, **_options):
    raise OSError(errno.ENOSPC, "no space left on device")


# DeleteRecords is answered when no in-sync replica has what was deleted.


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
