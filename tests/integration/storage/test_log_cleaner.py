"""A node cleans its compacted topics by itself: which, when, and what others see meanwhile."""

import asyncio
from pathlib import Path

import pytest
from tests.integration.storage.partition_log_at import flip
from tests.integration.storage.storage_node import (
    NOW,
    ManualClock,
    batch,
    running,
    topic,
    txn_batch,
    until,
)

from oncelog.ids import TRANSACTION_STATE_TOPIC, Partition
from oncelog.record.batch import iter_headers
from oncelog.record.records import decode_batch
from oncelog_storage.core.checkpoint_files import decode_checkpoint

DAY_MS = 86_400_000


def compacted(name, **configs):
    return topic(name, cleanup_policy="compact", segment_bytes=4096, **configs)


async def write(node, name, count, keys=5, value=b"x" * 200, start=0):
    for index in range(start, start + count):
        record = batch(key=b"k%d" % (index % keys), value=value, timestamp=node.clock.now())
        assert (await node.produce(name, record)).error_code == 0


async def read_all(node, name):
    """(every record from the log start on, where the log ends)."""
    rows, offset = [], led_partition(node, name).log.log_start_offset
    while True:
        answer = await node.fetch(name, offset)
        assert answer.error_code == 0
        if not answer.records:
            return rows, offset
        for position, header in iter_headers(answer.records):
            rows += [r for r in decode_batch(answer.records, position) if r.offset >= offset]
            offset = header.next_offset


def bytes_of(node, name):
    return led_partition(node, name).log.size_bytes


def led_partition(node, name, partition=0):
    return node.role._replica_manager.led(name, partition)


async def test_a_compacted_topic_keeps_the_last_value_of_each_key(tmp_path):
    async with running(tmp_path, compacted("c"), topic("d", segment_bytes=4096)) as node:
        for name in "cd":
            await write(node, name, 200)
        cleaner = node.role.maintenance.cleaner
        size = bytes_of(node, "c")
        await cleaner.clean_all()
        rows, end = await read_all(node, "c")
        assert end == 200
        latest = {row.key: row.offset for row in rows}
        assert latest == {b"k%d" % key: 195 + key for key in range(5)}
        assert len(rows) < 40
        assert (await read_all(node, "d"))[1] == 200
        assert len((await read_all(node, "d"))[0]) == 200
        assert cleaner.metrics.bytes_saved == size - bytes_of(node, "c") > 0
        assert cleaner.metrics.passes == 1
        assert cleaner.metrics.cleanable_bytes < size / 10
        checkpoint = decode_checkpoint((tmp_path / "cleaner-offset-checkpoint").read_text())
        sealed_end = led_partition(node, "c").log.segments[-1].base_offset
        assert checkpoint == {Partition("c", 0): sealed_end}
        await cleaner.clean_all()
        assert cleaner.metrics.passes == 1, "nothing new is dirty"
    async with running(tmp_path, compacted("c"), topic("d", segment_bytes=4096)) as node:
        again, end = await read_all(node, "c")
        assert (again, end) == (rows, 200)
        await node.role.maintenance.cleaner.clean_all()
        assert node.role.maintenance.cleaner.metrics.passes == 0


async def test_no_answer_is_made_of_emptied_batches_before_others(tmp_path):
    async with running(tmp_path, compacted("c")) as node:
        for index in range(60):
            # Each fills a segment, and all but the last are superseded.
            record = batch(key=b"k", value=b"%d" % index * 2000)
            assert (await node.produce("c", record)).error_code == 0
        cleaner = node.role.maintenance.cleaner
        await asyncio.gather(cleaner.clean_all(), cleaner.clean_all())
        assert cleaner.metrics.passes == 1, "one pass at a time"
        log = led_partition(node, "c").log
        assert len(log.segments) > 20
        assert log.size_bytes < 20_000
        for offset in (0, 1, 30, 57):
            answer = await node.fetch("c", offset)
            assert any(header.record_count for _, header in iter_headers(answer.records))


