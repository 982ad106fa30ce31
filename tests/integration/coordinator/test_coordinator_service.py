"""The coordinator's service: transactions, views, timeouts, operators, and the calls of a sink."""

import asyncio

import pytest
from tests.contracts.shard_storage import NODE, Cluster, shards
from tests.integration.coordinator.transaction_client import SHARD_OF_PAY, identity_of, started

from oncelog.api.v1 import coordinator_pb2, types_pb2
from oncelog.ids import shard_of


@pytest.mark.parametrize("version", [0, 2])
async def test_a_transaction_from_start_to_completion(cluster, version):
    async with started(cluster) as client:
        identity = identity_of(await client.init())
        added = await client.add(identity, ("orders", 0), ("refunds", 0), version=version)
        assert [row.error_code for row in added.partitions] == [0, 0]
        ended = await client.end(identity, version=version)
        assert ended.error_code == 0
        following = (ended.producer_id, ended.producer_epoch)
        assert following == ((identity[0], 1) if version == 2 else (-1, -1))
        await client.until_state("CompleteCommit")
        ((marker,),) = (request.markers for request in cluster.marker_sender.requests)
        assert (marker.commit, marker.transaction_version) == (True, version)
        assert marker.producer_epoch == (1 if version == 2 else 0)
        assert len(marker.partitions) == 2


async def test_markers_never_leave_before_the_decision_is_written(cluster):
    async with started(cluster) as client:
        await client.ended()
        await client.until_state("CompleteCommit")
    assert cluster.storage.order == ["append"] * 3 + ["markers", "append"]


async def test_endtxn_is_answered_while_markers_are_still_under_way(cluster):
    cluster.marker_sender.gate = asyncio.Event()
    async with started(cluster) as client:
        identity = await client.ended()
        assert await client.state() == "PrepareCommit"
        assert (await client.add(identity)).error_code == 51
        cluster.marker_sender.gate.set()
        await client.until_state("CompleteCommit")


@pytest.mark.parametrize("connection", [None, 7])
async def test_concurrent_transactions_waits_for_the_completion(cluster, connection):
    """With the origins of one connection, as a listener sends them, the next transaction waits here as well: its
    client would sleep for 20 ms or more."""
    cluster.marker_sender.gate = asyncio.Event()
    async with started(cluster, concurrent_wait_ms=10_000) as client:
        client.connection = connection
        identity = await client.ended()
        waiting = asyncio.ensure_future(client.add(identity, ("orders", 2)))
        fresh = asyncio.ensure_future(client.init("other"))
        assert (await fresh).error_code == 0
        assert not waiting.done()
        cluster.marker_sender.gate.set()
        assert (await waiting).error_code == 0
        assert await client.state() == "Ongoing"


async def test_a_completion_and_the_next_transaction_are_one_append(cluster):
    cluster.marker_sender.gate = asyncio.Event()
    async with started(cluster, concurrent_wait_ms=10_000) as client:
        identity = await client.ended()
        waiting = asyncio.ensure_future(client.add(identity))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        cluster.marker_sender.gate.set()
        assert (await waiting).error_code == 0
    assert cluster.storage.order == ["append"] * 3 + ["markers", "append"]


async def test_a_new_producer_waits_for_the_abort_of_the_open_one():
    async with started(Cluster(), concurrent_wait_ms=10_000) as client:
        old = identity_of(await client.init())
        await client.add(old)
        assert identity_of(await client.init()) == (old[0], old[1] + 2)
        assert (await client.end(old)).error_code == 90


async def test_an_idempotent_producer_needs_no_shard():
    async with started(Cluster()) as client:
        first, second = await client.init(None), await client.init(None)
        assert identity_of(first)[1] == identity_of(second)[1] == 0
        assert first.producer_id != second.producer_id


async def test_bad_requests_are_refused_before_the_shard_is_asked(cluster):
    cluster.change(shards=shards(coordinator=2, coordinator_epoch=5))
    async with started(cluster) as client:
        assert (await client.init("")).error_code == 42
        assert (await client.init(timeout_ms=0)).error_code == 50
        assert (await client.init(producer_id=5)).error_code == 42
        assert (await client.init(enable_two_phase_commit=True)).error_code == 53
        assert (await client.init(keep_prepared_transaction=True)).error_code == 35
        assert (await client.add((1, 0), name="")).error_code == 42
        assert (await client.end((1, 0), name="")).error_code == 42
        assert (await client.describe(""))[0].error_code == 42
        assert (await client.init()).error_code == 16


async def test_a_partition_that_does_not_exist_fails_all():
    async with started(Cluster()) as client:
        identity = identity_of(await client.init())
        added = await client.add(identity, ("orders", 0), ("orders", 9), ("nothing", 0))
        assert [row.error_code for row in added.partitions] == [55, 3, 3]
        assert await client.state() == "Empty"


async def test_offsets_are_added_as_the_partition_of_the_group():
    async with started(Cluster()) as client:
        identity = identity_of(await client.init())
        answer = await client.servicer.AddOffsetsToTxn(
            coordinator_pb2.AddOffsetsToTxnRequest(
                transactional_id="pay", producer_id=identity[0], group_id="readers"
            ),
            None,
        )
        assert answer.error_code == 0
        ((described,),) = (await client.describe("pay"),)
        (partition,) = described.partitions
        assert (partition.topic, partition.partition) == (
            "__consumer_offsets",
            shard_of("readers", 4),
        )


