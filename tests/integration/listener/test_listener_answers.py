"""What clients are told, API by API: the decisions of facts 1.3, 2, 2.1 and 3."""

import asyncio
import struct
from datetime import timedelta
from uuid import UUID

import pytest
import uvloop
from tests.unit.listener.listener_fakes import (
    FakeStorage,
    WireClient,
    World,
    eventually,
    topic,
)

from oncelog.api.v1 import controller_pb2, coordinator_pb2, storage_pb2
from oncelog.errors import OncelogError
from oncelog.protocol.frames import framed, write_request_head
from oncelog.protocol.messages import schema_of
from oncelog.protocol.private_api import PRIVATE_CALLS
from oncelog.protocol.versions import APIS
from oncelog.record.batch import HEADER, HEADER_BYTES

TRANSACTIONAL = 0x10
INTERNAL = topic("__transaction_state", 50, internal=True)


def ask(world, api_key, version, **fields):
    """One request over a socket, and its answer."""

    async def scenario():
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            return await client.call(api_key, version, **fields)

    return uvloop.run(scenario())


def batch(attributes=0, producer_id=-1):
    size = HEADER_BYTES - 12
    return HEADER.pack(0, size, -1, 2, 0, attributes, 0, 0, 0, producer_id, -1, -1, 1)


def produce(world, version=7, name="orders", records=(None,), acks=-1, transactional_id=None):
    types = schema_of(0, version).request_types
    answer = ask(
        world,
        0,
        version,
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(seconds=1),
        topic_data=(
            types.TopicProduceData(
                name=name,
                partition_data=tuple(
                    types.PartitionProduceData(index=index, records=one)
                    for index, one in enumerate(records)
                ),
            ),
        ),
    )
    return [one.error_code for one in answer.responses[0].partition_responses]


def fetch(world, version, isolation_level=0, partitions=(0,), max_wait_ms=0, **fields):
    types = schema_of(1, version).request_types
    values = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": (), "rack_id": ""}
    known = schema_of(1, version).request.__dataclass_fields__
    values = {name: value for name, value in {**values, **fields}.items() if name in known}
    return ask(
        world,
        1,
        version,
        **({"replica_id": -1} if "replica_id" in known else {}),
        max_wait=timedelta(milliseconds=max_wait_ms),
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        topics=(
            types.FetchTopic(
                topic="orders",
                partitions=tuple(
                    types.FetchPartition(partition=one, fetch_offset=0, partition_max_bytes=1 << 20)
                    for one in partitions
                ),
            ),
        ),
        **values,
    )


# ---------------------------------------------------------------- ApiVersions


def told(answer):
    return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}


@pytest.mark.parametrize("version", range(5))
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


def test_an_unknown_api_versions_version_is_answered_in_version_0_with_the_range():
    async def scenario():
        async with World().listening() as role:
            client = await WireClient.connect(role.port)
            client.writer.write(framed([struct.pack(">hhi", 18, 77, 5) + b"\xff\xff\0junk"]))
            _, answer = await client.receive(schema_of(18, 0))
            assert answer.error_code == 35
            assert told(answer) == {18: (0, 4)}
            assert told(await client.call(18, 0)), "the connection goes on"

    uvloop.run(scenario())


def test_features_follow_the_image_and_hide_what_old_clients_cannot_read():
    fields = {"client_software_name": "x", "client_software_version": "1"}
    answer = ask(World(), 18, 4, **fields)
    (supported,) = answer.supported_features
    assert (supported.name, supported.min_version, supported.max_version) == (
        "transaction.version",
        0,
        2,
    )
    (finalized,) = answer.finalized_features
    assert (finalized.max_version_level, finalized.min_version_level) == (2, 2)
    assert answer.finalized_features_epoch == 4
    assert ask(World(), 18, 3, **fields).supported_features == ()
    assert ask(World(transaction_version=0), 18, 4, **fields).finalized_features == ()


# ---------------------------------------------------------------- Metadata


def metadata(world, version, names, **fields):
    types = schema_of(3, version).request_types
    wanted = tuple(types.MetadataRequestTopic(name=name, topic_id=None) for name in names)
    if version >= 4:
        fields.setdefault("allow_auto_topic_creation", True)
    if version >= 8:
        fields["include_topic_authorized_operations"] = False
    if 8 <= version <= 10:
        fields["include_cluster_authorized_operations"] = False
    return ask(world, 3, version, topics=wanted, **fields)


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


