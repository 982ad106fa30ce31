"""The administrator against a running log: each call, and what it says where something is wrong."""

import asyncio

import pytest
from tests.integration.client.writers import Writer, fresh, new_topic, write

from oncelog.client import (
    EARLIEST,
    LATEST,
    Admin,
    ConfigResource,
    Consumer,
    FencedError,
    IllegalStateError,
    NewTopic,
    OffsetToCommit,
    Partition,
    Producer,
    RefusedError,
)
from oncelog.errors import ErrorCode

WAIT_S = 90


@pytest.fixture
def bootstrap(oncelog_broker):
    return oncelog_broker.bootstrap_servers


@pytest.fixture
async def admin(bootstrap):
    async with Admin(bootstrap) as found:
        yield found


async def test_topics_come_grow_and_go(admin):
    name = fresh("topic")
    created = await admin.create_topic(NewTopic(name, partitions=2, configs={"retention.ms": "9"}))
    assert (created.partitions, created.replication_factor) == (2, 1)
    with pytest.raises(RefusedError) as caught:
        await admin.create_topic(NewTopic(name))
    assert caught.value.error_code is ErrorCode.TOPIC_ALREADY_EXISTS
    grown = await admin.create_partitions({name: 3, "nope": 2})
    assert grown[name] is None
    assert list(grown.errors) == ["nope"]
    async with asyncio.timeout(WAIT_S):  # A broker learns of it a moment later.
        while len((await admin.describe_topics([name]))[name].partitions) < 3:
            pass
    described = (await admin.describe_topics([name]))[name]
    assert described.topic_id == created.topic_id
    assert [one.partition for one in described.partitions] == [0, 1, 2]
    assert name in await admin.list_topics()
    await admin.delete_topic(name)
    async with asyncio.timeout(WAIT_S):
        while name in await admin.list_topics():
            pass
    with pytest.raises(RefusedError, match=name):
        await admin.delete_topic(name)


async def test_results_of_many_items_are_told_apart(admin):
    name = fresh("topic")
    found = await admin.create_topics([NewTopic(name), NewTopic("no name")])
    assert found[name].name == name
    with pytest.raises(RefusedError, match="no name"):
        assert found["no name"]
    with pytest.raises(RefusedError):
        found.check()
    assert set(found) == {name, "no name"}


async def test_configs_are_set_and_set_back(admin, bootstrap):
    topic = new_topic(bootstrap)
    await admin.alter_configs(ConfigResource.TOPIC, topic, {"cleanup.policy": "compact"})
    found = await admin.describe_configs(ConfigResource.TOPIC, topic)
    assert (found["cleanup.policy"].value, found["cleanup.policy"].is_default) == ("compact", False)
    await admin.alter_configs(ConfigResource.TOPIC, topic, {"cleanup.policy": None})
    found = await admin.describe_configs(ConfigResource.TOPIC, topic)
    assert found["cleanup.policy"].is_default
    with pytest.raises(RefusedError, match="retention\\.msx"):
        await admin.alter_configs(ConfigResource.TOPIC, topic, {"retention.msx": "1"})
    node = str((await admin.describe_cluster()).brokers[0].node_id)
    assert "node.id" in await admin.describe_configs(ConfigResource.BROKER, node)


async def test_records_are_deleted_and_the_ends_are_listed(admin, bootstrap):
    topic = new_topic(bootstrap)
    write(bootstrap, topic, [b"v"] * 10)
    at, nowhere = Partition(topic, 0), Partition(topic, 7)
    deleted = await admin.delete_records({at: 4, nowhere: 1})
    assert deleted[at] == 4
    assert list(deleted.errors) == [nowhere]
    assert (await admin.list_offsets({at: EARLIEST}))[at].offset == 4
    assert (await admin.list_offsets({at: LATEST}))[at].offset == 10