async def test_a_tombstone_stays_for_its_time_and_then_goes(tmp_path):
    clock = ManualClock()
    async with running(tmp_path, compacted("c", delete_retention_ms=1000), clock=clock) as node:
        await write(node, "c", 40)
        await write(node, "c", 1, value=None, start=3)
        await write(node, "c", 40, keys=2)
        cleaner = node.role.maintenance.cleaner
        await cleaner.clean_all()
        tombstones = [row for row in (await read_all(node, "c"))[0] if row.value is None]
        assert [(row.key, row.timestamp) for row in tombstones] == [(b"k3", NOW)]
        clock.time += 999
        await write(node, "c", 80, keys=2)
        await cleaner.clean_all()
        assert any(row.value is None for row in (await read_all(node, "c"))[0])
        clock.time += 1
        await write(node, "c", 80, keys=2)
        await cleaner.clean_all()
        assert not any(row.value is None for row in (await read_all(node, "c"))[0])
        assert cleaner.metrics.passes == 3


async def test_nothing_at_or_above_an_open_transaction_is_cleaned(tmp_path):
    async with running(tmp_path, compacted("c")) as node:
        await write(node, "c", 100)
        await node.produce("c", txn_batch(7, 0, key=b"open"), transactional_id="t")
        await write(node, "c", 100)
        await node.role.maintenance.cleaner.clean_all()
        rows, _ = await read_all(node, "c")
        assert len([row for row in rows if row.offset > 100]) == 100
        assert len(rows) < 130
        assert await node.mark("c", (7, 0, False)) == [0]
        await write(node, "c", 100)
        await node.role.maintenance.cleaner.clean_all()
        rows, _ = await read_all(node, "c")
        assert b"open" not in {row.key for row in rows}
        assert len(rows) < 30


async def test_lags_decide_when_a_record_is_cleaned(tmp_path):
    clock = ManualClock()
    young = compacted("young", min_compaction_lag_ms=5000)
    old = compacted("old", max_compaction_lag_ms=10_000, min_cleanable_dirty_ratio=1.0)
    async with running(tmp_path, young, old, clock=clock) as node:
        cleaner = node.role.maintenance.cleaner
        await write(node, "young", 100)
        await write(node, "old", 5)
        await cleaner.clean_all()
        assert len((await read_all(node, "young"))[0]) == 100
        clock.time += 5001
        await cleaner.clean_all()
        assert len((await read_all(node, "young"))[0]) < 30
        await write(node, "old", 5)
        clock.time += 5001
        await cleaner.clean_all()
        rows, end = await read_all(node, "old")
        assert (len(rows), end) == (5, 10), "the newest segment was ended to be cleaned"


async def test_a_shards_newest_segment_is_ended_soon_and_cleaned(tmp_path):
    async with running(tmp_path, shard_roll_bytes=2048) as node:
        led = led_partition(node, TRANSACTION_STATE_TOPIC)
        led.log.config = led.log.config.from_overrides({"cleanup.policy": "compact"})
        for index in range(60):
            answer = await node.append(
                TRANSACTION_STATE_TOPIC,
                batch(
                    key=b"id",
                    value=b"v" * 100,
                    producer_id=5,
                    producer_epoch=0,
                    base_sequence=index,
                ),
            )
            assert answer.error_code == 0
            if index % 20 == 19:
                await node.role.maintenance.cleaner.clean_all()
        rows, end = await read_all(node, TRANSACTION_STATE_TOPIC)
        assert end == 60
        assert [row.offset for row in rows] == [59]


