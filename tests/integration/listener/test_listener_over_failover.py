"""A coordinator or leader dies or moves under a client's request: the client sees a pause, and nothing happens twice
that may not. And what a client is told of several listeners (ADR 0017)."""

import asyncio
from datetime import timedelta

import pytest
from tests.worlds.listener.fake_roles import FakeCoordinator, FakeStorage
from tests.worlds.listener.listener_image import NODE_ID, topic
from tests.worlds.listener.listener_requests import (
    ask,
    batch,
    fetch,
    fetch_request,
    produce,
    produce_request,
)
from tests.worlds.listener.listener_world import World, eventually
from tests.worlds.listener.wire_client import WireClient

from oncelog.api.v1 import controller_pb2, coordinator_pb2, groups_pb2, storage_pb2
from oncelog.record.records import Record, encode_batch
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.metadata import TRANSACTION
from oncelog.rpc.sessions import PeerUnavailable

OTHER = 2
PATIENT = {"repeat_max_ms": 20_000}


class TwoNodes(LocalDirectory):
    def __init__(self, world):
        super().__init__(storage=None, coordinator=None, marker_sender=None, controller=None)
        self.storages = {NODE_ID: world.storage, OTHER: FakeStorage()}
        self.coordinators = {NODE_ID: world.coordinator, OTHER: FakeCoordinator()}

    def storage(self, node_id):
        return DirectStub(self.storages[node_id])

    def coordinator(self, node_id):
        return DirectStub(self.coordinators[node_id])


def two_nodes(*topics, **settings):
    world = World(*topics, **(PATIENT | settings))
    world.directory = TwoNodes(world)
    return world


@pytest.fixture
def world():
    return two_nodes(topic("orders", 1))


def move(world, name="orders", partitions=1):
    """Everything of the first node goes to the other one."""
    world.controller.change(
        topics=[topic(name, partitions, leader=OTHER)],
        shards=[
            controller_pb2.Shard(kind=TRANSACTION, shard=n, coordinator=OTHER, coordinator_epoch=1)
            for n in range(50)
        ],
    )


METHODS = {0: "Produce", 1: "Fetch", 22: "InitProducerId", 26: "EndTxn"}


async def during_failover(world, api_key, version, **fields):
    """The answer to a request during which its node turns out to be gone, and then is replaced."""
    asked, method = world.storage if api_key < 2 else world.coordinator, METHODS[api_key]
    async with world.connected() as (_, client):
        schema = client.send(api_key, version, **fields)
        await eventually(lambda: asked.received(method))
        move(world)
        _, answer = await asyncio.wait_for(client.receive(schema), 30)
        return answer


END = {"transactional_id": "pay", "producer_id": 7, "producer_epoch": 0, "committed": True}
INIT = {"transactional_id": "pay", "transaction_timeout": timedelta(seconds=60)}
FAILURES = [
    PeerUnavailable("gone"),
    TimeoutError(),
    coordinator_pb2.EndTxnResponse(error_code=14),
    coordinator_pb2.EndTxnResponse(error_code=15),
    coordinator_pb2.EndTxnResponse(error_code=16),
]


of_either_request = pytest.mark.parametrize(
    ("api_key", "method", "fields"), [(26, "EndTxn", END), (22, "InitProducerId", INIT)]
)


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
@of_either_request
async def test_a_request_to_a_lost_coordinator_is_answered_by_the_next(
    world, failure, api_key, method, fields
):
    world.coordinator.canned[method] = failure
    answer = await during_failover(world, api_key, 1, **fields)
    assert answer.error_code == 0
    assert len(world.directory.coordinators[OTHER].received(method)) == 1


