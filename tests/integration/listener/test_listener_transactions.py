"""What producers and operators are told of transactions: facts 1.3, 2.1 and 3."""

import asyncio
import struct
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import ask, ask_in_words, in_words
from tests.worlds.listener.listener_world import World

from oncelog.api.v1 import coordinator_pb2
from oncelog.protocol.frames import framed, write_request_head
from oncelog.protocol.messages import schema_of

INTERNAL = topic("__transaction_state", 50, internal=True)


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
def test_a_fenced_producer_is_told_in_the_words_of_its_version(world, version, told_error):
    world.coordinator.canned["InitProducerId"] = coordinator_pb2.InitProducerIdResponse(
        error_code=90, producer_id=7, producer_epoch=7
    )
    answer = init(world, version)
    assert answer.error_code == told_error
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_init_producer_id_is_checked_before_the_coordinator(world):
    assert init(world, 4, producer_id=5, producer_epoch=-1).error_code == 42
    assert init(world, 4, transactional_id="").error_code == 42
    assert world.coordinator.calls == []
    assert init(world, 4, transactional_id=None).producer_id == 4000
    assert not world.coordinator.received("InitProducerId")[0].HasField("transactional_id")
    assert init(World(shards=0), 4).error_code == 15
    assert init(World(shards=0), 4, transactional_id=None).error_code == 15


def add_partitions(world, version, *keys):
    words = {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 0}
    words = {f"v3_and_below_{name}": value for name, value in words.items()}
    request = in_words(24, version, **words)
    (wanted,) = request.v3_and_below_topics
    topics = tuple(replace(wanted, name=name, partitions=numbers) for name, numbers in keys)
    answer = ask(world, 24, version, request=replace(request, v3_and_below_topics=topics))
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
    (request,) = world.coordinator.received("AddPartitionsToTxn")
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


def test_the_version_of_end_txn_decides_the_protocol(world):
    assert end(world, 4).error_code == 0
    answer = end(world, 5)
    assert (answer.producer_id, answer.producer_epoch) == (4000, 4)
    assert [one.client_transaction_version for one in world.coordinator.received("EndTxn")] == [
        0,
        2,
    ]


