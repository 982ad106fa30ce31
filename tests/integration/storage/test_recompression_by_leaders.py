"""compression.type other than `producer`: the leader stores batches in the topic's codec, as Kafka's does."""

import asyncio
import os

import pytest
from tests.integration.storage.storage_node import batch, running, topic, txn_batch

from oncelog.record.batch import Codec, crc_is_valid, iter_headers, read_header
from oncelog.record.records import decode_batch

TOPIC_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@pytest.mark.parametrize("name", TOPIC_CODECS)
async def test_every_batch_is_stored_in_the_topics_codec(tmp_path, name):
    async with running(tmp_path, topic("orders", compression_type=name)) as node:
        sent = [batch(20, value=b"v" * 500, codec=codec) for codec in Codec]
        for index, one in enumerate(sent):
            answer = await node.produce("orders", one)
            assert (answer.error_code, answer.base_offset) == (0, 20 * index)
        fetched = (await node.fetch("orders", 0, committed=True)).records
        stored = list(iter_headers(fetched))
        assert [header.codec for _, header in stored] == [TOPIC_CODECS[name]] * len(sent)
        for (position, header), one in zip(stored, sent, strict=True):
            assert crc_is_valid(fetched, header, position)
            got = [(r.key, r.value, r.timestamp) for r in decode_batch(fetched, position)]
            assert got == [(r.key, r.value, r.timestamp) for r in decode_batch(one)]


async def test_a_repeated_recompressed_batch_gets_its_offset(tmp_path):
    async with running(tmp_path, topic("orders", compression_type="zstd")) as node:
        first = txn_batch(9, 0, 3, codec=Codec.GZIP)
        second = txn_batch(9, 3, 3, codec=Codec.NONE)
        for one in (first, second, first, second):
            answer = await node.produce("orders", one, transactional_id="pay")
            assert (answer.error_code, answer.base_offset) == (0, 0 if one is first else 3)
        assert await node.mark("orders", (9, 0, True)) == [0]
        fetched = (await node.fetch("orders", 0, committed=True)).records
        headers = [header for _, header in iter_headers(fetched)]
        assert [header.next_offset for header in headers] == [3, 6, 7]
        assert [header.is_control for header in headers] == [False, False, True]
        assert [header.codec for header in headers] == [Codec.ZSTD, Codec.ZSTD, Codec.NONE]
        assert [header.base_sequence for header in headers[:2]] == [0, 3]


async def test_a_small_batch_behind_a_large_one_stays_behind_it(tmp_path):
    """The large one is recompressed in a thread; its producer's next batches are sent before it is answered."""
    topics = [topic("orders", 2, compression_type="gzip"), topic("plain")]
    async with running(tmp_path, *topics) as node:
        large = txn_batch(4, 0, value=os.urandom(900_000))
        rest = [txn_batch(4, sequence) for sequence in range(1, 5)]
        answers = await asyncio.gather(
            *(node.produce("orders", one, transactional_id="pay") for one in (large, *rest))
        )
        assert [answer.error_code for answer in answers] == [0] * 5
        assert [answer.base_offset for answer in answers] == [0, 1, 2, 3, 4]

        # Without sequences nothing else would keep them in order.
        large, small = batch(value=os.urandom(900_000)), batch()
        answers = await asyncio.gather(
            *(node.produce("orders", one, partition=1) for one in (large, small, large, small))
        )
        assert [answer.base_offset for answer in answers] == [0, 1, 2, 3]


async def test_who_gives_up_waiting_lets_nobody_overtake(tmp_path):
    async with running(tmp_path, topic("orders", compression_type="gzip")) as node:
        large = batch(value=os.urandom(900_000))
        first = asyncio.create_task(node.produce("orders", large))
        second = asyncio.create_task(node.produce("orders", batch(2)))
        third = asyncio.create_task(node.produce("orders", batch(3)))
        await asyncio.sleep(0)
        second.cancel()
        assert (await first).base_offset == 0
        assert (await third).base_offset == 1
        assert (await node.produce("orders", batch())).base_offset == 4


async def test_a_large_batch_does_not_hold_up_the_loop(tmp_path):
    async def turns_of(node):
        """Of the loop, while one batch is compressed."""
        task = asyncio.create_task(node.produce("orders", batch(200, value=os.urandom(5_000))))
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        assert task.result().error_code == 0
        return turns

    async with running(tmp_path, topic("orders", compression_type="gzip")) as node:
        # On a busy machine the loop's thread may not run meanwhile, for other reasons too.
        assert any([await turns_of(node) > 10 for _ in range(10)])


async def test_a_changed_compression_type_counts_from_the_next_batch(node):
    await node.produce("orders", batch(codec=Codec.SNAPPY))
    node.delta(topics=[topic("orders", compression_type="lz4")])
    await node.produce("orders", batch(codec=Codec.SNAPPY))
    fetched = (await node.fetch("orders", 0)).records
    assert [header.codec for _, header in iter_headers(fetched)] == [Codec.SNAPPY, Codec.LZ4]


async def test_log_append_time_is_stamped_on_a_recompressed_batch(tmp_path):
    configs = {"compression_type": "zstd", "message_timestamp_type": "LogAppendTime"}
    async with running(tmp_path, topic("orders", **configs)) as node:
        answer = await node.produce("orders", batch(5))
        fetched = (await node.fetch("orders", 0)).records
        header = read_header(fetched)
        assert header.max_timestamp == answer.log_append_time_ms
        assert header.codec == Codec.ZSTD
        assert crc_is_valid(fetched, header)
