"""What a coordinator of the same process appends without a wait: committed where it is expected, or asked for again."""

import pytest
from tests.integration.storage.storage_node import NODE, NOW, running, topic

from oncelog.ids import TRANSACTION_STATE_TOPIC, Partition
from oncelog.record.records import Record, encode_batch
from oncelog.rpc import plain

NAME = TRANSACTION_STATE_TOPIC


def appended(node, sequence, expected_base_offset, coordinator_epoch=0):
    request = plain.AppendRequest(
        Partition(NAME, 0), coordinator_epoch, state(sequence), expected_base_offset
    )
    return node.storage.append_at_once(request, None)


def state(sequence):
    return bytes(
        encode_batch(
            [Record(b"key", b"value", NOW)],
            producer_id=9,
            producer_epoch=0,
            base_sequence=sequence,
        )
    )


async def ends(node):
    found = await node.describe(NAME)
    return found.log_end_offset, found.high_watermark


async def test_a_batch_is_committed_when_the_call_returns(tmp_path):
    async with running(tmp_path) as node:
        assert appended(node, 0, 0)
        assert appended(node, 1, 1)
        assert await ends(node) == (2, 2)


async def test_a_repetition_is_known(tmp_path):
    async with running(tmp_path) as node:
        assert appended(node, 0, 0)
        assert appended(node, 0, 0)
        assert await ends(node) == (1, 1)


@pytest.mark.parametrize(("expected_base_offset", "coordinator_epoch"), [(4, 0), (0, -1)])
async def test_what_is_refused_is_not_written(tmp_path, expected_base_offset, coordinator_epoch):
    async with running(tmp_path) as node:
        assert not appended(node, 0, expected_base_offset, coordinator_epoch)
        assert await ends(node) == (0, 0)


async def test_nothing_is_written_where_each_append_is_synced(tmp_path):
    async with running(tmp_path, flush_policy="always") as node:
        assert not appended(node, 0, 0)
        assert await ends(node) == (0, 0)
        answer = await node.append(NAME, state(0), expected_base_offset=0)
        assert answer.error_code == 0
        assert await ends(node) == (1, 1)


async def test_nothing_is_written_where_a_follower_is_waited_for(tmp_path):
    async with running(tmp_path) as node:
        followed = topic(NAME, 1, replicas=(NODE, 2), isr=(NODE, 2))
        node.delta(topics=[followed])
        assert not appended(node, 0, 0)
        assert (await node.describe(NAME)).log_end_offset == 0


@pytest.mark.parametrize("flush_messages", [1, 2])
async def test_nothing_is_written_where_a_count_asks_for_a_sync(tmp_path, flush_messages):
    async with running(tmp_path) as node:
        node.delta(topics=[topic(NAME, 1, flush_messages=flush_messages)])
        for sequence in range(3):
            assert not appended(node, sequence, sequence)
            assert await ends(node) == (sequence, sequence)
            answer = await node.append(NAME, state(sequence), expected_base_offset=sequence)
            assert (answer.error_code, answer.base_offset) == (0, sequence)


async def test_what_is_written_is_never_called_unwritten(tmp_path):
    """A coordinator that hears False may drop what it decided."""
    async with running(tmp_path) as node:
        led = node.storage._replica_manager.led(NAME, 0)
        led.keep_up = lambda: True
        with pytest.raises(AssertionError, match=r"__transaction_state-0: written, not committed"):
            appended(node, 0, 0)
