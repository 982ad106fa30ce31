"""Fetch, markers and offsets through the servicer (facts 3, 5.3, 9)."""

import asyncio

from tests.integration.storage.storage_node import NOW, batch, running, topic, txn_batch, until

from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.errors import ErrorCode
from oncelog.record.batch import iter_headers
from oncelog.record.records import decode_batch


def offsets_of(fetched):
    return [header.base_offset for _, header in iter_headers(fetched.records)]


async def test_read_committed_stops_at_the_oldest_open_transaction(node):
    await node.produce("orders", batch())
    await node.produce("orders", txn_batch(9, 0), transactional_id="pay")
    await node.produce("orders", batch())
    committed = await node.fetch("orders", 0, committed=True)
    assert (committed.last_stable_offset, committed.high_watermark) == (1, 3)
    assert offsets_of(committed) == [0]
    assert offsets_of(await node.fetch("orders", 0)) == [0, 1, 2]
    described = await node.describe("orders")
    assert (described.lso_holder.producer_id, described.lso_holder.current_txn_start_offset) == (
        9,
        1,
    )
    assert await node.mark("orders", (9, 1, True, 0, 2)) == [0]
    assert offsets_of(await node.fetch("orders", 0, committed=True)) == [0, 1, 2, 3]
    assert (await node.describe("orders")).lso_holder.producer_id == -1


async def test_only_read_committed_is_told_what_to_skip(node):
    await node.produce("orders", txn_batch(9, 0, 2), transactional_id="pay")
    await node.mark("orders", (9, 0, False))
    await node.produce("orders", txn_batch(9, 2), transactional_id="pay")
    await node.mark("orders", (9, 0, True))
    fetched = await node.fetch("orders", 0, committed=True)
    assert [(each.producer_id, each.first_offset) for each in fetched.aborted_transactions] == [
        (9, 0)
    ]
    assert not (await node.fetch("orders", 0)).aborted_transactions
    assert not (await node.fetch("orders", 3, committed=True)).aborted_transactions


async def test_markers_of_one_request_move_the_lso_in_one_step(node):
    for producer_id in (7, 8, 9):
        await node.produce(
            "orders", txn_batch(producer_id, 0), transactional_id=f"branch-{producer_id}"
        )
    seen = []
    waiting = asyncio.create_task(
        node.fetch("orders", 0, committed=True, max_wait_ms=60_000, min_bytes=1)
    )
    await asyncio.sleep(0)
    assert await node.mark("orders", (7, 0, True), (8, 0, True), (9, 0, False)) == [0, 0, 0]
    seen.append((await waiting).last_stable_offset)
    assert seen == [6]


