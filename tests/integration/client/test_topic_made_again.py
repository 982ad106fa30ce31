"""A topic that is deleted and made again under its name is another one, for producers and readers too (KIP-516)."""

import asyncio

import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.client.writers import new_topic, write

from oncelog.client import Consumer, NoOffsetError, Partition, Producer, RefusedError

WAIT_S = 60


@pytest.fixture
def bootstrap(oncelog_broker):
    return oncelog_broker.bootstrap_servers


def make_again(bootstrap, topic):
    """Returns when the new one can be written to."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(WAIT_S)
    new_topic(bootstrap, name=topic)
    write(bootstrap, topic, [b"new"] * 3)


@pytest.mark.parametrize("linger_ms", [0, 60_000])
async def test_a_stale_producer_does_not_go_on_in_the_new_topic(bootstrap, linger_ms):
    """Also what waited in its buffer belongs to the old one. What is sent afterwards goes to the new one."""
    topic = new_topic(bootstrap)
    async with Producer(bootstrap, linger_ms=linger_ms) as producer:
        before = producer.send(topic, b"old")
        await producer.flush()
        assert (await before).offset == 0
        if linger_ms:
            stale = producer.send(topic, b"stale")
        await asyncio.to_thread(make_again, bootstrap, topic)
        if not linger_ms:
            stale = producer.send(topic, b"stale")
        await producer.flush()
        with pytest.raises(RefusedError, match=f"{topic!r} was deleted and made again"):
            await stale
        after = producer.send(topic, b"after")
        await producer.flush()
        assert (await after).offset == 3


async def test_a_stale_reader_begins_the_new_topic_as_a_new_one(bootstrap):
    topic = new_topic(bootstrap)
    write(bootstrap, topic, [b"old"] * 2)
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([Partition(topic, 0)])
        assert [(await anext(consumer)).value for _ in range(2)] == [b"old"] * 2
        await asyncio.to_thread(make_again, bootstrap, topic)
        async with asyncio.timeout(WAIT_S):
            records = [await anext(consumer) for _ in range(3)]
        assert [(one.offset, one.value) for one in records] == [
            (0, b"new"),
            (1, b"new"),
            (2, b"new"),
        ]


async def test_a_stale_reader_without_a_policy_is_told(bootstrap):
    topic = new_topic(bootstrap)
    write(bootstrap, topic, [b"old"] * 2)
    async with Consumer(bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([Partition(topic, 0)])
        consumer.seek(Partition(topic, 0), 0)
        assert [(await anext(consumer)).value for _ in range(2)] == [b"old"] * 2
        await asyncio.to_thread(make_again, bootstrap, topic)
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(NoOffsetError, match="was deleted and made again: offset 2"):
                await anext(consumer)
            consumer.seek(Partition(topic, 0), 1)
            assert (await anext(consumer)).offset == 1