@of_either_request
async def test_nothing_is_repeated_for_a_client_that_is_gone(world, api_key, method, fields):
    """It asks another listener, is answered there, and is in its next transaction when the repetition would arrive."""
    world.coordinator.canned[method] = PeerUnavailable("gone")

    async with world.connected() as (role, client):
        client.send(api_key, 1, **fields)
        await eventually(lambda: world.coordinator.received(method))
        client.close()
        await eventually(lambda: role.counters.connections_open == 0)
        move(world)
        other = await WireClient.connect(role.port)
        await other.call(api_key, 1, **(fields | {"transactional_id": "other"}))
    requests = world.directory.coordinators[OTHER].received(method)
    assert [one.transactional_id for one in requests] == ["other"]


async def test_a_frozen_coordinator_is_left_when_its_shard_moves(world):
    async def frozen(request, context):
        world.coordinator.calls.append(("EndTxn", request))
        await asyncio.Event().wait()

    world.coordinator.EndTxn = frozen
    answer = await during_failover(world, 26, 1, **END)
    assert answer.error_code == 0


FENCED = coordinator_pb2.EndTxnResponse(error_code=90)


@pytest.mark.parametrize(
    "first",
    [
        PeerUnavailable("gone", was_sent=True),
        coordinator_pb2.EndTxnResponse(error_code=15),
        coordinator_pb2.EndTxnResponse(error_code=16),
    ],
    ids=repr,
)
async def test_a_refused_repetition_of_an_end_is_no_answer(world, first):
    """What it repeats may have decided the transaction, and a successor have fenced the producer since."""
    world.coordinator.canned["EndTxn"] = first
    world.directory.coordinators[OTHER].canned["EndTxn"] = FENCED

    with pytest.raises(asyncio.IncompleteReadError):
        await during_failover(world, 26, 1, **END)
    assert len(world.directory.coordinators[OTHER].received("EndTxn")) == 1


@pytest.mark.parametrize(
    "first",
    [
        PeerUnavailable("gone", was_sent=False),
        coordinator_pb2.EndTxnResponse(error_code=14),
    ],
    ids=repr,
)
async def test_a_refused_end_that_nobody_took_before_is_an_answer(world, first):
    world.coordinator.canned["EndTxn"] = first
    world.directory.coordinators[OTHER].canned["EndTxn"] = FENCED
    answer = await during_failover(world, 26, 2, **END)
    assert answer.error_code == 90


def test_the_only_answer_to_an_end_is_told_as_it_is(world):
    """The listener has not repeated anything, so the client knows as much as it does."""
    world.coordinator.canned["EndTxn"] = coordinator_pb2.EndTxnResponse(error_code=-1)
    assert ask(world, 26, 1, **END).error_code == -1


def test_what_does_not_get_better_is_answered_in_time():
    world = two_nodes(repeat_max_ms=100)
    world.coordinator.canned["EndTxn"] = coordinator_pb2.EndTxnResponse(error_code=16)
    assert ask(world, 26, 1, **END).error_code == 16
    assert len(world.coordinator.received("EndTxn")) > 1


async def test_a_listener_that_stops_answers_what_waits():
    world = two_nodes(repeat_max_ms=600_000)
    world.coordinator.canned["EndTxn"] = PeerUnavailable("gone")

    async with world.connected() as (role, client):
        schema = client.send(26, 1, **END)
        await eventually(lambda: world.coordinator.received("EndTxn"))
        stopping = asyncio.create_task(role.stop())
        _, answer = await client.receive(schema)
        assert answer.error_code == 15
        await stopping


IDEMPOTENT = bytes(
    encode_batch([Record(None, b"v", 1)], producer_id=7, producer_epoch=0, base_sequence=0)
)


