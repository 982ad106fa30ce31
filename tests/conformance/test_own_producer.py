"""Our producer against oncelog and against Apache Kafka 4.4: the same tests, the same answers."""

import asyncio
import os
import time
import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.conformance.kafka_broker import KafkaBroker
from tests.free_ports import free_block
from tests.targets import is_login_asked

from oncelog.client import (
    AbortableError,
    FencedError,
    IllegalStateError,
    OffsetToCommit,
    Partition,
    Producer,
    RecordTooLargeError,
    RefusedError,
    SerializationError,
    TimedOutError,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(is_login_asked(), reason="it logs in elsewhere"),
]
WAIT_S = 60
ENVIRONMENT = {"ONCELOG_LISTENER_AUTO_CREATE_TOPICS": "false"}
"""As the other broker is set."""
TARGETS = ("oncelog", "kafka") if os.environ.get("ONCELOG_TEST_KAFKA") else ("oncelog",)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    broker, controller = free_block(2)
    folder = tmp_path_factory.mktemp("kafka") / "broker"
    with KafkaBroker(folder, broker=broker, controller=controller) as running:
        yield running.bootstrap


@pytest.fixture(params=TARGETS)
def bootstrap(request):
    if request.param == "kafka":
        return request.getfixturevalue("kafka")
    return request.getfixturevalue("server").bootstrap


@pytest.fixture
def new_topic(bootstrap):
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def make(partitions=1, **config):
        name = f"own-{uuid.uuid4().hex[:10]}"
        topic = NewTopic(
            name, partitions, 1, config={k.replace("_", "."): str(v) for k, v in config.items()}
        )
        admin.create_topics([topic])[name].result(WAIT_S)
        return name

    return make


