"""Requests for tests: one call over a socket, and the two requests that need many fields."""

from datetime import timedelta

import uvloop

from oncelog.protocol.messages import schema_of
from oncelog.record.batch import HEADER, HEADER_BYTES

PRODUCE, FETCH = 0, 1


def ask(world, api_key, version, **fields):
    """One request over a socket, and its answer."""

    async def scenario():
        async with world.connected() as (_, client):
            return await client.call(api_key, version, **fields)

    return uvloop.run(scenario())


def known_fields(api_key, version, values):
    """Those that requests of this version have."""
    known = schema_of(api_key, version).request.__dataclass_fields__
    return {name: value for name, value in values.items() if name in known}


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


def fetch_request(version=11, partitions=(0,), max_wait_ms=60_000, **fields):
    schema = schema_of(FETCH, version)
    types = schema.request_types
    values = {
        "replica_id": -1,
        "max_wait": timedelta(milliseconds=max_wait_ms),
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": (
            types.FetchTopic(
                topic="orders",
                partitions=tuple(
                    types.FetchPartition(partition=one, fetch_offset=0, partition_max_bytes=1 << 20)
                    for one in partitions
                ),
            ),
        ),
        "forgotten_topics_data": (),
        "rack_id": "",
        **fields,
    }
    return schema.request(**known_fields(FETCH, version, values))


def fetch(world, version, max_wait_ms=0, **fields):
    request = fetch_request(version, max_wait_ms=max_wait_ms, **fields)
    return ask(world, FETCH, version, request=request)
