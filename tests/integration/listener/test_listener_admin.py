"""Topics, configs and offsets: facts 3."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import (
    ask,
    ask_in_words,
    batch,
    each,
    in_words,
    produce,
)
from tests.worlds.listener.listener_world import World

from oncelog.api.v1 import controller_pb2
from oncelog.protocol.messages import schema_of

TRANSACTIONAL = 0x10
INTERNAL = topic("__transaction_state", 50, internal=True)


def create(world, version=7, *names):
    words = {"num_partitions": 2, "replication_factor": -1, "assignments": (), "configs": ()}
    request = in_words(19, version, **words)
    request = replace(request, topics=each(request.topics, "name", names))
    return {one.name: one for one in ask(world, 19, version, request=request).topics}


def test_topics_are_created_and_known_when_the_answer_comes():
    world = World(topic("old", 1))
    results = create(world, 7, "new", "old", "bad name", "__consumer_offsets")
    assert {name: one.error_code for name, one in results.items()} == {
        "new": 0,
        "old": 36,
        "bad name": 17,
        "__consumer_offsets": 17,
    }
    assert results["new"].num_partitions == 2
    assert results["new"].topic_id is not None
    assert "new" in world.metadata.image.topics


def test_a_created_topic_is_answered_with_its_configs():
    """KIP-525: `CreateTopicsResult.config` needs no second request."""
    created = create(World(), 7, "new")["new"]
    assert ("cleanup.policy", "delete") in {(one.name, one.value) for one in created.configs}
    assert {one.config_source for one in created.configs} == {5}
    assert create(World(topic("old", 1)), 7, "old")["old"].configs == ()


def test_a_topic_named_twice_is_created_neither_time(world):
    assert create(world, 5, "twin", "twin")["twin"].error_code == 42
    assert world.controller.calls == []


def test_topics_are_deleted_by_name_and_by_id():
    world = World(topic("a", 1), topic("b", 1), INTERNAL)
    types = schema_of(20, 6).request_types
    topic_id = UUID(bytes=world.metadata.image.topics["b"].topic_id)
    wanted = (
        types.DeleteTopicState(name="a", topic_id=None),
        types.DeleteTopicState(name=None, topic_id=topic_id),
        types.DeleteTopicState(name=None, topic_id=UUID(int=9)),
        types.DeleteTopicState(name="nowhere", topic_id=None),
        types.DeleteTopicState(name="__transaction_state", topic_id=None),
    )
    answer = ask(world, 20, 6, topics=wanted, timeout=timedelta(seconds=5))
    assert [(one.name, one.error_code) for one in answer.responses] == [
        ("a", 0),
        ("b", 0),
        (None, 100),
        ("nowhere", 3),
        ("__transaction_state", 17),
    ]
    assert world.metadata.image.topics.keys() == {"__transaction_state"}
    answer = ask(World(topic("a", 1)), 20, 1, topic_names=("a",), timeout=timedelta(seconds=5))
    assert [(one.name, one.error_code) for one in answer.responses] == [("a", 0)]


def test_a_topic_to_delete_that_is_named_twice_is_kept():
    """As Kafka refuses it (ControllerApis.deleteTopics): one answer for each name and id that stands twice."""
    world = World(topic("a", 1), topic("b", 1), topic("c", 1))
    types = schema_of(20, 6).request_types
    topic_id = UUID(bytes=world.metadata.image.topics["b"].topic_id)
    by_id = types.DeleteTopicState(name=None, topic_id=topic_id)
    wanted = (
        *(types.DeleteTopicState(name="a", topic_id=None),) * 3,
        *(by_id,) * 2,
        types.DeleteTopicState(name="c", topic_id=topic_id),
        types.DeleteTopicState(name=None, topic_id=None),
    )
    answer = ask(world, 20, 6, topics=wanted, timeout=timedelta(seconds=5))
    assert [(one.name, one.error_code) for one in answer.responses] == [
        ("a", 42),
        ("b", 42),
        ("c", 42),
        (None, 42),
    ]
    assert world.controller.calls == []
    assert world.metadata.image.topics.keys() == {"a", "b", "c"}


def test_a_resource_described_many_times_is_told_once():
    """Its answer would be ten thousand times larger than the request. Of its namings every config is told."""
    query = [("retention.ms",), ("cleanup.policy",), ("retention.ms",)]
    request = in_words(32, 4, resource_type=2, resource_name="orders")
    request = replace(request, resources=each(request.resources, "configuration_keys", query))
    (result,) = ask(World(topic("orders", 1)), 32, 4, request=request).results
    assert {one.name for one in result.configs} == {"cleanup.policy", "retention.ms"}


def test_a_topic_deleted_by_its_id_is_not_its_successor():
    """It was deleted and made again, and this listener does not know that yet."""
    world = World(topic("a", 1))
    topic_id = UUID(bytes=world.metadata.image.topics["a"].topic_id)
    unknown = controller_pb2.TopicResult(topic_id=topic_id.bytes, error_code=100)
    world.controller.canned["DeleteTopics"] = controller_pb2.DeleteTopicsResponse(results=[unknown])
    wanted = (schema_of(20, 6).request_types.DeleteTopicState(name=None, topic_id=topic_id),)
    answer = ask(world, 20, 6, topics=wanted, timeout=timedelta(seconds=5))
    assert [(one.name, one.topic_id, one.error_code) for one in answer.responses] == [
        (None, topic_id, 100)
    ]
    (request,) = world.controller.received("DeleteTopics")
    assert (request.names, request.topic_ids) == ([], [topic_id.bytes])


def test_partitions_are_added(world):
    answer = ask_in_words(world, 37, 3, name="orders", count=4, assignments=None)
    assert [(one.name, one.error_code) for one in answer.results] == [("orders", 0)]
    assert len(world.metadata.image.topics["orders"].partitions) == 4


def describe_config(world, resource_type, name, keys=None, version=4):
    words = {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys}
    words |= {"include_synonyms": True, "include_documentation": True}
    (result,) = ask_in_words(world, 32, version, **words).results
    return result


def test_configs_have_types_synonyms_and_documentation():
    world = World(topic("orders", 1, {"retention.ms": "5"}))
    result = describe_config(world, 2, "orders", ("retention.ms",))
    (entry,) = result.configs
    assert (entry.value, entry.config_source, entry.config_type) == ("5", 1, 5)
    assert [one.name for one in entry.synonyms] == ["retention.ms"]
    assert entry.documentation
    assert len(describe_config(world, 2, "orders", None, version=1).configs) > 10
    broker = describe_config(world, 4, "1")
    (partitions,) = (one for one in broker.configs if one.name == "num.partitions")
    assert (partitions.value, partitions.read_only) == ("1", True)
    assert describe_config(world, 2, "nowhere").error_code == 3
    assert describe_config(world, 4, "2").error_code == 42
    assert describe_config(world, 8, "1").error_code == 42


def alter(world, resource_type, name, *changes):
    types = schema_of(44, 1).request_types
    resource = types.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=tuple(
            types.AlterableConfig(name=config, config_operation=operation, value=value)
            for config, operation, value in changes
        ),
    )
    (result,) = ask(world, 44, 1, resources=(resource,), validate_only=False).responses
    return result.error_code


def test_topic_configs_are_changed_and_a_wrong_one_is_refused():
    world = World(topic("orders", 1, {"segment.ms": "9"}), INTERNAL)
    assert alter(world, 2, "orders", ("retention.ms", 0, "7"), ("segment.ms", 1, None)) == 0
    assert dict(world.metadata.image.topics["orders"].configs) == {"retention.ms": "7"}
    assert alter(world, 2, "orders", ("retention.ms", 0, "soon")) == 40
    assert alter(world, 2, "nowhere", ("retention.ms", 0, "7")) == 3
    assert alter(world, 2, "__transaction_state", ("retention.ms", 0, "7")) == 0


def list_offsets(world, version, timestamp):
    words = {"name": "orders", "timestamp": timestamp, "isolation_level": 1, "replica_id": -1}
    (found,) = ask_in_words(world, 2, version, **words).topics
    (partition,) = found.partitions
    return partition.error_code, partition.offset


def test_special_timestamps(world):
    produce(world, records=[batch()])
    assert list_offsets(world, 7, -1) == (0, 1)
    assert list_offsets(world, 7, -2) == (0, 0)
    assert list_offsets(world, 10, -4) == (0, 0), "without a remote store all is local"
    assert list_offsets(world, 10, -5) == (0, -1)
    assert list_offsets(world, 10, -6) == (35, -1)
    levels = [one.isolation_level for one in world.storage.received("ListOffsets")]
    assert levels == [1, 1, 1]
    list_offsets(world, 1, -1)
    assert world.storage.received("ListOffsets")[-1].isolation_level == 0


def offsets_asked(world, *partitions):
    """(topic, error code, offset) of each answer to a ListOffsets for these (topic, partition)."""
    request = in_words(2, 7, timestamp=-1, isolation_level=0, replica_id=-1)
    request = replace(
        request, topics=each(request.topics, "name", [name for name, _ in partitions])
    )
    topics = tuple(
        replace(one, partitions=each(one.partitions, "partition_index", [partition]))
        for one, (_, partition) in zip(request.topics, partitions, strict=True)
    )
    found = ask(world, 2, 7, request=replace(request, topics=topics)).topics
    return [(topic.name, one.error_code, one.offset) for topic in found for one in topic.partitions]


def test_an_offset_that_is_asked_for_twice_is_refused():
    """As in Kafka, which answers once; a topic that does not exist is no exception."""
    world = World(topic("orders", 2), topic("refunds", 1), INTERNAL)
    twice = [("orders", 0), ("refunds", 0), ("orders", 0), ("orders", 1), ("orders", 0)]
    assert sorted(offsets_asked(world, *twice)) == [
        ("orders", 0, 0),
        ("orders", 42, -1),
        ("refunds", 0, 0),
    ]
    assert offsets_asked(world, ("nowhere", 0), ("nowhere", 0)) == [("nowhere", 42, -1)]


def test_each_question_about_leader_epochs_has_its_answer():
    """Kafka answers two about one partition; both had the answer to the last one."""
    world = World(topic("orders", 1), INTERNAL)
    request = in_words(23, 4, topic="orders", replica_id=-1, leader_epoch=0)
    (asked,) = request.topics
    partitions = each(asked.partitions, "leader_epoch", [0, 5, 0])
    request = replace(request, topics=(replace(asked, partitions=partitions),))
    (found,) = ask(world, 23, 4, request=request).topics
    assert [(one.error_code, one.leader_epoch) for one in found.partitions] == [
        (0, 0),
        (0, 5),
        (0, 0),
    ]
    (nowhere,) = ask_in_words(world, 23, 4, topic="nowhere", replica_id=-1).topics
    assert [one.error_code for one in nowhere.partitions] == [3]


def test_leader_epochs_and_record_deletion():
    world = World(topic("orders", 1), INTERNAL)
    produce(world, records=[batch()])
    words = {"topic": "orders", "leader_epoch": 0, "replica_id": -1}
    (found,) = ask_in_words(world, 23, 4, **words).topics
    assert [(one.error_code, one.end_offset) for one in found.partitions] == [(0, 1)]
    assert deleted_to(world, 5, "orders", "__transaction_state") == [(0, 5), (17, -1)]


def deleted_to(world, offset, *names):
    """(error code, low watermark) of the first partition of each topic."""
    request = in_words(21, 2, offset=offset, timeout=timedelta(seconds=1))
    request = replace(request, topics=each(request.topics, "name", names))
    found = ask(world, 21, 2, request=request).topics
    return [(one.partitions[0].error_code, one.partitions[0].low_watermark) for one in found]


def test_records_are_deleted_to_the_end_at_the_time_of_asking():
    """A copy of the request that is held up on its way must not delete what was written since."""
    world = World(topic("orders", 1), topic("refunds", 1, leader=-1))
    produce(world, records=[batch()])
    assert [code for code, _ in deleted_to(world, -1, "orders", "refunds")] == [0, 5]
    (request,) = world.storage.received("DeleteRecords")
    assert [(one.topic, one.before_offset) for one in request.partitions] == [("orders", 1)]
