"""When records are synced, and when they are deleted."""

import asyncio
import os
import shutil
import threading

import pytest
from tests.integration.storage.partition_log_at import append, checkpoint, new_log, opened
from tests.integration.storage.storage_node import NOW, batch, running, topic, txn_batch, until

from oncelog.ids import Partition
from oncelog_storage import log_checkpoint, log_replication, maintenance
from oncelog_storage.core.checkpoint_files import decode_checkpoint
from oncelog_storage.files import sync_directory


class Disk:
    """The real sync, counted, and held back while `held` is not set."""

    def __init__(self):
        self.paths = []
        self.begun = 0
        self.held = threading.Event()
        self.held.set()
        self.error = None

    def sync(self, paths):
        self.begun += 1
        self.held.wait(10)
        if self.error is not None:
            raise self.error
        log_checkpoint.sync_logs(paths)
        self.paths += paths


@pytest.fixture
def synced():
    disk = Disk()
    yield disk
    disk.held.set()


async def test_by_default_an_answer_does_not_wait_for_a_sync(tmp_path, synced):
    async with running(tmp_path, topic("orders"), sync=synced.sync) as node:
        assert (await node.produce("orders", batch())).error_code == 0
        assert synced.paths == []


async def test_a_segment_that_a_sync_came_before_is_synced_by_its_name(tmp_path, monkeypatch):
    """The cleaner rolls without a record, and the first record makes the file."""
    names = set()

    def sync(folder):
        names.update(os.listdir(folder))
        sync_directory(folder)

    monkeypatch.setattr(maintenance, "sync_directory", sync)
    async with running(tmp_path, topic("orders"), flush_policy="always") as node:
        await node.produce("orders", batch())
        led = node.role._replica_manager.led("orders", 0)
        led.log.roll(NOW)
        node.role.maintenance._wants.flush(led)
        await until(lambda: not led.is_flushing)
        await node.produce("orders", batch())
        first, second = (os.path.basename(one.log_path) for one in led.log.segments)
        assert {first, second} <= names


async def test_flush_policy_always_syncs_before_the_answer(tmp_path, synced):
    async with running(tmp_path, topic("orders"), sync=synced.sync, flush_policy="always") as node:
        synced.held.clear()
        sent = [
            asyncio.create_task(node.produce("orders", batch(), acks=acks)) for acks in (1, -1, -1)
        ]
        await until(lambda: node.role.servicer is not None)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not any(task.done() for task in sent)
        waiting = await node.fetch("orders", 0)
        assert (waiting.high_watermark, waiting.records) == (0, b"")
        assert (await node.describe("orders")).log_end_offset == 3
        synced.held.set()
        assert [(await task).base_offset for task in sent] == [0, 1, 2]
        assert 1 <= len(synced.paths) <= 2, "appends share a sync"
        assert (await node.fetch("orders", 0)).high_watermark == 3