def test_a_topic_is_not_created_when_the_client_or_the_settings_forbid_it():
    for world, allow in ((World(), False), (World(auto_create_topics=False), True)):
        (found,) = metadata(world, 4, ["new"], allow_auto_topic_creation=allow).topics
        assert found.error_code == 3
        assert world.controller.calls == []


def test_a_name_that_no_topic_may_have_is_refused_without_asking_the_controller():
    world = World()
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


def test_a_controller_that_is_away_leaves_the_topic_unknown():
    world = World()
    world.controller.canned["CreateTopics"] = OncelogError("no controller")
    (found,) = metadata(world, 4, ["new"]).topics
    assert found.error_code == 3


def test_topics_are_found_by_id_and_an_unknown_id_is_an_error():
    world = World(topic("orders", 1))
    known = UUID(bytes=world.metadata.image.topics["orders"].topic_id)
    types = schema_of(3, 12).request_types
    wanted = (
        types.MetadataRequestTopic(topic_id=known, name=None),
        types.MetadataRequestTopic(topic_id=UUID(int=5), name=None),
    )
    answer = ask(world, 3, 12, topics=wanted, include_topic_authorized_operations=False)
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


# ---------------------------------------------------------------- coordinators


def test_a_coordinator_without_its_shard_is_not_available():
    assert ask(World(shards=0), 10, 1, key="pay", key_type=1).error_code == 15
    assert ask(World(shards=0), 10, 1, key="g", key_type=0).error_code == 15
    assert ask(World(), 10, 1, key="g", key_type=0).error_code == 0
    assert ask(World(), 10, 0, key="g").error_code == 0


def test_coordinators_of_several_keys_are_told_one_by_one():
    answer = ask(World(), 10, 6, key_type=1, coordinator_keys=("a", "", "b"))
    assert [(one.key, one.error_code) for one in answer.coordinators] == [
        ("a", 0),
        ("", 42),
        ("b", 0),
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


# ---------------------------------------------------------------- Produce and Fetch


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        (3, storage_pb2.VERIFY_LEGACY),
        (10, storage_pb2.VERIFY_LEGACY),
        (11, storage_pb2.VERIFY_ABORTABLE),
        (12, storage_pb2.ADD_PARTITION),
    ],
)
def test_the_version_of_produce_decides_how_the_leader_verifies(version, mode):
    world = World(topic("orders", 1))
    assert produce(world, version, records=[batch(TRANSACTIONAL, 7)], transactional_id="pay") == [0]
    (request,) = world.storage.asked("Produce")
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


def test_an_unreachable_leader_is_a_network_exception():
    world = World(topic("orders", 1))
    world.storage.canned["Produce"] = ConnectionResetError("gone")
    assert produce(world, records=[batch()]) == [13]


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_aborted_transactions_are_null_unless_the_reader_asked_for_committed_data(version):
    world = World(topic("orders", 1))
    assert fetch(world, version).responses[0].partitions[0].aborted_transactions is None
    assert fetch(world, version, 1).responses[0].partitions[0].aborted_transactions == ()
    found = storage_pb2.FetchedPartition(topic="orders", high_watermark=9, last_stable_offset=5)
    found.aborted_transactions.add(producer_id=4000, first_offset=3)
    world.storage.canned["Fetch"] = storage_pb2.FetchResponse(partitions=[found])
    (partition,) = fetch(world, version, 1).responses[0].partitions
    assert (partition.high_watermark, partition.last_stable_offset) == (9, 5)
    (aborted,) = partition.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (4000, 3)


def test_fetch_sessions_are_declined_and_stale_ones_forgotten():
    world = World(topic("orders", 1))
    answer = fetch(world, 11, session_epoch=0)
    assert (answer.session_id, answer.error_code) == (0, 0)
    assert len(answer.responses) == 1
    assert fetch(world, 11, session_id=5, session_epoch=1).error_code == 70


def test_an_unknown_partition_does_not_spoil_the_others():
    world = World(topic("orders", 1))
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


def test_a_request_over_two_leaders_is_split_and_put_together_again():
    world = TwoLeaders()
    assert produce(world, records=[batch(), batch()]) == [0, 0]
    assert len(world.storage.asked("Produce")) == len(world.other.asked("Produce")) == 1
    partitions = fetch(world, 11, partitions=(1, 0)).responses[0].partitions
    assert [(one.partition_index, len(one.records)) for one in partitions] == [
        (1, HEADER_BYTES),
        (0, HEADER_BYTES),
    ]


