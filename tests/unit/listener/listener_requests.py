"""Requests for tests: one call over a socket, and the two that need many fields."""

from datetime import timedelta

import uvloop
from tests.unit.listener.listener_fakes import WireClient

from oncelog.protocol.messages import schema_of
from oncelog.record.batch import HEADER, HEADER_BYTES


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
