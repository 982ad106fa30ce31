"""What clients are told of the cluster, and how records come in and out: facts 2, 2.1 and 3."""

import struct
from dataclasses import replace
from uuid import UUID

import pytest
from tests.worlds.listener.fake_roles import FakeStorage
from tests.worlds.listener.listener_image import NODE_ID, topic
from tests.worlds.listener.listener_requests import (
    ask,
    batch,
    each,
    fetch,
    fetch_request,
    in_words,
    produce,
    produce_request,
)
from tests.worlds.listener.listener_world import World, eventually
from tests.worlds.listener.wire_client import WireClient

from oncelog.api.v1 import controller_pb2, storage_pb2
from oncelog.errors import OncelogError
from oncelog.protocol.frames import framed
from oncelog.protocol.messages import schema_of
from oncelog.protocol.private_api import PRIVATE_CALLS
from oncelog.protocol.versions import APIS
from oncelog.record.batch import HEADER_BYTES
from oncelog.rpc.metadata import GROUP, TRANSACTION

NOT_LEADER, UNKNOWN_TOPIC_OR_PARTITION = 6, 3
TRANSACTIONAL = 0x10
INTERNAL = topic("__transaction_state", 50, internal=True)


def told(answer):
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}


@pytest.mark.parametrize("version", range(6))
def test_api_versions_tells_the_whole_table_in_every_version(version):
    fields = {"client_software_name": "x", "client_software_version": "1"} if version >= 3 else {}
    answer = ask(World(), 18, version, **fields)
    assert told(answer) == {key: (api.min_version, api.max_version) for key, api in APIS.items()}


def test_private_calls_are_told_to_oncelogs_own_client_only():
    answer = ask(World(), 18, 3, client_software_name="oncelog", client_software_version="1")
    assert PRIVATE_CALLS.keys() <= told(answer).keys()
    answer = ask(World(), 18, 3, client_software_name="librdkafka", client_software_version="1")
    assert not PRIVATE_CALLS.keys() & told(answer).keys()


@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "x" * 10 + "ä"])
def test_a_malformed_software_name_is_an_invalid_request(name):
    answer = ask(World(), 18, 3, client_software_name=name, client_software_version="1")
    assert answer.error_code == 42


HERE = {"client_software_name": "x", "client_software_version": "1"}


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "expected"),
    [
        (None, -1, 0),
        ("test-cluster", 1, 0),
        ("another-cluster", 1, 129),
        ("another-cluster", 1009, 129),
        ("test-cluster", 1009, 0),  # Gone: a listener that starts again has another id.
        (None, 1, 42),
        ("test-cluster", -1, 42),
    ],
)
def test_a_client_that_reached_another_cluster_is_told(cluster_id, node_id, expected):
    answer = ask(World(), 18, 5, cluster_id=cluster_id, node_id=node_id, **HERE)
    assert answer.error_code == expected
    assert bool(told(answer)) == (expected == 0)


async def test_an_unknown_api_versions_is_answered_in_version_0():
    async with World().connected() as (_, client):
        client.writer.write(framed([struct.pack(">hhi", 18, 77, 5) + b"\xff\xff\0junk"]))
        _, answer = await client.receive(schema_of(18, 0))
        assert answer.error_code == 35
        assert told(answer) == {18: (0, 5)}
        assert told(await client.call(18, 0)), "the connection goes on"


def test_features_follow_the_image():
    fields = {"client_software_name": "x", "client_software_version": "1"}
    answer = ask(World(), 18, 4, **fields)
    assert [(one.name, one.min_version, one.max_version) for one in answer.supported_features] == [
        ("group.version", 0, 1),
        ("transaction.version", 0, 2),
        ("two.phase.commit.version", 0, 1),
    ]
    (finalized,) = answer.finalized_features
    assert (finalized.max_version_level, finalized.min_version_level) == (2, 2)
    assert answer.finalized_features_epoch == 4
    assert ask(World(), 18, 3, **fields).supported_features == ()
    assert ask(World(transaction_version=0), 18, 4, **fields).finalized_features == ()