def test_a_long_poll_over_two_leaders_ends_with_the_first_that_has_data():
    async def scenario():
        world = TwoLeaders()
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            types = schema_of(1, 11).request_types
            schema = client.send(
                1,
                11,
                replica_id=-1,
                max_wait=timedelta(seconds=60),
                min_bytes=1,
                max_bytes=1 << 20,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                forgotten_topics_data=(),
                rack_id="",
                topics=(
                    types.FetchTopic(
                        topic="orders",
                        partitions=tuple(
                            types.FetchPartition(
                                partition=one, fetch_offset=0, partition_max_bytes=1 << 20
                            )
                            for one in (0, 1)
                        ),
                    ),
                ),
            )
            await eventually(lambda: world.storage.fetches_waiting and world.other.fetches_waiting)
            await world.other.Produce(
                storage_pb2.ProduceRequest(
                    partitions=[
                        storage_pb2.PartitionRecords(topic="orders", partition=1, records=batch())
                    ]
                ),
                None,
            )
            _, answer = await client.receive(schema)
            assert [len(one.records) for one in answer.responses[0].partitions] == [0, HEADER_BYTES]
            assert world.storage.fetches_waiting == 0

    uvloop.run(scenario())


# ---------------------------------------------------------------- transactions


def init(world, version, transactional_id="pay", **fields):
    return ask(
        world,
        22,
        version,
        transactional_id=transactional_id,
        transaction_timeout=timedelta(seconds=60),
        **fields,
    )


@pytest.mark.parametrize(("version", "told_error"), [(0, 47), (3, 47), (4, 90), (5, 90)])
def test_a_fenced_producer_is_told_in_the_words_of_its_version(version, told_error):
    world = World()
    world.coordinator.canned["InitProducerId"] = coordinator_pb2.InitProducerIdResponse(
        error_code=90, producer_id=7, producer_epoch=7
    )
    answer = init(world, version)
    assert answer.error_code == told_error
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_init_producer_id_checks_what_the_coordinator_need_not_see():
    world = World()
    assert init(world, 4, producer_id=5, producer_epoch=-1).error_code == 42
    assert init(world, 4, transactional_id="").error_code == 42
    assert world.coordinator.calls == []
    assert init(world, 4, transactional_id=None).producer_id == 4000
    assert not world.coordinator.asked("InitProducerId")[0].HasField("transactional_id")
    assert init(World(shards=0), 4).error_code == 15
    assert init(World(shards=0), 4, transactional_id=None).error_code == 15


def add_partitions(world, version, *keys):
    types = schema_of(24, version).request_types
    answer = ask(
        world,
        24,
        version,
        v3_and_below_transactional_id="pay",
        v3_and_below_producer_id=4000,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=tuple(
            types.AddPartitionsToTxnTopic(name=name, partitions=partitions)
            for name, partitions in keys
        ),
    )
    return [
        (one.name, part.partition_index, part.partition_error_code)
        for one in answer.results_by_topic_v3_and_below
        for part in one.results_by_partition
    ]


def test_one_partition_that_may_not_be_added_fails_them_all():
    world = World(topic("orders", 2), INTERNAL)
    keys = ("orders", (0, 7)), ("__transaction_state", (0,))
    assert add_partitions(world, 3, *keys) == [
        ("orders", 0, 55),
        ("orders", 7, 3),
        ("__transaction_state", 0, 29),
    ]
    assert world.coordinator.calls == []
    assert add_partitions(world, 3, ("orders", (0, 1))) == [("orders", 0, 0), ("orders", 1, 0)]
    (request,) = world.coordinator.asked("AddPartitionsToTxn")
    assert not request.transactions[0].verify_only
    assert request.transactions[0].client_transaction_version == 0


@pytest.mark.parametrize(("version", "told_error"), [(0, 47), (1, 47), (2, 90), (3, 90)])
def test_a_coordinators_error_is_that_of_every_partition(version, told_error):
    world = World(topic("orders", 2))
    world.coordinator.canned["AddPartitionsToTxn"] = coordinator_pb2.AddPartitionsToTxnResponse(
        results=[coordinator_pb2.AddPartitionsToTxnResponse.Result(error_code=90)]
    )
    assert [code for _, _, code in add_partitions(world, version, ("orders", (0, 1)))] == [
        told_error,
        told_error,
    ]


def end(world, version):
    return ask(
        world,
        26,
        version,
        transactional_id="pay",
        producer_id=4000,
        producer_epoch=3,
        committed=True,
    )


