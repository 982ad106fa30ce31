"""Markers of decisions of the same process, which are written without a wait, or are asked for again."""

from tests.integration.storage.storage_node import NODE, running, topic, txn_batch

from oncelog.ids import Partition
from oncelog.rpc import plain

ORDERS = Partition("orders", 0)


def marker(producer_id, *partitions, producer_epoch=1, coordinator_epoch=0, version=2):
    return plain.TxnMarker(
        producer_id, producer_epoch, True, coordinator_epoch, version, 5, "", partitions
    )


def written(node, *markers, about_to_write=lambda marker: None):
    request = plain.WriteTxnMarkersRequest(markers, about_to_write)
    return node.storage.write_markers_at_once(request, None)


async def opened(node, *producer_ids, partition=0):
    for producer_id in producer_ids:
        batch = txn_batch(producer_id, 0)
        answer = await node.produce("orders", batch, partition, transactional_id=f"t{producer_id}")
        assert answer.error_code == 0


async def stable(node):
    found = await node.describe("orders")
    return found.last_stable_offset, found.log_end_offset


async def test_markers_of_one_partition_are_written_together(tmp_path):
    async with running(tmp_path, topic("orders", 2)) as node:
        await opened(node, 7, 8)
        assert await stable(node) == (0, 2)
        both, told = [marker(7, ORDERS), marker(8, ORDERS)], []
        assert written(node, *both, about_to_write=told.append) == [True, True]
        assert (await stable(node), told) == ((4, 4), both)


async def test_a_fenced_marker_holds_up_no_other(tmp_path):
    async with running(tmp_path, topic("orders", 2)) as node:
        await opened(node, 7, 8)
        fenced = marker(7, ORDERS, producer_epoch=-1)
        assert written(node, fenced, marker(8, ORDERS)) == [False, True]
        assert await stable(node) == (0, 3)


async def test_a_partition_that_is_gone_is_left_to_the_long_way(tmp_path):
    async with running(tmp_path, topic("orders", 2)) as node:
        await opened(node, 7)
        told = []
        gone = marker(7, ORDERS, Partition("gone", 0))
        assert written(node, gone, about_to_write=told.append) == [False]
        assert (await stable(node), told) == ((0, 1), [])


async def test_no_marker_is_written_where_a_follower_is_waited_for(tmp_path):
    async with running(tmp_path, topic("orders", 1)) as node:
        await opened(node, 7)
        node.delta(topics=[topic("orders", 1, replicas=(NODE, 2), isr=(NODE, 2))])
        assert written(node, marker(7, ORDERS)) == [False]
        assert (await node.describe("orders")).log_end_offset == 1


async def test_a_late_marker_of_tv1_is_left_to_the_long_way(tmp_path):
    """Its coordinator is to be asked when the open transaction began."""
    async with running(tmp_path, topic("orders", 1)) as node:
        await opened(node, 7)
        late = marker(7, ORDERS, producer_epoch=0, version=1)._replace(transactional_id="t7")
        assert written(node, late) == [False]
        assert (await node.describe("orders")).log_end_offset == 1