def values(bootstrap, topic, partition=0, isolation="read_committed"):
    """What somebody else reads there now."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "own",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        reader.assign([TopicPartition(topic, partition, 0)])
        found, deadline = [], time.monotonic() + WAIT_S
        while True:
            message = reader.poll(1)
            assert time.monotonic() < deadline
            if message is None:
                continue
            if message.error():
                return found
            found.append(message.value())
    finally:
        reader.close()


async def read(*arguments, **more):
    return await asyncio.to_thread(values, *arguments, **more)


async def broken(producer, work):
    """A transaction that an exception ends."""
    async with producer.transaction() as tx:
        await work(tx)
        raise KeyError


def name():
    return f"id-{uuid.uuid4().hex[:10]}"


async def test_s2_01_and_04_a_send_is_awaited_for_its_place(bootstrap, new_topic):
    topic = new_topic(2)
    async with Producer(bootstrap) as producer:
        before = int(time.time() * 1000)
        first = await producer.send(topic, b"value", b"key", partition=1)
        second = await producer.send(topic, "text", partition=1, timestamp_ms=77)
    assert first[:3] == (topic, 1, 0)
    assert before <= first.timestamp_ms <= int(time.time() * 1000)
    assert first[4:] == (3, 5)
    assert second[2:] == (1, 77, -1, 4)
    assert await read(bootstrap, topic, 1) == [b"value", b"text"]


async def test_order_of_sends_is_the_order_in_the_partition(bootstrap, new_topic):
    topic = new_topic()
    async with Producer(bootstrap, batch_size=200, linger_ms=1) as producer:
        for number in range(2_000):
            producer.send(topic, b"%d" % number)
            if not number % 100:
                await producer.ready()
                await asyncio.sleep(0)
        await producer.flush()
    assert await read(bootstrap, topic) == [b"%d" % number for number in range(2_000)]


async def test_s2_05_callbacks_come_once_and_in_order(bootstrap, new_topic):
    topic, seen = new_topic(), []

    def note(metadata, error):
        seen.append((metadata.offset, error))
        raise ValueError("a callback's trouble is its own")

    async with Producer(bootstrap) as producer:
        for _ in range(20):
            producer.send(topic, b"v", on_delivery=note)
        await producer.flush()
    assert seen == [(number, None) for number in range(20)]


async def test_s2_06_interceptors_see_each_record_twice(bootstrap, new_topic):
    class Stamp:
        acknowledged = 0

        def on_send(self, record):
            record.headers.append(("seen", b"1"))
            record.value += b"!"
            return record

        def on_acknowledgement(self, metadata, error):
            assert error is None
            self.acknowledged += 1

    class Broken:
        def on_send(self, record):
            raise ValueError

        def on_acknowledgement(self, metadata, error):
            raise ValueError

    topic, stamp = new_topic(), Stamp()
    async with Producer(bootstrap, interceptors=[Broken(), stamp]) as producer:
        await producer.send(topic, b"v")
    assert stamp.acknowledged == 1
    assert await read(bootstrap, topic) == [b"v!"]


async def test_s2_07_serializers_make_the_bytes(bootstrap, new_topic):
    topic = new_topic()
    options = {"value_serializer": lambda value: b"%d" % value, "key_serializer": str.encode}
    async with Producer(bootstrap, **options) as producer:
        await producer.send(topic, 12, "key")
        with pytest.raises(SerializationError, match="value_serializer failed for a str"):
            producer.send(topic, "no number")
    async with Producer(bootstrap) as producer:
        with pytest.raises(SerializationError, match="a value of type int cannot be sent"):
            producer.send(topic, 12)
    assert await read(bootstrap, topic) == [b"12"]


async def test_s2_08_a_delivery_tells_what_is_wrong_with_its_record(bootstrap, new_topic):
    topic, told = new_topic(max_message_bytes=2_000), []
    async with Producer(bootstrap, max_request_size=10_000) as producer:
        large = producer.send(topic, b"x" * 20_000, on_delivery=lambda *one: told.append(one))
        assert isinstance(large.exception(), RecordTooLargeError)
        assert told[0][0] is None
        with pytest.raises(RecordTooLargeError, match=r"raise the topic's max\.message\.bytes"):
            await producer.send(topic, b"x" * 5_000)
        with pytest.raises(RefusedError, match="there is no partition 7"):
            await producer.send(topic, b"v", partition=7)
        assert (await producer.send(topic, b"v")).offset == 0


async def test_s2_10_a_flush_in_a_callback_is_refused(bootstrap, new_topic):
    topic, told = new_topic(), []
    async with Producer(bootstrap) as producer:

        def flush(_, __):
            told.append(asyncio.ensure_future(producer.flush()))

        await producer.send(topic, b"v", on_delivery=flush)
        done = await asyncio.gather(*told, return_exceptions=True)
    assert done == [None] or isinstance(done[0], IllegalStateError)


async def test_s2_11_a_topic_that_is_none_is_told_in_time(bootstrap):
    async with Producer(bootstrap, max_block_ms=1_000) as producer:
        with pytest.raises(TimedOutError, match="'nowhere' was not in the metadata"):
            await producer.send("nowhere", b"v")


async def test_s2_35_a_full_batch_leaves_long_before_linger(bootstrap, new_topic):
    topic = new_topic()
    async with Producer(bootstrap, linger_ms=600_000, batch_size=1_000) as producer:
        sent = [producer.send(topic, b"x" * 400) for _ in range(4)]
        async with asyncio.timeout(WAIT_S):
            assert [(await one).offset for one in sent[:2]] == [0, 1]
        assert not sent[3].done()
        await producer.flush()


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_s2_53_and_56_each_kind_of_acknowledgement(acks, bootstrap, new_topic):
    topic = new_topic()
    async with Producer(bootstrap, acks=acks) as producer:
        sent = [await producer.send(topic, b"%d" % number) for number in range(3)]
    assert [one.offset for one in sent] == ([-1, -1, -1] if acks == 0 else [0, 1, 2])
    for _ in range(100):
        if len(found := await read(bootstrap, topic)) == 3:
            break
    assert found == [b"0", b"1", b"2"]


async def test_s2_59_a_batch_above_the_topics_limit_is_split(bootstrap, new_topic):
    topic = new_topic(max_message_bytes=3_000)
    async with Producer(bootstrap, batch_size=50_000, linger_ms=20) as producer:
        sent = [producer.send(topic, b"%03d" % number + b"x" * 500) for number in range(40)]
        assert [(await one).offset for one in sent] == list(range(40))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_s2_75_compressed_records_are_read_by_others(codec, bootstrap, new_topic):
    topic = new_topic()
    async with Producer(bootstrap, compression_type=codec, linger_ms=20) as producer:
        for number in range(50):
            producer.send(topic, b"%d" % number * 20)
    assert len(await read(bootstrap, topic)) == 50


async def test_a_block_commits_all_or_nothing(bootstrap, new_topic):
    topic = new_topic(2)
    async with Producer(bootstrap, transactional_id=name()) as producer:
        async with producer.transaction() as tx:
            tx.send(topic, b"a", partition=0)
            tx.send(topic, b"b", partition=1)
        with pytest.raises(KeyError):
            await broken(producer, lambda tx: tx.send(topic, b"c", partition=0))
        async with producer.transaction() as tx:
            tx.send(topic, b"d", partition=0)
    assert await read(bootstrap, topic, 0) == [b"a", b"d"]
    assert await read(bootstrap, topic, 1) == [b"b"]
    assert await read(bootstrap, topic, 0, isolation="read_uncommitted") == [b"a", b"c", b"d"]


async def test_leaving_the_producer_aborts_what_is_open(bootstrap, new_topic):
    topic, mine = new_topic(), name()
    async with Producer(bootstrap, transactional_id=mine) as producer:
        producer.begin_transaction()
        await producer.send(topic, b"v")
    assert await read(bootstrap, topic) == []
    async with (
        Producer(bootstrap, transactional_id=mine) as producer,
        producer.transaction() as tx,
    ):
        tx.send(topic, b"w")
    assert await read(bootstrap, topic) == [b"w"]


async def test_a_newer_producer_fences_the_older(bootstrap, new_topic):
    topic, mine = new_topic(), name()
    async with Producer(bootstrap, transactional_id=mine) as older:
        older.begin_transaction()
        await older.send(topic, b"old")
        async with Producer(bootstrap, transactional_id=mine) as newer:
            late = older.send(topic, b"late")
            with pytest.raises((FencedError, AbortableError)):
                await older.commit_transaction()
            assert isinstance(late.exception(), FencedError | AbortableError)
            with pytest.raises(FencedError, match="close this producer"):
                await older.abort_transaction()
            async with newer.transaction() as tx:
                tx.send(topic, b"new")
    assert await read(bootstrap, topic) == [b"new"]


async def test_offsets_are_committed_with_the_records(bootstrap, new_topic):
    topic, group = new_topic(), name()
    async with Producer(bootstrap, transactional_id=name()) as producer:
        async with producer.transaction() as tx:
            tx.send(topic, b"v")
            await tx.send_offsets({Partition(topic, 0): OffsetToCommit(7, 0)}, group)
        with pytest.raises(KeyError):
            await broken(producer, lambda tx: tx.send_offsets({Partition(topic, 0): 9}, group))
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = await asyncio.to_thread(reader.committed, [TopicPartition(topic, 0)], WAIT_S)
    reader.close()
    assert found.offset == 7


async def test_calls_out_of_turn_say_what_comes_first(bootstrap, new_topic):
    topic = new_topic()
    producer = Producer(bootstrap, transactional_id=name())
    with pytest.raises(IllegalStateError, match="async with Producer"):
        producer.send(topic, b"v")
    async with producer:
        with pytest.raises(IllegalStateError, match=r"begin\(\) first"):
            producer.send(topic, b"v")
        with pytest.raises(IllegalStateError, match=r"begin\(\) comes first"):
            await producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="end the open transaction first"):
            producer.begin_transaction()
    async with Producer(bootstrap) as plain:
        with pytest.raises(IllegalStateError, match="no transactional_id"):
            plain.begin_transaction()


async def test_a_cluster_that_is_not_there_is_told_within_its_time():
    started = time.monotonic()
    producer = Producer("127.0.0.1:1", transactional_id="pay", max_block_ms=700)
    with pytest.raises(TimedOutError, match="reaching the cluster did not succeed in 700 ms"):
        await producer.start()
    assert time.monotonic() - started < WAIT_S / 2


async def test_s2_78_a_close_delivers_and_a_forced_one_does_not(bootstrap, new_topic):
    topic = new_topic()
    producer = await Producer(bootstrap, linger_ms=10_000).start()
    sent = producer.send(topic, b"v")
    await producer.close()
    assert (await sent).offset == 0
    producer = await Producer(bootstrap, linger_ms=10_000).start()
    left = producer.send(topic, b"w")
    await producer.close(0)
    assert "the producer is closed" in str(left.exception())
    assert await read(bootstrap, topic) == [b"v"]


async def test_partitions_for_counts_them(bootstrap, new_topic):
    async with Producer(bootstrap, max_block_ms=500) as producer:
        assert await producer.partitions_for(new_topic(3)) == 3
        with pytest.raises(TimedOutError):
            await producer.partitions_for("nowhere")
