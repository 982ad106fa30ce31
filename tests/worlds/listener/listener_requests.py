"""Requests for tests: one call over a socket, and the two requests that need many fields."""

from dataclasses import replace
from datetime import timedelta

import uvloop
from tests.integration.listener.requests_by_vocabulary import request_of

from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import APIS
from oncelog.record.batch import HEADER, HEADER_BYTES

PRODUCE, FETCH = 0, 1


def ask(world, api_key, version, **fields):
    """One request over a socket, and its answer."""

    async def scenario():
        async with world.connected() as (_, client):
            return await client.call(api_key, version, **fields)

    return uvloop.run(scenario())


def in_words(api_key, version, **words):
    """A request with one of each structure that it may hold, in these words."""
    return request_of(APIS[api_key], version, words)


def ask_in_words(world, api_key, version, **words):
    return ask(world, api_key, version, request=in_words(api_key, version, **words))


def each(elements, field, values):
    """The one element once for each of these values of the field."""
    (element,) = elements
    return tuple(replace(element, **{field: value}) for value in values)


def batch(attributes=0, producer_id=-1, extra=0):
    """The header of a batch that claims one record, with so many more bytes behind it."""
    size = HEADER_BYTES - 12 + extra
    return HEADER.pack(0, size, -1, 2, 0, attributes, 0, 0, 0, producer_id, -1, -1, 1) + bytes(
        extra
    )


def produce_request(version=7, name="orders", records=None, acks=-1, transactional_id=None):
    """To the topic's first partitions, one batch each; without `records` one batch to the first."""
    schema = schema_of(PRODUCE, version)
    types = schema.request_types
    return schema.request(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(seconds=1),
        topic_data=(
            types.TopicProduceData(
                name=name,
                partition_data=tuple(
                    types.PartitionProduceData(index=index, records=one)
                    for index, one in enumerate((batch(),) if records is None else records)
                ),
            ),
        ),
    )


def produce(world, version=7, records=(None,), **fields):
    request = produce_request(version, records=records, **fields)
    answer = ask(world, PRODUCE, version, request=request)
    return [one.error_code for one in answer.responses[0].partition_responses]


def fetch_request(version=11, partitions=(0,), max_wait_ms=60_000, **words):
    known = {"topic": "orders", "replica_id": -1, "session_epoch": -1, "min_bytes": 1}
    known |= {"max_bytes": 1 << 20, "partition_max_bytes": 1 << 20, "forgotten_topics_data": ()}
    known["max_wait"] = timedelta(milliseconds=max_wait_ms)
    request = in_words(FETCH, version, **known | words)
    (topic,) = request.topics
    wanted = each(topic.partitions, "partition", partitions)
    return replace(request, topics=(replace(topic, partitions=wanted),))


def fetch(world, version, max_wait_ms=0, **fields):
    request = fetch_request(version, max_wait_ms=max_wait_ms, **fields)
    return ask(world, FETCH, version, request=request)
