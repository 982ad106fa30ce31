"""What leaders take, keep and find, beside Apache Kafka 4.4: the same bytes to both, and the same answers."""

import time
import uuid
from contextlib import ExitStack

import pytest
from tests.conformance.clients.aiokafka import Aiokafka
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.kafka_python import KafkaPython
from tests.conformance.foreign_clients import FOREIGN_CLIENTS
from tests.conformance.kafka_broker import KafkaBroker
from tests.conformance.wire import EARLIEST, LATEST, MAX_TIMESTAMP, Wire
from tests.free_ports import free_block
from tests.record_frames import (
    LARGE,
    SMALL,
    STRICTER,
    TAKEN,
    all_frames,
    batch_of,
    record_bytes,
)

from oncelog.record.batch import CONTROL, LOG_APPEND_TIME, Codec
from oncelog.record.codecs import compress
from oncelog_server.demo.processes import OncelogServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HOUR_MS = 3_600_000
INVALID_RECORD = 87
ENVIRONMENT = {"ONCELOG_STORAGE_RETENTION_CHECK_INTERVAL_MS": "200"}


class Side:
    def __init__(self, wire, bootstrap):
        self.wire, self.bootstrap = wire, bootstrap

    def topic(self, **configs):
        return self.wire.create_topic(f"t-{uuid.uuid4().hex[:12]}", **configs)


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """(Kafka, oncelog)."""
    folder = tmp_path_factory.mktemp("beside")
    broker, controller = free_block(2)
    with ExitStack() as stack:
        kafka = stack.enter_context(
            KafkaBroker(folder / "kafka", broker=broker, controller=controller)
        )
        ours = stack.enter_context(OncelogServer(folder / "data", environment=ENVIRONMENT))
        yield [
            Side(stack.enter_context(Wire(one.bootstrap)), one.bootstrap) for one in (kafka, ours)
        ]


def now_ms():
    return int(time.time() * 1000)


def test_both_take_the_same_frames(sides, java):
    """And a Java consumer reads from each what it took. Where Kafka cannot decompress it answers -1, a bug of the
    broker to its clients; we say INVALID_RECORD."""
    topics = [side.topic() for side in sides]
    wrong, expected, now = [], [[], []], now_ms()
    for frame in all_frames():
        batch = frame.batch(now)
        theirs, found = (
            side.wire.produce(topic, batch)[0] for side, topic in zip(sides, topics, strict=True)
        )
        if (not theirs) != (frame.verdict in (TAKEN, STRICTER)):
            wrong.append(f"Kafka {frame}: {theirs}")
        if found != (0 if frame.verdict is TAKEN else INVALID_RECORD):
            wrong.append(f"ours {frame}: {found}")
        contents = LARGE if frame.count == len(LARGE) else SMALL
        for code, values in zip((theirs, found), expected, strict=True):
            if not code:
                values.extend(contents)
    assert not wrong, "\n".join(wrong)
    end = batch_of(record_bytes([b"end"]), 1, base_timestamp=now)
    for side, topic, values in zip(sides, topics, expected, strict=True):
        assert side.wire.produce(topic, end)[0] == 0
        read = java.read(side.bootstrap, topic, until=b"end")
        assert [one.value for one in read] == [*values, b"end"]


LEVELS = {Codec.GZIP: (None, 9), Codec.SNAPPY: (None,), Codec.LZ4: (None, 1, 17), Codec.ZSTD: (22,)}


def test_kafka_takes_every_frame_that_we_write(sides):
    kafka, _ = sides
    topic = kafka.topic()
    for codec, levels in LEVELS.items():
        for level in levels:
            for contents in (SMALL, LARGE):
                body = compress(codec, record_bytes(contents), level)
                words = {"attributes": codec, "base_timestamp": now_ms()}
                batch = batch_of(body, len(contents), **words)
                assert kafka.wire.produce(topic, batch)[0] == 0, (codec, level)