@pytest.mark.parametrize(("version", "told_error"), [(1, 47), (2, 90), (5, 90)])
def test_end_txn_of_a_fenced_producer(world, version, told_error):
    world.coordinator.canned["EndTxn"] = coordinator_pb2.EndTxnResponse(
        error_code=90, producer_id=5
    )
    answer = end(world, version)
    assert answer.error_code == told_error
    assert version < 5 or (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_a_coordinator_that_is_away_is_looked_for_again(world):
    for method in ("InitProducerId", "AddPartitionsToTxn", "EndTxn", "ListTransactions"):
        world.coordinator.canned[method] = TimeoutError()
    assert init(world, 4).error_code == 15
    assert add_partitions(world, 3, ("orders", (0,))) == [("orders", 0, 15)]
    assert end(world, 5).error_code == 15
    assert ask(world, 66, 0, state_filters=(), producer_id_filters=()).error_code == 15


MARKER = {"producer_id": 4000, "producer_epoch": 3, "coordinator_epoch": 7}


@pytest.mark.parametrize("version", [1, 2])
def test_an_operators_markers_reach_their_leaders_as_they_are(world, version):
    words = {**MARKER, "transaction_version": 2, "name": "orders", "partition_indexes": (0, 4)}
    (result,) = ask_in_words(world, 27, version, **words).markers
    assert [(one.partition_index, one.error_code) for one in result.topics[0].partitions] == [
        (0, 0),
        (4, 3),
    ]
    (request,) = world.storage.received("WriteTxnMarkers")
    (sent,) = request.markers
    assert (sent.producer_id, sent.producer_epoch, sent.commit) == (4000, 3, False)
    assert (sent.coordinator_epoch, sent.transaction_version) == (7, 2 if version == 2 else 0)


def test_a_marker_for_a_group_shard_goes_to_its_coordinator(world):
    """ADR 0015: behind the coordinator's back nobody writes there."""
    request = in_words(27, 1, **MARKER)
    (marker,) = request.markers
    (wanted,) = marker.topics
    topics = (
        replace(wanted, name="orders", partition_indexes=(0,)),
        replace(wanted, name="__consumer_offsets", partition_indexes=(3, 999)),
    )
    request = replace(request, markers=(replace(marker, topics=topics),))
    (result,) = ask(world, 27, 1, request=request).markers
    found = {
        (one.name, each.partition_index): each.error_code
        for one in result.topics
        for each in one.partitions
    }
    assert found[("orders", 0)] == 0
    assert found[("__consumer_offsets", 3)] == 0
    assert found[("__consumer_offsets", 999)] == 3
    (request,) = world.groups.received("WriteTxnMarkers")
    (sent,) = request.markers[0].partitions
    assert (sent.topic, sent.partition) == ("__consumer_offsets", 3)
    assert len(world.storage.received("WriteTxnMarkers")) == 1


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
    (request,) = world.coordinator.received("ListTransactions")
    assert (request.duration_filter_ms, request.transactional_id_pattern) == (5, "p.*")
    types = schema_of(61, 0).request_types
    (found,) = ask(
        world, 61, 0, topics=(types.TopicRequest(name="orders", partition_indexes=(0, 5)),)
    ).topics
    assert [one.error_code for one in found.partitions] == [0, 3]
    assert found.partitions[0].active_producers[0].last_sequence == 7


def test_producers_of_an_illegal_topic_are_refused(world):
    topics = schema_of(61, 0).request_types.TopicRequest
    named = tuple(topics(name=name, partition_indexes=(0,)) for name in ("no spaces", "orders"))
    found = ask(world, 61, 0, topics=named).topics
    assert [each.error_code for one in found for each in one.partitions] == [17, 0]


@pytest.mark.parametrize("identity", [(-1, 0), (7, -1), (-1, -1)])
def test_a_marker_without_an_identity_is_refused(world, identity):
    """Kafka's code as well."""
    words = MARKER | dict(zip(("producer_id", "producer_epoch"), identity, strict=True))
    words |= {"name": "orders", "partition_indexes": (0,)}
    (result,) = ask_in_words(world, 27, 1, **words).markers
    assert [one.error_code for one in result.topics[0].partitions] == [-1]
    assert world.storage.received("WriteTxnMarkers") == []


async def test_an_unknown_transaction_has_kafkas_zeros_on_the_wire(world):
    answer = coordinator_pb2.DescribeTransactionsResponse()
    answer.transactions.add(transactional_id="x", error_code=105)
    world.coordinator.canned["DescribeTransactions"] = answer
    async with world.connected() as (_, client):
        client.send(65, 0, transactional_ids=("x",))
        frame = await client.frame()
        state = b"\x00\x69\x02x\x01" + struct.pack(">iqqh", 0, 0, 0, 0)
        assert state in frame


async def opened(world, sink):
    async with world.connected() as (_, client):
        request = coordinator_pb2.OpenAttemptRequest(sink=sink, nonce=b"n" * 16)
        head = write_request_head(20_000, 0, 77, "spark", True)
        client.writer.write(framed([head, request.SerializeToString()]))
        frame = await asyncio.wait_for(client.frame(), 30)
        assert frame[:5] == struct.pack(">i", 77) + b"\0"
        return coordinator_pb2.OpenAttemptResponse.FromString(frame[5:])


async def test_a_private_call_reaches_the_sinks_coordinator(world):
    assert (await opened(world, "sink")).sink_epoch == 9
    (request,) = world.coordinator.received("OpenAttempt")
    assert request.nonce == b"n" * 16
    assert (await opened(World(), "")).error_code == 42
    assert (await opened(World(shards=0), "sink")).error_code == 15