def test_the_version_of_end_txn_decides_the_protocol():
    world = World()
    assert end(world, 4).error_code == 0
    answer = end(world, 5)
    assert (answer.producer_id, answer.producer_epoch) == (4000, 4)
    assert [one.client_transaction_version for one in world.coordinator.asked("EndTxn")] == [0, 2]


@pytest.mark.parametrize(("version", "told_error"), [(1, 47), (2, 90), (5, 90)])
def test_end_txn_of_a_fenced_producer(version, told_error):
    world = World()
    world.coordinator.canned["EndTxn"] = coordinator_pb2.EndTxnResponse(
        error_code=90, producer_id=5
    )
    answer = end(world, version)
    assert answer.error_code == told_error
    assert version < 5 or (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_a_coordinator_that_is_away_is_looked_for_again():
    world = World(topic("orders", 1))
    for method in ("InitProducerId", "AddPartitionsToTxn", "EndTxn", "ListTransactions"):
        world.coordinator.canned[method] = TimeoutError()
    assert init(world, 4).error_code == 15
    assert add_partitions(world, 3, ("orders", (0,))) == [("orders", 0, 15)]
    assert end(world, 5).error_code == 15
    assert ask(world, 66, 0, state_filters=(), producer_id_filters=()).error_code == 15


@pytest.mark.parametrize("version", [1, 2])
def test_an_operators_markers_reach_their_leaders_as_they_are(version):
    world = World(topic("orders", 1))
    types = schema_of(27, version).request_types
    marker = types.WritableTxnMarker(
        producer_id=4000,
        producer_epoch=3,
        transaction_result=False,
        coordinator_epoch=7,
        transaction_version=2,
        topics=(types.WritableTxnMarkerTopic(name="orders", partition_indexes=(0, 4)),),
    )
    (result,) = ask(world, 27, version, markers=(marker,)).markers
    assert [(one.partition_index, one.error_code) for one in result.topics[0].partitions] == [
        (0, 0),
        (4, 3),
    ]
    (request,) = world.storage.asked("WriteTxnMarkers")
    (sent,) = request.markers
    assert (sent.producer_id, sent.producer_epoch, sent.commit) == (4000, 3, False)
    assert (sent.coordinator_epoch, sent.transaction_version) == (7, 2 if version == 2 else 0)


def test_views_of_transactions():
    world = World(topic("orders", 2))
    (state,) = ask(world, 65, 0, transactional_ids=("pay",)).transaction_states
    assert (state.transaction_state, state.transaction_timeout) == (
        "Ongoing",
        timedelta(seconds=60),
    )
    assert round(state.transaction_start_time.timestamp() * 1000) == 1_700_000_000_123
    assert [(one.topic, one.partitions) for one in state.topics] == [("orders", (1,))]
    listed = ask(
        world,
        66,
        2,
        state_filters=("Ongoing", "Bogus"),
        producer_id_filters=(4000,),
        duration_filter=5,
        transactional_id_pattern="p.*",
    )
    assert listed.unknown_state_filters == ("Bogus",)
    assert [one.transactional_id for one in listed.transaction_states] == ["pay"]
    (request,) = world.coordinator.asked("ListTransactions")
    assert (request.duration_filter_ms, request.transactional_id_pattern) == (5, "p.*")
    types = schema_of(61, 0).request_types
    (found,) = ask(
        world, 61, 0, topics=(types.TopicRequest(name="orders", partition_indexes=(0, 5)),)
    ).topics
    assert [one.error_code for one in found.partitions] == [0, 3]
    assert found.partitions[0].active_producers[0].last_sequence == 7


def test_a_transaction_that_is_not_found_starts_at_minus_one_on_the_wire():
    async def scenario():
        world = World()
        answer = coordinator_pb2.DescribeTransactionsResponse()
        answer.transactions.add(transactional_id="x", error_code=105)
        world.coordinator.canned["DescribeTransactions"] = answer
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            client.send(65, 0, transactional_ids=("x",))
            frame = await client.frame()
            state = b"\x00\x69\x02x\x01" + struct.pack(">iqqh", 0, -1, -1, -1)
            assert state in frame

    uvloop.run(scenario())


# ---------------------------------------------------------------- topics and configs


def create(world, version=7, *names, **fields):
    types = schema_of(19, version).request_types
    wanted = tuple(
        types.CreatableTopic(
            name=name, num_partitions=2, replication_factor=-1, assignments=(), configs=()
        )
        for name in names
    )
    answer = ask(
        world,
        19,
        version,
        topics=wanted,
        timeout=timedelta(seconds=5),
        validate_only=False,
        **fields,
    )
    return {one.name: one for one in answer.topics}


def test_topics_are_created_and_known_when_the_answer_comes():
    world = World(topic("old", 1))
    results = create(world, 7, "new", "old", "bad name", "__consumer_offsets")
    assert {name: one.error_code for name, one in results.items()} == {
        "new": 0,
        "old": 36,
        "bad name": 17,
        "__consumer_offsets": 17,
    }
    assert results["new"].num_partitions == 2
    assert results["new"].topic_id is not None
    assert "new" in world.metadata.image.topics


def test_a_topic_named_twice_is_created_neither_time():
    world = World()
    assert create(world, 5, "twin", "twin")["twin"].error_code == 42
    assert world.controller.calls == []


def test_topics_are_deleted_by_name_and_by_id():
    world = World(topic("a", 1), topic("b", 1), INTERNAL)
    types = schema_of(20, 6).request_types
    topic_id = UUID(bytes=world.metadata.image.topics["b"].topic_id)
    wanted = (
        types.DeleteTopicState(name="a", topic_id=None),
        types.DeleteTopicState(name=None, topic_id=topic_id),
        types.DeleteTopicState(name=None, topic_id=UUID(int=9)),
        types.DeleteTopicState(name="nowhere", topic_id=None),
        types.DeleteTopicState(name="__transaction_state", topic_id=None),
    )
    answer = ask(world, 20, 6, topics=wanted, timeout=timedelta(seconds=5))
    assert [(one.name, one.error_code) for one in answer.responses] == [
        ("a", 0),
        ("b", 0),
        (None, 100),
        ("nowhere", 3),
        ("__transaction_state", 17),
    ]
    assert world.metadata.image.topics.keys() == {"__transaction_state"}
    answer = ask(World(topic("a", 1)), 20, 1, topic_names=("a",), timeout=timedelta(seconds=5))
    assert [(one.name, one.error_code) for one in answer.responses] == [("a", 0)]


def test_partitions_are_added():
    world = World(topic("orders", 1))
    types = schema_of(37, 3).request_types
    wanted = types.CreatePartitionsTopic(name="orders", count=4, assignments=None)
    answer = ask(world, 37, 3, topics=(wanted,), timeout=timedelta(seconds=5), validate_only=False)
    assert [(one.name, one.error_code) for one in answer.results] == [("orders", 0)]
    assert len(world.metadata.image.topics["orders"].partitions) == 4


def describe_config(world, resource_type, name, keys=None, version=4):
    types = schema_of(32, version).request_types
    resource = types.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )
    fields = {"include_synonyms": True}
    if version >= 3:
        fields["include_documentation"] = True
    (result,) = ask(world, 32, version, resources=(resource,), **fields).results
    return result


