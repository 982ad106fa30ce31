"""Real clients are held to their quotas by `oncelog up`: throttle times, throughput, connections, a changed quota."""

import asyncio
import contextlib
import selectors
import socket
import time
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.worlds.listener.wire_client import WireClient

from oncelog.api.v1.coordinator_pb2 import DescribeSinkRequest
from oncelog.protocol.frames import framed, write_request_head
from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import ALTER_CLIENT_QUOTAS, CREATE_TOPICS, METADATA
from oncelog_server.demo.processes import OncelogServer

VALUE = bytes(range(250)) * 40  # 10 kB
WAIT_S = 90
THROTTLING_QUOTA_EXCEEDED = 89


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with OncelogServer(tmp_path_factory.mktemp("quotas") / "data") as running:
        yield running


def port_of(server):
    return int(server.bootstrap.rpartition(":")[2])


async def alter(server, entity, **quotas):
    """None removes a quota."""
    schema = schema_of(ALTER_CLIENT_QUOTAS, 1)
    types = schema.request_types
    entry = types.EntryData(
        entity=tuple(types.EntityData(entity_type=kind, entity_name=name) for kind, name in entity),
        ops=tuple(
            types.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ),
    )
    wire = await WireClient.connect(port_of(server))
    answer = await wire.call(ALTER_CLIENT_QUOTAS, 1, entries=(entry,), validate_only=False)
    wire.close()
    assert [one.error_code for one in answer.entries] == [0]


def set_quota(server, entity, **quotas):
    asyncio.run(alter(server, entity, **quotas))


class Throttled:
    """A client, and the throttle times that it was told."""

    def __init__(self, kind, server, client_id, **config):
        self.times_s = []
        self.client = kind(
            {
                "bootstrap.servers": server.bootstrap,
                "client.id": client_id,
                "throttle_cb": lambda event: self.times_s.append(event.throttle_time),
                **config,
            }
        )

    def produce(self, count):
        """Seconds until all are acknowledged."""
        began, errors = time.monotonic(), []
        for _ in range(count):
            self.client.produce("held", VALUE, on_delivery=lambda error, _: errors.append(error))
            self.client.poll(0)
        assert self.client.flush(WAIT_S) == 0
        assert errors == [None] * count
        return time.monotonic() - began


def producer(server, client_id):
    # A batch a record: one request of all would be taken whole, and the wait come after it.
    config = {"batch.num.messages": 1, "max.in.flight": 1, "linger.ms": 0}
    return Throttled(Producer, server, client_id, **config)


def test_a_producer_is_held_and_told(server):
    set_quota(server, [("client-id", "slow")], producer_byte_rate=10_000.0)
    free, slow = producer(server, "free"), producer(server, "slow")
    free.produce(13)
    # Ten seconds' worth may burst; three records are above it: two waits of about a second.
    assert slow.produce(13) > 1.5
    assert max(slow.times_s) > 0.5
    assert not free.times_s


def test_a_changed_quota_holds_at_once(server):
    entity = [("client-id", "changing")]
    set_quota(server, entity, producer_byte_rate=1e9)
    changing = producer(server, "changing")
    changing.produce(13)
    assert not changing.times_s
    set_quota(server, entity, producer_byte_rate=10_000.0)
    changing.produce(1)
    changing.client.poll(0.1)
    assert changing.times_s, "what was sent before it counts"
    set_quota(server, entity, producer_byte_rate=None)
    # The connection is silent until the time that it was told is over; a new one is not.
    again = producer(server, "changing")
    again.produce(13)
    assert not again.times_s


def test_a_consumer_is_held_and_told(server):
    producer(server, "writer").produce(20)
    set_quota(server, [("client-id", "reader")], consumer_byte_rate=5_000.0)
    reader = Throttled(
        Consumer,
        server,
        "reader",
        **{"group.id": "readers", "auto.offset.reset": "earliest"},
    )
    reader.client.subscribe(["held"])
    count, began = 0, time.monotonic()
    while not reader.times_s and time.monotonic() - began < WAIT_S:
        count += reader.client.poll(0.1) is not None
    assert max(reader.times_s) > 0.5
    # What it has fetched: two times ten seconds' worth.
    while reader.client.poll(0.3) is not None:
        count += 1
    assert 5 <= count <= 12
    reader.client.close()