def metadata(world, version, names, allow_auto_topic_creation=True):
    request = in_words(3, version, allow_auto_topic_creation=allow_auto_topic_creation)
    request = replace(request, topics=each(request.topics, "name", names))
    return ask(world, 3, version, request=request)


@pytest.mark.parametrize("version", [0, 1, 4, 8, 12, 13])
def test_a_missing_topic_is_created_and_answered_at_once(version):
    world = World(num_partitions=3)
    (found,) = metadata(world, version, ["new"]).topics
    assert found.error_code == 0
    assert [(one.partition_index, one.leader_id) for one in found.partitions] == [
        (0, 1),
        (1, 1),
        (2, 1),
    ]


def test_a_topic_is_not_created_where_that_is_forbidden():
    for world, allow in ((World(), False), (World(auto_create_topics=False), True)):
        (found,) = metadata(world, 4, ["new"], allow_auto_topic_creation=allow).topics
        assert found.error_code == 3
        assert world.controller.calls == []


def test_a_name_no_topic_may_have_does_not_reach_the_controller(world):
    (found,) = metadata(world, 4, ["a b"]).topics
    assert found.error_code == 17
    assert world.controller.calls == []


def test_a_topic_the_image_does_not_get_in_time_is_unknown():
    world = World(image_wait_ms=50)
    world.controller.canned["CreateTopics"] = controller_pb2.CreateTopicsResponse(
        results=[controller_pb2.TopicResult(name="late")], metadata_offset=99
    )
    (found,) = metadata(world, 4, ["late"]).topics
    assert found.error_code == 3


def test_a_controller_that_is_away_leaves_the_topic_unknown(world):
    world.controller.canned["CreateTopics"] = OncelogError("no controller")
    (found,) = metadata(world, 4, ["new"]).topics
    assert found.error_code == 3


@pytest.mark.parametrize("name", [None, ""])
def test_topics_are_found_by_id_and_an_unknown_id_is_an_error(world, name):
    """The Java Admin client sends an empty name beside the id."""
    known = UUID(bytes=world.metadata.image.topics["orders"].topic_id)
    request = in_words(3, 12, name=name)
    request = replace(request, topics=each(request.topics, "topic_id", (known, UUID(int=5))))
    answer = ask(world, 3, 12, request=request)
    assert [(one.name, one.error_code) for one in answer.topics] == [("orders", 0), (None, 100)]


def test_a_partition_without_a_leader_says_so():
    world = World(topic("orders", 1, leader=-1), image_wait_ms=10)
    (found,) = metadata(world, 4, ["orders"]).topics
    assert [(one.error_code, one.leader_id) for one in found.partitions] == [(5, -1)]


def test_topic_partitions_come_in_pages():
    world = World(topic("a", 3), topic("b", 2), topic("c", 1))
    types = schema_of(75, 0).request_types
    seen, cursor, pages = [], None, 0
    while True:
        answer = ask(world, 75, 0, topics=(), response_partition_limit=2, cursor=cursor)
        pages += 1
        seen += [
            (one.name, part.partition_index) for one in answer.topics for part in one.partitions
        ]
        if answer.next_cursor is None:
            break
        cursor = types.Cursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]
    assert pages == 3


@pytest.mark.parametrize(("cursor_topic", "index"), [("a", -1), ("b", 0)])
def test_a_cursor_outside_the_topics_asked_for_is_refused(cursor_topic, index):
    types = schema_of(75, 0).request_types
    cursor = types.Cursor(topic_name=cursor_topic, partition_index=index)
    wanted = (types.TopicRequest(name="a"),)
    world = World(topic("a", 1), topic("b", 1))
    answer = ask(world, 75, 0, topics=wanted, response_partition_limit=9, cursor=cursor)
    assert [(one.name, one.error_code) for one in answer.topics] == [("a", 42)]


