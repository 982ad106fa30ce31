"""What a storage node tells of its topics: as much as clients wrote, and as much as they were given."""

import asyncio

from tests.integration.storage.storage_node import batch, running, topic, txn_batch, until

from oncelog.api.v1.process_pb2 import DescribeProcessResponse
from oncelog_storage.process_counts import tell_counts


def told(node):
    answer = DescribeProcessResponse()
    tell_counts(node.role, answer)
    return answer


async def test_a_topic_counts_what_clients_write_and_get(tmp_path):
    async with running(tmp_path, topic("orders"), topic("quiet")) as node:
        first, second = batch(3), batch(2)
        await node.produce("orders", first)
        await node.produce("orders", second)
        got = (await node.fetch("orders", 0)).records
        (one,) = told(node).topics
        assert (one.topic, one.produced_records) == ("orders", 5)
        assert one.produced_bytes == len(first) + len(second)
        assert (one.consumed_records, one.consumed_bytes) == (5, len(got))


async def test_a_batch_that_comes_twice_counts_once(node):
    sent = txn_batch(9, 0, 2)
    for _ in range(2):
        await node.produce("orders", sent, transactional_id="pay")
    (one,) = told(node).topics
    assert one.produced_records == 2


async def test_a_fetch_that_waits_counts_its_last_look(node):
    await node.produce("orders", batch(1))
    one = len((await node.fetch("orders", 0)).records)
    waiting = asyncio.ensure_future(node.fetch("orders", 0, min_bytes=one + 1, max_wait_ms=60_000))
    await until(lambda: node.role._fetch._waiters)
    await node.produce("orders", batch(1))
    got = len((await waiting).records)
    (found,) = told(node).topics
    assert (found.consumed_records, found.consumed_bytes) == (3, one + got)


async def test_a_partition_that_is_held_back_is_told(node):
    await node.produce("orders", txn_batch(9, 0, 2), transactional_id="pay")
    (held,) = told(node).held
    assert (held.topic, held.partition, held.lso_lag) == ("orders", 0, 2)
    assert await node.mark("orders", (9, 0, True)) == [0]
    assert not told(node).held
