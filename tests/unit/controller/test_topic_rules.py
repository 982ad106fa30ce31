"""Topics: which requests are refused, with which of Kafka's codes, and what the good ones record."""

from dataclasses import replace

import pytest
from tests.worlds.controller.metadata_cases import SMALL, Bench

from oncelog.errors import ErrorCode
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog_controller.core.events import (
    AlterConfigs,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitions,
    NewTopic,
)

ID = "0123456789abcdef" * 2
UNCLEAN, TIME_TYPE = "unclean.leader.election.enable", "message.timestamp.type"


def bench_of(storage_nodes=3, **rules):
    bench = Bench(replace(SMALL, **rules))
    for node_id in range(1, storage_nodes + 1):
        bench.register(node_id)
    return bench


def create(bench, *topics, validate_only=False):
    return bench.ask(CreateTopics, topics, validate_only).results


@pytest.mark.parametrize(
    ("topic", "error_code"),
    [
        (NewTopic("", ID), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(".", ID), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("..", ID), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a" * 250, ID), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a b", ID), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a\n", ID), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("größe", ID), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("has_dot", ID), ErrorCode.INVALID_TOPIC_EXCEPTION),  # has.dot exists
        (NewTopic(TRANSACTION_STATE_TOPIC, ID), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("new", ID, internal=True), ErrorCode.INVALID_REQUEST),
        (NewTopic("has.dot", ID), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("new", ID, partitions=0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("new", ID, partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("new", ID, partitions=10_000), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("new", ID, 2**31 - 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("new", ID, 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("new", ID, 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("new", ID, 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("new", ID, configs={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("new", ID, configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("new", ID, 2, assignment={0: (1,)}), ErrorCode.INVALID_REQUEST),
        (NewTopic("new", ID, -1, 1, assignment={0: (1,)}), ErrorCode.INVALID_REQUEST),
        (NewTopic("new", ID, assignment={1: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", ID, assignment={0: ()}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", ID, assignment={0: (1, 1)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", ID, assignment={0: (9,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            NewTopic("new", ID, assignment={0: (1, 2), 1: (3,)}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_refused_topics_get_kafkas_code_and_a_reason(topic, error_code):
    bench = bench_of()
    create(bench, NewTopic("has.dot", "f" * 32))
    count = len(bench.records)
    (result,) = create(bench, topic)
    assert result.error_code is error_code
    assert result.message
    assert len(result.message) < 800
    assert len(bench.records) == count


def test_defaults_are_one_partition_and_up_to_three_replicas():
    for storage_nodes, replication_factor in ((1, 1), (2, 2), (3, 3), (5, 3)):
        (result,) = create(bench_of(storage_nodes), NewTopic("t", ID))
        assert (result.partitions, result.replication_factor) == (1, replication_factor)


def test_three_replicas_mean_two_in_sync_by_default():
    bench = bench_of(3)
    create(bench, NewTopic("two", ID), NewTopic("one", ID, configs={"min.insync.replicas": "1"}))
    create(bench, NewTopic("pair", ID, replication_factor=2))
    configs = {name: topic.configs for name, topic in bench.image.topics.items()}
    assert configs["two"] == {"min.insync.replicas": "2"}
    assert configs["one"] == {"min.insync.replicas": "1"}
    assert configs["pair"] == {}


def test_a_refusal_names_the_replication_factor_and_the_nodes():
    (result,) = create(bench_of(1), NewTopic("t", ID, 1, 3))
    assert "3" in result.message
    assert "1 storage nodes" in result.message


def test_without_storage_nodes_nothing_can_be_created():
    (result,) = create(Bench(), NewTopic("t", ID))
    assert result.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    (result,) = create(Bench(), NewTopic(TRANSACTION_STATE_TOPIC, ID))
    assert result.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_leaders_stay_spread_from_topic_to_topic():
    bench = bench_of(3)
    for number in range(9):
        create(bench, NewTopic(f"t{number}", f"{number:032x}", 2, 2))
    leaders = [
        partition.leader
        for topic in bench.image.topics.values()
        if not topic.internal
        for partition in topic.partitions
    ]
    assert {leaders.count(node_id) for node_id in (1, 2, 3)} == {6}


def test_a_manual_assignment_is_kept_as_given():
    bench = bench_of(3)
    (result,) = create(bench, NewTopic("t", ID, assignment={1: (2, 1), 0: (3, 2)}))
    assert (result.error_code, result.partitions, result.replication_factor) == (0, 2, 2)
    assert [p.replicas for p in bench.image.topics["t"].partitions] == [(3, 2), (2, 1)]


def test_one_bad_topic_does_not_stop_the_others():
    bench = bench_of()
    results = create(
        bench,
        NewTopic("good", "1" * 32),
        NewTopic("bad", "2" * 32, 0),
        NewTopic("twice", "3" * 32),
        NewTopic("also.good", "4" * 32),
        NewTopic("twice", "5" * 32),
        NewTopic("also_good", "6" * 32),
    )
    assert [(r.name, r.error_code) for r in results] == [
        ("good", ErrorCode.NONE),
        ("bad", ErrorCode.INVALID_PARTITIONS),
        ("twice", ErrorCode.INVALID_REQUEST),
        ("also.good", ErrorCode.NONE),
        ("also_good", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert {"good", "also.good"} < set(bench.image.topics)


def test_partitions_are_bounded_over_all_topics_of_a_request_too():
    bench = bench_of(1, partitions_max=10)  # 5 are internal
    results = create(bench, NewTopic("a", "1" * 32, 3), NewTopic("b", "2" * 32, 3))
    assert [r.error_code for r in results] == [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS]
    assert bench.image.partition_count == 8
    create(bench, NewTopic("b", "2" * 32, 2))
    answer = bench.ask(CreatePartitions, (NewPartitions("b", 3),))
    assert answer.results[0].error_code is ErrorCode.INVALID_PARTITIONS
    bench.ask(DeleteTopics, ("a",))
    assert bench.image.partition_count == 7
    answer = bench.ask(CreatePartitions, (NewPartitions("b", 3),))
    assert answer.results[0].error_code is ErrorCode.NONE


def test_validate_only_judges_and_records_nothing():
    bench = bench_of()
    count = len(bench.records)
    (result,) = create(bench, NewTopic("t", ID, 4), validate_only=True)
    assert (result.error_code, result.partitions, result.topic_id) == (ErrorCode.NONE, 4, "")
    assert len(bench.records) == count
    create(bench, NewTopic("t", ID))
    answer = bench.ask(CreatePartitions, (NewPartitions("t", 2),), True)
    assert answer.results[0].error_code is ErrorCode.NONE
    assert len(bench.image.topics["t"].partitions) == 1


def test_topics_are_deleted_by_name_and_by_id():
    bench = bench_of()
    create(bench, NewTopic("a", "1" * 32), NewTopic("b", "2" * 32), NewTopic("c", "3" * 32))
    internal = bench.image.topics[CONSUMER_OFFSETS_TOPIC].topic_id
    answer = bench.ask(
        DeleteTopics,
        names=("a", "nope", TRANSACTION_STATE_TOPIC, "c"),
        topic_ids=("2" * 32, "9" * 32, internal, "3" * 32),
    )
    assert [(r.name, r.error_code) for r in answer.results] == [
        ("a", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TRANSACTION_STATE_TOPIC, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.NONE),
        ("", ErrorCode.UNKNOWN_TOPIC_ID),
        (CONSUMER_OFFSETS_TOPIC, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert [r.topic_id for r in answer.results][4:6] == ["2" * 32, "9" * 32]
    assert set(bench.image.topics) == {TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC, "c"}
    assert answer.metadata_offset == bench.image.metadata_offset


def test_a_deleted_name_may_be_used_again_with_another_id():
    bench = bench_of()
    create(bench, NewTopic("a", "1" * 32))
    bench.ask(DeleteTopics, ("a",))
    (result,) = create(bench, NewTopic("a", "2" * 32))
    assert result.error_code is ErrorCode.NONE
    assert bench.image.topic_names["2" * 32] == "a"
    assert "1" * 32 not in bench.image.topic_names


@pytest.mark.parametrize(
    ("wanted", "error_code"),
    [
        (NewPartitions("nope", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("t", 2), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("t", 1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("t", -1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("t", 10_000), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions(TRANSACTION_STATE_TOPIC, 60), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewPartitions("t", 3, {0: (1, 2)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 4, {2: (1, 2)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, {2: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, {2: (1, 9)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3), ErrorCode.NONE),
        (NewPartitions("t", 4, {2: (1, 2), 3: (3, 1)}), ErrorCode.NONE),
    ],
)
def test_partitions_only_grow(wanted, error_code):
    bench = bench_of()
    create(bench, NewTopic("t", ID, 2, 2))
    before = bench.image.topics["t"].partitions
    (result,) = bench.ask(CreatePartitions, (wanted,)).results
    assert result.error_code is error_code
    after = bench.image.topics["t"].partitions
    assert after[:2] == before
    if error_code is ErrorCode.NONE:
        assert len(after) == wanted.count == result.partitions
        assert all(len(partition.replicas) == 2 for partition in after)
    else:
        assert after == before
        assert result.message


@pytest.mark.parametrize(
    ("topic", "changes", "remove", "error_code"),
    [
        ("nope", {}, (), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", {"no.such": "1"}, (), ErrorCode.INVALID_CONFIG),
        ("t", {"retention.ms": "x"}, (), ErrorCode.INVALID_CONFIG),
        ("t", {}, ("no.such",), ErrorCode.INVALID_CONFIG),
        ("t", {"retention.ms": "1"}, ("retention.ms",), ErrorCode.INVALID_REQUEST),
        (TRANSACTION_STATE_TOPIC, {"cleanup.policy": "delete"}, (), ErrorCode.INVALID_CONFIG),
        (TRANSACTION_STATE_TOPIC, {}, ("cleanup.policy",), ErrorCode.INVALID_CONFIG),
        (TRANSACTION_STATE_TOPIC, {"segment.bytes": "4096"}, (), ErrorCode.NONE),
        (TRANSACTION_STATE_TOPIC, {UNCLEAN: "true"}, (), ErrorCode.INVALID_CONFIG),
        (TRANSACTION_STATE_TOPIC, {UNCLEAN: "false"}, (), ErrorCode.NONE),
        (TRANSACTION_STATE_TOPIC, {TIME_TYPE: "LogAppendTime"}, (), ErrorCode.INVALID_CONFIG),
        (TRANSACTION_STATE_TOPIC, {"max.message.bytes": "1048587"}, (), ErrorCode.INVALID_CONFIG),
        (CONSUMER_OFFSETS_TOPIC, {"max.message.bytes": "2000000"}, (), ErrorCode.NONE),
        (CONSUMER_OFFSETS_TOPIC, {}, ("cleanup.policy",), ErrorCode.INVALID_CONFIG),
        (CONSUMER_OFFSETS_TOPIC, {"compression.type": "zstd"}, ("segment.bytes",), ErrorCode.NONE),
        ("t", {"retention.ms": "5", "cleanup.policy": "compact"}, (), ErrorCode.NONE),
        ("t", {"segment.bytes": "2048"}, ("retention.ms",), ErrorCode.NONE),
        ("t", {"retention.ms": "1000"}, (), ErrorCode.NONE),
        ("t", {}, ("segment.ms",), ErrorCode.NONE),
    ],
)
def test_configs_change_one_by_one(topic, changes, remove, error_code):
    bench = bench_of()
    create(bench, NewTopic("t", ID, configs={"retention.ms": "1000"}))
    count = len(bench.records)
    before = {name: dict(found.configs) for name, found in bench.image.topics.items()}
    trial = bench.ask(AlterConfigs, topic, changes, remove, True)
    assert trial.error_code is error_code
    assert len(bench.records) == count
    answer = bench.ask(AlterConfigs, topic, changes, remove)
    assert answer.error_code is error_code
    expected = before
    if error_code is ErrorCode.NONE:
        for name in remove:
            expected[topic].pop(name, None)
        expected[topic].update(changes)
    else:
        assert answer.message
    assert {name: dict(found.configs) for name, found in bench.image.topics.items()} == expected
