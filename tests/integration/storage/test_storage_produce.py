"""Produce through the servicer: validation, duplicates, verification, acknowledgement (facts 3, 9)."""

import asyncio

import pytest
from tests.integration.storage.storage_node import (
    NOW,
    batch,
    running,
    topic,
    txn_batch,
    until,
)

from oncelog.errors import ErrorCode
from oncelog.record.batch import LOG_APPEND_TIME, Codec, crc_is_valid, read_header
from oncelog.record.records import Record, encode_batch


async def test_a_batch_gets_its_offset_and_can_be_fetched(tmp_path):
    async with running(tmp_path, topic("orders", leader_epoch=7)) as node:
        assert (await node.produce("orders", batch(3))).base_offset == 0
        assert (await node.produce("orders", batch(2))).base_offset == 3
        fetched = await node.fetch("orders", 0)
        assert (fetched.error_code, fetched.high_watermark, fetched.last_stable_offset) == (
            0,
            5,
            5,
        )
        header = read_header(fetched.records)
        assert (header.base_offset, header.leader_epoch) == (0, 7)
        assert read_header(fetched.records, header.size_bytes).base_offset == 3
        assert crc_is_valid(fetched.records, header)


async def test_what_is_refused_is_told_with_its_reason(tmp_path):
    elsewhere = topic("moved", leader=2, leader_epoch=9, replicas=(1, 2), isr=(1, 2))
    shrunk = topic("shrunk", replicas=(1, 2, 3), isr=(1,), min_insync_replicas=2)
    bounded = topic("bounded", message_timestamp_before_max_ms=1000)
    async with running(tmp_path, elsewhere, shrunk, bounded) as node:
        moved = await node.produce("moved", batch())
        assert (moved.error_code, moved.leader, moved.leader_epoch) == (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            2,
            9,
        )
        answer = await node.produce("shrunk", batch())
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await node.produce("shrunk", batch(), acks=1)).error_code == 0
        late = await node.produce("bounded", batch(timestamp=NOW - 1001))
        assert late.error_code == ErrorCode.INVALID_TIMESTAMP
        assert "message.timestamp.before.max.ms" in late.error_message
        answer = await node.produce("nowhere", batch())
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        headers = (("trace", b"\xff\xfe"),)
        sound = encode_batch([Record(b"k", b"v", NOW, headers=headers)])
        assert (await node.produce("bounded", sound)).error_code == 0, "a header in a high byte"


async def test_log_append_time_is_the_leaders_clock(tmp_path):
    async with running(tmp_path, topic("orders", message_timestamp_type="LogAppendTime")) as node:
        records = batch(timestamp=5, producer_id=1, producer_epoch=0, base_sequence=0)
        first = await node.produce("orders", records)
        assert (first.error_code, first.log_append_time_ms) == (0, NOW)
        stored = (await node.fetch("orders", 0)).records
        header = read_header(stored)
        assert header.max_timestamp == NOW
        assert header.attributes & LOG_APPEND_TIME
        assert crc_is_valid(stored, header)
        node.clock.time += 50
        again = await node.produce("orders", records)
        assert (again.base_offset, again.log_append_time_ms) == (0, NOW), "the original timestamp"


async def test_a_repeated_batch_is_written_once(node):
    sent = [
        batch(2, producer_id=5, producer_epoch=0, base_sequence=2 * index) for index in range(6)
    ]
    for records in sent:
        assert (await node.produce("orders", records)).error_code == 0
    for index in range(1, 6):
        assert (await node.produce("orders", sent[index])).base_offset == 2 * index
    sixth_back = await node.produce("orders", sent[0])
    assert sixth_back.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await node.describe("orders")).log_end_offset == 12


