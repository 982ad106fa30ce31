"""The largest timestamp of a batch is what its records say: searches by time, retention and producers go by it."""

import os
import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from tests.integration.storage.partition_log_at import LOG, append, checkpoint, new_log, opened
from tests.integration.storage.replica_cluster import running_cluster
from tests.integration.storage.storage_node import NOW, batch, running, topic, txn_batch

from oncelog.ids import CONSUMER_OFFSETS_TOPIC
from oncelog.record.batch import LOG_APPEND_TIME, Codec, crc_is_valid, iter_headers, read_header
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.record.records import Record, encode_batch

LIES = (0, -1, NOW - 400 * 86_400_000, NOW + 400 * 86_400_000)
HOUR_MS = 3_600_000


def lying(records, max_timestamp):
    """The batch with another maximum timestamp in its header."""
    changed = bytearray(records)
    struct.pack_into(">q", changed, 35, max_timestamp)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return bytes(changed)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_in_the_header_is_put_right(tmp_path, lie, codec):
    """sarama before 1.44 leaves it at -1: its records were deleted at once, and found by no time."""
    truth = batch(3, codec=codec, producer_id=7, producer_epoch=0, base_sequence=0)
    async with running(tmp_path, topic("orders", retention_ms=HOUR_MS)) as node:
        assert (await node.produce("orders", lying(truth, lie))).error_code == 0
        (header,) = (one for _, one in iter_headers((await node.fetch("orders", 0)).records))
        assert header.max_timestamp == NOW + 2
        assert crc_is_valid((await node.fetch("orders", 0)).records, header)
        for timestamp, offset in ((NOW, 0), (NOW + 2, 2), (NOW + 3, -1), (-3, 2)):
            assert (await node.list_offset("orders", timestamp)).offset == offset
        node.clock.time = NOW + HOUR_MS
        await node.role.maintenance.enforce_retention()
        assert (await node.describe("orders")).log_start_offset == 0
        log = node.role._replica_manager.led("orders", 0).log
        assert log.producers.expire(NOW + HOUR_MS, 2 * HOUR_MS) == 0, "the producer is no old one"
        node.clock.time = NOW + HOUR_MS + 3
        await node.role.maintenance.enforce_retention()
        assert (await node.describe("orders")).log_start_offset == 3


async def test_a_lie_does_not_begin_a_segment(tmp_path):
    async with running(tmp_path, topic("orders", segment_ms=1000)) as node:
        for lie in LIES:
            await node.produce("orders", lying(batch(), lie))
        assert len(node.role._replica_manager.led("orders", 0).log.segments) == 1


async def test_followers_have_what_the_leader_put_right(tmp_path):
    async with running_cluster(tmp_path, nodes=(1, 2)) as cluster:
        cluster.controller.topic(replicas=(1, 2))
        assert (await cluster.produce(lying(batch(2), 0))).error_code == 0
        await cluster.caught_up()
        logs = [cluster.nodes[node].held().log for node in (1, 2)]
        paths = [Path(log.segments[0].log_path) for log in logs]
        first, second = [path.read_bytes() for path in paths]
        assert first == second
        assert read_header(first).max_timestamp == NOW + 1
        assert [log.segments[0].max_timestamp()[0] for log in logs] == [NOW + 1] * 2


# What older versions stored.


def with_old_index(log, entry):
    """The log as an older version left it: its time index has what the headers said."""
    path = Path(log.segments[0].path(".timeindex"))
    path.write_bytes(b"" if entry is None else struct.pack(">qi", *entry))


@pytest.mark.parametrize("lie", [0, -1, 5])
@pytest.mark.parametrize("count", [1, 3])
def test_an_old_lie_does_not_make_young_records_old(tmp_path, lie, count):
    """A base timestamp is the first record's, so a maximum below it is a lie."""
    log = new_log(tmp_path / "orders-0")
    for _ in range(2):
        append(log, lying(batch(count), lie))
    recovery_point = checkpoint(log)
    with_old_index(log, (lie, count - 1) if lie >= 0 else None)
    found = opened(tmp_path / "orders-0", recovery_point)
    assert found.segments[0].max_timestamp()[0] == NOW
    assert found.segments[0].find_timestamp(NOW, 0) == (NOW, 0, 0)
    assert found.segments[0].find_timestamp(NOW, 1)[1] == 1
    again = opened(tmp_path / "orders-0")
    assert again.segments[0].max_timestamp()[0] == NOW, "the same by a scan of all of it"