async def test_readers_see_a_whole_log_whatever_is_cleaned_meanwhile(tmp_path):
    async with running(tmp_path, compacted("c"), cleaner_map_bytes=2048) as node:
        done = asyncio.Event()
        seen = []

        async def follow():
            """A consumer that is always behind must get the last value of every key."""
            while not done.is_set():
                rows, end = await read_all(node, "c")
                seen.append(end)
                values = {row.key: row.value for row in rows}
                for key in range(20):
                    last = max((i for i in range(end) if i % 20 == key), default=None)
                    if last is not None:
                        assert values[b"k%d" % key] == b"%d" % last * 50
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follow())
            for index in range(400):
                record = batch(key=b"k%d" % (index % 20), value=b"%d" % index * 50)
                await node.produce("c", record)
                if index % 50 == 49:
                    await node.role.maintenance.cleaner.clean_all()
            done.set()
        assert len(set(seen)) > 3
        assert node.role.maintenance.cleaner.metrics.passes > 4


async def test_a_topic_deleted_while_it_is_cleaned_leaves_nothing(tmp_path):
    async with running(tmp_path, compacted("c"), cleaner_io_bytes_per_s=100_000) as node:
        await write(node, "c", 200)
        cleaning = asyncio.create_task(node.role.maintenance.cleaner.clean_all())
        folder = tmp_path / "c-0"
        await until(lambda: any(p.name.endswith(".cleaned") for p in folder.iterdir()))
        node.delta(removed_topics=["c"])
        await cleaning
        await until(lambda: not folder.exists())
        assert node.role.maintenance.cleaner.metrics.passes == 0


async def test_stopping_does_not_wait_for_a_slow_cleaning(tmp_path):
    async with running(tmp_path, compacted("c"), cleaner_io_bytes_per_s=1000) as node:
        await write(node, "c", 200)
        cleaning = asyncio.create_task(node.role.maintenance.cleaner.clean_all())
        await until(lambda: led_partition(node, "c").log.recovery_point > 0)
    await cleaning
    async with running(tmp_path, compacted("c")) as node:
        rows, end = await read_all(node, "c")
        assert {row.key: row.offset for row in rows} == {
            b"k%d" % key: 195 + key for key in range(5)
        }
        assert end == 200


@pytest.mark.parametrize(
    ("byte", "told"),
    [(70, "CRC"), (5, "stands before"), (3, "stands before")],
    ids=["content", "offset 65536 too high", "offset beyond an index"],
)
async def test_a_damaged_segment_is_left_alone_and_others_are_cleaned(byte, told, tmp_path, caplog):
    """The CRC does not cover an offset. Cleaned, the batch would stand where others stand, and those would be lost."""
    async with running(tmp_path, compacted("bad"), compacted("good")) as node:
        for name in ("bad", "good"):
            await write(node, name, 200)
        path = Path(led_partition(node, "bad").log.segments[1].log_path)
        damaged = damage_last_batch(path, byte)
        await node.role.maintenance.cleaner.clean_all()
        metrics = node.role.maintenance.cleaner.metrics
        assert (metrics.passes, metrics.uncleanable_partitions) == (1, 1)
        assert is_still(path, damaged)
        assert len((await read_all(node, "good"))[0]) < 40
    assert told in caplog.text
    assert "broke" not in caplog.text


def damage_last_batch(path, byte):
    (*_, (position, _)) = iter_headers(path.read_bytes())
    flip(path, position + byte, 1)
    return path.read_bytes()


def is_still(path, data):
    return path.read_bytes() == data


async def test_compact_and_delete_does_both(tmp_path):
    clock = ManualClock()
    both = topic("c", cleanup_policy="compact,delete", segment_bytes=4096, retention_ms=DAY_MS)
    async with running(tmp_path, both, clock=clock) as node:
        await write(node, "c", 100, keys=100)
        clock.time += DAY_MS + 1
        await write(node, "c", 100)
        await node.role.maintenance.cleaner.clean_all()
        await node.role.maintenance.enforce_retention()
        rows, end = await read_all(node, "c")
        assert end == 200
        start = led_partition(node, "c").log.log_start_offset
        assert 0 < start <= 100
        assert {b"k%d" % key for key in range(5)} <= {row.key for row in rows}