def test_configs_are_described_with_types_synonyms_and_documentation():
    world = World(topic("orders", 1, {"retention.ms": "5"}))
    result = describe_config(world, 2, "orders", ("retention.ms",))
    (entry,) = result.configs
    assert (entry.value, entry.config_source, entry.config_type) == ("5", 1, 5)
    assert [one.name for one in entry.synonyms] == ["retention.ms", "log.retention.ms"]
    assert entry.documentation
    assert len(describe_config(world, 2, "orders", None, version=1).configs) > 10
    broker = describe_config(world, 4, "1")
    assert {one.name: one.value for one in broker.configs}["num.partitions"] == "1"
    assert all(one.read_only for one in broker.configs)
    assert describe_config(world, 2, "nowhere").error_code == 3
    assert describe_config(world, 4, "2").error_code == 42
    assert describe_config(world, 8, "1").error_code == 42


def alter(world, resource_type, name, *changes):
    types = schema_of(44, 1).request_types
    resource = types.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=tuple(
            types.AlterableConfig(name=config, config_operation=operation, value=value)
            for config, operation, value in changes
        ),
    )
    (result,) = ask(world, 44, 1, resources=(resource,), validate_only=False).responses
    return result.error_code


def test_topic_configs_are_changed_and_a_wrong_one_is_refused():
    world = World(topic("orders", 1, {"segment.ms": "9"}), INTERNAL)
    assert alter(world, 2, "orders", ("retention.ms", 0, "7"), ("segment.ms", 1, None)) == 0
    assert dict(world.metadata.image.topics["orders"].configs) == {"retention.ms": "7"}
    assert alter(world, 2, "orders", ("retention.ms", 0, "soon")) == 40
    assert alter(world, 2, "nowhere", ("retention.ms", 0, "7")) == 3
    assert alter(world, 2, "__transaction_state", ("retention.ms", 0, "7")) == 17
    assert alter(world, 4, "1", ("num.partitions", 0, "7")) == 42


