"""The controller as its callers see it: start, restart, races, watchers, and a database that fails."""

import asyncio
import re
from contextlib import contextmanager

import pytest
from tests.integration.controller.controller_at import (
    allocate,
    controller_at,
    create,
    followed,
    register,
)
from tests.integration.controller.sql_databases import execute

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Partition
from oncelog.rpc.callers import CALLER_ROLE
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataImage
from oncelog_controller.election import Standing
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import ControllerRole, build_controller

DEADLINE_S = 90


async def test_a_new_cluster_is_ready_after_one_registration(database_url):
    async with controller_at(database_url) as stub, followed(stub) as follower:
        answer = await register(stub)
        assert answer.status.error_code == ErrorCode.NONE
        assert answer.session_timeout_ms == 6000
        await follower.wait_until(0)
        image = follower.image
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", image.cluster_id)
        assert image.transaction_version == 2
        assert image.features_epoch >= 0
        assert image.shard_count(TRANSACTION) == image.shard_count(GROUP) == 50
        assert image.nodes[1].kafka_port == 9092
        for name in (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC):
            assert image.topics[name].internal
            assert image.topic_config(name).is_compacted
            assert image.topic_config(name).segment_bytes == 104857600
        assert image.partition(Partition(TRANSACTION_STATE_TOPIC, 49)).leader == 1


@contextmanager
def called_by(role):
    """The role that the certificate of these calls names."""
    token = CALLER_ROLE.set(role)
    yield
    CALLER_ROLE.reset(token)


async def test_a_process_speaks_for_nodes_of_its_own_role_alone(database_url):
    forbidden = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    async with controller_at(database_url) as stub:
        with called_by("storage"):
            storage = await register(stub, "s", 1, [pb.ROLE_STORAGE])
            assert storage.status.error_code == ErrorCode.NONE
            beat = pb.NodeHeartbeatRequest(node_id=1, node_epoch=storage.node_epoch)
            assert (await stub.NodeHeartbeat(beat)).status.error_code == ErrorCode.NONE
        with called_by("marker-sender"):
            own = await register(stub, "m", 2, [pb.ROLE_MARKER_SENDER])
            assert own.status.error_code == ErrorCode.NONE
            for roles in ([pb.ROLE_LISTENER], [pb.ROLE_MARKER_SENDER, pb.ROLE_STORAGE]):
                other = await register(stub, "x", 3, roles)
                assert other.status.error_code == forbidden
                assert "names marker-sender" in other.status.error_message
            taken = await register(stub, "x", 1, [pb.ROLE_MARKER_SENDER])
            assert taken.status.error_code == forbidden
            assert (await stub.NodeHeartbeat(beat)).status.error_code == forbidden
            answers = [one.status.error_code async for one in stub.NodeSession(beats(beat))]
            assert answers == [forbidden]


async def beats(*requests):
    for one in requests:
        yield one


async def test_all_survives_a_restart_and_the_old_process_is_fenced(database_url):
    async with controller_at(database_url) as stub, followed(stub) as follower:
        old = await register(stub, "first")
        made = await create(stub, "orders", partitions=3)
        await follower.wait_until(made.metadata_offset)
        before = follower.image
    async with controller_at(database_url) as stub, followed(stub) as follower:
        new = await register(stub, "second")
        assert new.node_epoch > old.node_epoch
        assert (await allocate(stub, old.node_epoch)).status.error_code == (
            ErrorCode.STALE_BROKER_EPOCH
        )
        async with asyncio.timeout(DEADLINE_S):
            while 1 not in follower.image.nodes or (
                follower.image.nodes[1].node_epoch != new.node_epoch
            ):
                await follower.wait_until(follower.image.metadata_offset + 1)
        image = follower.image
        assert image.cluster_id == before.cluster_id
        assert image.topics["orders"].topic_id == before.topics["orders"].topic_id
        assert image.controller_epoch > before.controller_epoch
        for name, topic in before.topics.items():
            for was, now in zip(topic.partitions, image.topics[name].partitions, strict=True):
                assert now.leader_epoch == was.leader_epoch + 1
        for key, shard in before.shards.items():
            assert image.shards[key].coordinator_epoch == shard.coordinator_epoch + 1


