"""Records of every shape go in and come out as they were, whichever client wrote and whichever reads."""

import os
import uuid

import confluent_kafka
import pytest
from tests.conformance.clients.aiokafka import Aiokafka
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.face import ClientFailed, values
from tests.conformance.clients.kafka_python import KafkaPython

CODECS = ("gzip", "snappy", "lz4", "zstd")
MESSAGE_TOO_LARGE, UNKNOWN_TOPIC = 10, 3


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_records_are_read_by_every_client(codec, client, server, topic, make_producer):
    if codec not in client.codecs:
        pytest.skip(f"{client.name} has no {codec} here without another package")
    producer = make_producer(client, compression=codec)
    content = b"compressible " * 500
    producer.send(topic, content)
    producer.send(topic, b"end")
    readers = [
        reader for reader in (Confluent(), Aiokafka(), KafkaPython()) if codec in reader.codecs
    ]
    for reader in (client, *readers):
        assert values(reader.read(server.bootstrap, topic, until=b"end")) == [content, b"end"]


def test_a_large_record_comes_back_whole(client, server, topic, make_producer):
    content = os.urandom(900_000)
    producer = make_producer(client)
    producer.send(topic, content)
    producer.send(topic, b"end")
    assert values(client.read(server.bootstrap, topic, until=b"end")) == [content, b"end"]


def test_a_record_above_the_topics_limit_is_refused_alone(client, server, new_topic, make_producer):
    topic = new_topic(max_message_bytes=2_000)
    producer = make_producer(client)
    with pytest.raises(ClientFailed):
        producer.send(topic, os.urandom(5_000))
    make_producer(client).send(topic, b"small")
    assert values(client.read(server.bootstrap, topic, until=b"small")) == [b"small"]


def test_a_refused_record_names_its_error(server, new_topic, make_producer):
    producer = make_producer(Confluent())
    with pytest.raises(ClientFailed) as refusal:
        producer.send(new_topic(max_message_bytes=2_000), os.urandom(5_000))
    assert refusal.value.code == MESSAGE_TOO_LARGE


def test_a_topic_is_made_by_its_first_record(client, server, make_producer):
    topic = f"t-{uuid.uuid4().hex[:12]}"
    make_producer(client).send(topic, b"end")
    assert values(client.read(server.bootstrap, topic, until=b"end")) == [b"end"]


def test_nulls_and_empties_stay_apart(client, server, topic, make_producer):
    producer = make_producer(client)
    producer.send(topic, None, key=b"k")
    producer.send(topic, b"", key=b"")
    producer.send(topic, b"end", key=None)
    seen = client.read(server.bootstrap, topic, until=b"end")
    assert [(record.key, record.value) for record in seen] == [
        (b"k", None),
        (b"", b""),
        (None, b"end"),
    ]


def test_headers_keep_their_order_their_repeats_and_their_bytes(
    client, server, topic, make_producer
):
    headers = [("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b"")]
    make_producer(client).send(topic, b"end", headers=headers)
    (record,) = client.read(server.bootstrap, topic, until=b"end")
    assert record.headers == headers


def test_a_given_timestamp_is_kept(client, server, topic, make_producer):
    make_producer(client).send(topic, b"end", timestamp_ms=1_600_000_000_123)
    (record,) = client.read(server.bootstrap, topic, until=b"end")
    assert record.timestamp_ms == 1_600_000_000_123


def test_offsets_are_found_by_time(client, server, topic, make_producer):
    producer = make_producer(client)
    for number in range(5):
        producer.send(topic, b"%d" % number, timestamp_ms=1_600_000_000_000 + number * 1_000)
    assert client.offset_for_time(server.bootstrap, topic, 1_600_000_000_000) == 0
    assert client.offset_for_time(server.bootstrap, topic, 1_600_000_002_500) == 3
    assert client.offset_for_time(server.bootstrap, topic, 1_600_000_004_000) == 4


def test_reading_starts_at_any_offset(client, server, topic, make_producer):
    producer = make_producer(client)
    offsets = [producer.send(topic, b"%d" % number) for number in range(6)]
    assert offsets == list(range(6))
    seen = client.read(server.bootstrap, topic, offset=4, until=b"5")
    assert [(record.offset, record.value) for record in seen] == [(4, b"4"), (5, b"5")]


def test_a_partition_that_does_not_exist_is_unknown(server, topic, make_producer):
    with pytest.raises(ClientFailed):
        make_producer(Confluent()).send(topic, b"x", partition=7)


def test_a_hundred_thousand_records_keep_their_order(server, topic):
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
        }
    )
    for number in range(100_000):
        producer.produce(topic, b"%d" % number, partition=0)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(30) == 0
    seen = values(Confluent().read(server.bootstrap, topic, until=b"99999"))
    assert seen == [b"%d" % number for number in range(100_000)]