PLAIN = record_bytes(SMALL)
BATCHES = {
    "the largest timestamp is 0": {"max_timestamp": 0},
    "none": {"max_timestamp": -1},
    "far away": {"max_timestamp": 2**42},
    "base offset 5": {"base_offset": 5},
    "count and last delta too low": {"count": 2},
    "count and last delta too high": {"count": 4},
    "count too low": {"count": 2, "last_offset_delta": 2},
    "a control batch": {"attributes": CONTROL},
    "no sequence": {"producer": (7001, 0, -1)},
    "no epoch": {"producer": (7002, -1, 0)},
    "an epoch below none": {"producer": (7003, -2, 0)},
    "append time": {"attributes": LOG_APPEND_TIME},
    "append time that is none": {"attributes": LOG_APPEND_TIME, "max_timestamp": -1},
    "bytes behind the records": {"body": PLAIN + b"\0"},
}


@pytest.mark.parametrize("configs", [{}, {"message_timestamp_type": "LogAppendTime"}], ids=str)
def test_both_take_the_same_batches(sides, configs):
    now = now_ms()
    sound = batch_of(PLAIN, 3, base_timestamp=now)
    tails = {"a byte": b"\0", "12 zeros": bytes(12), "half a batch": sound[:-1], "two": sound}
    sent = {
        about: batch_of(
            words.get("body", PLAIN),
            words.get("count", 3),
            base_timestamp=now,
            **{key: one for key, one in words.items() if key not in ("body", "count")},
        )
        for about, words in BATCHES.items()
    } | {f"behind it: {about}": sound + tail for about, tail in tails.items()}
    for about, batch in sent.items():
        topics = [side.topic(**configs) for side in sides]
        answers, found = [], []
        for side, topic in zip(sides, topics, strict=True):
            answers.append(side.wire.produce(topic, batch))
            questions = (now, now + 2, now + 3, LATEST, EARLIEST)
            # By the leader's clock the two differ.
            questions = (LATEST, EARLIEST) if configs else (*questions, MAX_TIMESTAMP)
            found.append([side.wire.listed(topic, timestamp) for timestamp in questions])
        assert answers[0] == answers[1], about
        assert found[0] == found[1], about


def clients(java):
    return [Confluent(), Aiokafka(), KafkaPython(), java]


def test_every_clients_records_are_found_and_kept_as_by_kafka(sides, java):
    """The timestamps have different numbers of digits: KafkaJS sorts them as text. The first one is young: retention
    looks while some clients write batch by batch."""
    now = now_ms()
    times = [now - 5000, 999, now, 1000, now - 1000]
    made = [(client, codec) for client in clients(java) for codec in ("none", *client.codecs)]
    foreign = [(client, codec) for client in FOREIGN_CLIENTS for codec in client.codecs]
    answers, kept = [], []
    for side in sides:
        topics = [side.topic(retention_ms=HOUR_MS) for _ in (*made, *foreign)]
        for topic, (client, codec) in zip(topics, made, strict=False):
            options = {} if codec == "none" else {"compression": codec}
            producer = client.producer(side.bootstrap, **options)
            for timestamp in times:
                producer.send(topic, str(timestamp).encode(), timestamp_ms=timestamp)
            producer.close()
        for topic, (client, codec) in zip(topics[len(made) :], foreign, strict=True):
            client.produce(side.bootstrap, topic, codec, times)
        asked = (0, now - 4000, now, now + 1, MAX_TIMESTAMP)
        answers.append([[side.wire.listed(topic, one) for one in asked] for topic in topics])
        old = side.topic(retention_ms=HOUR_MS)
        batch = batch_of(PLAIN, 3, base_timestamp=now - 2 * HOUR_MS)
        assert side.wire.produce(old, batch)[0] == 0
        side.wire.await_start(old, 3)
        kept.append([side.wire.listed(topic, EARLIEST) for topic in topics])
    expected = [(now - 5000, 0), (now, 2), (now, 2), (-1, -1), (now, 2)]
    for number, (client, codec) in enumerate((*made, *foreign)):
        name = f"{getattr(client, 'name', client)} {codec}"
        assert answers[0][number] == expected, f"Kafka, {name}"
        assert answers[1][number] == expected, f"oncelog, {name}"
        assert kept[0][number] == kept[1][number] == (-1, 0), name