async def test_a_group_and_its_offsets(admin, bootstrap):
    topic, group = new_topic(bootstrap), fresh("g")
    write(bootstrap, topic, [b"v"] * 3)
    at = Partition(topic, 0)
    async with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert await consumer.poll(WAIT_S)
        (found,) = [one for one in await admin.list_groups() if one.group_id == group]
        assert (found.kind, found.state) == ("consumer", "Stable")
        described = await admin.describe_group(group)
        assert [one.assignment for one in described.members] == [frozenset({at})]
        assert described.members[0].epoch == described.epoch
        refused = await admin.delete_groups([group])
        assert refused.errors[group].error_code is ErrorCode.NON_EMPTY_GROUP
        with pytest.raises(RefusedError, match="has members"):
            (await admin.alter_group_offsets(group, {at: 1})).check()
    assert (await admin.list_group_offsets(group))[at].offset == 3
    (await admin.alter_group_offsets(group, {at: OffsetToCommit(1, -1, "why")})).check()
    assert await admin.list_group_offsets(group, [at]) == {at: OffsetToCommit(1, -1, "why")}
    (await admin.delete_group_offsets(group, [at])).check()
    assert await admin.list_group_offsets(group) == {}
    (await admin.delete_groups([group])).check()
    with pytest.raises(RefusedError) as caught:
        await admin.describe_group(group)
    assert caught.value.error_code is ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_classic_group_is_described_too(admin, bootstrap):
    from confluent_kafka import Consumer as Classic

    topic, group = new_topic(bootstrap), fresh("g")
    write(bootstrap, topic, [b"v"])
    classic = Classic(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    try:
        classic.subscribe([topic])
        assert classic.poll(WAIT_S) is not None
        found = await admin.describe_group(group)
    finally:
        classic.close()
    assert found.kind == "classic"
    assert [one.assignment for one in found.members] == [frozenset({Partition(topic, 0)})]


async def test_an_id_without_a_transaction_has_no_start(admin, bootstrap):
    name = fresh("idle")
    async with Producer(bootstrap, transactional_id=name):
        described = (await admin.describe_transactions([name]))[name]
    assert (described.state, described.started_ms) == ("Empty", -1)


async def test_an_open_transaction_is_seen_and_terminated(admin, bootstrap):
    topic, name = new_topic(bootstrap), fresh("t")
    at = Partition(topic, 0)
    async with Producer(bootstrap, transactional_id=name) as producer:
        producer.begin_transaction()
        await producer.send(topic, b"v")
        listed = {one.transactional_id: one for one in await admin.list_transactions()}
        assert listed[name].state == "Ongoing"
        described = (await admin.describe_transactions([name]))[name]
        assert described.partitions == {at}
        assert described.started_ms > 0
        (there,) = (await admin.describe_producers([at]))[at]
        assert (there.producer_id, there.open_since_offset) == (described.producer_id, 0)
        await admin.force_terminate_transaction(name)
        (ended,) = (await admin.describe_producers([at]))[at]
        assert ended.open_since_offset == -1
        with pytest.raises(IllegalStateError, match="nothing to abort"):
            await admin.abort_transaction(at, ended)
        with pytest.raises(FencedError):
            await producer.commit_transaction()


async def test_a_marker_ends_a_transaction_in_one_partition(admin, bootstrap):
    topic = new_topic(bootstrap)
    at, writer = Partition(topic, 0), Writer(bootstrap, topic)
    writer.begin()
    writer.write(b"v")
    (hanging,) = (await admin.describe_producers([at]))[at]
    assert (await admin.list_offsets({at: LATEST}, read_committed=True))[at].offset == 0
    await admin.abort_transaction(at, hanging)
    assert (await admin.list_offsets({at: LATEST}, read_committed=True))[at].offset == 2


async def test_what_the_cluster_is_and_can(admin):
    cluster = await admin.describe_cluster()
    assert cluster.cluster_id
    assert [one.is_fenced for one in cluster.brokers] == [False]
    assert (await admin.describe_features())["transaction.version"].finalized == 2
    await admin.update_features({"transaction.version": 2}, validate_only=True)
    with pytest.raises(RefusedError):
        await admin.update_features({"nope.version": 1})


async def test_without_an_authorizer_acls_are_refused(admin):
    with pytest.raises(RefusedError, match=r"(?i)authorizer"):
        await admin.describe_acls()