# ---------------------------------------------------------------- offsets


def list_offsets(world, version, timestamp):
    types = schema_of(2, version).request_types
    fields = {"isolation_level": 1} if version >= 2 else {}
    if version >= 10:
        fields["timeout"] = timedelta(seconds=1)
    (found,) = ask(
        world,
        2,
        version,
        replica_id=-1,
        topics=(
            types.ListOffsetsTopic(
                name="orders",
                partitions=(types.ListOffsetsPartition(partition_index=0, timestamp=timestamp),),
            ),
        ),
        **fields,
    ).topics
    (partition,) = found.partitions
    return partition.error_code, partition.offset


def test_special_timestamps():
    world = World(topic("orders", 1))
    produce(world, records=[batch()])
    assert list_offsets(world, 7, -1) == (0, 1)
    assert list_offsets(world, 7, -2) == (0, 0)
    assert list_offsets(world, 10, -4) == (0, 0), "without a remote store all is local"
    assert list_offsets(world, 10, -5) == (0, -1)
    assert list_offsets(world, 10, -6) == (35, -1)
    levels = [one.isolation_level for one in world.storage.asked("ListOffsets")]
    assert levels == [1, 1, 1]
    list_offsets(world, 1, -1)
    assert world.storage.asked("ListOffsets")[-1].isolation_level == 0


def test_leader_epochs_and_record_deletion():
    world = World(topic("orders", 1), INTERNAL)
    produce(world, records=[batch()])
    types = schema_of(23, 4).request_types
    wanted = types.OffsetForLeaderTopic(
        topic="orders", partitions=(types.OffsetForLeaderPartition(partition=0, leader_epoch=0),)
    )
    (found,) = ask(world, 23, 4, replica_id=-1, topics=(wanted,)).topics
    assert [(one.error_code, one.end_offset) for one in found.partitions] == [(0, 1)]
    types = schema_of(21, 2).request_types
    wanted = tuple(
        types.DeleteRecordsTopic(
            name=name, partitions=(types.DeleteRecordsPartition(partition_index=0, offset=5),)
        )
        for name in ("orders", "__transaction_state")
    )
    found = ask(world, 21, 2, topics=wanted, timeout=timedelta(seconds=1)).topics
    codes = [(one.partitions[0].error_code, one.partitions[0].low_watermark) for one in found]
    assert codes == [(0, 5), (17, -1)]


@pytest.mark.parametrize("version", range(1, 10))
def test_no_group_has_committed_anything(version):
    types = schema_of(9, version).request_types
    if version >= 8:
        topics = (types.OffsetFetchRequestTopics(name="orders", partition_indexes=(0, 1)),)
        group = types.OffsetFetchRequestGroup(group_id="g", topics=topics)
        (answer,) = ask(World(), 9, version, groups=(group,), require_stable=False).groups
    else:
        fields = {"require_stable": False} if version >= 7 else {}
        topics = (types.OffsetFetchRequestTopic(name="orders", partition_indexes=(0, 1)),)
        answer = ask(World(), 9, version, group_id="g", topics=topics, **fields)
    (found,) = answer.topics
    assert [(one.committed_offset, one.error_code) for one in found.partitions] == [(-1, 0)] * 2


# ---------------------------------------------------------------- private calls


def test_a_private_call_reaches_the_sinks_coordinator_and_its_answer_comes_back():
    async def scenario(world, sink):
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            request = coordinator_pb2.OpenAttemptRequest(sink=sink, nonce=b"n" * 16)
            head = write_request_head(20_000, 0, 77, "spark", True)
            client.writer.write(framed([head, request.SerializeToString()]))
            frame = await asyncio.wait_for(client.frame(), 5)
            assert frame[:5] == struct.pack(">i", 77) + b"\0"
            return coordinator_pb2.OpenAttemptResponse.FromString(frame[5:])

    world = World()
    assert uvloop.run(scenario(world, "sink")).sink_epoch == 9
    (request,) = world.coordinator.asked("OpenAttempt")
    assert request.nonce == b"n" * 16
    assert uvloop.run(scenario(World(), "")).error_code == 42
    assert uvloop.run(scenario(World(shards=0), "sink")).error_code == 15