def test_each_key_has_its_coordinator_the_empty_one_as_well():
    """Kafka looks no closer at a transactional id here: the request that uses it is refused."""
    answer = ask(World(), 10, 6, key_type=1, coordinator_keys=("a", "", "b"))
    assert [(one.key, one.error_code, one.port) for one in answer.coordinators] == [
        (key, 0, answer.coordinators[0].port) for key in ("a", "", "b")
    ]
    answer = ask(World(), 10, 6, key_type=2, coordinator_keys=("a",))
    assert answer.coordinators[0].error_code == 42


@pytest.mark.parametrize(("endpoint_type", "error"), [(1, 0), (2, 114), (3, 115)])
def test_describe_cluster_is_for_brokers(endpoint_type, error):
    answer = ask(
        World(),
        60,
        1,
        include_cluster_authorized_operations=False,
        endpoint_type=endpoint_type,
    )
    assert answer.error_code == error
    assert len(answer.brokers) == (0 if error else 1)


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        (3, storage_pb2.VERIFY_LEGACY),
        (10, storage_pb2.VERIFY_LEGACY),
        (11, storage_pb2.VERIFY_ABORTABLE),
        (12, storage_pb2.ADD_PARTITION),
    ],
)
def test_the_version_of_produce_decides_how_the_leader_verifies(world, version, mode):
    assert produce(world, version, records=[batch(TRANSACTIONAL, 7)], transactional_id="pay") == [0]
    (request,) = world.storage.received("Produce")
    assert request.verification_mode == mode
    assert request.transactional_id == "pay"


def test_partitions_fail_one_by_one():
    world = World(topic("orders", 2))
    assert produce(world, records=[batch(), batch(), batch(), None]) == [0, 0, 3, 87]
    assert produce(world, name="nowhere", records=[batch()]) == [3]
    assert produce(World(INTERNAL), name="__transaction_state", records=[batch()]) == [17]


def test_a_request_that_may_not_be_written_reaches_no_leader():
    world = World(topic("orders", 2))
    assert produce(world, acks=5, records=[batch(), batch()]) == [21, 21]
    assert produce(world, records=[batch(), batch(TRANSACTIONAL, 7)]) == [53, 53]
    two = [batch(TRANSACTIONAL, 7), batch(TRANSACTIONAL, 8)]
    assert produce(world, records=two, transactional_id="pay") == [49, 49]
    assert world.storage.calls == []


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_aborted_transactions_are_null_for_uncommitted_reads(world, version):
    assert fetch(world, version).responses[0].partitions[0].aborted_transactions is None
    assert (
        fetch(world, version, isolation_level=1).responses[0].partitions[0].aborted_transactions
        == ()
    )
    found = storage_pb2.FetchedPartition(topic="orders", high_watermark=9, last_stable_offset=5)
    found.aborted_transactions.add(producer_id=4000, first_offset=3)
    world.storage.canned["Fetch"] = storage_pb2.FetchResponse(partitions=[found])
    (partition,) = fetch(world, version, isolation_level=1).responses[0].partitions
    assert (partition.high_watermark, partition.last_stable_offset) == (9, 5)
    (aborted,) = partition.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (4000, 3)


def test_an_unknown_partition_does_not_spoil_the_others(world):
    assert [
        one.error_code for one in fetch(world, 11, partitions=(0, 9)).responses[0].partitions
    ] == [
        0,
        3,
    ]


class TwoLeaders(World):
    """Partition 0 lives on node 1, partition 1 on node 2."""

    def __init__(self):
        split = topic("orders", 2)
        split.partitions[1].leader = 2
        super().__init__(split)
        self.other = FakeStorage()
        one, two = self.directory.storage(1), type(self.directory.storage(1))(self.other)
        self.directory.storage = lambda node_id: two if node_id == 2 else one


def test_a_request_over_two_leaders_is_split_and_joined():
    world = TwoLeaders()
    assert produce(world, records=[batch(), batch()]) == [0, 0]
    assert len(world.storage.received("Produce")) == len(world.other.received("Produce")) == 1
    partitions = fetch(world, 11, partitions=(1, 0)).responses[0].partitions
    assert [(one.partition_index, len(one.records)) for one in partitions] == [
        (1, HEADER_BYTES),
        (0, HEADER_BYTES),
    ]


