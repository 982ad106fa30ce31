"""An operator's abort marker says which transaction was seen, and the leader compares in the step that writes."""

import pytest
from tests.integration.storage.storage_node import txn_batch

from oncelog.errors import ErrorCode

MARKER = (9, 0, False)


async def begun(node, *sequences):
    for sequence in sequences:
        answer = await node.produce(
            "orders", txn_batch(9, sequence), transactional_id="pay", mode=0
        )
        assert answer.error_code == 0


async def opened(node):
    (found,) = await node.producers("orders")
    return (found.current_txn_start_offset, found.last_offset)


@pytest.mark.parametrize("next_sequences", [(), (1,)])
async def test_a_marker_does_not_end_the_next_transaction(node, next_sequences):
    """The transaction that was seen ended; under TV1 its producer begins again at the same epoch, or does not."""
    await begun(node, 0)
    seen = await opened(node)
    assert await node.mark("orders", (9, 0, True)) == [0]
    await begun(node, *next_sequences)
    before = await node.describe("orders")
    assert await node.mark("orders", MARKER, seen=seen) == [ErrorCode.INVALID_TXN_STATE]
    after = await node.describe("orders")
    assert after.log_end_offset == before.log_end_offset
    assert after.open_transaction_count == len(next_sequences)


async def test_a_marker_does_not_end_what_has_grown(node):
    """A producer came back: its new records are in the transaction that hung."""
    await begun(node, 0)
    seen = await opened(node)
    await begun(node, 1)
    assert await node.mark("orders", MARKER, seen=seen) == [ErrorCode.INVALID_TXN_STATE]
    assert await node.mark("orders", MARKER, seen=await opened(node)) == [0]
    assert (await node.describe("orders")).open_transaction_count == 0


async def test_a_marker_for_an_unknown_producer_writes_nothing(node):
    assert await node.mark("orders", MARKER, seen=(0, 0)) == [ErrorCode.INVALID_TXN_STATE]
    assert (await node.describe("orders")).log_end_offset == 0