async def test_topics_live_from_creation_to_deletion(database_url):
    async with controller_at(database_url) as stub, followed(stub) as follower:
        await register(stub)
        made = await create(stub, "orders", partitions=3)
        assert (made.results[0].partitions, made.results[0].replication_factor) == (3, 1)
        topic_id = made.results[0].topic_id
        assert len(topic_id) == 16
        await follower.wait_until(made.metadata_offset)
        assert follower.image.topics_by_id[topic_id].name == "orders"
        again = await create(stub, "orders")
        assert again.results[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        grown = await stub.CreatePartitions(
            pb.CreatePartitionsRequest(topics=[pb.NewPartitions(name="orders", count=5)])
        )
        assert grown.results[0].error_code == ErrorCode.NONE
        altered = await stub.AlterConfigs(
            pb.AlterConfigsRequest(name="orders", set={"retention.ms": "1000"})
        )
        assert altered.status.error_code == ErrorCode.NONE
        await follower.wait_until(altered.metadata_offset)
        assert len(follower.image.topics["orders"].partitions) == 5
        assert follower.image.topic_config("orders").retention_ms == 1000
        deleted = await stub.DeleteTopics(pb.DeleteTopicsRequest(topic_ids=[topic_id]))
        assert deleted.results[0].error_code == ErrorCode.NONE
        assert deleted.results[0].name == "orders"
        await follower.wait_until(deleted.metadata_offset)
        assert "orders" not in follower.image.topics
        assert topic_id not in follower.image.topics_by_id


async def test_features_and_heartbeats(database_url):
    async with controller_at(database_url) as stub, followed(stub) as follower:
        node_epoch = (await register(stub)).node_epoch
        await follower.wait_until(0)
        features_epoch = follower.image.features_epoch
        changed = await stub.UpdateFeatures(
            pb.UpdateFeaturesRequest(levels={"transaction.version": 1})
        )
        await follower.wait_until(changed.metadata_offset)
        assert follower.image.transaction_version == 1
        assert follower.image.features_epoch > features_epoch
        refused = await stub.UpdateFeatures(pb.UpdateFeaturesRequest(levels={"x.version": 1}))
        assert refused.status.error_code == ErrorCode.FEATURE_UPDATE_FAILED
        assert "x.version" in refused.status.error_message
        for epoch, expected in (
            (node_epoch, ErrorCode.NONE),
            (node_epoch - 1, ErrorCode.STALE_BROKER_EPOCH),
        ):
            beat = await stub.NodeHeartbeat(pb.NodeHeartbeatRequest(node_id=1, node_epoch=epoch))
            assert beat.status.error_code == expected


async def test_a_journal_that_disagrees_with_the_blocks_is_refused(database_url):
    async with controller_at(database_url) as stub:
        node_epoch = (await register(stub)).node_epoch
        await allocate(stub, node_epoch)
    execute(database_url, "UPDATE controller_state SET next_producer_id = 9000")
    with pytest.raises(OncelogError, match="1000 by metadata_journal and 9000") as caught:
        async with controller_at(database_url):
            pass
    assert "Restore both" in str(caught.value)
    execute(database_url, "UPDATE controller_state SET next_producer_id = 1000")
    async with controller_at(database_url) as stub:
        assert (await allocate(stub, node_epoch)).first_producer_id == 1000


async def test_two_racing_controllers_never_hand_out_one_block_twice(database_url):
    async def take_blocks(stub, node_epoch, firsts):
        taken = 0
        while taken < 10:
            answer = await allocate(stub, node_epoch)
            if answer.status.error_code == ErrorCode.NONE:
                firsts.append(answer.first_producer_id)
                taken += 1
            else:
                assert answer.status.error_code in (
                    ErrorCode.NOT_CONTROLLER,
                    ErrorCode.REQUEST_TIMED_OUT,
                    ErrorCode.BROKER_ID_NOT_REGISTERED,
                )
                await asyncio.sleep(0)

    firsts = []
    settings = {"snapshot_interval_records": 7}
    async with asyncio.timeout(60), controller_at(database_url, **settings) as one:
        node_epoch = (await register(one)).node_epoch
        async with controller_at(database_url, **settings) as other:
            await asyncio.gather(
                *(take_blocks(stub, node_epoch, firsts) for stub in (one, other, one, other))
            )
    assert len(firsts) == len(set(firsts)) == 40


async def test_a_watcher_gets_a_snapshot_then_every_delta_in_order(database_url):
    async with controller_at(database_url) as stub:
        await register(stub)
        updates = []

        async def watch():
            async for update in stub.WatchMetadata(
                pb.WatchMetadataRequest(node_id=1, from_metadata_offset=-1)
            ):
                updates.append(update)

        watcher = asyncio.create_task(watch())
        last = 0
        for number in range(10):
            last = (await create(stub, f"t{number}")).metadata_offset
        async with asyncio.timeout(DEADLINE_S):
            while not updates or updates[-1].metadata_offset < last:  # noqa: ASYNC110
                await asyncio.sleep(0)
    await asyncio.wait_for(watcher, DEADLINE_S)  # ended by the stop, without an error
    assert updates[0].HasField("snapshot")
    assert not any(update.HasField("snapshot") for update in updates[1:])
    offsets = [update.metadata_offset for update in updates]
    assert offsets == sorted(set(offsets))
    image = MetadataImage()
    for update in updates:
        image = image.updated(update)
    assert {f"t{number}" for number in range(10)} < set(image.topics)


@pytest.mark.parametrize(("delta_history", "snapshots"), [(3, 2), (100, 1)])
async def test_a_slow_watcher_loses_nothing(sqlite_url, delta_history, snapshots):
    async with controller_at(sqlite_url, delta_history=delta_history) as stub:
        await register(stub)
        stream = stub.WatchMetadata(pb.WatchMetadataRequest(node_id=1, from_metadata_offset=-1))
        image = MetadataImage().updated(await anext(stream))
        for number in range(20):
            last = await create(stub, f"t{number}")
        seen_snapshots = 1
        while image.metadata_offset < last.metadata_offset:
            update = await asyncio.wait_for(anext(stream), DEADLINE_S)
            seen_snapshots += update.HasField("snapshot")
            image = image.updated(update)
        assert seen_snapshots == snapshots
        assert {f"t{number}" for number in range(20)} < set(image.topics)
        await stream.aclose()


async def test_a_returning_watcher_continues_where_it_was(sqlite_url):
    async with controller_at(sqlite_url) as stub:
        await register(stub)
        seen = (await create(stub, "a")).metadata_offset
        await create(stub, "b")
        for known, is_snapshot in ((seen, False), (seen - 2, True), (seen + 99, True)):
            stream = stub.WatchMetadata(
                pb.WatchMetadataRequest(node_id=1, from_metadata_offset=known)
            )
            update = await asyncio.wait_for(anext(stream), DEADLINE_S)
            assert update.HasField("snapshot") is is_snapshot
            await stream.aclose()


async def test_a_lost_table_is_a_retriable_code_and_heals(database_url):
    async with controller_at(database_url) as stub, followed(stub) as follower:
        node_epoch = (await register(stub)).node_epoch
        assert (await allocate(stub, node_epoch)).first_producer_id == 0
        execute(database_url, "ALTER TABLE metadata_journal RENAME TO away")
        lost = await allocate(stub, node_epoch)
        assert lost.status.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert ErrorCode(lost.status.error_code).is_retriable
        assert lost.status.error_message
        refused = await create(stub, "a", "a", "b")
        assert [result.name for result in refused.results] == ["a", "b"]
        assert all(ErrorCode(result.error_code).is_retriable for result in refused.results)
        execute(database_url, "ALTER TABLE away RENAME TO metadata_journal")
        async with asyncio.timeout(DEADLINE_S):
            while (block := await allocate(stub, node_epoch)).status.error_code:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert block.first_producer_id == 1000
        made = await create(stub, "after")
        await follower.wait_until(made.metadata_offset)
        assert "after" in follower.image.topics


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////no/such/folder/c.db",
        "postgresql+psycopg://user:secret@127.0.0.1:1/nothing",
        "postgresql://user:secret@127.0.0.1:1/nothing",
        "mysql://user:secret@host/x",
        "sqlite://",
        "sqlite:///:memory:",
        "not a url",
        "",
    ],
)
async def test_an_unusable_database_is_told_in_one_line(url):
    with pytest.raises(OncelogError) as caught:
        async with controller_at(url, database_timeout_ms=1000, database_start_timeout_ms=1000):
            pass
    message = str(caught.value)
    assert "\n" not in message
    assert "ONCELOG_CONTROLLER_DATABASE_URL" in message
    assert "secret" not in message


