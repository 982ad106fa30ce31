"""Compacted topics as real clients see them: written, aborted, cleaned, read on through the gaps, deleted from."""

import time
from itertools import pairwise

import confluent_kafka
import pytest
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.face import values

CLEANED_WITHIN_S = 60
ENVIRONMENT = {
    "ONCELOG_STORAGE_CLEANER_INTERVAL_MS": "200",
    "ONCELOG_STORAGE_SHARD_ROLL_BYTES": "1024",
}
"""Compacted topics are looked at often."""


class Writes:
    """What was written and committed; the values are unique."""

    def __init__(self, producer, topic):
        self.producer = producer
        self.topic = topic
        self.written = 0
        self.committed = []

    def transact(self, count, *, commits, key=None, value=True):
        self.producer.begin()
        rows = []
        for _ in range(count):
            name = key or b"k%d" % (self.written % 7)
            content = b"%d" % self.written * 20 if value else None
            rows.append((self.producer.send(self.topic, content, key=name), name, content))
            self.written += 1
        if commits:
            self.producer.commit()
            self.committed += rows
        else:
            self.producer.abort()

    @property
    def latest(self):
        return {key: (offset, value) for offset, key, value in self.committed}


def until_cleaned(server, topic, records_max):
    """Wait until no more than so many records are left; returns them."""
    deadline = time.monotonic() + CLEANED_WITHIN_S
    while True:
        seen = Confluent().read(server.bootstrap, topic, until=b"end")
        if len(seen) <= records_max:
            return seen
        assert time.monotonic() < deadline, f"{len(seen)} records are left"


def latest_of(records):
    return {record.key: (record.offset, record.value) for record in records}


@pytest.fixture
def compacted(new_topic):
    return new_topic(cleanup_policy="compact", segment_bytes=2048, min_cleanable_dirty_ratio=0.01)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_every_client_reads_the_last_committed_values(
    codec, client, server, compacted, make_producer, transactional_id
):
    producer = make_producer(Confluent(), transactional_id, compression=codec)
    writes = Writes(producer, compacted)
    writes.transact(1, commits=True, key=b"gone", value=True)
    for number in range(30):
        writes.transact(3, commits=number % 3 != 1)
    writes.transact(1, commits=True, key=b"gone", value=False)
    writes.transact(30, commits=True)
    plain = make_producer(Confluent())
    writes.committed.append((plain.send(compacted, b"end", key=b"end"), b"end", b"end"))
    left = until_cleaned(server, compacted, 60)
    assert latest_of(left) == writes.latest
    rows = {(record.offset, record.key, record.value) for record in left}
    assert rows <= set(writes.committed)
    assert latest_of(client.read(server.bootstrap, compacted, until=b"end")) == writes.latest
    gap = next(a.offset + 1 for a, b in pairwise(left) if b.offset > a.offset + 1)
    seen = client.read(server.bootstrap, compacted, offset=gap, until=b"end")
    # It may have been cleaned once more meanwhile.
    assert {record.offset for record in seen} <= {r.offset for r in left if r.offset >= gap}
    assert latest_of(seen) == {key: row for key, row in writes.latest.items() if row[0] >= gap}
    # The producer's own last batches may be gone; its sequences and its next transaction are not.
    writes.transact(2, commits=True, key=b"next")
    last = writes.committed[-1]
    seen = client.read(server.bootstrap, compacted, until=last[2])
    assert latest_of(seen)[b"next"] == (last[0], last[2])


def test_a_consumer_behind_the_cleaner_reaches_the_end(server, compacted, make_producer):
    producer = make_producer(Confluent())
    for number in range(200):
        producer.send(compacted, b"x" * 100, key=b"k%d" % (number % 3))
    producer.send(compacted, b"end", key=b"end")
    until_cleaned(server, compacted, 60)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "g", "enable.partition.eof": True}
    )
    place = confluent_kafka.TopicPartition(compacted, 0, 5)
    consumer.assign([place])
    deadline = time.monotonic() + CLEANED_WITHIN_S
    while (message := consumer.poll(1.0)) is None or message.error() is None:
        assert time.monotonic() < deadline
    assert consumer.position([place])[0].offset == 201
    assert consumer.get_watermark_offsets(place) == (0, 201)
    consumer.close()


def test_records_are_deleted_up_to_an_offset(admin, server, client, topic, make_producer):
    producer = make_producer(client)
    for number in range(10):
        producer.send(topic, b"%d" % number)
    producer.send(topic, b"end")
    place = confluent_kafka.TopicPartition(topic, 0, 6)
    (future,) = admin.delete_records([place], request_timeout=20).values()
    assert future.result(20).low_watermark == 6
    seen = client.read(server.bootstrap, topic, offset=6, until=b"end")
    assert [record.offset for record in seen] == [6, 7, 8, 9, 10]
    everything = confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_END)
    (future,) = admin.delete_records([everything], request_timeout=20).values()
    assert future.result(20).low_watermark == 11


def test_transactions_go_on_over_cleaned_shards_and_kills(server, topic, make_producer):
    """The coordinator's own log is cleaned all the time, and read again after each kill."""
    ids = [f"{topic}-{number}" for number in range(5)]
    expected = []
    for life in range(3):
        producers = [make_producer(Confluent(), name) for name in ids]
        for turn in range(12):
            for number, producer in enumerate(producers):
                value = b"%d-%d-%d" % (life, turn, number)
                producer.begin()
                producer.send(topic, value)
                if (turn + number) % 4:
                    producer.commit()
                    expected.append(value)
                else:
                    producer.abort()
        # One is left open, for the next life's producer to fence.
        producers[0].begin()
        producers[0].send(topic, b"never seen")
        server.kill()
        server.start()
    make_producer(Confluent(), ids[0])
    make_producer(Confluent()).send(topic, b"end")
    seen = Confluent().read(server.bootstrap, topic, until=b"end")
    assert values(seen) == [*expected, b"end"]