async def test_verification_answers_per_partition():
    async with started(Cluster()) as client:
        identity = await client.begun()
        verified = await client.add(identity, ("orders", 0), ("orders", 1), verify_only=True)
        assert [row.error_code for row in verified.partitions] == [0, 120]


async def test_many_transactions_in_one_call_are_answered_in_order():
    async with started(Cluster()) as client:
        names = [f"id-{number}" for number in range(20)]
        calls = []
        for name in names:
            identity = identity_of(await client.init(name))
            calls.append(
                coordinator_pb2.AddPartitionsToTxnRequest.Transaction(
                    transactional_id=name,
                    producer_id=identity[0],
                    partitions=[types_pb2.TopicPartition(topic="orders", partition=0)],
                )
            )
        calls[7].producer_epoch = 3
        answer = await client.servicer.AddPartitionsToTxn(
            coordinator_pb2.AddPartitionsToTxnRequest(transactions=calls), None
        )
        assert [result.transactional_id for result in answer.results] == names
        assert [result.error_code for result in answer.results] == [0] * 7 + [90] + [0] * 12


class TestViews:
    async def test_list_and_describe_tell_who_coordinates(self):
        async with started(Cluster()) as client:
            for name in ("pay", "ship"):
                await client.add(identity_of(await client.init(name)), name=name)
            await client.init("idle")
            listed = await client.list(state_filters=["Ongoing", "Nonsense"])
            assert sorted(row.transactional_id for row in listed.transactions) == [
                "pay",
                "ship",
            ]
            assert list(listed.unknown_state_filters) == ["Nonsense"]
            pay, nobody = await client.describe("pay", "nobody")
            assert (pay.shard, pay.coordinator, pay.state) == (SHARD_OF_PAY, NODE, "Ongoing")
            assert pay.transaction_timeout_ms == 60_000
            assert nobody.error_code == 105

    async def test_an_invalid_pattern_is_explained(self):
        async with started(Cluster()) as client:
            listed = await client.list(transactional_id_pattern="(a+")
            assert listed.error_code == 128
            assert "'(a+': missing )" in listed.error_message
            assert (await client.list(transactional_id_pattern="p.*")).error_code == 0


class TestTimeoutsAndOperators:
    async def test_an_operator_ends_a_transaction(self):
        async with started(Cluster()) as client:
            await client.begun()
            terminate = client.servicer.ForceTerminateTransaction
            request = coordinator_pb2.ForceTerminateTransactionRequest(transactional_id="pay")
            assert (await terminate(request, None)).error_code == 0
            await client.until_state("CompleteAbort")
            refused = await terminate(request, None)
            assert (refused.error_code, "CompleteAbort" in refused.error_message) == (48, True)

    async def test_expired_ids_are_forgotten_for_good(self, cluster):
        async with started(
            cluster, transactional_id_expiration_ms=1, expire_ids_interval_ms=10
        ) as client:
            await client.init()
            await client.until_state("TRANSACTIONAL_ID_NOT_FOUND")
        async with started(cluster) as client:
            assert await client.state() == "TRANSACTIONAL_ID_NOT_FOUND"


async def test_sink_calls_reach_the_machine():
    async with started(Cluster()) as client:
        call = client.servicer
        nonce = b"n" * 16
        opened = await call.OpenAttempt(
            coordinator_pb2.OpenAttemptRequest(sink="lake", nonce=nonce, timeout_ms=60_000),
            None,
        )
        assert (opened.error_code, opened.answer, opened.sink_epoch) == (0, 0, 1)
        joined = await call.JoinAttempt(
            coordinator_pb2.JoinAttemptRequest(
                sink="lake", nonce=nonce, query_id="q", run_id="r", batch_id=0
            ),
            None,
        )
        assert (joined.error_code, joined.answer) == (0, 0)
        branch = (joined.producer_id, joined.producer_epoch)
        added = await client.add(branch, name=joined.transactional_id, version=2)
        assert added.error_code == 0
        sealed = await call.SealBranch(
            coordinator_pb2.SealBranchRequest(
                sink="lake",
                nonce=nonce,
                producer_id=branch[0],
                producer_epoch=branch[1],
                last_sequences=[
                    coordinator_pb2.PartitionSequence(topic="orders", partition=0, last_sequence=4)
                ],
                row_count=5,
            ),
            None,
        )
        assert (sealed.error_code, sealed.answer) == (0, 0), sealed
        message = coordinator_pb2.BranchMessage(
            nonce=nonce,
            query_id="q",
            producer_id=branch[0],
            producer_epoch=branch[1],
            row_count=5,
        )
        request = coordinator_pb2.CommitBatchRequest(sink="lake", batch_id=0, messages=[message])
        committed = await call.CommitBatch(request, None)
        assert (committed.error_code, committed.answer) == (0, 0), committed
        again = await call.CommitBatch(request, None)
        assert again.answer == coordinator_pb2.SINK_ALREADY
        described = await call.DescribeSink(coordinator_pb2.DescribeSinkRequest(sink="lake"), None)
        assert described.last_committed_batch_id == 0
        assert (await client.init("lake")).error_code == 42
        assert (
            await call.DescribeSink(coordinator_pb2.DescribeSinkRequest(), None)
        ).error_code == 42
