"""Consumer groups of real, unmodified clients: who reads what, who takes over, and what an operator sees."""

import confluent_kafka
import kafka
import kafka.errors
import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    TopicPartition,
)
from tests.conformance.group_members import (
    COUNT,
    LONG_SESSION,
    NEW_PROTOCOL,
    SERVER_ENVIRONMENT,
    eventually,
    in_a_process,
    seen,
    share,
)

ENVIRONMENT = SERVER_ENVIRONMENT
PARTITIONS = 4
EVERY = frozenset(range(PARTITIONS))
MEMBERS = ["confluent-kafka", "aiokafka", "kafka-python"]


@pytest.fixture(params=MEMBERS)
def client(request):
    return request.param


@pytest.fixture(params=[*MEMBERS, NEW_PROTOCOL])
def any_client(request):
    """Of both protocols."""
    return request.param


def whole(*members):
    return share(PARTITIONS, *members)


def test_a_subscriber_reads_everything_once(client, join, fill):
    fill()
    member = join(client)
    eventually(lambda: len(member.records) >= COUNT)
    fill(COUNT)
    eventually(lambda: len(member.records) >= 2 * COUNT)
    assert seen(member) == list(range(2 * COUNT))


def test_two_members_share_the_partitions_until_one_leaves(any_client, join, fill):
    first, second = join(any_client), join(any_client)
    eventually(lambda: whole(first, second))
    fill()
    eventually(lambda: len(seen(first, second)) >= COUNT)
    assert seen(first, second) == list(range(COUNT))
    assert first.records
    assert second.records
    first.commit()
    second.commit()
    second.close()
    eventually(lambda: first.assigned == EVERY)
    fill(COUNT)
    eventually(lambda: len(seen(first, second)) >= 2 * COUNT)
    assert seen(first, second) == list(range(2 * COUNT))