async def test_retention_does_not_believe_an_old_lie(tmp_path):
    config = {"retention_ms": HOUR_MS}
    async with running(tmp_path, topic("orders", **config)) as node:
        await node.fill("orders", 2, batch())
    path = tmp_path / "orders-0" / LOG
    data = path.read_bytes()
    size = len(data) // 2
    path.write_bytes(b"".join(lying(data[at : at + size], 0) for at in (0, size)))
    (tmp_path / "orders-0" / LOG.replace(".log", ".timeindex")).write_bytes(
        struct.pack(">qi", 0, 0)
    )
    # An older version kept no list of its segments.
    (tmp_path / "orders-0" / "segments-checkpoint").unlink()
    properties = tmp_path / "meta.properties"
    kept = [one for one in properties.read_text().splitlines() if "segments.checked" not in one]
    properties.write_text("\n".join(kept) + "\n")
    async with running(tmp_path, topic("orders", **config)) as node:
        node.clock.time = NOW + HOUR_MS
        await node.role.maintenance.enforce_retention()
        assert (await node.describe("orders")).log_start_offset == 0
        node.clock.time += 1
        await node.role.maintenance.enforce_retention()
        assert (await node.describe("orders")).log_start_offset == 2


# Records without timestamps.


async def test_without_timestamps_age_counts_from_the_last_write(tmp_path):
    """As in Kafka, which asks the file. Here it counted from when the segment was made."""
    silent = encode_batch([Record(b"k", b"v", -1)])
    async with running(tmp_path, topic("orders", retention_ms=1000)) as node:
        for step in (0, 900):
            node.clock.time = NOW + step
            await node.produce("orders", silent)
        for step, log_start in ((1900, 0), (1901, 2)):
            node.clock.time = NOW + step
            await node.role.maintenance.enforce_retention()
            assert (await node.describe("orders")).log_start_offset == log_start


async def test_without_timestamps_age_outlives_a_restart(tmp_path):
    silent = encode_batch([Record(b"k", b"v", -1)])
    async with running(tmp_path, topic("orders", retention_ms=1000)) as node:
        await node.fill("orders", 2, silent)
    os.utime(tmp_path / "orders-0" / LOG, ns=((NOW + 500) * 1_000_000,) * 2)
    async with running(tmp_path, topic("orders", retention_ms=1000)) as node:
        for step, log_start in ((1500, 0), (1501, 2)):
            node.clock.time = NOW + step
            await node.role.maintenance.enforce_retention()
            assert (await node.describe("orders")).log_start_offset == log_start


# Markers.


async def test_markers_say_whose_time_they_have(tmp_path):
    config = {"message_timestamp_type": "LogAppendTime"}
    async with running(tmp_path, topic("orders", **config), topic("plain")) as node:
        for name, bit in (("orders", LOG_APPEND_TIME), ("plain", 0)):
            await node.produce(name, txn_batch(9, 0), transactional_id="pay")
            node.clock.time = NOW + 50
            assert await node.mark(name, (9, 1, True, 0, 2)) == [0]
            stored = (await node.fetch(name, 1)).records
            header = read_header(stored)
            assert header.is_control
            assert header.attributes & LOG_APPEND_TIME == bit
            assert header.max_timestamp == NOW + 50
            assert crc_is_valid(stored, header)


async def test_the_index_has_the_time_that_a_marker_has(tmp_path, caplog):
    """A group's coordinator makes its markers by its own clock. After a restart the index was found to be wrong."""
    name, made = CONSUMER_OFFSETS_TOPIC, NOW - 700
    offsets = encode_batch(
        [Record(b"k", b"v", made)], producer_id=4, producer_epoch=3, is_transactional=True
    )
    marker = encode_marker(
        Marker(MarkerType.COMMIT, 7), producer_id=4, producer_epoch=3, timestamp=made
    )
    async with running(tmp_path) as node:
        await node.append(name, offsets, expected_base_offset=0)
        assert (await node.append(name, marker, expected_base_offset=1)).error_code == 0
    async with running(tmp_path) as node:
        assert node.role._replica_manager.led(name, 0).log.segments[0].max_timestamp()[0] == made
    assert not [one for one in caplog.records if "is built again" in one.getMessage()]


# The largest timestamp that is left.


async def test_the_newest_that_remains_is_found_after_a_deletion(tmp_path):
    async with running(tmp_path, topic("orders", segment_bytes=1024)) as node:
        for step in (9, 3, 5, 5, 1):
            await node.produce("orders", batch(timestamp=NOW + step, value=b"x" * 200))
        assert len(node.role._replica_manager.led("orders", 0).log.segments) == 2
        for log_start, expected in ((0, (9, 0)), (1, (5, 2)), (3, (5, 3)), (4, (1, 4))):
            assert (await node.delete_records("orders", log_start))[0] == 0
            found = await node.list_offset("orders", -3)
            assert (found.timestamp_ms - NOW, found.offset) == expected
        await node.delete_records("orders", 5)
        assert (await node.list_offset("orders", -3)).offset == -1


async def test_a_part_of_a_batch_that_remains_is_searched(tmp_path):
    made = [Record(b"k", b"v", NOW + step) for step in (8, 2, 6, 6)]
    async with running(tmp_path, topic("orders")) as node:
        await node.produce("orders", encode_batch(made, codec=Codec.GZIP))
        for log_start, expected in ((0, (8, 0)), (1, (6, 2)), (3, (6, 3))):
            await node.delete_records("orders", log_start)
            found = await node.list_offset("orders", -3)
            assert (found.timestamp_ms - NOW, found.offset) == expected
