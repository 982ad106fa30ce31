"""The coordinator's service over a storage node, controller and marker sender that misbehave on demand."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.contracts.shard_storage import NODE, Cluster, shards, until

from oncelog.api.v1 import controller_pb2, coordinator_pb2, marker_sender_pb2, types_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import TRANSACTION_STATE_TOPIC, shard_of
from oncelog_coordinator.core.markers import DeliveryOutcome
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.wiring import build_coordinator

FAST = {
    "append_timeout_ms": 300,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 5,
    "concurrent_wait_ms": 0,
    "start_timeout_ms": 300,
}
SHARD_OF_PAY = shard_of("pay", 4)


@asynccontextmanager
async def started(cluster, **settings):
    role = build_coordinator(
        CoordinatorSettings(**(FAST | settings)), NODE, cluster.metadata, cluster.directory
    )
    await role.start()
    try:
        yield Client(role)
    finally:
        await role.stop()


class Client:
    def __init__(self, role):
        self.role = role
        self.servicer = role.servicer

    async def init(self, name="pay", timeout_ms=60_000, **fields):
        fields = {"producer_id": -1, "producer_epoch": -1} | fields
        request = coordinator_pb2.InitProducerIdRequest(transaction_timeout_ms=timeout_ms, **fields)
        if name is not None:
            request.transactional_id = name
        return await self.servicer.InitProducerId(request, None)

    async def add(self, identity, *partitions, name="pay", version=0, verify_only=False):
        asked = coordinator_pb2.AddPartitionsToTxnRequest.Transaction(
            transactional_id=name,
            producer_id=identity[0],
            producer_epoch=identity[1],
            verify_only=verify_only,
            client_transaction_version=version,
            partitions=[
                types_pb2.TopicPartition(topic=topic, partition=partition)
                for topic, partition in partitions or [("orders", 0)]
            ],
        )
        answer = await self.servicer.AddPartitionsToTxn(
            coordinator_pb2.AddPartitionsToTxnRequest(transactions=[asked]), None
        )
        return answer.results[0]

    async def end(self, identity, commit=True, name="pay", version=0):
        return await self.servicer.EndTxn(
            coordinator_pb2.EndTxnRequest(
                transactional_id=name,
                producer_id=identity[0],
                producer_epoch=identity[1],
                committed=commit,
                client_transaction_version=version,
            ),
            None,
        )

    async def describe(self, *names):
        answer = await self.servicer.DescribeTransactions(
            coordinator_pb2.DescribeTransactionsRequest(transactional_ids=names), None
        )
        return list(answer.transactions)

    async def list(self, **filters):
        filters = {"duration_filter_ms": -1} | filters
        return await self.servicer.ListTransactions(
            coordinator_pb2.ListTransactionsRequest(**filters), None
        )

    async def state(self, name="pay"):
        (described,) = await self.describe(name)
        return described.state or ErrorCode(described.error_code).name

    async def until_state(self, state, name="pay"):
        async with asyncio.timeout(5):
            while await self.state(name) != state:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario(), 20))


def identity_of(answer):
    assert answer.error_code == 0, answer
    return answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_from_start_to_completion(version):
    async def scenario():
        cluster = Cluster()
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

    run(scenario)


def test_markers_never_leave_before_the_decision_is_written():
    async def scenario():
        cluster = Cluster()
        async with started(cluster) as client:
            identity = identity_of(await client.init())
            await client.add(identity)
            await client.end(identity)
            await client.until_state("CompleteCommit")
        assert cluster.storage.order == ["append"] * 3 + ["markers", "append"]

    run(scenario)


def test_endtxn_is_answered_while_markers_are_still_under_way():
    async def scenario():
        cluster = Cluster()
        cluster.marker_sender.gate = asyncio.Event()
        async with started(cluster) as client:
            identity = identity_of(await client.init())
            await client.add(identity)
            assert (await client.end(identity)).error_code == 0
            assert await client.state() == "PrepareCommit"
            assert (await client.add(identity)).error_code == 51
            cluster.marker_sender.gate.set()
            await client.until_state("CompleteCommit")

    run(scenario)


def test_concurrent_transactions_is_held_back_until_the_completion():
    async def scenario():
        cluster = Cluster()
        cluster.marker_sender.gate = asyncio.Event()
        async with started(cluster, concurrent_wait_ms=10_000) as client:
            identity = identity_of(await client.init())
            await client.add(identity)
            await client.end(identity)
            waiting = asyncio.ensure_future(client.add(identity, ("orders", 2)))
            fresh = asyncio.ensure_future(client.init("other"))
            assert (await fresh).error_code == 0
            assert not waiting.done()
            cluster.marker_sender.gate.set()
            assert (await waiting).error_code == 0
            assert await client.state() == "Ongoing"

    run(scenario)


def test_a_new_producer_over_an_open_transaction_waits_for_the_abort_and_gets_its_identity():
    async def scenario():
        async with started(Cluster(), concurrent_wait_ms=10_000) as client:
            old = identity_of(await client.init())
            await client.add(old)
            assert identity_of(await client.init()) == (old[0], old[1] + 2)
            assert (await client.end(old)).error_code == 90

    run(scenario)


def test_an_idempotent_producer_needs_no_shard():
    async def scenario():
        async with started(Cluster()) as client:
            first, second = await client.init(None), await client.init(None)
            assert identity_of(first)[1] == identity_of(second)[1] == 0
            assert first.producer_id != second.producer_id

    run(scenario)


def test_bad_requests_are_refused_before_the_shard_is_asked():
    async def scenario():
        cluster = Cluster()
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

    run(scenario)


def test_a_partition_that_does_not_exist_fails_all():
    async def scenario():
        async with started(Cluster()) as client:
            identity = identity_of(await client.init())
            added = await client.add(identity, ("orders", 0), ("orders", 9), ("nothing", 0))
            assert [row.error_code for row in added.partitions] == [55, 3, 3]
            assert await client.state() == "Empty"

    run(scenario)


def test_offsets_are_added_as_the_partition_of_the_group():
    async def scenario():
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

    run(scenario)


def test_verification_answers_per_partition():
    async def scenario():
        async with started(Cluster()) as client:
            identity = identity_of(await client.init())
            await client.add(identity)
            verified = await client.add(identity, ("orders", 0), ("orders", 1), verify_only=True)
            assert [row.error_code for row in verified.partitions] == [0, 120]

    run(scenario)


def test_many_transactions_in_one_call_are_answered_in_order():
    async def scenario():
        async with started(Cluster()) as client:
            names = [f"id-{number}" for number in range(20)]
            asked = []
            for name in names:
                identity = identity_of(await client.init(name))
                asked.append(
                    coordinator_pb2.AddPartitionsToTxnRequest.Transaction(
                        transactional_id=name,
                        producer_id=identity[0],
                        partitions=[types_pb2.TopicPartition(topic="orders", partition=0)],
                    )
                )
            asked[7].producer_epoch = 3
            answer = await client.servicer.AddPartitionsToTxn(
                coordinator_pb2.AddPartitionsToTxnRequest(transactions=asked), None
            )
            assert [result.transactional_id for result in answer.results] == names
            assert [result.error_code for result in answer.results] == [0] * 7 + [90] + [0] * 12

    run(scenario)


class TestViews:
    def test_list_and_describe_tell_who_coordinates(self):
        async def scenario():
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

        run(scenario)

    def test_an_invalid_pattern_is_explained(self):
        async def scenario():
            async with started(Cluster()) as client:
                listed = await client.list(transactional_id_pattern="(a+)+")
                assert listed.error_code == 128
                assert "(a+)+" in listed.error_message
                assert (await client.list(transactional_id_pattern="p.*")).error_code == 0

        run(scenario)

    def test_the_story_of_an_id_names_the_causes(self):
        async def scenario():
            async with started(Cluster()) as client:
                identity = identity_of(await client.init())
                await client.add(identity)
                await client.end((identity[0], 5))
                await client.end(identity)
                await client.until_state("CompleteCommit")
                told = [
                    (step.cause, step.label, step.state) for step in client.role.shards.story("pay")
                ]
                assert told == [
                    ("InitProducerId", "initialised", "Empty"),
                    ("AddPartitions", "transaction_started", "Ongoing"),
                    ("EndTxn", "fenced", ""),
                    ("EndTxn", "commit_prepared", "PrepareCommit"),
                    ("MarkersDelivered", "completed", "CompleteCommit"),
                ]

        run(scenario)


class TestTimeoutsAndOperators:
    def test_a_transaction_is_aborted_soon_after_its_timeout(self):
        async def scenario():
            cluster = Cluster()
            async with started(cluster) as client:
                identity = identity_of(await client.init(timeout_ms=50))
                await client.add(identity)
                await client.until_state("CompleteAbort")
                assert (await client.end(identity)).error_code == 90
                assert client.role.shards.labels["timed_out"] == 1

        run(scenario)

    def test_an_operator_ends_a_transaction(self):
        async def scenario():
            async with started(Cluster()) as client:
                identity = identity_of(await client.init())
                await client.add(identity)
                terminate = client.servicer.ForceTerminateTransaction
                request = coordinator_pb2.ForceTerminateTransactionRequest(transactional_id="pay")
                assert (await terminate(request, None)).error_code == 0
                await client.until_state("CompleteAbort")
                refused = await terminate(request, None)
                assert (refused.error_code, "CompleteAbort" in refused.error_message) == (48, True)

        run(scenario)

    def test_expired_ids_are_forgotten_for_good(self):
        async def scenario():
            cluster = Cluster()
            async with started(
                cluster, transactional_id_expiration_ms=1, expire_ids_interval_ms=10
            ) as client:
                await client.init()
                await client.until_state("TRANSACTIONAL_ID_NOT_FOUND")
            async with started(cluster) as client:
                assert await client.state() == "TRANSACTIONAL_ID_NOT_FOUND"

        run(scenario)


class TestShardsComeAndGo:
    def test_a_restart_resumes_what_was_decided(self):
        async def scenario():
            cluster = Cluster()
            cluster.marker_sender.gate = asyncio.Event()
            async with started(cluster) as client:
                identity = identity_of(await client.init())
                await client.add(identity)
                await client.end(identity)
            cluster.marker_sender.gate.set()
            cluster.change(shards=shards(coordinator_epoch=1))
            async with started(cluster) as client:
                await client.until_state("CompleteCommit")
                assert [r.markers[0].coordinator_epoch for r in cluster.marker_sender.requests] == [
                    0,
                    1,
                ]

        run(scenario)

    def test_a_shard_that_moves_away_is_dropped_and_its_deliveries_are_cancelled(self):
        async def scenario():
            cluster = Cluster()
            cluster.marker_sender.gate = asyncio.Event()
            async with started(cluster) as client:
                identity = identity_of(await client.init())
                await client.add(identity)
                await client.end(identity)
                cluster.change(shards=shards(coordinator=2, coordinator_epoch=1))
                assert (await client.end(identity)).error_code == 16
                await until(lambda: (SHARD_OF_PAY, 0) in cluster.marker_sender.cancelled)
                cluster.marker_sender.gate.set()
                cluster.change(shards=shards(coordinator_epoch=2))
                await client.until_state("CompleteCommit")

        run(scenario)

    def test_clients_wait_while_a_shard_loads(self):
        async def scenario():
            cluster = Cluster()
            cluster.storage.fetch_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            async with started(cluster) as client:
                assert (await client.init()).error_code == 14
                assert (await client.list()).error_code == 14
                cluster.storage.fetch_error = ErrorCode.NONE
                await until(lambda: all_loaded(client))
                assert (await client.init()).error_code == 0

        run(scenario)

    def test_without_the_internal_topic_there_is_no_coordinator(self):
        async def scenario():
            cluster = Cluster()
            cluster.metadata.take(
                controller_pb2.MetadataUpdate(
                    metadata_offset=9,
                    snapshot=controller_pb2.MetadataSnapshot(
                        nodes=[controller_pb2.Node(node_id=NODE)]
                    ),
                )
            )
            async with started(cluster) as client:
                assert (await client.init()).error_code == 15

        run(scenario)


def all_loaded(client):
    return all(reign.driver is not None for reign in client.role.shards._reigns.values())


class TestFaults:
    def test_a_failed_append_refuses_and_the_replayed_shard_serves_again(self):
        async def scenario():
            cluster = Cluster()
            async with started(cluster, append_timeout_ms=20) as client:
                identity = identity_of(await client.init())
                await client.add(identity)
                cluster.storage.faults.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 500)
                assert (await client.end(identity)).error_code == 15
                cluster.storage.faults.clear()
                await client.until_state("Ongoing")
                assert (await client.end(identity)).error_code == 0
                await client.until_state("CompleteCommit")

        run(scenario)

    def test_an_append_whose_fate_is_unknown_is_settled_by_replay(self):
        async def scenario():
            cluster = Cluster()
            async with started(cluster, append_timeout_ms=20) as client:
                identity = identity_of(await client.init())
                await client.add(identity)
                cluster.storage.faults.extend(["lost"] + ["cut"] * 500)
                assert (await client.end(identity)).error_code == 15
                cluster.storage.faults.clear()
                await client.until_state("CompleteCommit")
                assert (await client.end(identity)).error_code == 0

        run(scenario)

    def test_a_fenced_coordinator_stops_answering(self):
        async def scenario():
            cluster = Cluster()
            async with started(cluster) as client:
                identity = identity_of(await client.init())
                log = cluster.storage.logs[TRANSACTION_STATE_TOPIC, SHARD_OF_PAY]
                log.coordinator_epoch = 9
                cluster.storage.fetch_error = ErrorCode.TRANSACTION_COORDINATOR_FENCED
                assert (await client.add(identity)).error_code == 16
                assert (await client.end(identity)).error_code in (14, 16)
                cluster.storage.fetch_error = ErrorCode.NONE
                cluster.change(shards=shards(coordinator_epoch=9))
                await client.until_state("Empty")

        run(scenario)

    def test_deliveries_are_repeated_until_there_is_an_outcome(self):
        async def scenario():
            cluster = Cluster()
            cluster.marker_sender.outcomes.extend(
                [ConnectionError("gone"), ConnectionError("gone")]
            )
            async with started(cluster) as client:
                identity = identity_of(await client.init())
                await client.add(identity)
                await client.end(identity)
                await client.until_state("CompleteCommit")
                assert len(cluster.marker_sender.requests) == 3

        run(scenario)

    def test_a_fenced_delivery_leaves_the_transaction_prepared(self):
        async def scenario():
            cluster = Cluster()
            cluster.marker_sender.outcomes.append(marker_sender_pb2.FENCED)
            async with started(cluster) as client:
                identity = identity_of(await client.init())
                await client.add(identity)
                await client.end(identity)
                label = f"markers_{DeliveryOutcome.FENCED.value}"
                await until(lambda: client.role.shards.labels[label] == 1)
                assert await client.state() == "PrepareCommit"

        run(scenario)


class TestProducerIds:
    def test_blocks_are_fetched_ahead_and_ids_never_repeat(self):
        async def scenario():
            cluster = Cluster(block_size=10)
            async with started(cluster) as client:
                seen = []
                for _ in range(100):
                    answer = await client.init(None)
                    if answer.error_code == 0:
                        seen.append(answer.producer_id)
                    await asyncio.sleep(0)
                assert len(seen) == len(set(seen))
                assert len(seen) >= 90
                assert cluster.controller.calls <= 12

        run(scenario)

    def test_without_a_block_clients_are_told_to_wait_and_calls_are_few(self):
        async def scenario():
            cluster = Cluster()
            cluster.controller.faults.extend([ErrorCode.NOT_CONTROLLER] * 3)
            async with started(cluster, start_timeout_ms=1) as client:
                assert (await client.init(None)).error_code == 14
                assert (await client.init()).error_code == 14
                async with asyncio.timeout(5):
                    while (await client.init()).error_code == 14:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                assert cluster.controller.calls == 4

        run(scenario)

    @pytest.mark.parametrize("block", [(-5, 10), (5, 0), (5, -1), (2**63 - 5, 10), (0, 10)])
    def test_an_impossible_block_is_not_used(self, block):
        async def scenario():
            cluster = Cluster(block_size=10)
            async with started(cluster) as client:
                first = identity_of(await client.init(None))[0]
                cluster.controller.faults.append(block)
                seen = [first]
                async with asyncio.timeout(5):
                    while len(seen) < 15:
                        answer = await client.init(None)
                        if answer.error_code == 0:
                            seen.append(answer.producer_id)
                        else:
                            await asyncio.sleep(0.005)
                assert seen == list(range(15))

        run(scenario)

    def test_exhausted_epochs_take_the_next_id_from_the_block(self):
        async def scenario():
            async with started(Cluster()) as client:
                identity = identity_of(await client.init())
                driver = client.role.shards._reigns[SHARD_OF_PAY].driver
                txns = driver.machine.txn._txns
                txns["pay"] = replace(txns["pay"], producer_epoch=32_766)
                exhausted = (identity[0], 32_766)
                await client.add(exhausted, version=2)
                ended = await client.end(exhausted, version=2)
                assert (ended.error_code, ended.producer_epoch) == (0, 0)
                assert ended.producer_id > identity[0]
                await client.until_state("CompleteCommit")
                assert (await client.add((ended.producer_id, 0), version=2)).error_code == 0

        run(scenario)


def test_sink_calls_reach_the_machine():
    async def scenario():
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
                        coordinator_pb2.PartitionSequence(
                            topic="orders", partition=0, last_sequence=4
                        )
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
            request = coordinator_pb2.CommitBatchRequest(
                sink="lake", batch_id=0, messages=[message]
            )
            committed = await call.CommitBatch(request, None)
            assert (committed.error_code, committed.answer) == (0, 0), committed
            again = await call.CommitBatch(request, None)
            assert again.answer == coordinator_pb2.SINK_ALREADY
            described = await call.DescribeSink(
                coordinator_pb2.DescribeSinkRequest(sink="lake"), None
            )
            assert described.last_committed_batch_id == 0
            assert (await client.init("lake")).error_code == 42
            assert (
                await call.DescribeSink(coordinator_pb2.DescribeSinkRequest(), None)
            ).error_code == 42

    run(scenario)
