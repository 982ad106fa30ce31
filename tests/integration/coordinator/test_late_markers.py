"""Markers of TV1 that were held up on their way, and arrive when their producer's next transaction runs.

The processes that let that one in are gone: who serves its partitions now has only the coordinator's word for when it
began.
"""

import asyncio

import pytest
from tests.integration.coordinator.group_client import group_on
from tests.integration.coordinator.whole_log import whole_log

from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.errors import ErrorCode
from oncelog.journal import AppendFailed
from oncelog.rpc.transaction_starts import TransactionStarts
from oncelog_coordinator.group_transactions import TransactionCheck

ORDERS = ("orders", 0)
OFFSETS = "__consumer_offsets"


def marker_of(described, partition, *, commit):
    """As the marker sender brings it; held up since this transaction was described."""
    return storage_pb2.WriteTxnMarkersRequest(
        markers=[
            storage_pb2.TxnMarker(
                producer_id=described.producer_id,
                producer_epoch=described.producer_epoch,
                commit=commit,
                coordinator_epoch=described.coordinator_epoch,
                transaction_version=0,
                transaction_start_ms=described.transaction_start_time_ms,
                transactional_id=described.transactional_id,
                partitions=[types_pb2.TopicPartition(topic=partition[0], partition=partition[1])],
            )
        ]
    )


async def in_the_second(log, client):
    """A producer's first transaction committed offset 5, its second one runs: the producer, and the first one."""
    identity = await log.identity("pay")
    assert await client.add_offsets("pay", identity) == 0
    assert await client.commit_in_transaction("pay", identity, 5) == [0]
    first = await log.describe("pay")
    assert (await log.end("pay", identity, True)).error_code == 0
    await log.until_state("pay", "CompleteCommit")
    await until_the_clock_ticks()
    assert await client.add_offsets("pay", identity) == 0
    return identity, first


async def aborted(log, client, identity):
    """This transaction changed no offset: what is committed is the first one's."""
    assert (await log.end("pay", identity, False)).error_code == 0
    await log.until_state("pay", "CompleteAbort")
    assert await client.fetch(require_stable=True) == [(5, 0)]


def code_of(answer):
    return answer.results[0].partitions[0].error_code


async def until_the_clock_ticks():
    """Two transactions that begin in one millisecond have the same start."""
    await asyncio.sleep(0.001)


@pytest.mark.parametrize("late_commit", [True, False])
async def test_a_restarted_leader_tells_a_late_marker_from_its_own(tmp_path, late_commit):
    async with whole_log(tmp_path) as log:
        identity = await log.identity("pay")
        assert (await log.add("pay", identity, ORDERS)).error_code == 0
        assert await log.produce("pay", identity, 0, b"first") == 0
        first = await log.describe("pay")
        assert (await log.end("pay", identity, late_commit)).error_code == 0
        await log.until_state("pay", "CompleteCommit" if late_commit else "CompleteAbort")
        await until_the_clock_ticks()
        assert (await log.add("pay", identity, ORDERS)).error_code == 0
        assert await log.produce("pay", identity, 1, b"second") == 0
        second = await log.describe("pay")
        assert second.transaction_start_time_ms > first.transaction_start_time_ms
    async with whole_log(tmp_path) as log:
        before = await log.offsets()
        late = marker_of(first, ORDERS, commit=late_commit)
        for _ in range(2):
            assert code_of(await log.storage.WriteTxnMarkers(late)) == 0
            assert await log.offsets() == before
        assert (await log.end("pay", identity, not late_commit)).error_code == 0
        await log.until_state("pay", "CompleteAbort" if late_commit else "CompleteCommit")
        aborted = [identity[0]] if late_commit else []
        assert await log.offsets(fetch_offset=2) == (4, 4, aborted)


async def test_a_restarted_coordinator_of_groups_does_so_too(tmp_path):
    async with group_on(tmp_path) as (log, client):
        identity, first = await in_the_second(log, client)
        assert await client.commit_in_transaction("pay", identity, 7) == [0]
    async with group_on(tmp_path) as (log, client):
        late = marker_of(first, (OFFSETS, client.shard), commit=True)
        assert code_of(await client.groups.WriteTxnMarkers(late, None)) == 0
        assert await client.fetch() == [(5, 0)]
        await aborted(log, client, identity)


