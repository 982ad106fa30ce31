"""Consume, transform, produce: offsets and records become visible together, or neither does (KIP-98, KIP-447)."""

import confluent_kafka
import pytest
from tests.conformance.clients.aiokafka import Aiokafka
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.face import ClientFailed, Fenced, MustAbort
from tests.conformance.clients.kafka_python import KafkaPython
from tests.conformance.group_members import (
    COUNT,
    LONG_SESSION,
    SERVER_ENVIRONMENT,
    eventually,
)

ENVIRONMENT = SERVER_ENVIRONMENT
PARTITIONS = 2
CLIENTS = {"confluent-kafka": Confluent, "aiokafka": Aiokafka, "kafka-python": KafkaPython}


@pytest.fixture(params=CLIENTS)
def client(request):
    return request.param


@pytest.fixture
def out(new_topic):
    return new_topic()


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
def application(client, join, fill, out, make_producer, transactional_id):
    fill()
    member = join(client, **LONG_SESSION)
    eventually(lambda: len(member.assigned) == PARTITIONS)
    member.pause()
    member.records.clear()
    member.call("rewind")
    producer = make_producer(CLIENTS[client](), transactional_id)
    return Application(member, producer, out)


@pytest.fixture
def output(client, server, out, make_producer):
    """What a read_committed reader sees, up to a record that is there for certain."""

    def read():
        make_producer(Confluent()).send(out, b"the end")
        records = CLIENTS[client]().read(server.bootstrap, out, until=b"the end")
        return sorted(int(record.value) for record in records[:-1])

    return read


SQUARES = [number**2 for number in range(COUNT)]


def test_what_was_aborted_is_read_again_and_written_once(application, output):
    while application.squared < COUNT:
        application.one_transaction(end="abort")
        application.member.call("rewind")
        application.one_transaction()
    assert output() == SQUARES


def test_a_transaction_with_offsets_goes_on_after_a_kill(server, application, output):
    def crash():
        server.kill()
        server.start()

    application.one_transaction(then=crash)
    while application.squared < COUNT:
        application.one_transaction()
    assert output() == SQUARES


def test_what_was_committed_with_offsets_is_not_read_again(
    client, server, application, join, fill, output
):
    while application.squared < COUNT:
        application.one_transaction()
    application.member.close()
    server.kill()
    server.start()
    fill(COUNT, 2)
    successor = join(client)
    eventually(lambda: len(successor.records) >= 2)
    assert sorted(map(int, successor.values)) == [COUNT, COUNT + 1]
    assert output() == SQUARES


def test_an_application_that_was_replaced_decides_nothing(
    client, application, make_producer, transactional_id, output, committed
):
    """Its successor's init_transactions aborts what it left open; records and offsets with it."""

    def replace():
        make_producer(CLIENTS[client](), transactional_id)

    with pytest.raises((Fenced, MustAbort, ClientFailed)):
        application.one_transaction(then=replace)
    assert output() == []
    assert committed() == {}


def test_the_offsets_of_a_generation_that_is_over_are_refused(
    join, fill, out, make_producer, transactional_id, committed
):
    """A producer whose consumer was replaced behind its back (KIP-447)."""
    fill()
    member = join("confluent-kafka", **LONG_SESSION)
    eventually(lambda: len(member.records) >= COUNT)
    of_the_past = member.call("transaction_arguments")
    other = join("confluent-kafka")
    eventually(lambda: other.assigned)
    producer = make_producer(Confluent(), transactional_id)
    producer.begin()
    producer.send(out, b"of a zombie")
    with pytest.raises(MustAbort) as caught:
        producer.send_offsets(*of_the_past)
    assert caught.value.code == confluent_kafka.KafkaError.ILLEGAL_GENERATION
    producer.abort()
    assert committed() == {}


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_offsets_of_tv2_are_added_by_the_groups_coordinator(
    java, group, topic, make_producer, transactional_id, committed, end
):
    """TV2 (KIP-890): TxnOffsetCommit 5 without an AddOffsetsToTxn before it."""
    producer = make_producer(java, transactional_id)
    producer.begin()
    producer.send_offset(group, topic, 1, 7)
    assert committed(isolation="read_uncommitted") == {}
    with pytest.raises(confluent_kafka.KafkaException, match="_TIMED_OUT"):
        committed(timeout_s=0.5)
    getattr(producer, end)()
    expected = {1: 7} if end == "commit" else {}
    eventually(lambda: committed() == expected)
    producer.begin()
    producer.send_offset(group, topic, 1, 9)
    producer.commit()
    eventually(lambda: committed() == {1: 9})


@pytest.fixture
def committed(server, group, topic):
    """The group's offsets. A read_committed reader waits until no transaction is open that will change them
    (RequireStable)."""

    def ask(*, isolation="read_committed", timeout_s=30):
        settings = {"bootstrap.servers": server.bootstrap, "group.id": group, "log_level": 0}
        consumer = confluent_kafka.Consumer(settings | {"isolation.level": isolation})
        try:
            wanted = [confluent_kafka.TopicPartition(topic, one) for one in range(PARTITIONS)]
            found = consumer.committed(wanted, timeout=timeout_s)
            return {one.partition: one.offset for one in found if one.offset >= 0}
        finally:
            consumer.close()

    return ask
