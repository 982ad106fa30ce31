"""Unmodified clients against every role in one process, through the listener."""

import asyncio
import time

import pytest
import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

from oncelog.process.sources import Sources
from oncelog_server.composition import embedded_roles
from oncelog_server.settings import EmbeddedSettings

COUNT = 50
VALUES = [f"value {number}".encode() for number in range(COUNT)]
DEADLINE_S = 20


def against_oncelog(tmp_path, client, *, is_async=False):
    """Run the client, in a thread unless it is a coroutine, against a fresh embedded oncelog."""

    async def scenario():
        settings = EmbeddedSettings(port=0, gateway_port=0, data=tmp_path)
        async with embedded_roles(settings, tmp_path, Sources()) as addresses:
            if is_async:
                return await client(addresses.bootstrap)
            return await asyncio.to_thread(client, addresses.bootstrap)

    return uvloop.run(scenario())


def consume(bootstrap, topic, count, **config):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **config,
        }
    )
    consumer.assign([TopicPartition(topic, 0)])
    values, deadline = [], time.monotonic() + DEADLINE_S
    try:
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None:
                assert message.error() is None
                values.append(message.value())
    finally:
        consumer.close()
    return values


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_confluent_kafka_reads_what_it_wrote_into_a_new_topic(tmp_path, is_idempotent):
    def client(bootstrap):
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": is_idempotent})
        for value in VALUES:
            producer.produce("orders", value)
        assert producer.flush(DEADLINE_S) == 0
        return consume(bootstrap, "orders", COUNT)

    assert against_oncelog(tmp_path, client) == VALUES


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_confluent_kafka_may_compress(tmp_path, codec):
    def client(bootstrap):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for value in VALUES:
            producer.produce("orders", value * 20)
        assert producer.flush(DEADLINE_S) == 0
        return consume(bootstrap, "orders", COUNT)

    assert against_oncelog(tmp_path, client) == [value * 20 for value in VALUES]


def test_confluent_kafka_commits_and_aborts(tmp_path):
    def client(bootstrap):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "pay"})
        producer.init_transactions(DEADLINE_S)
        for number in range(6):
            producer.begin_transaction()
            producer.produce("orders", f"transaction {number}".encode())
            producer.flush(DEADLINE_S)
            if number % 2:
                producer.abort_transaction(DEADLINE_S)
            else:
                producer.commit_transaction(DEADLINE_S)
        return consume(bootstrap, "orders", 3), consume(
            bootstrap, "orders", 6, **{"isolation.level": "read_uncommitted"}
        )

    committed, everything = against_oncelog(tmp_path, client)
    assert committed == [b"transaction 0", b"transaction 2", b"transaction 4"]
    assert everything == [f"transaction {number}".encode() for number in range(6)]


def test_a_second_confluent_kafka_producer_fences_the_first(tmp_path):
    def client(bootstrap):
        first, second = (
            Producer({"bootstrap.servers": bootstrap, "transactional.id": "pay"}) for _ in range(2)
        )
        first.init_transactions(DEADLINE_S)
        second.init_transactions(DEADLINE_S)
        first.begin_transaction()
        first.produce("orders", b"zombie")
        with pytest.raises(KafkaException) as caught:
            first.commit_transaction(DEADLINE_S)
        second.begin_transaction()
        second.produce("orders", b"alive")
        second.commit_transaction(DEADLINE_S)
        return caught.value.args[0].fatal(), consume(bootstrap, "orders", 1)

    assert against_oncelog(tmp_path, client) == (True, [b"alive"])


def test_confluent_kafkas_admin_client(tmp_path):
    def client(bootstrap):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("orders", 2, 1, config={"retention.ms": "1000"})])[
            "orders"
        ].result(DEADLINE_S)
        admin.create_partitions([NewPartitions("orders", 5)])["orders"].result(DEADLINE_S)
        (configs,) = admin.describe_configs([ConfigResource("topic", "orders")]).values()
        retention = configs.result(DEADLINE_S)["retention.ms"].value
        partitions = len(admin.list_topics("orders", DEADLINE_S).topics["orders"].partitions)
        cluster = admin.describe_cluster().result(DEADLINE_S)
        admin.delete_topics(["orders"])["orders"].result(DEADLINE_S)
        left = admin.list_topics(timeout=DEADLINE_S).topics
        return retention, partitions, len(cluster.nodes), "orders" in left

    assert against_oncelog(tmp_path, client) == ("1000", 5, 1, False)


def test_aiokafka_reads_what_it_wrote_and_commits_transactions(tmp_path):
    async def client(bootstrap):
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="pay")
        await producer.start()
        try:
            async with producer.transaction():
                for value in VALUES:
                    await producer.send("orders", value)
            with pytest.raises(ZeroDivisionError):  # noqa: PT012 (the transaction is the statement)
                async with producer.transaction():
                    await producer.send_and_wait("orders", b"aborted")
                    raise ZeroDivisionError
            async with producer.transaction():
                await producer.send("orders", b"last")
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id="readers",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await consumer.start()
        values = []
        try:
            consumer.assign([AioPartition("orders", 0)])
            async with asyncio.timeout(DEADLINE_S):
                while len(values) < COUNT + 1:
                    found = await consumer.getmany(timeout_ms=500)
                    values += [one.value for batch in found.values() for one in batch]
            assert await consumer.committed(AioPartition("orders", 0)) is None
        finally:
            await consumer.stop()
        return values

    assert against_oncelog(tmp_path, client, is_async=True) == [*VALUES, b"last"]


def test_kafka_python_reads_what_it_wrote_and_commits(tmp_path):
    def client(bootstrap):
        producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="pay")
        producer.init_transactions()
        producer.begin_transaction()
        for value in VALUES:
            producer.send("orders", value)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("orders", b"aborted").get(DEADLINE_S)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("orders", b"last")
        producer.commit_transaction()
        producer.close(timeout=DEADLINE_S)
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id="readers",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        partition = PythonPartition("orders", 0)
        consumer.assign([partition])
        values, deadline = [], time.monotonic() + DEADLINE_S
        while len(values) < COUNT + 1 and time.monotonic() < deadline:
            values += [one.value for found in consumer.poll(500).values() for one in found]
        assert consumer.committed(partition) is None
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        consumer.close()
        return values

    assert against_oncelog(tmp_path, client) == [*VALUES, b"last"]


def test_kafka_pythons_admin_client(tmp_path):
    def client(bootstrap):
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            return admin.describe_cluster()["brokers"]
        finally:
            admin.close()

    (broker,) = against_oncelog(tmp_path, client)
    assert broker["host"] == "127.0.0.1"