async def test_tv2_adds_the_partition_once_per_transaction(node):
    for sequence in range(3):
        answer = await node.produce("orders", txn_batch(9, sequence), transactional_id="pay")
        assert answer.error_code == 0
    (call,) = node.coordinator.calls
    assert (call.producer_id, call.verify_only, call.client_transaction_version) == (9, False, 2)
    assert [(each.topic, each.partition) for each in call.partitions] == [("orders", 0)]
    assert await node.mark("orders", (9, 1, True, 0, 2)) == [0]
    await node.produce("orders", txn_batch(9, 0, producer_epoch=1), transactional_id="pay")
    assert len(node.coordinator.calls) == 2


async def test_a_coordinator_that_refuses_lets_nothing_be_written(node):
    """TV1 verifies only, where TV2 adds the partition. `test_changed_settings.py` switches verification off."""
    node.coordinator.codes = [ErrorCode.TRANSACTION_ABORTABLE]
    answer = await node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=0)
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE
    assert (await node.describe("orders")).log_end_offset == 0
    retry = await node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=0)
    assert (retry.error_code, retry.base_offset) == (0, 0)
    call, _ = node.coordinator.calls
    assert (call.verify_only, call.client_transaction_version) == (True, 0)


@pytest.mark.parametrize("mode", [0, 1, 2])
async def test_a_batch_waits_while_its_coordinator_is_replaced(tmp_path, mode):
    async with running(tmp_path, topic("orders"), coordinator_wait_max_ms=60_000) as node:
        node.coordinator.codes = [
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ]
        answer = await node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=mode)
        assert answer.error_code == 0
        assert len(node.coordinator.calls) == 4


@pytest.mark.parametrize("failure", [TimeoutError(), ConnectionError("cut")])
async def test_an_unanswered_coordinator_appends_nothing(tmp_path, failure):
    async with running(tmp_path, topic("orders"), coordinator_wait_max_ms=50) as node:
        node.coordinator.fails = failure
        answer = await node.produce("orders", txn_batch(9, 0), transactional_id="pay")
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await node.describe("orders")).log_end_offset == 0


async def test_a_marker_during_verification_keeps_the_late_batch_out(node):
    """KIP-890: the guard that was verified no longer stands, so the batch may not open a transaction."""
    node.coordinator.gate = asyncio.Event()
    late = asyncio.create_task(
        node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=0)
    )
    await until(lambda: node.coordinator.calls)
    assert await node.mark("orders", (9, 0, False)) == [0]
    node.coordinator.gate.set()
    assert (await late).error_code == ErrorCode.INVALID_TXN_STATE
    described = await node.describe("orders")
    assert (described.last_stable_offset, described.open_transaction_count) == (1, 0)


async def test_a_producers_requests_keep_their_order_in_verification(node):
    node.coordinator.gate = asyncio.Event()
    sent = [
        asyncio.create_task(node.produce("orders", txn_batch(9, sequence), transactional_id="pay"))
        for sequence in range(5)
    ]
    await until(lambda: node.coordinator.calls)
    node.coordinator.gate.set()
    assert [(await each).base_offset for each in sent] == [0, 1, 2, 3, 4]
    assert len(node.coordinator.calls) == 1


async def test_a_topic_deleted_during_verification_gets_nothing(node, tmp_path):
    node.coordinator.gate = asyncio.Event()
    late = asyncio.create_task(node.produce("orders", txn_batch(9, 0), transactional_id="pay"))
    await until(lambda: node.coordinator.calls)
    node.delta(removed_topics=["orders"])
    node.coordinator.gate.set()
    assert (await late).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not (tmp_path / "orders-0").exists()


async def test_others_write_while_a_large_batch_is_checked(tmp_path):
    large = encode_batch([Record(b"k", b"", NOW) for _ in range(100_000)], codec=Codec.GZIP)

    async with running(tmp_path, topic("orders"), topic("bills")) as node:
        written = asyncio.create_task(node.produce("orders", large))
        await asyncio.sleep(0)
        assert (await node.produce("bills", batch())).base_offset == 0
        assert not written.done()
        assert (await written).base_offset == 0
        assert (await node.produce("orders", batch())).base_offset == 100_000
