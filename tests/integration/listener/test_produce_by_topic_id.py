"""Produce 13 names topics by id: a batch for a topic that is gone goes nowhere, whatever has its name now (KIP-516)."""

from uuid import UUID

import pytest
from tests.integration.listener.test_fetch_sessions import deleted, id_of, remade
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import ask, batch, produce_request
from tests.worlds.listener.listener_world import World, eventually

from oncelog.api.v1 import storage_pb2
from oncelog.protocol.messages import schema_of

PRODUCE = 0
UNKNOWN_TOPIC, NOT_LEADER, TWICE, UNKNOWN_ID = 3, 6, 42, 100


def by_id(*topic_ids, acks=-1):
    made = produce_request(9, records=[batch()], acks=acks)
    schema = schema_of(PRODUCE, 13)
    types = schema.request_types
    data = types.PartitionProduceData(index=0, records=batch())
    topics = tuple(
        types.TopicProduceData(topic_id=one, partition_data=(data,)) for one in topic_ids
    )
    return schema.request(
        transactional_id=None, acks=made.acks, timeout=made.timeout, topic_data=topics
    )


def rows(answer):
    return [
        (one.topic_id, int(each.error_code))
        for one in answer.responses
        for each in one.partition_responses
    ]


def produce(world, *topic_ids):
    return rows(ask(world, PRODUCE, 13, request=by_id(*topic_ids)))


def test_a_batch_goes_to_the_topic_with_the_id(world):
    known = id_of(world)
    assert produce(world, known) == [(known, 0)]
    (sent,) = world.storage.received("Produce")[0].partitions
    assert (sent.topic, sent.topic_id) == ("orders", known.bytes)


@pytest.mark.parametrize("end", [deleted, remade])
def test_a_batch_for_a_topic_that_is_gone_reaches_no_leader(world, end):
    old = id_of(world)
    end(world)
    assert produce(world, old) == [(old, UNKNOWN_ID)]
    assert world.storage.received("Produce") == []


def test_one_unknown_id_does_not_stop_the_others(world):
    known, gone = id_of(world), UUID(int=9)
    assert produce(world, gone, known, None) == [(gone, UNKNOWN_ID), (known, 0), (None, UNKNOWN_ID)]


def test_an_id_that_stands_twice_is_refused_both_times(world):
    known = id_of(world)
    assert produce(world, known, known) == [(known, TWICE), (known, TWICE)]
    assert world.storage.received("Produce") == []


async def test_without_acks_an_unknown_id_closes_the_connection(world):
    async with world.connected() as (_, client):
        client.send(PRODUCE, 13, request=by_id(UUID(int=9), acks=0))
        assert await client.is_closed_by_peer()


def refused(code):
    one = storage_pb2.PartitionProduced(topic="orders", error_code=code, base_offset=-1)
    return storage_pb2.ProduceResponse(partitions=[one])


@pytest.mark.parametrize(("version", "code"), [(12, UNKNOWN_TOPIC), (13, UNKNOWN_ID)])
def test_a_leader_that_knows_another_topic_is_believed(world, version, code):
    """Who names topics does not know the code, and repeats after the one it gets."""
    world.storage.canned["Produce"] = refused(UNKNOWN_ID)
    request = by_id(id_of(world)) if version == 13 else produce_request(12, records=[batch()])
    ((_, found),) = [
        (None, int(one.error_code))
        for each in ask(world, PRODUCE, version, request=request).responses
        for one in each.partition_responses
    ]
    assert found == code


@pytest.mark.parametrize("version", [12, 13])
async def test_a_repeated_batch_does_not_reach_the_next_topic(version):
    """Its leader was lost, and found again behind the deletion."""
    world = World(topic("orders", 1), repeat_max_ms=5_000)
    world.storage.canned["Produce"] = refused(NOT_LEADER)
    request = by_id(id_of(world)) if version == 13 else produce_request(12, records=[batch()])
    async with world.connected() as (_, client):
        schema = client.send(PRODUCE, version, request=request)
        await eventually(lambda: world.storage.received("Produce"))
        del world.storage.canned["Produce"]
        remade(world)
        _, answer = await client.receive(schema)
    (one,) = answer.responses[0].partition_responses
    assert int(one.error_code) in (NOT_LEADER, UNKNOWN_TOPIC, UNKNOWN_ID)
    assert world.storage.logs == {}
