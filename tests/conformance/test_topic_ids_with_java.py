"""Kafka's Java client names topics by id, and reads many partitions in a fetch session (KIP-227, KIP-516)."""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic
from tests.conformance.clients.java import Java, JavaProcess
from tests.conformance.java_programs import CACHE, SOURCES, Program, fetched_jars
from tests.integration.listener.secured_log import running_log

MANY = 100
NEWS_ONLY_BYTES = 1_000
"""A Fetch and its answer, where nothing is new. Naming a hundred partitions takes some thousands, both ways."""


@pytest.fixture
def log(tmp_path):
    with running_log(tmp_path) as bootstrap:
        yield bootstrap


class Admin:
    def __init__(self, bootstrap):
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, name, partitions):
        for future in self._admin.create_topics([NewTopic(name, partitions)]).values():
            future.result(20)

    def delete(self, name):
        for future in self._admin.delete_topics([name]).values():
            future.result(20)

    def end(self, name):
        asked = {TopicPartition(name, 0): OffsetSpec.latest()}
        (future,) = self._admin.list_offsets(asked).values()
        return future.result(20).offset

    def committed(self, group, name):
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(name, 0)])
        (future,) = self._admin.list_consumer_group_offsets([asked]).values()
        return future.result(20).topic_partitions[0].offset


@pytest.fixture(params=["4.1", "4.4"])
def classpath(request, java_classpath):
    """Our programs with that client. 4.4 is the one of the broker that other tests compare with."""
    if request.param == "4.1":
        return java_classpath
    jars = fetched_jars(CACHE, SOURCES / "broker" / "pom.xml")
    return f"{java_classpath.split(':')[0]}:{jars}/*"


@pytest.fixture
def program(classpath, log):
    started = []

    def start(topic, partitions):
        found = Program(classpath, "TopicIds", log, topic, str(partitions))
        started.append(found)
        found.wait_for_more("ready", 1)
        return found

    yield start
    for one in started:
        one.close()


def told(program, command):
    """The line that answers it."""
    start = {"send": "sent ", "read": "read ", "measure": "bytes "}[command.split(" ")[0]]
    count = program.count(start)
    program.tell(command)
    program.wait_for(lambda: program.count(start) > count)
    return [line for line in program.lines if line.startswith(start)][-1].removeprefix(start)


def test_a_stale_producer_does_not_write_to_the_next_topic(log, program):
    admin = Admin(log)
    admin.create("orders", 1)
    java = program("orders", 1)
    assert told(java, "send 0 first") == "0"
    admin.delete("orders")
    admin.create("orders", 1)
    assert told(java, "send 0 stale") == "UnknownTopicIdException"
    assert admin.end("orders") == 0


def test_a_consumer_of_many_partitions_is_told_news_only(log, program):
    Admin(log).create("many", MANY)
    java = program("many", MANY)
    expected = set()
    for number in range(0, MANY, 7):
        assert told(java, f"send {number} first-{number}") == "0"
        expected.add(f"first-{number}")
    read = told(java, f"read {len(expected)}").split(",")
    assert (len(read), set(read)) == (len(expected), expected)
    assert int(told(java, "measure")) < NEWS_ONLY_BYTES
    assert told(java, "send 5 later") == "0"
    assert told(java, "read 1") == "later"


def test_offsets_are_committed_in_a_transaction(log, classpath):
    """4.4 names their topics by id (TxnOffsetCommit 6)."""
    admin = Admin(log)
    admin.create("orders", 1)
    process = JavaProcess(classpath, "TransactionDriver")
    try:
        producer = Java(process).producer(log, "pay")
        producer.init()
        producer.begin()
        producer.send("orders", b"paid")
        producer.send_offset("billing", "orders", 0, 7)
        assert admin.committed("billing", "orders") < 0
        producer.commit()
    finally:
        process.close()
    assert admin.committed("billing", "orders") == 7