async def test_a_late_marker_while_offsets_are_verified_refuses_nobody(tmp_path, monkeypatch):
    """It takes the word of the coordinator away that was on its way. So that is asked once more."""
    async with group_on(tmp_path) as (log, client):
        identity, first = await in_the_second(log, client)
        verify, verified = TransactionCheck.verify_in_transaction, []

        async def verify_while_a_marker_comes(*asked):
            verified.append(await verify(*asked))
            if len(verified) == 1:
                late = marker_of(first, (OFFSETS, client.shard), commit=True)
                assert code_of(await client.groups.WriteTxnMarkers(late, None)) == 0
            return verified[-1]

        monkeypatch.setattr(TransactionCheck, "verify_in_transaction", verify_while_a_marker_comes)
        assert await client.commit_in_transaction("pay", identity, 7) == [0]
        assert len(verified) == 2
        await aborted(log, client, identity)


async def test_offsets_of_one_transaction_are_not_let_into_the_next(tmp_path, monkeypatch):
    """While they are verified their transaction is aborted and the next one begins, with the same epoch and group. The
    guard is gone, and asking once more would find that next one."""

    async with group_on(tmp_path) as (log, client):
        identity = await log.identity("pay")
        assert await client.add_offsets("pay", identity) == 0
        verify, verified = TransactionCheck.verify_in_transaction, []

        async def verify_while_the_next_one_begins(*asked):
            verified.append(await verify(*asked))
            if len(verified) == 1:
                assert (await log.end("pay", identity, False)).error_code == 0
                await log.until_state("pay", "CompleteAbort")
                await until_the_clock_ticks()
                assert await client.add_offsets("pay", identity) == 0
            return verified[-1]

        monkeypatch.setattr(
            TransactionCheck, "verify_in_transaction", verify_while_the_next_one_begins
        )
        assert await client.commit_in_transaction("pay", identity, 7) == [
            ErrorCode.INVALID_TXN_STATE
        ]
        assert (await log.end("pay", identity, True)).error_code == 0
        await log.until_state("pay", "CompleteCommit")
        assert await client.fetch(require_stable=True) == [(-1, 0)]


async def test_what_a_coordinator_asked_does_not_outlive_its_load(tmp_path, monkeypatch):
    """While it waits for the answer the transaction ends, the next one commits offsets, and the shard is loaded again:
    then nobody here knows when that one began, and the answer is about the one before."""

    async with group_on(tmp_path) as (log, client):
        identity = await log.identity("pay")
        assert await client.add_offsets("pay", identity) == 0
        assert await client.commit_in_transaction("pay", identity, 5) == [0]
    async with group_on(tmp_path) as (log, client):
        first = await log.describe("pay")
        start_of, calls = TransactionStarts.start_of, []

        async def start_while_the_shard_is_loaded_again(starts, *of):
            answer = await start_of(starts, *of)
            calls.append(answer)
            if len(calls) == 1:
                assert (await log.end("pay", identity, True)).error_code == 0
                await log.until_state("pay", "CompleteCommit")
                await until_the_clock_ticks()
                assert await client.add_offsets("pay", identity) == 0
                assert await client.commit_in_transaction("pay", identity, 7) == [0]
                await loaded_again(log.role.group_shards, client.shard)
            return answer

        monkeypatch.setattr(TransactionStarts, "start_of", start_while_the_shard_is_loaded_again)
        late = marker_of(first, (OFFSETS, client.shard), commit=True)
        code = code_of(await client.groups.WriteTxnMarkers(late, None))
        assert code == ErrorCode.REQUEST_TIMED_OUT
        assert code_of(await client.groups.WriteTxnMarkers(late, None)) == 0
        await aborted(log, client, identity)


async def loaded_again(shards, number):
    """As after an append of which nobody knows what became of it."""
    term = next(term for term, _ in shards.active() if term.shard == number)
    shards._on_failure(term, AppendFailed(ErrorCode.REQUEST_TIMED_OUT, "no answer"))
    async with asyncio.timeout(30):
        while term.driver is None:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
