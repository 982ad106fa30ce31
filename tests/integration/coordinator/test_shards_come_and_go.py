"""Shards are resumed, dropped, loaded and replayed; a failed append or a lost answer decides nothing."""

import asyncio

from tests.contracts.shard_storage import NODE, Cluster, shards, until
from tests.integration.coordinator.transaction_client import SHARD_OF_PAY, identity_of, started

from oncelog.api.v1 import controller_pb2, marker_sender_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import TRANSACTION_STATE_TOPIC
from oncelog.telemetry.history import History, LocalFeed
from oncelog_coordinator.core.markers import DeliveryOutcome


class TestShardsComeAndGo:
    async def test_a_restart_resumes_what_was_decided(self, cluster):
        cluster.marker_sender.gate = asyncio.Event()
        async with started(cluster) as client:
            await client.ended()
        cluster.marker_sender.gate.set()
        cluster.change(shards=shards(coordinator_epoch=1))
        async with started(cluster) as client:
            await client.until_state("CompleteCommit")
            assert [r.markers[0].coordinator_epoch for r in cluster.marker_sender.requests] == [
                0,
                1,
            ]

    async def test_a_shard_that_moves_away_cancels_its_deliveries(self, cluster):
        cluster.marker_sender.gate = asyncio.Event()
        async with started(cluster) as client:
            identity = await client.ended()
            cluster.change(shards=shards(coordinator=2, coordinator_epoch=1))
            assert (await client.end(identity)).error_code == 16
            await until(lambda: (SHARD_OF_PAY, 0) in cluster.marker_sender.cancelled)
            cluster.marker_sender.gate.set()
            cluster.change(shards=shards(coordinator_epoch=2))
            await client.until_state("CompleteCommit")

    async def test_clients_wait_while_a_shard_loads(self, cluster):
        cluster.storage.fetch_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        async with started(cluster) as client:
            assert (await client.init()).error_code == 14
            assert (await client.list()).error_code == 14
            cluster.storage.fetch_error = ErrorCode.NONE
            await until(lambda: all_loaded(client))
            assert (await client.init()).error_code == 0

    async def test_the_feed_names_who_asks_while_a_shard_loads(self):
        cluster, history = Cluster(), History()
        cluster.storage.fetch_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        async with started(cluster, LocalFeed(history, "coordinator", NODE)) as client:
            for _ in range(3):
                await client.init(origin={"client_id": "app-1", "client_host": "10.0.0.7"})
            await client.describe()
        (refused,) = (one for one in history.of_transaction("pay") if one.kind == "refused")
        assert refused.text("error") == "COORDINATOR_LOAD_IN_PROGRESS"
        assert refused.text("client_id") == "app-1"
        assert refused.number("shard") == SHARD_OF_PAY

    async def test_without_the_internal_topic_there_is_no_coordinator(self, cluster):
        cluster.metadata.apply_update(
            controller_pb2.MetadataUpdate(
                metadata_offset=9,
                snapshot=controller_pb2.MetadataSnapshot(nodes=[controller_pb2.Node(node_id=NODE)]),
            )
        )
        async with started(cluster) as client:
            assert (await client.init()).error_code == 15


def all_loaded(client):
    return all(term.driver is not None for term in client.role.shards._terms.values())


class TestFaults:
    async def test_a_failed_append_refuses_and_the_replayed_shard_serves(self, cluster):
        async with started(cluster, append_timeout_ms=20) as client:
            identity = await client.begun()
            cluster.storage.faults.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 500)
            assert (await client.end(identity)).error_code == 15
            cluster.storage.faults.clear()
            await client.until_state("Ongoing")
            assert (await client.end(identity)).error_code == 0
            await client.until_state("CompleteCommit")

    async def test_an_append_whose_fate_is_unknown_is_settled_by_replay(self, cluster):
        async with started(cluster, append_timeout_ms=20) as client:
            identity = await client.begun()
            cluster.storage.faults.extend(["lost"] + ["cut"] * 500)
            assert (await client.end(identity)).error_code == 15
            cluster.storage.faults.clear()
            await client.until_state("CompleteCommit")
            assert (await client.end(identity)).error_code == 0

    async def test_a_fenced_coordinator_stops_answering(self, cluster):
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

    async def test_deliveries_are_repeated_until_there_is_an_outcome(self, cluster):
        cluster.marker_sender.outcomes.extend([ConnectionError("gone"), ConnectionError("gone")])
        async with started(cluster) as client:
            await client.ended()
            await client.until_state("CompleteCommit")
            assert len(cluster.marker_sender.requests) == 3

    async def test_a_fenced_delivery_leaves_the_transaction_prepared(self, cluster):
        cluster.marker_sender.outcomes.append(marker_sender_pb2.FENCED)
        async with started(cluster) as client:
            await client.ended()
            label = f"markers_{DeliveryOutcome.FENCED.value}"
            await until(lambda: client.role.shards.labels[label] == 1)
            assert await client.state() == "PrepareCommit"