async def test_requests_after_the_stop_are_refused(sqlite_url):
    role = build_controller(ControllerSettings(database_url=sqlite_url))
    await role.start()
    stub = DirectStub(role.servicer)
    await register(stub)
    await role.stop()
    await role.stop()
    answer = await register(stub, "second")
    assert answer.status.error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("stale_node", [True, False])
async def test_a_controller_whose_lease_is_over_refuses_no_proposal(
    sqlite_url, monkeypatch, stale_node
):
    """Another one may have taken it. The leader that drops it would leave the new member out of the high watermark."""
    async with controller_at(sqlite_url) as stub:
        node_epoch = (await register(stub)).node_epoch
        await create(stub, "orders", partitions=1, replication_factor=1)
        proposal = pb.ProposedIsr(
            partition=types_pb2.TopicPartition(topic="orders"), leader_epoch=7, isr=[1]
        )
        request = pb.AlterPartitionRequest(
            node_id=1, node_epoch=node_epoch - stale_node, partitions=[proposal]
        )
        response = await stub.AlterPartition(request)
        assert response.status.error_code or response.partitions[0].error_code
        assert response.status.error_code != ErrorCode.NOT_CONTROLLER
        monkeypatch.setattr(
            ControllerRole, "_standing", lambda self: Standing(True, 1, "", 5, remaining_ms=0)
        )
    async with controller_at(sqlite_url) as stub:
        request.node_epoch = (await register(stub, "second")).node_epoch - stale_node
        response = await stub.AlterPartition(request)
        assert response.status.error_code == ErrorCode.NOT_CONTROLLER
