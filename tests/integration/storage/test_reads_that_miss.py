"""Reads of what the system does not hold in memory: the event loop goes on, and readers get the same answers."""

import asyncio

import pytest
from tests.integration.storage.replica_cluster import batch as cluster_batch
from tests.integration.storage.replica_cluster import differences
from tests.integration.storage.storage_node import NODE, batch, running, topic, txn_batch, until

from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog_storage import files
from oncelog_storage.files import OpenFiles
from oncelog_storage.segment_reader import SegmentReader


@pytest.fixture
def misses(monkeypatch):
    """Every part of a file is missed once."""
    missed, brought = [], set()
    held, bring = OpenFiles._held, SegmentReader.bring

    def held_once_brought(self, descriptor, size_bytes, position):
        key = (files.os.fstat(descriptor).st_ino, position)
        if key in brought:
            return held(self, descriptor, size_bytes, position)
        missed.append(key)
        return b""

    async def bring_it(self, miss):
        await bring(self, miss)
        brought.update(missed)

    monkeypatch.setattr(files, "_NO_WAIT", files._NO_WAIT or 8)
    monkeypatch.setattr(OpenFiles, "_held", held_once_brought)
    monkeypatch.setattr(SegmentReader, "bring", bring_it)
    return missed


async def test_readers_get_what_they_would_have_got(tmp_path, misses):
    async with running(tmp_path, topic("orders", segment_bytes=1024)) as node:
        for number in range(30):
            await node.produce("orders", batch(3, timestamp=1000 + number))
        await node.produce("orders", txn_batch(9, 0, 2), transactional_id="pay")
        await node.mark("orders", (9, 0, False))
        fetched, offset = b"", 0
        while offset < 93:
            answer = await node.fetch("orders", offset, committed=True)
            assert answer.records
            fetched, offset = answer.records, offset + 1
        assert fetched
        assert [each.first_offset for each in answer.aborted_transactions] == [90]
        assert misses
        assert (await node.list_offset("orders", 1010)).offset == 26
        assert (await fate(node, 91)).fate == storage_pb2.IN_ABORTED


async def test_an_append_during_a_miss_wakes_the_fetch(node, misses, monkeypatch):
    await node.produce("orders", batch())
    first = (await node.fetch("orders", 0)).records
    gate, bring = asyncio.Event(), SegmentReader.bring

    async def slow(self, miss):
        await gate.wait()
        await bring(self, miss)

    monkeypatch.setattr(SegmentReader, "bring", slow)
    misses.clear()
    monkeypatch.setattr(OpenFiles, "_held", _missed_once(OpenFiles._held))
    fetching = asyncio.create_task(
        node.fetch("orders", 0, min_bytes=len(first) + 1, max_wait_ms=60_000)
    )
    await asyncio.sleep(0)
    await node.produce("orders", batch())
    gate.set()
    async with asyncio.timeout(30):
        answer = await fetching
    assert len(answer.records) > len(first)


def fate(node, offset):
    partition = types_pb2.TopicPartition(topic="orders", partition=0)
    request = storage_pb2.DescribeRecordRequest(partition=partition, offset=offset)
    return node.storage.DescribeRecord(request, None)


def one_miss(monkeypatch, meanwhile):
    """The next read is missed once; `meanwhile` happens while a thread reads."""
    bring = SegmentReader.bring

    async def slow(self, miss):
        await bring(self, miss)
        meanwhile()

    monkeypatch.setattr(files, "_NO_WAIT", files._NO_WAIT or 8)
    monkeypatch.setattr(SegmentReader, "bring", slow)
    monkeypatch.setattr(OpenFiles, "_held", _missed_once(OpenFiles._held))


@pytest.mark.parametrize(
    "call", [lambda node: node.list_offset("orders", 1003), lambda node: fate(node, 4)]
)
async def test_a_topic_deleted_during_a_miss_is_not_read(tmp_path, monkeypatch, call):
    """A file that was opened again behind its deletion would take the records of the next topic of that name."""
    before, after = (topic("orders", topic_id=bytes([number] * 16)) for number in (1, 2))
    async with running(tmp_path, before) as node:
        for number in range(5):
            await node.produce("orders", batch(3, timestamp=1000 + number))
        with monkeypatch.context() as patched:
            one_miss(patched, lambda: node.delta(removed_topics=["orders"]))
            assert (await call(node)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await until(lambda: not list(tmp_path.glob("orders-0*")))
        node.delta(topics=[after])
        assert (await node.produce("orders", batch(3))).error_code == 0
    async with running(tmp_path, after) as node:
        assert (await node.describe("orders")).log_end_offset == 3


async def test_who_leads_no_more_after_a_miss_refuses(tmp_path, monkeypatch):
    moved = topic("orders", topic_id=b"1" * 16)
    partition = moved.partitions[0]
    partition.leader, partition.leader_epoch = NODE + 1, partition.leader_epoch + 1
    for nodes in (partition.replicas, partition.isr):
        nodes[:] = [NODE, NODE + 1]
    async with running(tmp_path, topic("orders", topic_id=b"1" * 16)) as node:
        await node.produce("orders", batch(3, timestamp=1003))
        one_miss(monkeypatch, lambda: node.delta(topics=[moved]))
        answer = await node.list_offset("orders", 1003)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_search_that_misses_leaves_no_index_in_memory(tmp_path, misses):
    orders = topic("orders", segment_bytes=1024, index_interval_bytes=0)
    async with running(tmp_path, orders) as node:
        for number in range(60):
            await node.produce("orders", batch(3, timestamp=1000 + number))
    async with running(tmp_path, orders) as node:
        sealed = node.role.partition(Partition("orders", 0)).log.segments[:-1]
        assert len(sealed) > 3
        for segment in sealed:
            segment._knows_max_timestamp = False
            segment.unload()
        assert (await node.list_offset("orders", 10**12)).offset == -1
        assert misses
        assert [one for one in sealed if one.is_loaded] == []


def _missed_once(held):
    calls = []

    def missing(self, descriptor, size_bytes, position):
        calls.append(1)
        return b"" if len(calls) == 1 else held(self, descriptor, size_bytes, position)

    return missing


async def test_followers_copy_what_their_leader_reads_later(cluster, misses):
    cluster.controller.topic()
    for _ in range(10):
        assert (await cluster.produce(cluster_batch(3))).error_code == 0
    await cluster.caught_up()
    assert misses
    assert differences(cluster) == {}