def test_leaders_share_what_a_client_has_room_for():
    """librdkafka closes its connection at an answer that is larger than it expects, and asks for the same again."""
    world = TwoLeaders()
    fetch(world, 11, partitions=(0, 1), max_bytes=1000)
    requests = [*world.storage.received("Fetch"), *world.other.received("Fetch")]
    assert [one.max_bytes for one in requests] == [500, 500]


def test_a_client_with_room_for_nothing_is_not_sent_everything(world):
    fetch(world, 11, max_bytes=0)
    (request,) = world.storage.received("Fetch")
    assert request.max_bytes == 1, "0 is no bound for a leader"


async def test_a_long_poll_over_two_leaders_ends_with_the_first():
    world = TwoLeaders()
    async with world.connected() as (_, client):
        schema = client.send(1, 11, request=fetch_request(partitions=(0, 1)))
        await eventually(lambda: world.storage.fetches_waiting and world.other.fetches_waiting)
        written = storage_pb2.ProduceRequest()
        written.partitions.add(topic="orders", partition=1, records=batch())
        await world.other.Produce(written, None)
        _, answer = await client.receive(schema)
        assert [len(one.records) for one in answer.responses[0].partitions] == [0, HEADER_BYTES]
        assert world.storage.fetches_waiting == 0


async def hinted(version, error_code):
    """The answer to a batch, what it says of the partition, and the listener's port."""
    world = World(topic("orders", 1))
    response = storage_pb2.ProduceResponse()
    response.partitions.add(topic="orders", partition=0, error_code=error_code, base_offset=-1)
    world.storage.canned["Produce"] = response
    async with world.connected() as (role, client):
        answer = await client.call(0, version, request=produce_request(version))
        return answer, answer.responses[0].partition_responses[0], role.port


@pytest.mark.parametrize("version", [10, 11, 12])
async def test_the_listener_of_metadata_is_told_with_the_newest_epoch(version):
    """KIP-951: a batch that met no leader is told where to go next; Fetch does so from version 16."""
    answer, partition, port = await hinted(version, NOT_LEADER)
    assert partition.error_code == NOT_LEADER
    (leader,) = topic("orders", 1).partitions
    hint = partition.current_leader
    assert (hint.leader_id, hint.leader_epoch) == (NODE_ID, leader.leader_epoch)
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (NODE_ID, "127.0.0.1", port)


@pytest.mark.parametrize("error_code", [0, UNKNOWN_TOPIC_OR_PARTITION])
async def test_nothing_is_told_with_any_other_answer(error_code):
    answer, partition, _ = await hinted(10, error_code)
    assert partition.current_leader.leader_id == -1
    assert answer.node_endpoints == ()


async def test_older_versions_have_no_room_for_it():
    _, partition, _ = await hinted(9, NOT_LEADER)
    assert partition.error_code == NOT_LEADER
    assert not hasattr(partition, "current_leader")


@pytest.mark.parametrize(("key_type", "kind"), [(0, GROUP), (1, TRANSACTION)])
async def test_the_asked_one_coordinates_while_the_shard_has_no_owner(world, key_type, kind):
    """librdkafka's send_offsets_to_transaction hung for ten minutes after three refusals."""
    async with world.listening() as role:
        nobody = [
            controller_pb2.Shard(kind=kind, shard=n, coordinator=-1, coordinator_epoch=1)
            for n in range(50)
        ]
        await world.metadata.wait_until(world.controller.change(shards=nobody))
        client = await WireClient.connect(role.port)
        for version in (1, 4):
            key = {"coordinator_keys": ("pay",)} if version >= 4 else {"key": "pay"}
            found = await client.call(10, version, key_type=key_type, **key)
            place = found.coordinators[0] if version >= 4 else found
            assert (place.error_code, place.node_id, place.port) == (0, NODE_ID, role.port)
