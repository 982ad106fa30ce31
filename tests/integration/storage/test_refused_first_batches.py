"""A transaction's first batch that its leader refuses: nothing behind it goes first (facts 9, rules 3 and 6)."""

import pytest
from tests.integration.storage.storage_node import batch, running, topic, txn_batch

from oncelog.errors import ErrorCode


def too_large():
    return txn_batch(9, 0, count=40)


def corrupt():
    records = bytearray(txn_batch(9, 0))
    records[-1] ^= 1
    return records


@pytest.mark.parametrize("first", [too_large, corrupt])
async def test_a_later_sequence_does_not_go_before_it(tmp_path, first):
    """Under TV1, after a start of the node, which may have forgotten producers. Else a new one begins at 0 anyway."""
    async with running(tmp_path, topic("small")) as node:
        assert (await node.produce("small", batch())).error_code == 0
    async with running(tmp_path, topic("small", max_message_bytes=200)) as node:
        assert (
            await node.produce("small", txn_batch(8, 5), transactional_id="b", mode=0)
        ).error_code == 0
        await _refused_first(node, first)


async def _refused_first(node, first):
    refused = await node.produce("small", first(), transactional_id="pay", mode=0)
    assert refused.error_code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE)
    later = await node.produce("small", txn_batch(9, 1), transactional_id="pay", mode=0)
    assert later.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    again = await node.produce("small", txn_batch(9, 0), transactional_id="pay", mode=0)
    assert again.error_code == 0
    later = await node.produce("small", txn_batch(9, 1), transactional_id="pay", mode=0)
    assert later.error_code == 0