async def test_under_always_a_marker_holds_the_lso_until_it_is_synced(tmp_path, synced):
    async with running(tmp_path, topic("orders"), sync=synced.sync, flush_policy="always") as node:
        await node.produce("orders", txn_batch(9, 0), transactional_id="pay")
        synced.held.clear()
        marking = asyncio.create_task(node.mark("orders", (9, 0, True)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert (await node.describe("orders")).last_stable_offset == 0
        synced.held.set()
        assert await marking == [0]
        assert (await node.describe("orders")).last_stable_offset == 2


async def test_flush_messages_syncs_with_every_so_many_records(tmp_path, synced):
    async with running(tmp_path, topic("orders", flush_messages=3), sync=synced.sync) as node:
        for expected in (0, 0, 1, 1, 1, 2):
            await node.produce("orders", batch())
            assert len(synced.paths) == expected


async def test_flush_ms_syncs_soon_after_an_append(tmp_path, synced):
    async with running(tmp_path, topic("orders", flush_ms=20), sync=synced.sync) as node:
        await node.produce("orders", batch())
        assert synced.paths == []
        await until(lambda: len(synced.paths) == 1)


async def test_a_failed_sync_takes_the_partition_offline(tmp_path, synced):
    topics = [topic("orders"), topic("fine")]
    async with running(tmp_path, *topics, sync=synced.sync, flush_policy="always") as node:
        synced.error = OSError(5, "Input/output error")
        answer = await node.produce("orders", batch())
        synced.error = None
        assert answer.error_code == 56
        assert (await node.fetch("orders", 0)).error_code == 56
        assert (await node.produce("fine", batch())).error_code == 0


def test_a_checkpoint_syncs_before_it_moves_the_recovery_point(tmp_path, synced):
    log = new_log(tmp_path / "orders-0")
    append(log, batch())
    taken = log_checkpoint.prepare(log)
    log_checkpoint.write(taken, synced.sync)
    assert synced.paths == [log.segments[0].log_path]
    assert log.recovery_point == 0
    log_checkpoint.finish(log, taken)
    assert log.recovery_point == 1


@pytest.mark.parametrize(
    ("age_ms", "log_start", "file_count"), [(1000, 0, 5), (1500, 4, 3), (5000, 10, 0)]
)
async def test_retention_by_time_deletes_whole_segments(tmp_path, age_ms, log_start, file_count):
    """Of ten records, 100 ms apart. The new segment behind the last one has no file yet."""
    config = {"segment_bytes": 1024, "file_delete_delay_ms": 0, "retention_ms": 1000}
    async with running(tmp_path, topic("orders", **config)) as node:
        for index in range(10):
            records = batch(value=b"x" * 400, timestamp=NOW + 100 * index)
            assert (await node.produce("orders", records)).error_code == 0
        node.clock.time = NOW + age_ms
        await node.role.maintenance.enforce_retention()
        described = await node.describe("orders")
        assert (described.log_start_offset, described.log_end_offset) == (log_start, 10)
        assert (await node.list_offset("orders", -2)).offset == log_start
        assert len(list((tmp_path / "orders-0").glob("*.log*"))) == file_count


async def test_deleting_old_segments_keeps_their_producers(tmp_path):
    """Facts 9: deleting segments does not remove producers."""
    config = {"segment_bytes": 1024, "retention_ms": 1000, "file_delete_delay_ms": 0}
    async with running(tmp_path, topic("orders", **config)) as node:
        sent = batch(value=b"x" * 900, producer_id=5, producer_epoch=0, base_sequence=0)
        await node.produce("orders", sent)
        node.clock.time = NOW + 10_000
        await node.role.maintenance.enforce_retention()
        assert (await node.describe("orders")).log_start_offset == 1
        assert (await node.produce("orders", sent)).base_offset == 0
        more = batch(timestamp=NOW + 10_000, producer_id=5, producer_epoch=0, base_sequence=1)
        assert (await node.produce("orders", more)).base_offset == 1
    async with running(tmp_path, topic("orders", **config)) as node:
        assert (await node.list_offset("orders", -2)).offset == 1
        assert (await node.produce("orders", more)).base_offset == 1


async def test_retention_makes_the_new_start_durable_before_files_go(tmp_path):
    """A kill between the two must not look like lost data, not even when everything is deleted."""
    config = {"segment_bytes": 1024, "retention_ms": 1000, "file_delete_delay_ms": 60_000}
    async with running(
        tmp_path / "a", topic("orders", **config), checkpoint_interval_ms=10
    ) as node:
        await node.fill("orders", 5, batch(value=b"x" * 400))
        point = tmp_path / "a" / "recovery-point-offset-checkpoint"
        await until(lambda: point.exists() and "orders 0 5" in point.read_text())
        node.clock.time = NOW + 10_000
        await node.role.maintenance.enforce_retention()
        starts = (tmp_path / "a" / "log-start-offset-checkpoint").read_text()
        assert decode_checkpoint(starts) == {Partition("orders", 0): 5}
        assert list((tmp_path / "a" / "orders-0").glob("*.log.*.deleted"))
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    async with running(tmp_path / "b", topic("orders", **config)) as node:
        described = await node.describe("orders")
        assert (described.error_code, described.log_start_offset, described.log_end_offset) == (
            0,
            5,
            5,
        )
        assert (await node.produce("orders", batch())).base_offset == 5


async def test_nobody_reads_past_a_sync_that_is_under_way(tmp_path, synced):
    async with running(tmp_path, topic("orders", flush_messages=2), sync=synced.sync) as node:
        await node.produce("orders", batch())
        synced.held.clear()
        second = asyncio.create_task(node.produce("orders", batch()))
        await until(lambda: synced.begun == 1)
        third = asyncio.create_task(node.produce("orders", batch()))
        for _ in range(5):
            await asyncio.sleep(0)
        assert (await node.fetch("orders", 0)).high_watermark == 1
        assert not second.done()
        assert not third.done()
        synced.held.set()
        assert [(await second).base_offset, (await third).base_offset] == [1, 2]
        assert (await node.fetch("orders", 0)).high_watermark == 3


async def test_a_kill_amid_retention_leaves_no_index_without_a_segment(tmp_path, monkeypatch):
    """It told the next start that somebody had removed the segment, and the partition was offline."""
    rename, killed = os.rename, []

    def copied(source, target):
        rename(source, target)
        killed.append(tmp_path / f"killed-{len(killed)}")
        shutil.copytree(tmp_path / "a", killed[-1])

    config = {"retention_ms": 1000, "file_delete_delay_ms": 60_000}
    async with running(tmp_path / "a", topic("orders", **config)) as node:
        await node.produce("orders", batch(3))
        await node.role.maintenance.checkpoint_all()
        node.clock.time = NOW + 10_000
        monkeypatch.setattr(os, "rename", copied)
        await node.role.maintenance.enforce_retention()
        monkeypatch.undo()
    for folder in killed:
        async with running(folder, topic("orders", **config)) as node:
            described = await node.describe("orders")
            assert (described.error_code, described.log_end_offset) == (0, 3), folder
    assert len(killed) >= 3


async def test_a_topic_deleted_while_retention_works_can_be_made_again(tmp_path, synced):
    """Its log start was written down after it was forgotten, and the new partition was offline: its folder was gone."""
    config = {"segment_bytes": 1024, "retention_ms": 1000, "file_delete_delay_ms": 0}
    async with running(
        tmp_path, topic("orders", topic_id=b"1" * 16, **config), sync=synced.sync
    ) as node:
        await node.produce("orders", batch(value=b"x" * 900))
        node.clock.time = NOW + 10_000
        synced.held.clear()
        retention = asyncio.create_task(node.role.maintenance.enforce_retention())
        await until(lambda: synced.begun == 1)
        node.delta(removed_topics=["orders"])
        for _ in range(5):
            await asyncio.sleep(0)
        synced.held.set()
        await retention
        await until(lambda: not list(tmp_path.glob("orders-0*")))
        node.delta(topics=[topic("orders", topic_id=b"2" * 16)])
        answer = await node.produce("orders", batch())
        assert (answer.error_code, answer.base_offset) == (0, 0)


async def test_a_file_that_is_due_while_others_go_is_removed_next(tmp_path, synced):
    """Retention unlinks in a worker thread. What the cleaner replaces meanwhile may be due at the same millisecond."""
    compacted = topic("c", cleanup_policy="compact", segment_bytes=1024, file_delete_delay_ms=0)
    async with running(tmp_path, compacted, topic("d"), sync=synced.sync) as node:
        maintenance, log = node.role.maintenance, node.role._replica_manager.led("c", 0).log
        await node.fill("c", 20, batch(key=b"k", value=b"x" * 200))
        await maintenance.checkpoint_all()
        await node.produce("d", batch())
        synced.held.clear()
        checkpoint = asyncio.create_task(maintenance.checkpoint_all())
        cleaning = asyncio.create_task(maintenance.cleaner.clean_all())
        # Its exchange waits for the worker thread, which the sync of `d` keeps busy.
        await until(log.folder_lock.locked)
        retention = asyncio.create_task(maintenance.enforce_retention())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not retention.done()
        synced.held.set()
        await asyncio.gather(checkpoint, cleaning, retention)
        assert maintenance.cleaner.metrics.passes == 1
        await maintenance.enforce_retention()
        assert list((tmp_path / "c-0").glob("*.deleted")) == []


async def test_files_that_cannot_be_removed_are_removed_later(tmp_path):
    config = {"segment_bytes": 1024, "retention_ms": 1000, "file_delete_delay_ms": 1000}
    async with running(tmp_path, topic("orders", **config)) as node:
        await node.produce("orders", batch(value=b"x" * 900))
        node.clock.time = NOW + 10_000
        await node.role.maintenance.enforce_retention()
        deleted = sorted((tmp_path / "orders-0").glob("*.deleted"))
        assert len(deleted) > 1
        # A folder in a file's place cannot be unlinked.
        deleted[0].unlink()
        deleted[0].mkdir()
        node.clock.time += 1000
        await node.role.maintenance.enforce_retention()
        deleted[0].rmdir()
        await node.role.maintenance.enforce_retention()
        assert list((tmp_path / "orders-0").glob("*.deleted")) == []


def test_a_file_does_not_take_the_place_of_one_that_waits(tmp_path):
    """A replica can begin again at an offset whose first segment still waits to be removed."""
    log = new_log(tmp_path, segment_bytes=200)
    waiting = []
    for _ in range(2):
        log_replication.start_over(log, 0)
        for _ in range(3):
            append(log, batch(value=b"x" * 200))
        waiting += [path for path in log.drop_segments_before(2) if ".log." in path]
    assert len(set(waiting)) == 4
    assert all(os.path.exists(path) for path in waiting)


# Record times outlive a start that reads nothing.


async def test_offsets_are_found_by_time_after_a_clean_restart(tmp_path):
    async with running(tmp_path, topic("orders")) as node:
        await node.produce("orders", batch(3))
        assert (await node.list_offset("orders", NOW + 1)).offset == 1
    async with running(tmp_path, topic("orders")) as node:
        assert (await node.list_offset("orders", NOW + 1)).offset == 1
        assert (await node.list_offset("orders", -3)).offset == 2


def test_a_segment_sealed_after_a_checkpoint_keeps_its_time(tmp_path):
    log = new_log(tmp_path / "orders-0", segment_bytes=200)
    for time in (0, 500):
        append(log, batch(timestamp=NOW + time))
    checkpoint(log)
    append(log, batch(timestamp=NOW + 1000))
    recovery_point = checkpoint(log)
    found = opened(tmp_path / "orders-0", recovery_point, segment_bytes=200)
    assert [segment.max_timestamp()[0] - NOW for segment in found.segments] == [500, 1000]


def test_a_segments_age_counts_from_its_first_batch(tmp_path):
    log = new_log(tmp_path / "orders-0", segment_ms=1000)
    append(log, batch(timestamp=NOW))
    found = opened(tmp_path / "orders-0", checkpoint(log), segment_ms=1000)
    append(found, batch(timestamp=NOW + 1001))
    assert len(found.segments) == 2
