"""A coordinator tells a leader of its process at once that a transaction has its partitions; all else is asked for."""

import asyncio

import pytest
from tests.integration.coordinator.whole_log import whole_log

from oncelog.ids import Partition
from oncelog.rpc import plain

ORDERS = Partition("orders", 0)


def began(log, identity, *partitions, name="pay"):
    """When the transaction began, or None."""
    request = plain.VerifyRequest(name, *identity, partitions or (ORDERS,))
    return log.role.servicer.verify_at_once(request, None)


async def test_what_was_added_is_verified_as_by_the_long_way(tmp_path):
    async with whole_log(tmp_path) as log:
        identity = await log.identity("pay")
        await log.add("pay", identity, ("orders", 0), ("orders", 1))
        asked = await log.client.add(identity, ("orders", 0), name="pay", verify_only=True)
        assert began(log, identity) == asked.transaction_start_ms > 0
        assert began(log, identity, Partition("orders", 1), ORDERS) == asked.transaction_start_ms
        assert log.role.shards.labels["verified"] == 3


async def test_what_is_refused_is_not_told_at_once(tmp_path):
    async with whole_log(tmp_path) as log:
        identity = await log.identity("pay")
        assert began(log, identity) is None, "nothing was added"
        await log.add("pay", identity, ("orders", 0))
        producer_id, epoch = identity
        assert began(log, identity, ORDERS, Partition("orders", 1)) is None
        assert began(log, identity, Partition("gone", 0)) is None
        assert began(log, (producer_id, epoch - 1)) is None
        assert began(log, (producer_id + 1, epoch)) is None
        assert began(log, identity, name="unknown") is None
        assert log.role.shards.labels["verified"] == 0


@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_that_has_ended_is_not_verified(tmp_path, commit):
    async with whole_log(tmp_path) as log:
        identity = await log.identity("pay")
        await log.add("pay", identity, ("orders", 0))
        await log.end("pay", identity, commit)
        assert began(log, identity) is None, "its markers are being written, or are"


async def test_nothing_is_told_before_it_is_committed(tmp_path):
    """A failed append would take back what was told."""
    async with whole_log(tmp_path) as log:
        identity = await log.identity("pay")
        term = log.role.shards.term_of("pay")
        journal, gate = term.driver._journal, asyncio.Event()
        append, at_once = journal.append, term.driver._append_at_once

        async def held(records):
            await gate.wait()
            return await append(records)

        journal.append, term.driver._append_at_once = held, lambda records: False
        adding = asyncio.create_task(log.add("pay", identity, ("orders", 0)))
        await asyncio.sleep(0)
        assert not term.driver.is_settled
        assert began(log, identity) is None
        gate.set()
        await adding
        journal.append, term.driver._append_at_once = append, at_once
        assert began(log, identity) is not None
