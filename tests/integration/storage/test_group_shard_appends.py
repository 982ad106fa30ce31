"""What a group's coordinator appends on behalf of transactions: offsets without sequences, and the markers that end
them (ADR 0015)."""

import pytest
from tests.integration.storage.storage_node import NOW, running

from oncelog.errors import ErrorCode
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.record.records import Record, encode_batch

PRODUCER = 4000


def offsets(producer_epoch=3):
    return encode_batch(
        [Record(b"key", b"value", NOW)],
        producer_id=PRODUCER,
        producer_epoch=producer_epoch,
        is_transactional=True,
    )


def marker(marker_type, producer_epoch=3):
    return encode_marker(
        Marker(marker_type, 7), producer_id=PRODUCER, producer_epoch=producer_epoch, timestamp=NOW
    )


@pytest.mark.parametrize("marker_type", [MarkerType.COMMIT, MarkerType.ABORT])
async def test_readers_see_transactions_of_a_group_shard_as_any(tmp_path, marker_type):
    name = CONSUMER_OFFSETS_TOPIC
    async with running(tmp_path) as node:
        plain = encode_batch(
            [Record(b"key", b"value", NOW)], producer_id=9, producer_epoch=0, base_sequence=0
        )
        assert (await node.append(name, plain, expected_base_offset=0)).error_code == 0
        assert (await node.append(name, offsets(), expected_base_offset=1)).error_code == 0
        open_one = await node.describe(name)
        assert (open_one.last_stable_offset, open_one.log_end_offset) == (1, 2)
        ended = await node.append(name, marker(marker_type), expected_base_offset=2)
        assert (ended.error_code, ended.base_offset) == (0, 2)
        assert (await node.describe(name)).last_stable_offset == 3
        fetched = await node.fetch(name, 0, committed=True)
        aborted = [(each.producer_id, each.first_offset) for each in fetched.aborted_transactions]
        assert aborted == ([(PRODUCER, 1)] if marker_type is MarkerType.ABORT else [])
    async with running(tmp_path) as node:
        again = await node.describe(name)
        assert (again.last_stable_offset, again.open_transaction_count) == (3, 0)


@pytest.mark.parametrize("batch", [offsets(), marker(MarkerType.COMMIT)])
async def test_a_batch_whose_answer_was_lost_is_written_once(tmp_path, batch):
    name = CONSUMER_OFFSETS_TOPIC
    async with running(tmp_path) as node:
        await node.append(name, offsets(producer_epoch=2), expected_base_offset=0)
        for _ in range(2):
            answer = await node.append(name, batch, expected_base_offset=1)
            assert (answer.error_code, answer.base_offset) == (0, 1)
        assert (await node.describe(name)).log_end_offset == 2


async def test_another_batch_at_a_place_that_is_taken_is_refused(tmp_path):
    name = CONSUMER_OFFSETS_TOPIC
    async with running(tmp_path) as node:
        await node.append(name, offsets(), expected_base_offset=0)
        other = await node.append(name, marker(MarkerType.COMMIT), expected_base_offset=0)
        assert other.error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        await node.append(name, marker(MarkerType.COMMIT), expected_base_offset=1)
        late = await node.append(name, offsets(), expected_base_offset=0)
        assert late.error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert (await node.describe(name)).log_end_offset == 2


async def test_offsets_of_a_fenced_producer_are_refused(tmp_path):
    name = CONSUMER_OFFSETS_TOPIC
    async with running(tmp_path) as node:
        await node.append(name, marker(MarkerType.ABORT, producer_epoch=4))
        old = await node.append(name, offsets(producer_epoch=3))
        assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_only_group_shards_take_part_in_transactions(node):
    for batch in (offsets(), marker(MarkerType.COMMIT)):
        answer = await node.append(TRANSACTION_STATE_TOPIC, batch)
        assert answer.error_code == ErrorCode.INVALID_RECORD
