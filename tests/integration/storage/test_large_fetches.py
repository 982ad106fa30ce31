"""A fetch of more partitions than one turn reads is answered whole, waits as any other, and misses nothing."""

import asyncio
import time

import pytest
from tests.integration.storage.storage_node import batch, running, topic

from oncelog.api.v1 import storage_pb2
from oncelog.errors import ErrorCode

PARTITIONS = 1000


def fetch(node, max_wait_ms, partitions=range(PARTITIONS), min_bytes=1, committed=False):
    parts = [
        storage_pb2.FetchPartition(
            topic="orders", partition=one, max_bytes=1 << 20, current_leader_epoch=-1
        )
        for one in partitions
    ]
    request = storage_pb2.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 24,
        isolation_level=int(committed),
        partitions=parts,
    )
    return asyncio.ensure_future(node.storage.Fetch(request, None))


def records_in(answer):
    return {one.partition: len(one.records) for one in answer.partitions if one.records}


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("partition", [0, PARTITIONS - 1])
async def test_an_append_to_any_of_them_ends_the_wait(tmp_path, partition, committed):
    async with running(tmp_path, topic("orders", PARTITIONS)) as node:
        waiting = fetch(node, 60_000, committed=committed)
        # In the middle of the first turns: the first partitions are read, the last are not.
        for _ in range(2):
            await asyncio.sleep(0)
        assert not waiting.done()
        await node.produce("orders", batch(), partition=partition)
        answer = await asyncio.wait_for(waiting, 30)
        assert list(records_in(answer)) == [partition]
        assert len(answer.partitions) == PARTITIONS


async def test_an_error_is_told_at_once_and_the_deadline_is_kept(tmp_path):
    async with running(tmp_path, topic("orders", PARTITIONS)) as node:
        answer = await asyncio.wait_for(fetch(node, 60_000, range(PARTITIONS + 1)), 30)
        assert answer.partitions[-1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not any(one.error_code for one in answer.partitions[:-1])
        since = time.monotonic()
        answer = await asyncio.wait_for(fetch(node, 100), 30)
        assert time.monotonic() - since >= 0.1
        assert len(answer.partitions) == PARTITIONS


async def test_it_reads_in_turns(tmp_path):
    async with running(tmp_path, topic("orders", PARTITIONS)) as node:
        waiting = fetch(node, 0)
        turns = 0
        while not waiting.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns >= PARTITIONS / 200
