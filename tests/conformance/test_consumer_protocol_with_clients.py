"""Groups of the new consumer protocol (KIP-848) with real, unmodified clients: `group.protocol=consumer`."""

import uuid

import confluent_kafka
import confluent_kafka.admin
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, ConsumerGroupType
from tests.conformance.group_members import (
    COUNT,
    NEW_PROTOCOL,
    SERVER_ENVIRONMENT,
    eventually,
    seen,
    share,
)

PARTITIONS = 4
EVERY = frozenset(range(PARTITIONS))
ENVIRONMENT = SERVER_ENVIRONMENT


def test_a_group_is_listed_by_its_type_and_removed_when_empty(join, group, admin):
    member = join(NEW_PROTOCOL)
    eventually(lambda: member.assigned == EVERY)
    listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(30)
    assert group in {one.group_id for one in listed.valid}
    with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([group])[group].result(30)
    member.close()
    admin.delete_consumer_groups([group])[group].result(30)
    listed = admin.list_consumer_groups().result(30)
    assert group not in {one.group_id for one in listed.valid}


def test_after_a_restart_members_go_on_from_their_commit(server, join, fill):
    first, second = join(NEW_PROTOCOL), join(NEW_PROTOCOL)
    eventually(lambda: share(PARTITIONS, first, second))
    fill()
    eventually(lambda: len(seen(first, second)) >= COUNT)
    first.commit()
    second.commit()
    server.kill()
    server.start()
    fill(COUNT)
    eventually(lambda: len(seen(first, second)) >= 2 * COUNT)
    assert seen(first, second) == list(range(2 * COUNT))
    first.commit()
    second.commit()
    first.close()
    second.close()
    fill(2 * COUNT)
    third = join(NEW_PROTOCOL)
    eventually(lambda: len(third.records) >= COUNT)
    assert seen(third) == list(range(2 * COUNT, 3 * COUNT))


def test_transactional_offsets_carry_the_members_epoch(server, group, join, fill, admin):
    member = join(NEW_PROTOCOL)
    eventually(lambda: member.assigned == EVERY)
    fill()
    eventually(lambda: len(member.records) >= COUNT)
    member.pause()
    choices = {"bootstrap.servers": server.bootstrap, "transactional.id": group, "log_level": 0}
    producer = confluent_kafka.Producer(choices)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(*member.call("transaction_arguments"), 30)
    producer.commit_transaction(30)
    wanted = ConsumerGroupTopicPartitions(group)

    def committed() -> dict[int, int]:
        found = admin.list_consumer_group_offsets([wanted])[group].result(30).topic_partitions
        return {one.partition: one.offset for one in found}

    # The commit is answered when it is decided; the offsets are there when their marker is.
    eventually(lambda: committed() == dict.fromkeys(EVERY, COUNT // PARTITIONS))


def test_new_partitions_are_read(join, topic, admin):
    member = join(NEW_PROTOCOL)
    eventually(lambda: member.assigned == EVERY)
    grown = confluent_kafka.admin.NewPartitions(topic, PARTITIONS + 2)
    admin.create_partitions([grown])[topic].result(30)
    eventually(lambda: member.assigned == frozenset(range(PARTITIONS + 2)))


def test_a_group_changes_its_protocol_only_when_empty(join, fill):
    fill()
    first = join("confluent-kafka")
    eventually(lambda: len(first.records) >= COUNT)
    first.commit()
    first.close()
    fill(COUNT)
    second = join(NEW_PROTOCOL)
    eventually(lambda: len(second.records) >= COUNT)
    assert seen(second) == list(range(COUNT, 2 * COUNT))


class TestPatterns:
    """librdkafka hands `^…` to the coordinator, which finds the topics by RE2's rules."""

    @pytest.fixture
    def create(self, server):
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": server.bootstrap})

        def make(*names):
            found = admin.create_topics([confluent_kafka.admin.NewTopic(one, 2) for one in names])
            for done in found.values():
                done.result(30)

        return make

    @pytest.fixture
    def reader(self, server, group):
        opened = []

        def subscribe(*patterns):
            options = {
                "bootstrap.servers": server.bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 0,
            }
            opened.append(confluent_kafka.Consumer(options))
            opened[-1].subscribe(list(patterns))
            return opened[-1]

        yield subscribe
        for one in opened:
            one.close()

    @staticmethod
    def has_all(readers, *topics):
        """Both partitions of each topic are with one reader each, and nothing else is."""
        for one in readers:
            one.poll(0.1)
        held = sorted((at.topic, at.partition) for one in readers for at in one.assignment())
        return held == sorted((name, number) for name in topics for number in (0, 1))

    def test_a_pattern_takes_what_matches_and_what_comes_later(self, create, reader):
        name = f"t-{uuid.uuid4().hex[:12]}"
        create(f"{name}-a", f"{name}-b", f"{name}-other")
        readers = reader(f"^{name}-[a-c]"), reader(f"^{name}-[a-c]")
        eventually(lambda: self.has_all(readers, f"{name}-a", f"{name}-b"))
        create(f"{name}-c", f"{name}-none")
        eventually(lambda: self.has_all(readers, *(f"{name}-{each}" for each in "abc")))

    def test_what_re2_does_not_know_is_told(self, reader):
        """RE2 repeats no repetition, which the client lets pass: it is told so, and does not wait for ever."""
        found = []

        def is_told(consumer):
            message = consumer.poll(0.1)
            if message is not None and message.error() is not None:
                found.append(message.error())
            return found

        consumer = reader("^orders**")
        eventually(lambda: is_told(consumer))
        assert found[0].name() == "_FATAL"
        assert "The regular expression is not valid" in found[0].str()
