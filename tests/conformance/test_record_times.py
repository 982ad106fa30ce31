"""Records are found by their time and kept by it, whatever the client wrote into the batch's header."""

import struct
import time

import pytest
from crc32c import crc32c
from tests.conformance.wire import MAX_TIMESTAMP, Wire
from tests.record_frames import SMALL, batch_of, record_bytes
from tests.targets import is_login_asked

from oncelog.record.batch import Codec
from oncelog.record.codecs import compress

ENVIRONMENT = {"ONCELOG_STORAGE_RETENTION_CHECK_INTERVAL_MS": "200"}
HOUR_MS = 3_600_000
LIES = (0, -1, 2**40)


@pytest.fixture
def wire(server):
    if is_login_asked():
        pytest.skip("raw requests do not log in")
    with Wire(server.bootstrap) as one:
        yield one


def now_ms():
    return int(time.time() * 1000)


def await_retention(wire, new_topic, *, age_ms=2 * HOUR_MS):
    """Until it has looked at every log: an old record that came last is gone."""
    topic = new_topic(retention_ms=HOUR_MS)
    old = batch_of(record_bytes(SMALL), 3, base_timestamp=now_ms() - age_ms)
    assert wire.produce(topic, old) == (0, 0)
    wire.await_start(topic, 3)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_clients_records_are_found_by_time(codec, client, server, new_topic, make_producer):
    if codec not in (*client.codecs, "none"):
        pytest.skip(f"{client.name} has no {codec} here without another package")
    topic, now = new_topic(), now_ms()
    producer = make_producer(client, **({} if codec == "none" else {"compression": codec}))
    for step in (-5000, 0, -1000, -9000):
        producer.send(topic, b"content " * 100, timestamp_ms=now + step)
    for timestamp, offset in ((now - 9000, 0), (now - 4999, 1), (now, 1)):
        assert client.offset_for_time(server.bootstrap, topic, timestamp) == offset


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_header_that_lies_hides_no_record_and_deletes_none(codec, wire, new_topic):
    """sarama before 1.44 writes -1. A record 6 seconds old was gone."""
    now = now_ms()
    topics = [new_topic(retention_ms=HOUR_MS) for _ in LIES]
    body = compress(codec, record_bytes(SMALL))
    for topic, lie in zip(topics, LIES, strict=True):
        words = {"attributes": codec, "base_timestamp": now, "max_timestamp": lie}
        assert wire.produce(topic, batch_of(body, 3, **words)) == (0, 0)
        for timestamp, found in ((now, (now, 0)), (now + 2, (now + 2, 2)), (now + 3, (-1, -1))):
            assert wire.listed(topic, timestamp) == found
        assert wire.listed(topic, MAX_TIMESTAMP) == (now + 2, 2)
    await_retention(wire, new_topic)
    for topic in topics:
        assert wire.listed(topic, 0) == (now, 0)


def test_a_lie_about_the_future_keeps_nothing(wire, new_topic):
    topic, old = new_topic(retention_ms=HOUR_MS), now_ms() - 2 * HOUR_MS
    lying = batch_of(record_bytes(SMALL), 3, base_timestamp=old, max_timestamp=now_ms())
    assert wire.produce(topic, lying) == (0, 0)
    wire.await_start(topic, 3)


def test_a_header_key_of_any_bytes_goes_through(wire, server, new_topic, java):
    """kafka-go with acks=0 lost such a record in silence."""
    topic, key = new_topic(), b"\xff\xfe"
    fields = b"\x00\x00\x00\x01\x02x\x02" + bytes([len(key) << 1]) + key + b"\x02y"
    batch = batch_of(bytes([len(fields) << 1]) + fields, 1, base_timestamp=now_ms())
    assert wire.produce(topic, batch) == (0, 0)
    (record,) = java.read(server.bootstrap, topic, until=b"x")
    assert [content for _, content in record.headers] == [b"y"]


def test_a_right_crc_over_wrong_records_is_not_retriable(wire, new_topic):
    topic, sound = new_topic(), batch_of(record_bytes(SMALL), 3, base_timestamp=now_ms())
    short = bytearray(sound)
    struct.pack_into(">i", short, 57, 2)
    struct.pack_into(">i", short, 23, 1)
    struct.pack_into(">I", short, 17, crc32c(memoryview(short)[21:]))
    assert wire.produce(topic, bytes(short)) == (87, -1)
    assert wire.produce(topic, sound[:-1] + b"?") == (2, -1)
    assert wire.produce(topic, sound + b"behind") == (0, 0)
