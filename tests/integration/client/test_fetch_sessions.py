"""A consumer of many partitions names them once; then a Fetch is as large as its news (KIP-227)."""

import asyncio

import pytest
from tests.integration.client.writers import new_topic, write

import oncelog.client.network.connection as wire
from oncelog.client import Consumer, Partition
from oncelog.protocol import versions
from oncelog.protocol.messages import Schema

PARTITIONS = 200
IDLE_BYTES_MAX = 100
WAIT_S = 60


@pytest.fixture
def bootstrap(oncelog_broker):
    return oncelog_broker.bootstrap_servers


class Seen:
    """The Fetches as they stood on the wire, and their answers."""

    def __init__(self):
        self.asked, self.answered = [], []
        self._answer = asyncio.Event()

    def add(self, answer):
        self.answered.append(answer)
        self._answer.set()

    async def more(self, count):
        """So many answers have come since."""
        end = len(self.answered) + count
        async with asyncio.timeout(WAIT_S):
            while len(self.answered) < end:
                self._answer.clear()
                await self._answer.wait()


@pytest.fixture
def fetches(monkeypatch):
    seen = Seen()
    written, read = wire.framed, Schema.read_response

    def framed(parts):
        frame = written(parts)
        if int.from_bytes(frame[4:6], "big") == versions.FETCH:
            seen.asked.append(frame)
        return frame

    def read_response(schema, frame, position):
        if schema.api_key == versions.FETCH:
            seen.add(bytes(frame))
        return read(schema, frame, position)

    monkeypatch.setattr(wire, "framed", framed)
    monkeypatch.setattr(Schema, "read_response", read_response)
    return seen


def reader(bootstrap, **settings):
    return Consumer(bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50, **settings)


async def idle_bytes(consumer, fetches):
    """The longest of the next Fetches and answers, where nothing is new."""
    await fetches.more(2)
    asked, answered = len(fetches.asked), len(fetches.answered)
    await fetches.more(2)
    assert await consumer.poll(0) == []
    return max(map(len, (*fetches.asked[asked:], *fetches.answered[answered:])))


async def read_all(consumer, fetches, partitions):
    """They are assigned, and read from."""
    consumer.assign(partitions)
    for partition in partitions:
        await consumer.position(partition)
    await fetches.more(2)


async def test_an_idle_fetch_of_200_partitions_is_small(bootstrap, fetches):
    topic = new_topic(bootstrap, PARTITIONS)
    async with reader(bootstrap) as consumer:
        await read_all(consumer, fetches, [Partition(topic, n) for n in range(PARTITIONS)])
        assert sum(map(len, fetches.asked)) > 20 * PARTITIONS, "each was named once"
        assert await idle_bytes(consumer, fetches) < IDLE_BYTES_MAX
        write(bootstrap, topic, [b"new"], partition=17)
        count = len(fetches.asked)
        async with asyncio.timeout(WAIT_S):
            record = await anext(consumer)
        assert (record.partition, record.value) == (17, b"new")
        assert max(map(len, fetches.asked[count:])) < 2 * IDLE_BYTES_MAX, "one partition is named"
        assert await idle_bytes(consumer, fetches) < IDLE_BYTES_MAX


async def test_partitions_come_and_go_within_a_session(bootstrap, fetches):
    topic = new_topic(bootstrap, PARTITIONS)
    some, more = ([Partition(topic, n) for n in range(count)] for count in (150, PARTITIONS))
    async with reader(bootstrap) as consumer:
        await read_all(consumer, fetches, more)
        count = len(fetches.asked)
        consumer.assign(some)
        consumer.pause(*some[:10])
        await fetches.more(3)
        assert max(map(len, fetches.asked[count:])) < 10 * PARTITIONS, (
            "only what is forgotten is named"
        )
        write(bootstrap, topic, [b"unseen"], partition=5)
        write(bootstrap, topic, [b"seen"], partition=149)
        write(bootstrap, topic, [b"later"], partition=199)
        async with asyncio.timeout(WAIT_S):
            assert (await anext(consumer)).value == b"seen"
            assert await idle_bytes(consumer, fetches) < IDLE_BYTES_MAX
            consumer.resume(*some[:10])
            consumer.assign(more)
            assert {(await anext(consumer)).value for _ in range(2)} == {b"unseen", b"later"}


def cut(connection):
    connection.close()


def replace(connection):
    """As before a login ends: nothing gets lost."""
    connection.renew_at = 0.0


@pytest.mark.parametrize("end", [cut, replace])
async def test_a_session_goes_on_behind_a_new_connection(bootstrap, fetches, end):
    """At Kafka a session outlives its connection; the client then ends it, or goes on with it."""
    topic = new_topic(bootstrap, PARTITIONS)
    async with reader(bootstrap) as consumer:
        await read_all(consumer, fetches, [Partition(topic, n) for n in range(PARTITIONS)])
        connections = list(consumer._run.brokers._connections.values())
        for connection in connections:
            end(connection)
        while any(one.is_open for one in connections):
            await fetches.more(1)
        write(bootstrap, topic, [b"new"], partition=17)
        async with asyncio.timeout(WAIT_S):
            assert (await anext(consumer)).value == b"new"
        assert await idle_bytes(consumer, fetches) < IDLE_BYTES_MAX