IN_TRANSACTION = bytes(
    encode_batch(
        [Record(None, b"v", 1)],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
)


NOT_LEADER = storage_pb2.ProduceResponse(
    partitions=[storage_pb2.PartitionProduced(topic="orders", error_code=6, base_offset=-1)]
)


@pytest.mark.parametrize("failure", [PeerUnavailable("gone"), NOT_LEADER], ids=repr)
async def test_an_idempotent_batch_goes_to_the_next_leader(world, failure):
    world.storage.canned["Produce"] = failure
    answer = await during_failover(world, 0, 7, request=produce_request(records=[IDEMPOTENT]))
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert world.directory.storages[OTHER].log("orders", 0)


async def test_a_batch_of_a_gone_transactional_client_is_not_repeated(world):
    """It may have ended its transaction elsewhere, and under TV1 the batch would pass for one of its next."""
    world.storage.canned["Produce"] = NOT_LEADER

    async with world.listening() as role:
        before = len(asyncio.all_tasks())
        client = await WireClient.connect(role.port)
        request = produce_request(records=[IN_TRANSACTION], transactional_id="pay")
        client.send(0, 7, request=request)
        await eventually(lambda: world.storage.received("Produce"))
        client.close()
        await eventually(lambda: len(asyncio.all_tasks()) == before)


@pytest.mark.parametrize(("failure", "expected"), [(PeerUnavailable("gone"), 7), (NOT_LEADER, 6)])
def test_a_batch_that_could_be_doubled_is_left_to_its_client(world, failure, expected):
    world.storage.canned["Produce"] = failure
    assert produce(world, records=(batch(),)) == [expected]
    assert len(world.storage.received("Produce")) == 1


async def test_a_batch_surely_not_sent_goes_to_the_next_leader(world):
    world.storage.canned["Produce"] = PeerUnavailable("gone", was_sent=False)
    answer = await during_failover(world, 0, 7, request=produce_request())
    assert answer.responses[0].partition_responses[0].error_code == 0


async def test_a_consumer_that_waits_for_data_waits_for_its_new_leader(world):
    world.storage.canned["Fetch"] = PeerUnavailable("gone")
    world.directory.storages[OTHER].log("orders", 0).append(IDEMPOTENT)
    answer = await during_failover(world, 1, 4, request=fetch_request(4, max_wait_ms=20_000))
    (data,) = answer.responses[0].partitions
    assert (data.error_code, bytes(data.records)) == (0, IDEMPOTENT)


def test_a_consumer_that_does_not_wait_is_told_at_once(world):
    world.storage.canned["Fetch"] = PeerUnavailable("gone")
    answer = fetch(world, 4)
    assert answer.responses[0].partitions[0].error_code == 6


# ------------------------------------------------------------------------------------------ several listeners


def listener(node_id, port, **fields):
    return controller_pb2.Node(
        node_id=node_id,
        roles=[controller_pb2.ROLE_LISTENER],
        kafka_host="127.0.0.1",
        kafka_port=port,
        **fields,
    )


NAMES = [f"name-{number}" for number in range(40)]


async def lists_of(node_id, address="127.0.0.1", **fields):
    """(transactions, groups) that the listener of this node lists to a client that came in by this address."""
    world = World(host="0.0.0.0")
    transactions = coordinator_pb2.ListTransactionsResponse()
    groups = groups_pb2.ListGroupsResponse()
    for name in NAMES:
        transactions.transactions.add(transactional_id=name, producer_id=1, state="Ongoing")
        groups.groups.add(group_id=name)
    world.coordinator.canned["ListTransactions"] = transactions
    world.groups.canned["ListGroups"] = groups
    async with world.listening(node_id) as role:
        nodes = [
            listener(node_id, role.port, **fields),
            *(listener(one, 9) for one in (1, 2, 3) if one != node_id),
        ]
        await world.metadata.wait_until(world.controller.change(nodes=nodes))
        client = await WireClient.connect(role.port, address)
        listed = await client.call(66, 0, state_filters=(), producer_id_filters=())
        groups = await client.call(16, 0)
        return (
            [one.transactional_id for one in listed.transaction_states],
            [one.group_id for one in groups.groups],
        )


async def test_one_listener_lists_each_transaction_and_each_group():
    """Clients ask every broker and put the lists together; a list of the whole cluster from each would come thrice."""
    lists = [await lists_of(node_id) for node_id in (1, 2, 3)]
    for kind in (0, 1):
        together = [name for one in lists for name in one[kind]]
        assert sorted(together) == sorted(NAMES)
        assert sum(bool(one[kind]) for one in lists) > 1


async def test_a_listener_whose_client_knows_no_other_lists_everything():
    """The client came in through a tunnel, by an address that is not the registered one."""
    assert await lists_of(1, "127.0.0.2") == (NAMES, NAMES)


async def test_a_listener_that_drains_leaves_the_lists_to_the_others():
    assert await lists_of(1, draining=True) == ([], [])


async def metadata_of(world, *others, registered_host="127.0.0.1", **me):
    """(node ids, leader of each partition, who coordinates) as a client of the first listener is told."""
    async with world.listening() as role:
        itself = listener(NODE_ID, role.port, **me)
        itself.kafka_host = registered_host
        await world.metadata.wait_until(world.controller.change(nodes=[itself, *others]))
        client = await WireClient.connect(role.port)
        metadata = await client.call(3, 1, topics=None)
        found = await client.call(10, 1, key="pay", key_type=1)
        cluster = await client.call(60, 0, include_cluster_authorized_operations=False)
        brokers = [one.node_id for one in metadata.brokers]
        assert [one.broker_id for one in cluster.brokers] == brokers
        assert metadata.controller_id in brokers
        leaders = [one.leader_id for one in metadata.topics[0].partitions]
        assert set(leaders) <= set(brokers)
        return brokers, leaders, found.node_id


async def test_partitions_are_spread_over_live_listeners():
    world = World(topic("orders", 60))
    brokers, leaders, coordinator = await metadata_of(
        world,
        listener(8, 9, fenced=True),
        listener(9, 9, draining=True),
        listener(5, 9),
        listener(3, 9),
    )
    assert brokers == [NODE_ID, 3, 5]
    assert all(leaders.count(node_id) >= 10 for node_id in brokers)
    assert coordinator == NODE_ID


async def test_a_draining_listener_sends_its_clients_to_the_others():
    world = World(topic("orders", 6))
    assert await metadata_of(world, listener(5, 9), draining=True) == ([5], [5] * 6, 5)


async def test_the_last_listener_keeps_its_clients_even_when_it_drains():
    assert await metadata_of(World(topic("orders", 2)), draining=True) == (
        [NODE_ID],
        [NODE_ID] * 2,
        NODE_ID,
    )


async def test_a_client_of_a_port_forward_is_told_of_this_one_only():
    world = World(topic("orders", 2))
    brokers, _, _ = await metadata_of(world, listener(5, 9), registered_host="pod-1.oncelog")
    assert brokers == [NODE_ID]


async def test_a_dead_listener_leads_nothing_before_metadata_knows():
    world, other = World(topic("orders", 6)), World(topic("orders", 6))
    async with world.listening() as role:
        async with other.listening() as peer:
            peer_id = 5
            nodes = [listener(NODE_ID, role.port), listener(peer_id, peer.port)]
            await world.metadata.wait_until(world.controller.change(nodes=nodes))
            await eventually(lambda: peer.counters.connections_open == 1)
            client = await WireClient.connect(role.port)

            async def leaders():
                metadata = await client.call(3, 1, topics=None)
                # The one that left a moment ago is not forgotten: it may be needed when this one dies.
                assert [one.node_id for one in metadata.brokers] == [NODE_ID, peer_id]
                return {one.leader_id for one in metadata.topics[0].partitions}

            assert await leaders() == {NODE_ID, peer_id}
            port = peer.port
        async with asyncio.timeout(30):
            while await leaders() != {NODE_ID}:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        back = World(topic("orders", 6), port=port)
        async with back.listening():
            async with asyncio.timeout(30):
                while await leaders() != {NODE_ID, peer_id}:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
