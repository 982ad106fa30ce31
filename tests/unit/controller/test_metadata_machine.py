"""Nodes, shards, producer ids and features: state and event to decision."""

from dataclasses import replace

import pytest
from tests.worlds.controller.metadata_cases import RULES, SMALL, Bench

from oncelog.errors import ErrorCode
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog_controller.core.events import (
    AllocateProducerIds,
    CreateTopics,
    NewTopic,
    NodeHeartbeat,
    UpdateFeatures,
)
from oncelog_controller.core.records import (
    ClusterCreated,
    ControllerClaimed,
    FeaturesChanged,
    NodeRegistered,
    ShardsAssigned,
    Snapshot,
    TopicCreated,
)
from oncelog_controller.core.rules import InternalTopicRules


def test_first_registration_creates_the_whole_cluster():
    bench = Bench(RULES)
    answer = bench.register()
    assert (answer.error_code, answer.node_epoch) == (ErrorCode.NONE, 0)
    assert [type(record) for record in bench.records] == [
        ControllerClaimed,
        ClusterCreated,
        FeaturesChanged,
        NodeRegistered,
        TopicCreated,
        ShardsAssigned,
        TopicCreated,
        ShardsAssigned,
    ]
    assert len(bench.committed) == 1
    image = bench.image
    assert image.cluster_id == "cluster"
    assert (image.controller, image.controller_epoch) == (1, 1)
    assert image.feature_levels == {"group.version": 1, "transaction.version": 2}
    assert image.features_epoch >= 0
    for name in (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC):
        topic = image.topics[name]
        assert topic.internal
        assert len(topic.partitions) == 50
        assert topic.configs == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": "104857600",
        }
        assert {partition.leader for partition in topic.partitions} == {1}
    assert len(image.shards) == 100
    assert {(s.coordinator, s.coordinator_epoch) for s in image.shards.values()} == {(1, 0)}


def test_new_incarnation_fences_all_that_the_old_one_had(bench):
    bench.register()
    bench.register(2, "other")
    bench.ask(CreateTopics, (NewTopic("t", "c" * 32, 4, 2),))
    before = bench.image.copy()
    answer = bench.register(1, "second")
    assert answer.node_epoch == 2
    for name, topic in bench.image.topics.items():
        for was, now in zip(before.topics[name].partitions, topic.partitions, strict=True):
            assert now.leader == was.leader
            assert now.leader_epoch == was.leader_epoch + (1 if was.leader == 1 else 0)
    for key, shard in bench.image.shards.items():
        was = before.shards[key]
        assert shard.coordinator_epoch == was.coordinator_epoch + (1 if was.coordinator == 1 else 0)


def test_restart_is_one_record_however_many_partitions(bench):
    bench.register()
    bench.ask(CreateTopics, (NewTopic("t", "c" * 32, 500, 1),))
    count = len(bench.records)
    bench.register(1, "second")
    assert len(bench.records) == count + 1


def test_repeated_registration_changes_nothing(bench):
    first = bench.register()
    count = len(bench.records)
    again = bench.register()
    assert again.node_epoch == first.node_epoch
    assert len(bench.records) == count
    assert bench.labels[-1] == "registration_repeated"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"node_id": 0}, "node id 0"),
        ({"node_id": -5}, "node id -5"),
        ({"incarnation_id": ""}, "incarnation_id"),
        ({"roles": ()}, "no role"),
        ({"roles": ("storage", "9")}, "'9'"),
        ({"kafka_port": 70_000}, "70000"),
        ({"kafka_port": -1}, "-1"),
    ],
)
def test_faulty_registration_is_refused_and_named(bench, fields, named):
    answer = bench.register(**fields)
    assert answer.error_code is ErrorCode.INVALID_REGISTRATION
    assert named in answer.message
    assert bench.records == []


def test_internal_topics_wait_for_storage_and_a_coordinator(bench):
    bench.register(1, roles=("listener",))
    assert bench.image.topics == {}
    bench.register(2, roles=("storage",))
    assert bench.image.topics == {}
    bench.register(3, roles=("coordinator",))
    assert set(bench.image.topics) == {TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC}
    assert {shard.coordinator for shard in bench.image.shards.values()} == {3}
    assert {p.leader for t in bench.image.topics.values() for p in t.partitions} == {2}


def test_internal_topics_wait_for_their_storage_nodes():
    bench = Bench(
        replace(SMALL, transaction_shard_count=6, group_shard_count=6, bootstrap_storage_nodes=3)
    )
    bench.register(9, roles=("coordinator",))
    for node_id in (1, 2):
        bench.register(node_id, roles=("storage",))
    assert bench.image.topics == {}
    bench.register(3, roles=("storage",))
    partitions = bench.image.topics[TRANSACTION_STATE_TOPIC].partitions
    assert [p.leader for p in partitions] == [1, 2, 3, 1, 2, 3]
    assert all(len(p.replicas) == 3 and p.isr == p.replicas for p in partitions)


def test_internal_topics_are_made_as_the_settings_say():
    two = InternalTopicRules(replication_factor=2, min_isr=2, segment_bytes=4096)
    bench = Bench(replace(SMALL, transaction_shard_count=2, transaction_topic=two))
    bench.register(9, roles=("coordinator",))
    bench.register(1, roles=("storage",))
    assert list(bench.image.topics) == [CONSUMER_OFFSETS_TOPIC], "one replica will do for this one"
    bench.register(2, roles=("storage",))
    topic = bench.image.topics[TRANSACTION_STATE_TOPIC]
    assert all(len(partition.replicas) == 2 for partition in topic.partitions)
    assert topic.configs["min.insync.replicas"] == "2"
    assert topic.configs["segment.bytes"] == "4096"
    other = bench.image.topics[CONSUMER_OFFSETS_TOPIC]
    assert (len(other.partitions[0].replicas), "min.insync.replicas" in other.configs) == (1, False)