async def test_marker_errors_are_kafkas(node):
    await node.produce("orders", txn_batch(9, 0, producer_epoch=3), transactional_id="pay")
    assert await node.mark("orders", (9, 2, True)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await node.mark("orders", (9, 3, True, 0, 2)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await node.mark("orders", (9, 4, True, 5, 2)) == [0]
    assert await node.mark("orders", (9, 4, True, 4, 2)) == [
        ErrorCode.TRANSACTION_COORDINATOR_FENCED
    ]
    assert await node.mark("orders", (9, 4, True, 5, 2)) == [0], "a harmless repeat (KAFKA-19999)"
    assert await node.mark("nowhere", (9, 4, True)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await node.mark("orders", (404, 0, True)) == [0], "an unknown producer is accepted"
    assert await node.mark("orders", (9, 4, True, 5), (9, 5, True, 5)) == [0, 0]


async def test_one_refused_marker_does_not_keep_the_others_out(node):
    for producer_id in (8, 9):
        records = txn_batch(producer_id, 0, producer_epoch=3)
        await node.produce("orders", records, transactional_id=f"t{producer_id}")
    codes = await node.mark("orders", (8, 2, True), (9, 3, True))
    assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH, 0]
    assert (await node.describe("orders")).last_stable_offset == 0


async def test_a_fetch_waits_for_data_and_not_longer_than_asked(tmp_path):
    async with running(tmp_path, topic("orders", 2)) as node:
        request = storage_pb2.FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20)
        for partition in (0, 1):
            request.partitions.add(
                topic="orders", partition=partition, max_bytes=1 << 20, current_leader_epoch=-1
            )
        waiting = asyncio.create_task(node.storage.Fetch(request, None))
        await asyncio.sleep(0)
        assert not waiting.done()
        await node.produce("orders", batch(), partition=1)
        answer = await asyncio.wait_for(waiting, 30)
        assert [bool(part.records) for part in answer.partitions] == [False, True]
        assert not (await node.fetch("orders", 0, max_wait_ms=20, min_bytes=1)).records


async def test_min_bytes_counts_over_several_appends(node):
    records = batch(value=b"x" * 400)
    waiting = asyncio.create_task(
        node.fetch("orders", 0, max_wait_ms=60_000, min_bytes=2 * len(records) + 1)
    )
    await asyncio.sleep(0)
    for _ in range(2):
        await node.produce("orders", records)
        await asyncio.sleep(0)
    assert not waiting.done()
    await node.produce("orders", records)
    assert offsets_of(await asyncio.wait_for(waiting, 30)) == [0, 1, 2]


async def test_waiting_fetches_are_bounded_and_end_with_their_topic(tmp_path):
    async with running(tmp_path, topic("orders"), fetch_waiters_max=1) as node:
        waiting = asyncio.create_task(node.fetch("orders", 0, max_wait_ms=60_000, min_bytes=1))
        await asyncio.sleep(0)
        assert not (await node.fetch("orders", 0, max_wait_ms=60_000, min_bytes=1)).records
        node.delta(removed_topics=["orders"])
        answer = await asyncio.wait_for(waiting, 30)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_stopping_answers_who_waits(tmp_path):
    async with running(tmp_path, topic("orders")) as node:
        waiting = asyncio.create_task(node.fetch("orders", 0, max_wait_ms=60_000, min_bytes=1))
        await asyncio.sleep(0)
    assert (await asyncio.wait_for(waiting, 30)).error_code == 0


async def test_list_offsets_knows_ends_timestamps_and_isolation(tmp_path):
    async with running(
        tmp_path, topic("orders", segment_bytes=1024, index_interval_bytes=0)
    ) as node:
        for index in range(20):
            records = batch(2, timestamp=NOW + 100 * index, value=b"x" * 60)
            assert (await node.produce("orders", records)).base_offset == 2 * index
        assert (await node.describe("orders")).segment_count > 2
        assert (await node.list_offset("orders", -1)).offset == 40
        assert (await node.list_offset("orders", -2)).offset == 0
        newest = await node.list_offset("orders", -3)
        assert (newest.offset, newest.timestamp_ms) == (39, NOW + 1901)
        for index in range(20):
            found = await node.list_offset("orders", NOW + 100 * index)
            assert (found.offset, found.timestamp_ms) == (2 * index, NOW + 100 * index)
            between = await node.list_offset("orders", NOW + 100 * index + 1)
            assert (between.offset, between.timestamp_ms) == (
                2 * index + 1,
                NOW + 100 * index + 1,
            )
        missing = await node.list_offset("orders", NOW + 10_000)
        assert (missing.offset, missing.timestamp_ms, missing.error_code) == (-1, -1, 0)
        await node.produce(
            "orders", txn_batch(9, 0, timestamp=NOW + 50_000), transactional_id="pay"
        )
        assert (await node.list_offset("orders", -1, committed=True)).offset == 40
        assert (await node.list_offset("orders", NOW + 10_000)).offset == 40
        assert (await node.list_offset("orders", NOW + 10_000, committed=True)).offset == -1
        unknown = await node.list_offset("orders", -9)
        assert unknown.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_leader_epochs_tell_where_each_ended(tmp_path):
    async with running(tmp_path, topic("orders", leader_epoch=2)) as node:
        await node.produce("orders", batch(3))
        node.delta(topics=[topic("orders", leader_epoch=5)])
        await node.produce("orders", batch(4))

        async def end(leader_epoch):
            request = storage_pb2.OffsetsForLeaderEpochRequest()
            request.partitions.add(
                topic="orders", partition=0, current_leader_epoch=-1, leader_epoch=leader_epoch
            )
            answer = (await node.storage.OffsetsForLeaderEpoch(request, None)).partitions[0]
            return answer.leader_epoch, answer.end_offset

        assert [await end(each) for each in (1, 2, 3, 5, 6)] == [
            (1, 0),
            (2, 3),
            (2, 3),
            (5, 7),
            (-1, -1),
        ]


async def test_describe_producers_shows_what_find_hanging_needs(node):
    await node.produce("orders", txn_batch(9, 0, 3, producer_epoch=2), transactional_id="pay")
    request = storage_pb2.DescribeProducersRequest(
        partitions=[types_pb2.TopicPartition(topic="orders"), types_pb2.TopicPartition(topic="no")]
    )
    known, unknown = (await node.storage.DescribeProducers(request, None)).partitions
    (producer,) = known.producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (9, 2, 2)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, 0)
    assert producer.last_timestamp_ms == NOW + 2
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_deleted_records_are_gone_for_good(tmp_path):
    async def delete(node, before_offset):
        request = storage_pb2.DeleteRecordsRequest()
        request.partitions.add(topic="orders", partition=0, before_offset=before_offset)
        answer = (await node.storage.DeleteRecords(request, None)).partitions[0]
        return answer.error_code, answer.low_watermark

    topics = [topic("orders", segment_bytes=1024, file_delete_delay_ms=0)]
    async with running(tmp_path, *topics) as node:
        await node.fill("orders", 20, batch(value=b"x" * 100))
        assert await delete(node, 7) == (0, 7)
        assert await delete(node, 3) == (0, 7)
        assert await delete(node, 99) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert (await node.fetch("orders", 6)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        segments = (await node.describe("orders")).segment_count
        await node.role.maintenance.enforce_retention()
        assert (await node.describe("orders")).segment_count < segments
        assert not list((tmp_path / "orders-0").glob("*.deleted"))
    async with running(tmp_path, *topics) as node:
        assert (await node.list_offset("orders", -2)).offset == 7
        assert await delete(node, -1) == (0, 20)
        assert (await node.list_offset("orders", -2)).offset == 20


async def test_describing_everything_includes_partitions_without_data(tmp_path):
    async with running(tmp_path, topic("orders", 3)) as node:
        await node.produce("orders", batch(), partition=1)
        answer = await node.storage.DescribePartitions(
            storage_pb2.DescribePartitionsRequest(), None
        )
        ends = {
            each.partition: each.log_end_offset
            for each in answer.partitions
            if each.topic == "orders"
        }
        assert ends == {0: 0, 1: 1, 2: 0}
        assert not (tmp_path / "orders-0").exists(), "a folder comes with the first append"


async def test_a_coordinators_retried_append_gets_the_first_offset(node):
    records = batch(2, producer_id=1000, producer_epoch=0, base_sequence=0)
    name = "__transaction_state"
    first = await node.append(name, records, coordinator_epoch=3, expected_base_offset=0)
    again = await node.append(name, records, coordinator_epoch=3, expected_base_offset=0)
    assert (first.base_offset, again.base_offset) == (0, 0)
    more = batch(1, producer_id=1000, producer_epoch=0, base_sequence=2)
    wrong = await node.append(name, more, coordinator_epoch=3, expected_base_offset=5)
    assert wrong.error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert (
        await node.append(name, more, coordinator_epoch=3, expected_base_offset=2)
    ).base_offset == 2
    gap = batch(1, producer_id=1000, producer_epoch=0, base_sequence=9)
    answer = await node.append(name, gap, coordinator_epoch=3)
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    loaded = await node.fetch(name, 0, read_to_log_end=True, coordinator_epoch=3)
    assert [record.offset for record in decode_batch(loaded.records)] == [0, 1]


async def test_an_older_coordinator_is_fenced_after_a_restart_too(tmp_path):
    name = "__transaction_state"
    async with running(tmp_path) as node:
        assert (await node.append(name, batch(), coordinator_epoch=4)).error_code == 0
    async with running(tmp_path) as node:
        old = await node.append(name, batch(), coordinator_epoch=3)
        assert old.error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        await node.fetch(name, 0, read_to_log_end=True, coordinator_epoch=9)
        loaded = await node.append(name, batch(), coordinator_epoch=8)
        assert loaded.error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED, (
            "someone newer has loaded"
        )
        shard = node.metadata.image.shards[(0, 1)]
        newer = type(shard)(kind=0, shard=1, coordinator=1, coordinator_epoch=6)
        node.delta(shards=[newer])
        behind = await node.append(name, batch(), partition=1, coordinator_epoch=5)
        assert behind.error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED, (
            "the image knows better"
        )
    async with running(tmp_path) as node:
        assert (await node.append(name, batch(), coordinator_epoch=9)).error_code == 0
        assert (
            await node.append("orders", batch())
        ).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_reader_waits_in_vain_only_until_leadership_moves(tmp_path):
    async with running(tmp_path, topic("orders", replicas=(1, 2), isr=(1, 2))) as node:
        waiting = asyncio.create_task(node.fetch("orders", 0, max_wait_ms=60_000, min_bytes=1))
        await asyncio.sleep(0)
        node.delta(topics=[topic("orders", leader=2, leader_epoch=1, replicas=(1, 2), isr=(1, 2))])
        await until(waiting.done)
        answer = waiting.result()
        assert (answer.error_code, answer.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
