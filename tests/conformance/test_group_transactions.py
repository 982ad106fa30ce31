"""Consume, transform, produce: offsets and records become visible together, or neither does (KIP-98, KIP-447)."""

import uuid

import confluent_kafka
import pytest
from tests.conformance.clients.aiokafka import Aiokafka
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.face import ClientFailed, Fenced, MustAbort
from tests.conformance.clients.kafka_python import KafkaPython
from tests.conformance.group_members import (
    LONG_SESSION,
    SERVER_ENVIRONMENT,
    Member,
    eventually,
)

COUNT = 30
ENVIRONMENT = SERVER_ENVIRONMENT
"""Sessions may end within seconds."""
PARTITIONS = 2
CLIENTS = {"confluent-kafka": Confluent, "aiokafka": Aiokafka, "kafka-python": KafkaPython}


@pytest.fixture(params=CLIENTS)
def client(request):
    return request.param


@pytest.fixture
def names(new_topic):
    """Input, output and group of one application."""
    return new_topic(PARTITIONS), new_topic(1), f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def join(server):
    opened = []

    def make(client, group, topic, **options):
        opened.append(Member(client, server.bootstrap, group, topic, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def fill(server, topic, first=0, count=COUNT):
    producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap, "log_level": 0})
    for number in range(first, first + count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def output(client, server, topic, until):
    """What a read_committed reader sees, up to a record that is there for certain."""
    records = CLIENTS[client]().read(server.bootstrap, topic, until=until)
    return [record.value for record in records if record.value != until]


class Application:
    """Reads numbers and writes their squares, one transaction a poll."""

    def __init__(self, member, producer, out):
        self.member = member
        self.producer = producer
        self.out = out
        self.squared = 0

    def one_transaction(self, *, end="commit", then=lambda: None):
        """`then` happens when everything is said and nothing is decided."""
        records = []
        eventually(lambda: records.extend(self.member.call("poll")) or records)
        self.producer.begin()
        for _, _, value in records:
            self.producer.send(self.out, b"%d" % int(value) ** 2)
        self.producer.send_offsets(*self.member.call("transaction_arguments"))
        then()
        getattr(self.producer, end)()
        if end == "commit":
            self.squared += len(records)
        return len(records)


@pytest.fixture
def application(server, client, names, join, make_producer, transactional_id):
    topic, out, group = names
    fill(server, topic)
    member = join(client, group, topic, **LONG_SESSION)
    eventually(lambda: len(member.assigned) == PARTITIONS)
    member.pause()
    member.records.clear()
    member.call("rewind")
    producer = make_producer(CLIENTS[client](), transactional_id)
    return Application(member, producer, out)


def finish(server, out):
    producer = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap, "log_level": 0})
    producer.produce(out, b"the end")
    assert producer.flush(30) == 0


def squares(count=COUNT):
    return [number**2 for number in range(count)]


def test_what_was_aborted_is_read_again_and_written_once(client, server, names, application):
    while application.squared < COUNT:
        application.one_transaction(end="abort")
        application.member.call("rewind")
        application.one_transaction()
    finish(server, names[1])
    seen = output(client, server, names[1], b"the end")
    assert sorted(map(int, seen)) == squares()


def test_a_transaction_with_offsets_goes_on_after_a_kill(client, server, names, application):
    def crash():
        server.kill()
        server.start()

    application.one_transaction(then=crash)
    while application.squared < COUNT:
        application.one_transaction()
    finish(server, names[1])
    seen = output(client, server, names[1], b"the end")
    assert sorted(map(int, seen)) == squares()


def test_what_was_committed_with_offsets_is_not_read_again(
    client, server, names, application, join
):
    topic, out, group = names
    while application.squared < COUNT:
        application.one_transaction()
    application.member.close()
    server.kill()
    server.start()
    fill(server, topic, COUNT, 2)
    successor = join(client, group, topic)
    eventually(lambda: len(successor.records) >= 2)
    assert sorted(map(int, successor.values)) == [COUNT, COUNT + 1]
    finish(server, out)
    assert sorted(map(int, output(client, server, out, b"the end"))) == squares()


def test_an_application_that_was_replaced_decides_nothing(
    client, server, names, application, make_producer, transactional_id
):
    """Its successor's init_transactions aborts what it left open; records and offsets with it."""

    def replace():
        make_producer(CLIENTS[client](), transactional_id)

    with pytest.raises((Fenced, MustAbort, ClientFailed)):
        application.one_transaction(then=replace)
    finish(server, names[1])
    assert output(client, server, names[1], b"the end") == []
    assert committed(server, names) == {}


def test_the_offsets_of_a_generation_that_is_over_are_refused(
    server, names, join, make_producer, transactional_id
):
    """A producer whose consumer was replaced behind its back (KIP-447)."""
    topic, out, group = names
    fill(server, topic)
    member = join("confluent-kafka", group, topic, **LONG_SESSION)
    eventually(lambda: len(member.records) >= COUNT)
    of_the_past = member.call("transaction_arguments")
    other = join("confluent-kafka", group, topic)
    eventually(lambda: other.assigned)
    producer = make_producer(Confluent(), transactional_id)
    producer.begin()
    producer.send(out, b"of a zombie")
    with pytest.raises(MustAbort) as caught:
        producer.send_offsets(*of_the_past)
    assert caught.value.code == confluent_kafka.KafkaError.ILLEGAL_GENERATION
    producer.abort()
    assert committed(server, names) == {}


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_offsets_of_tv2_are_added_by_the_groups_coordinator(
    java, server, names, make_producer, transactional_id, end
):
    """TV2 (KIP-890): TxnOffsetCommit 5 without an AddOffsetsToTxn before it."""
    topic, _, group = names
    fill(server, topic)
    producer = make_producer(java, transactional_id)
    producer.begin()
    producer.send_offset(group, topic, 1, 7)
    assert committed(server, names, isolation="read_uncommitted") == {}
    with pytest.raises(confluent_kafka.KafkaException, match="_TIMED_OUT"):
        committed(server, names, timeout_s=0.5)
    getattr(producer, end)()
    expected = {1: 7} if end == "commit" else {}
    eventually(lambda: committed(server, names) == expected)
    producer.begin()
    producer.send_offset(group, topic, 1, 9)
    producer.commit()
    eventually(lambda: committed(server, names) == {1: 9})


def committed(server, names, *, isolation="read_committed", timeout_s=30):
    """A read_committed reader waits until no transaction is open that will change it (RequireStable)."""
    topic, _, group = names
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    try:
        wanted = [confluent_kafka.TopicPartition(topic, one) for one in range(PARTITIONS)]
        found = consumer.committed(wanted, timeout=timeout_s)
        return {one.partition: one.offset for one in found if one.offset >= 0}
    finally:
        consumer.close()