async def test_request_time_is_held_for_a_second_at_most(server):
    await alter(server, [("client-id", "test")], request_percentage=0.01)
    wire = await WireClient.connect(port_of(server))
    told_s = 0.0
    async with asyncio.timeout(WAIT_S):
        while not told_s:
            answer = await wire.call(METADATA, 5, topics=(), allow_auto_topic_creation=False)
            told_s = answer.throttle_time.total_seconds()
    assert 0 < told_s <= 1
    began = time.monotonic()
    await wire.call(METADATA, 5, topics=(), allow_auto_topic_creation=False)
    assert time.monotonic() - began > told_s * 0.8, "it was not read meanwhile"
    wire.close()
    await alter(server, [("client-id", "test")], request_percentage=None)


async def test_request_time_is_counted_of_private_calls(server):
    await alter(server, [("client-id", "spark")], request_percentage=0.01)
    wire = await WireClient.connect(port_of(server))
    head = write_request_head(20_005, 0, 1, "spark", True)
    request = framed([head, DescribeSinkRequest(sink="none").SerializeToString()])
    longest_s = 0.0
    for _ in range(50):
        began = time.monotonic()
        wire.writer.write(request)
        await asyncio.wait_for(wire.frame(), WAIT_S)
        longest_s = max(longest_s, time.monotonic() - began)
        if longest_s > 0.5:
            break
    assert longest_s > 0.5, "it was not read meanwhile"
    wire.close()
    await alter(server, [("client-id", "spark")], request_percentage=None)


def test_an_older_client_waits_before_it_changes_topics(server):
    set_quota(server, [("client-id", "maker")], controller_mutation_rate=1.0)
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "client.id": "maker"})
    began = time.monotonic()
    for name, partition_count in (("first", 12), ("second", 1)):
        (created,) = admin.create_topics([NewTopic(name, partition_count, 1)]).values()
        created.result(WAIT_S)
    assert time.monotonic() - began > 0.8


async def test_changes_of_topics_are_refused_while_one_is_on_credit(server):
    await alter(server, [("client-id", "test")], controller_mutation_rate=1.0)
    schema = schema_of(CREATE_TOPICS, 7)

    async def create(**partitions):
        wire = await WireClient.connect(port_of(server))
        topics = tuple(
            schema.request_types.CreatableTopic(
                name=name, num_partitions=count, replication_factor=1, assignments=(), configs=()
            )
            for name, count in partitions.items()
        )
        answer = await wire.call(
            CREATE_TOPICS, 7, topics=topics, timeout=timedelta(seconds=9), validate_only=False
        )
        wire.close()
        return [one.error_code for one in answer.topics], answer.throttle_time.total_seconds()

    codes, throttle_s = await create(third=12, fourth=1)
    assert codes == [0, THROTTLING_QUOTA_EXCEEDED]
    assert 0 < throttle_s <= 1
    assert (await create(fourth=1))[0] == [THROTTLING_QUOTA_EXCEEDED]
    await asyncio.sleep(throttle_s)
    assert (await create(fourth=1))[0] == [0]


def test_connections_of_an_address_are_held(server):
    """The last one: what it sets holds for this address."""
    set_quota(server, [("ip", "127.0.0.1")], connection_creation_rate=1.0)
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as closed:
        for _ in range(20):
            one = socket.create_connection(("127.0.0.1", port_of(server)))
            closed.register(stack.enter_context(one), selectors.EVENT_READ)
        assert not closed.select(0), "who is turned away is kept for a moment"
        ended = set()
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and len(ended) < 10:
            ended |= {key.fd for key, _ in closed.select(0.5)}
        # Ten seconds' worth is taken; this test's own request was one of them.
        assert 8 <= len(ended) <= 12