def test_shards_of_who_is_no_coordinator_any_more_move(bench):
    bench.register(1)
    bench.register(2, roles=("coordinator",))
    before = dict(bench.image.shards)
    bench.register(1, "second", roles=("storage",))
    assert {s.coordinator for s in bench.image.shards.values()} == {2}
    for key, shard in bench.image.shards.items():
        # Those of node 1 were fenced by its registration, and then moved.
        moved = before[key].coordinator == 1
        assert shard.coordinator_epoch == before[key].coordinator_epoch + (2 if moved else 0)


def test_shards_without_a_coordinator_are_recorded_once(bench):
    bench.register(1)
    bench.register(1, "second", roles=("storage",))
    assert {s.coordinator for s in bench.image.shards.values()} == {-1}
    epochs = {key: s.coordinator_epoch for key, s in bench.image.shards.items()}
    bench.register(3, roles=("listener",))
    assert {key: s.coordinator_epoch for key, s in bench.image.shards.items()} == epochs
    bench.register(4, roles=("coordinator",))
    assert {s.coordinator for s in bench.image.shards.values()} == {4}


def test_heartbeat_and_blocks_check_the_node_epoch(bench):
    epoch = bench.register().node_epoch
    assert bench.ask(NodeHeartbeat, 1, epoch).error_code is ErrorCode.NONE
    block = bench.ask(AllocateProducerIds, 1, epoch)
    assert (block.error_code, block.first_producer_id, block.count) == (ErrorCode.NONE, 0, 1000)
    newer = bench.register(1, "second").node_epoch
    for event in (NodeHeartbeat, AllocateProducerIds):
        stale = bench.ask(event, 1, epoch)
        assert stale.error_code is ErrorCode.STALE_BROKER_EPOCH
        unknown = bench.ask(event, 7, 0)
        assert unknown.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED
        assert "7" in unknown.message
    block = bench.ask(AllocateProducerIds, 1, newer)
    assert block.first_producer_id == 1000


def test_a_controller_without_the_news_calls_nobody_replaced(bench):
    """A deposed one that does not know it yet: a node it told to end would be the one that lives."""
    epoch = bench.register().node_epoch
    answer = bench.ask(NodeHeartbeat, 1, epoch + 10)
    assert answer.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert f"node epoch {epoch + 10}" in answer.message


def test_producer_ids_end_with_an_error_not_a_second_use(bench):
    epoch = bench.register().node_epoch
    bench.image.next_producer_id = 2**63 - 1000
    answer = bench.ask(AllocateProducerIds, 1, epoch)
    assert answer.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "used up" in answer.message


@pytest.mark.parametrize(
    ("levels", "error_code", "named"),
    [
        ({"transaction.version": 0}, ErrorCode.NONE, ""),
        ({"transaction.version": 1}, ErrorCode.NONE, ""),
        ({"transaction.version": 2}, ErrorCode.NONE, ""),
        ({"transaction.version": 3}, ErrorCode.FEATURE_UPDATE_FAILED, "transaction.version=3"),
        ({"transaction.version": -1}, ErrorCode.FEATURE_UPDATE_FAILED, "transaction.version=-1"),
        ({"share.version": 1}, ErrorCode.FEATURE_UPDATE_FAILED, "share.version"),
    ],
)
def test_feature_levels(bench, levels, error_code, named):
    bench.register()
    before = bench.image.features_epoch
    trial = bench.ask(UpdateFeatures, levels, validate_only=True)
    assert bench.image.features_epoch == before
    answer = bench.ask(UpdateFeatures, levels)
    assert trial.error_code is answer.error_code is error_code
    assert named in answer.message
    changed = error_code is ErrorCode.NONE and levels["transaction.version"] != 2
    assert bench.image.features_epoch == before + changed
    if changed:
        assert bench.image.feature_levels == {"group.version": 1} | levels
        assert answer.metadata_offset == bench.image.metadata_offset


def test_features_cannot_change_before_there_is_a_cluster():
    answer = Bench().ask(UpdateFeatures, {"transaction.version": 1})
    assert answer.error_code is ErrorCode.FEATURE_UPDATE_FAILED


def test_each_controller_claims_a_higher_controller_epoch(bench):
    bench.register()
    bench.machine = bench.replayed(replace(SMALL, controller=2, incarnation_id="controller-b"))
    assert bench.image.controller_epoch == 1
    bench.ask(AllocateProducerIds, 1, 0)
    assert (bench.image.controller, bench.image.controller_epoch) == (2, 2)
    bench.ask(AllocateProducerIds, 1, 0)
    assert bench.image.controller_epoch == 2


def test_a_snapshot_replaces_a_long_journal_before_it():
    bench = Bench(replace(SMALL, snapshot_interval_records=20))
    epoch = bench.register().node_epoch
    for _ in range(50):
        bench.ask(AllocateProducerIds, 1, epoch)
    positions = [n for n, record in enumerate(bench.records) if isinstance(record, Snapshot)]
    assert len(positions) == 2
    machine = type(bench.machine)(SMALL)
    for offset in range(positions[-1], len(bench.records)):
        machine.apply(offset, bench.records[offset])
    assert machine.image == bench.image


def test_a_record_that_does_not_fit_stops_the_machine(bench):
    bench.register()
    with pytest.raises(AssertionError):
        bench.machine.apply(len(bench.records), bench.records[1])
