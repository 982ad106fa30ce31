"""Produce through the servicer: validation, duplicates, verification, acknowledgement (facts 3, 9)."""

import asyncio

import pytest
from tests.integration.storage.storage_node import (
    NODE,
    NOW,
    batch,
    running,
    topic,
    txn_batch,
    until,
)

from oncelog.api.v1 import controller_pb2, storage_pb2
from oncelog.errors import ErrorCode
from oncelog.record.batch import LOG_APPEND_TIME, Codec, crc_is_valid, read_header
from oncelog.record.records import Record, encode_batch


def answered(path, records, *, name="orders", topics=None, **fields):
    """The answer to one Produce on a fresh node."""

    async def scenario():
        async with running(path, *(topics or [topic("orders")])) as node:
            return await node.produce(name, records, **fields)

    return asyncio.run(scenario())


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


def old_magic():
    records = bytearray(batch())
    records[16] = 1
    return records


def broken_crc():
    records = bytearray(batch())
    records[-1] ^= 1
    return records


REFUSED = [
    ("unknown topic", {"name": "nowhere"}, batch(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("unknown partition", {"partition": 9}, batch(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("internal topic", {"name": "__transaction_state"}, batch(), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("acks", {"acks": 2}, batch(), ErrorCode.INVALID_REQUIRED_ACKS),
    ("nothing", {}, b"", ErrorCode.INVALID_RECORD),
    ("two batches", {}, batch() + batch(), ErrorCode.INVALID_RECORD),
    ("cut batch", {}, batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
    ("old magic", {}, old_magic(), ErrorCode.INVALID_RECORD),
    ("broken crc", {}, broken_crc(), ErrorCode.CORRUPT_MESSAGE),
    ("too large", {}, batch(value=b"x" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE),
    (
        "control batch",
        {},
        batch(extra_attributes=0x30, producer_id=1, producer_epoch=0),
        ErrorCode.INVALID_RECORD,
    ),
    ("sequence missing", {}, batch(producer_id=1, producer_epoch=0), ErrorCode.INVALID_RECORD),
    ("from the future", {}, batch(timestamp=NOW + 3_600_001), ErrorCode.INVALID_TIMESTAMP),
    ("no transactional id", {}, txn_batch(1, 0), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ("unknown codec", {}, batch(extra_attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
]


@pytest.mark.parametrize(
    ("fields", "records", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_no_leader_takes_is_refused(tmp_path, fields, records, code):
    answer = answered(tmp_path, records, **fields)
    assert (answer.error_code, answer.base_offset) == (code, -1)


def test_a_partition_led_elsewhere_names_its_leader(tmp_path):
    elsewhere = topic("orders", leader=2, leader_epoch=9, replicas=(1, 2), isr=(1, 2))
    answer = answered(tmp_path, batch(), topics=[elsewhere])
    assert (answer.error_code, answer.leader, answer.leader_epoch) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        2,
        9,
    )


def test_a_compacted_topic_needs_keys(tmp_path):
    compacted = [topic("orders", cleanup_policy="compact")]
    assert (
        answered(tmp_path / "a", batch(key=None), topics=compacted).error_code
        == ErrorCode.INVALID_RECORD
    )
    assert answered(tmp_path / "b", batch(), topics=compacted).error_code == 0


def test_old_timestamps_are_refused_where_the_topic_says_so(tmp_path):
    bounded = [topic("orders", message_timestamp_before_max_ms=1000)]
    late = answered(tmp_path, batch(timestamp=NOW - 1001), topics=bounded)
    assert late.error_code == ErrorCode.INVALID_TIMESTAMP
    assert "message.timestamp.before.max.ms" in late.error_message


def test_acks_all_needs_min_insync_replicas_and_acks_one_not(tmp_path):
    shrunk = [topic("orders", replicas=(1, 2, 3), isr=(1,), min_insync_replicas=2)]
    assert (
        answered(tmp_path / "a", batch(), topics=shrunk).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    )
    assert answered(tmp_path / "b", batch(), topics=shrunk, acks=1).error_code == 0


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


async def test_tv1_verifies_and_asks_nobody_when_switched_off(tmp_path):
    async with running(tmp_path / "on", topic("orders")) as node:
        await node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=0)
        (call,) = node.coordinator.calls
        assert (call.verify_only, call.client_transaction_version) == (True, 0)
    off = {"transaction_partition_verification_enable": False}
    async with running(tmp_path / "off", topic("orders"), **off) as node:
        assert (
            await node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=0)
        ).error_code == 0
        assert node.coordinator.calls == []
        await node.produce("orders", txn_batch(8, 0), transactional_id="other", mode=2)
        assert len(node.coordinator.calls) == 1, "TV2 always asks"


MAPPED = [
    (ErrorCode.PRODUCER_FENCED, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.TRANSACTION_ABORTABLE, 0, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.TRANSACTION_ABORTABLE, 1, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, 2, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.NOT_COORDINATOR, 0, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.CONCURRENT_TRANSACTIONS, 0, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.INVALID_TXN_STATE, 2, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 2, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
]


@pytest.mark.parametrize(("coordinator_code", "mode", "code"), MAPPED)
async def test_the_coordinators_answer_is_told_in_the_producers_words(
    tmp_path, coordinator_code, mode, code
):
    async with running(tmp_path, topic("orders"), coordinator_wait_max_ms=0) as node:
        node.coordinator.codes = [coordinator_code]
        answer = await node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=mode)
        assert answer.error_code == code
        assert (await node.describe("orders")).log_end_offset == 0
        retry = await node.produce("orders", txn_batch(9, 0), transactional_id="pay", mode=mode)
        assert (retry.error_code, retry.base_offset) == (0, 0)


async def test_tv2_waits_a_little_for_the_last_transaction_to_complete(node):
    node.coordinator.codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 2
    assert (await node.produce("orders", txn_batch(9, 0), transactional_id="pay")).error_code == 0
    assert len(node.coordinator.calls) == 3
    node.coordinator.codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 99
    answer = await node.produce("orders", txn_batch(8, 0), transactional_id="slow")
    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


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


async def test_a_stale_epoch_and_a_plain_write_are_refused(node):
    await node.produce("orders", txn_batch(9, 0, producer_epoch=3), transactional_id="pay")
    stale = await node.produce("orders", txn_batch(9, 1, producer_epoch=2), transactional_id="pay")
    assert stale.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(node.coordinator.calls) == 1, "refused before anything is asked"
    plain = await node.produce("orders", batch(producer_id=9, producer_epoch=3, base_sequence=1))
    assert plain.error_code == ErrorCode.INVALID_TXN_STATE


async def test_one_request_may_not_carry_two_transactional_producers(tmp_path):
    async with running(tmp_path, topic("orders", 2)) as node:
        request = storage_pb2.ProduceRequest(transactional_id="pay", acks=-1, verification_mode=2)
        for partition, producer_id in ((0, 8), (1, 9)):
            request.partitions.add(
                topic="orders", partition=partition, records=txn_batch(producer_id, 0)
            )
        answer = await node.storage.Produce(request, None)
        codes = [part.error_code for part in answer.partitions]
        assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


async def test_partitions_of_one_request_are_verified_in_one_call(tmp_path):
    async with running(tmp_path, topic("orders", 2)) as node:
        request = storage_pb2.ProduceRequest(transactional_id="pay", acks=-1, verification_mode=2)
        for partition in (0, 1, 7):
            request.partitions.add(topic="orders", partition=partition, records=txn_batch(9, 0))
        answer = await node.storage.Produce(request, None)
        assert [part.error_code for part in answer.partitions] == [0, 0, 3]
        (call,) = node.coordinator.calls
        assert len(call.partitions) == 2


async def test_a_topic_deleted_during_verification_gets_nothing(node, tmp_path):
    node.coordinator.gate = asyncio.Event()
    late = asyncio.create_task(node.produce("orders", txn_batch(9, 0), transactional_id="pay"))
    await until(lambda: node.coordinator.calls)
    node.delta(removed_topics=["orders"])
    node.coordinator.gate.set()
    assert (await late).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not (tmp_path / "orders-0").exists()


async def test_a_config_change_counts_from_the_next_batch_on(node):
    assert (await node.produce("orders", batch(value=b"x" * 2000))).error_code == 0
    node.delta(topics=[topic("orders", max_message_bytes=1000)])
    answer = await node.produce("orders", batch(value=b"x" * 2000))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_with_headers_that_end_in_a_high_byte_is_read(tmp_path):
    records = [Record(b"k", b"v", NOW, headers=(("trace", b"\xff\xfe"),))]
    assert answered(tmp_path, encode_batch(records)).error_code == 0


async def test_leader_moves_away_and_the_partition_refuses(tmp_path):
    async with running(tmp_path, topic("orders", replicas=(1, 2), isr=(1,))) as node:
        assert (await node.produce("orders", batch())).error_code == 0
        moved = controller_pb2.Topic()
        moved.CopyFrom(node.metadata.image.topics["orders"])
        moved.partitions[0].leader = NODE + 1
        moved.partitions[0].leader_epoch = 1
        node.delta(topics=[moved])
        answer = await node.produce("orders", batch())
        assert (answer.error_code, answer.leader) == (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            NODE + 1,
        )


def test_a_batch_that_expands_beyond_its_topic_is_refused(tmp_path):
    """92 kB of gzip become 90 MB."""
    bomb = encode_batch([Record(b"k", bytes(60_000_000), NOW)], codec=Codec.GZIP)
    assert len(bomb) < 100_000
    answer = answered(tmp_path, bomb)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes" in answer.error_message


async def test_others_write_while_a_large_batch_is_checked(tmp_path):
    large = encode_batch([Record(b"k", b"", NOW) for _ in range(100_000)], codec=Codec.GZIP)

    async with running(tmp_path, topic("orders"), topic("bills")) as node:
        written = asyncio.create_task(node.produce("orders", large))
        await asyncio.sleep(0)
        assert (await node.produce("bills", batch())).base_offset == 0
        assert not written.done()
        assert (await written).base_offset == 0
        assert (await node.produce("orders", batch())).base_offset == 100_000