def test_the_partitions_of_a_member_that_died_are_taken_over(
    any_client, server, group, topic, join, fill
):
    member = join(any_client)
    eventually(lambda: member.assigned == EVERY)
    with in_a_process(any_client, server, group, topic) as other:
        eventually(lambda: len(member.assigned) == PARTITIONS // 2)
        other.kill()
        eventually(lambda: member.assigned == EVERY)
    fill()
    eventually(lambda: len(member.records) >= COUNT)
    assert seen(member) == list(range(COUNT))


def test_a_cooperative_member_keeps_what_it_need_not_give(join, fill):
    options = {"partition_assignment_strategy": "cooperative-sticky"}
    first = join("confluent-kafka", **options)
    eventually(lambda: first.assigned == EVERY)
    second = join("confluent-kafka", **options)
    eventually(lambda: whole(first, second))
    kept = first.assigned
    assert all(kept <= one for one in first.assignments[1:]), "nothing that it kept was taken away"
    fill()
    eventually(lambda: len(seen(first, second)) >= COUNT)
    assert seen(first, second) == list(range(COUNT))


def test_members_of_different_clients_share_one_group(join, fill):
    members = [
        join("confluent-kafka", partition_assignment_strategy="range"),
        join("kafka-python"),
    ]
    eventually(lambda: whole(*members))
    fill()
    eventually(lambda: len(seen(*members)) >= COUNT)
    assert seen(*members) == list(range(COUNT))


def test_a_static_member_comes_back_without_a_rebalance(client, join, group, admin):
    staying, leaving = (join(client, group_instance_id=name) for name in ("staying", "leaving"))
    eventually(lambda: whole(staying, leaving))
    before, held = len(staying.assignments), leaving.assigned
    leaving.close()
    returned = join(client, group_instance_id="leaving")
    eventually(lambda: returned.assigned == held)
    assert len(staying.assignments) == before, "the other member noticed nothing"
    found = admin.describe_consumer_groups([group])[group].result(30)
    assert {one.group_instance_id for one in found.members} == {"staying", "leaving"}


def test_reading_resumes_where_it_was_committed(client, server, group, topic, join, fill):
    fill()
    member = join(client)
    eventually(lambda: len(member.records) >= COUNT)
    member.commit()
    member.close()
    fill(COUNT)
    member = join(client, **LONG_SESSION)
    eventually(lambda: len(member.records) >= COUNT)
    assert seen(member) == list(range(COUNT, 2 * COUNT))
    member.commit()
    server.kill()
    server.start()
    fill(2 * COUNT)
    eventually(lambda: len(member.records) >= 2 * COUNT)
    assert seen(member) == list(range(COUNT, 3 * COUNT))
    member.commit()
    member.close()
    fill(3 * COUNT)
    member = join(client)
    eventually(lambda: len(member.records) >= COUNT)
    assert seen(member) == list(range(3 * COUNT, 4 * COUNT))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_java_client_reads_as_a_member_and_commits(
    java, server, group, topic, fill, admin, protocol
):
    fill()
    values = java.subscribe(server.bootstrap, group, topic, COUNT, protocol)
    assert sorted(map(int, values)) == list(range(COUNT))
    assert committed(admin, group) == dict.fromkeys(range(PARTITIONS), COUNT // PARTITIONS)
    kind = ConsumerGroupType[protocol.upper()]
    listed = admin.list_consumer_groups(types={kind}).result(30)
    assert group in {one.group_id for one in listed.valid}
    fill(COUNT, PARTITIONS)
    values = java.subscribe(server.bootstrap, group, topic, PARTITIONS, protocol)
    assert sorted(map(int, values)) == list(range(COUNT, COUNT + PARTITIONS))


def test_an_operator_sees_a_group_and_removes_it(server, group, topic, join, fill, admin):
    fill()
    member = join("confluent-kafka")
    eventually(lambda: len(member.records) >= COUNT)
    member.commit()
    listed = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(30)
    assert group in {one.group_id for one in listed.valid}
    described = admin.describe_consumer_groups([group])[group].result(30)
    assert described.state is ConsumerGroupState.STABLE
    assert [len(one.assignment.topic_partitions) for one in described.members] == [PARTITIONS]
    offsets = committed(admin, group)
    assert offsets == dict.fromkeys(range(PARTITIONS), COUNT // PARTITIONS)
    with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([group])[group].result(30)
    member.close()
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
    admin.alter_consumer_group_offsets([moved])[group].result(30)
    assert committed(admin, group)[0] == 3
    admin.delete_consumer_groups([group])[group].result(30)
    assert committed(admin, group) == {}
    with pytest.raises(confluent_kafka.KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups([group])[group].result(30)


def committed(admin, group):
    wanted = ConsumerGroupTopicPartitions(group)
    found = admin.list_consumer_group_offsets([wanted])[group].result(30).topic_partitions
    return {one.partition: one.offset for one in found}


def test_kafka_pythons_operator_sees_a_group_and_removes_it(server, group, topic, join, fill):
    fill()
    member = join("kafka-python")
    eventually(lambda: len(member.records) >= COUNT)
    member.commit()
    admin = kafka.KafkaAdminClient(bootstrap_servers=server.bootstrap)
    try:
        assert group in {one["group_id"] for one in admin.list_groups()}
        described = admin.describe_groups([group])[group]
        assert (described["group_state"], len(described["members"])) == ("Stable", 1)
        offsets = admin.list_group_offsets(group)[group]
        assert {one.partition: found.offset for one, found in offsets.items()} == dict.fromkeys(
            range(PARTITIONS), COUNT // PARTITIONS
        )
        member.close()
        admin.delete_group_offsets(group, [kafka.TopicPartition(topic, 0)])
        assert {one.partition for one in admin.list_group_offsets(group)[group]} == {1, 2, 3}
        admin.delete_groups([group])
        assert group not in {one["group_id"] for one in admin.list_groups()}
    finally:
        admin.close()
