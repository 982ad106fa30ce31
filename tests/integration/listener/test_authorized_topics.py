"""ACLs of topics and the cluster: what is refused without each operation, in every version, and what is not told.

Each row of `NEEDS` names an API and one thing that its client must be allowed. A client that has everything else gets
the code; no leader and no controller receives what was refused.
"""

import re
import uuid
from datetime import timedelta

import pytest
from tests.integration.listener.requests_by_vocabulary import request_of
from tests.integration.listener.test_authorized_groups import (
    API_KEYS,
    ME,
    Need,
    allow,
    codes,
    versions,
)
from tests.unit.listener.listener_image import topic
from tests.unit.listener.listener_requests import ask, batch
from tests.unit.listener.listener_world import World

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.protocol.versions import APIS
from oncelog.record.batch import TRANSACTIONAL
from oncelog.security.acl import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

TOPIC, GROUP, TXN = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
CLUSTER = ResourceType.CLUSTER
READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
NAMES = {TOPIC: "orders", GROUP: "billing", TXN: "pay", CLUSTER: CLUSTER_NAME}
ORDERS = topic("orders", 2)

NEEDS = [
    Need("Produce", WRITE, TOPIC, 29),
    Need("Fetch", READ, TOPIC, 29),
    Need("ListOffsets", DESCRIBE, TOPIC, 29),
    Need("OffsetForLeaderEpoch", DESCRIBE, TOPIC, 29),
    Need("Metadata", DESCRIBE, TOPIC, 29),
    Need("DescribeTopicPartitions", DESCRIBE, TOPIC, 29),
    Need("FindCoordinator", DESCRIBE, GROUP, 30),
    Need("CreateTopics", CREATE, TOPIC, 29),
    Need("DeleteTopics", DELETE, TOPIC, 29),
    Need("CreatePartitions", ALTER, TOPIC, 29),
    Need("DeleteRecords", DELETE, TOPIC, 29),
    Need("DescribeConfigs", DESCRIBE_CONFIGS, TOPIC, 29),
    Need("AlterConfigs", ALTER_CONFIGS, TOPIC, 29),
    Need("IncrementalAlterConfigs", ALTER_CONFIGS, TOPIC, 29),
    Need("DescribeProducers", READ, TOPIC, 29),
    Need("WriteTxnMarkers", ALTER, CLUSTER, 31),
    Need("ListConfigResources", DESCRIBE_CONFIGS, CLUSTER, 31),
    Need("ElectLeaders", ALTER, CLUSTER, 31),
    Need("AlterPartitionReassignments", ALTER, CLUSTER, 31),
    Need("ListPartitionReassignments", DESCRIBE, CLUSTER, 31),
    Need("DescribeQuorum", DESCRIBE, CLUSTER, 31),
    Need("UpdateFeatures", ALTER, CLUSTER, 31),
    Need("DescribeAcls", DESCRIBE, CLUSTER, 31),
    Need("CreateAcls", ALTER, CLUSTER, 31),
    Need("DeleteAcls", ALTER, CLUSTER, 31),
    Need("DescribeUserScramCredentials", DESCRIBE, CLUSTER, 31),
    Need("AlterUserScramCredentials", ALTER, CLUSTER, 31),
    Need("DescribeClientQuotas", DESCRIBE_CONFIGS, CLUSTER, 31),
    Need("AlterClientQuotas", ALTER_CONFIGS, CLUSTER, 31),
]

WORDS = {
    "name": "orders",
    "topic": "orders",
    "topic_id": None,
    "topic_names": ("orders",),
    "key": "billing",
    "coordinator_keys": ("billing",),
    "records": batch(),
    "acks": -1,
    "timeout": timedelta(seconds=1),
    "transactional_id": None,
    "session_epoch": -1,
    "partition_max_bytes": 1000,
    "partitions": (0,),
    "partition_indexes": (0,),
    "allow_auto_topic_creation": False,
    "num_partitions": 1,
    "replication_factor": 1,
    "assignments": (),
    "CreatePartitions.count": 5,
    "response_partition_limit": 10,
    "DescribeConfigs.resource_type": 2,
    "AlterConfigs.resource_type": 2,
    "IncrementalAlterConfigs.resource_type": 2,
    "resource_name": "orders",
    "AlterConfigs.configs": (),
    "IncrementalAlterConfigs.configs": (),
    "CreateTopics.configs": (),
    "DescribeQuorum.topic_name": "__cluster_metadata",
    "feature": "transaction.version",
    "max_version_level": 2,
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "DescribeAcls.operation": 1,
    "DescribeAcls.permission_type": 1,
    "deletions": (),
    "entity_type": "user",
}


def entry(operation, resource_type, name, permission=Permission.ALLOW):
    return pb.Acl(
        resource_type=resource_type,
        resource_name=name,
        pattern_type=PatternType.LITERAL,
        principal=ME,
        host="*",
        operation=operation,
        permission=permission,
    )


def guarded(*acls, **settings):
    """A listener's world in which the client may do this and nothing else."""
    world = World(ORDERS, authorizer="acl", **settings)
    allow(world, *acls)
    return world


def call(world, api, version, **words):
    request = request_of(APIS[API_KEYS[api]], version, WORDS | words)
    return ask(world, API_KEYS[api], version, request=request)


def received(world):
    """All that leaders and the controller were asked."""
    return str(world.storage.calls) + str(world.controller.calls)


REFUSED = [(need, version) for need in NEEDS for version in versions(need.api)]
IDS = [f"{need.api} v{version} {need.operation.name}" for need, version in REFUSED]


@pytest.mark.parametrize(("need", "version"), REFUSED, ids=IDS)
def test_each_operation_is_needed(need, version):
    world = guarded()
    before = received(world)
    answer = call(world, need.api, version)
    assert codes(answer) - {0} == {need.code}
    assert received(world) == before


@pytest.mark.parametrize(("need", "version"), REFUSED, ids=IDS)
def test_no_more_than_the_table_is_needed(need, version):
    world = guarded(entry(need.operation, need.resource_type, NAMES[need.resource_type]))
    assert not codes(call(world, need.api, version)) & {29, 30, 31, 53}


HIDDEN = [need for need in NEEDS if need.resource_type == TOPIC and need.api != "CreateTopics"]


@pytest.mark.parametrize("need", HIDDEN, ids=[need.api for need in HIDDEN])
def test_a_topic_that_is_not_there_is_refused_alike(need):
    version = versions(need.api).stop - 1
    names = {"topic_names": ("nowhere",), "resource_name": "nowhere"}
    there = call(guarded(), need.api, version)
    gone = call(guarded(), need.api, version, name="nowhere", topic="nowhere", **names)
    assert without_port(there) == without_port(gone).replace("nowhere", "orders")


def without_port(answer):
    return re.sub(r"port=\d+", "port", str(answer))


def test_a_transactional_produce_needs_its_id():
    acls = [entry(WRITE, TOPIC, "orders")]
    words = {"transactional_id": "pay", "records": batch(TRANSACTIONAL, 4000)}
    refused = call(guarded(*acls), "Produce", 9, **words)
    assert codes(refused) - {0} == {53}
    allowed = call(guarded(*acls, entry(WRITE, TXN, "pay")), "Produce", 9, **words)
    assert codes(allowed) <= {0}


def test_the_name_of_a_transaction_alone_needs_nothing():
    world = guarded(entry(WRITE, TOPIC, "orders"))
    assert codes(call(world, "Produce", 9, transactional_id="pay")) <= {0}
    assert "pay" not in received(world)


@pytest.mark.parametrize(
    "api", ["ElectLeaders", "AlterPartitionReassignments", "ListPartitionReassignments"]
)
def test_a_refused_client_reads_the_names_that_it_sent(api):
    answer = call(guarded(), api, versions(api).stop - 1)
    assert int(answer.error_code) == 31
    assert "'orders'" in str(answer)


def test_each_user_that_is_asked_for_is_refused():
    (refused,) = call(guarded(), "DescribeUserScramCredentials", 0).results
    assert (refused.user, int(refused.error_code)) == ("", 31)


def test_all_topics_are_those_that_may_be_described():
    world = guarded(entry(DESCRIBE, TOPIC, "open"))
    world.metadata.take(
        pb.MetadataUpdate(
            metadata_offset=world.metadata.image.metadata_offset + 1,
            delta=pb.MetadataDelta(topics=[topic("open", 1)]),
        )
    )
    request = request_of(APIS[API_KEYS["Metadata"]], 12, WORDS, is_empty=True)
    answer = ask(world, API_KEYS["Metadata"], 12, request=request)
    assert [one.name for one in answer.topics] == ["open"]
    request = request_of(APIS[API_KEYS["DescribeTopicPartitions"]], 0, WORDS, is_empty=True)
    answer = ask(world, API_KEYS["DescribeTopicPartitions"], 0, request=request)
    assert [one.name for one in answer.topics] == ["open"]


def test_a_hidden_topic_id_is_refused_without_its_name():
    words = {"name": None, "topic_id": uuid.UUID(bytes=ORDERS.topic_id)}
    (found,) = call(guarded(), "Metadata", 12, **words).topics
    assert (int(found.error_code), found.name) == (29, None)


def test_topics_are_created_for_those_who_may():
    words = {"name": "fresh", "allow_auto_topic_creation": True}
    describe = entry(DESCRIBE, TOPIC, "fresh")
    refused = guarded(describe)
    assert codes(call(refused, "Metadata", 9, **words)) - {0} == {29}
    assert "fresh" not in str(refused.controller.calls)
    for acl in (entry(CREATE, TOPIC, "fresh"), entry(CREATE, CLUSTER, CLUSTER_NAME)):
        allowed = guarded(describe, acl)
        call(allowed, "Metadata", 9, **words)
        assert "fresh" in str(allowed.controller.calls)


def test_configs_of_a_new_topic_need_their_own_right():
    world = guarded(entry(CREATE, CLUSTER, CLUSTER_NAME))
    (made,) = call(world, "CreateTopics", 7, name="fresh").topics
    assert (int(made.error_code), made.num_partitions, made.configs) == (0, -1, ())
    assert int(made.topic_config_error_code) == 29


def test_operations_are_those_that_are_allowed():
    world = guarded(entry(READ, TOPIC, "orders"), entry(DESCRIBE, CLUSTER, CLUSTER_NAME))
    words = {
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    answer = call(world, "Metadata", 9, **words)
    assert answer.topics[0].topic_authorized_operations == 1 << READ | 1 << DESCRIBE
    assert answer.cluster_authorized_operations == 1 << DESCRIBE


def test_broker_configs_are_the_clusters():
    words = {"resource_type": 4, "DescribeConfigs.resource_type": 4, "resource_name": ""}
    assert codes(call(guarded(), "DescribeConfigs", 4, **words)) == {31}
    world = guarded(entry(DESCRIBE_CONFIGS, CLUSTER, CLUSTER_NAME))
    assert codes(call(world, "DescribeConfigs", 4, **words)) == {0}


def test_folders_are_told_to_those_who_may():
    answer = call(guarded(), "DescribeLogDirs", 4)
    assert (int(answer.error_code), answer.results) == (31, ())
    assert call(guarded(), "DescribeLogDirs", 1).results == ()


def test_markers_may_be_written_by_cluster_action():
    world = guarded(entry(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME))
    assert not codes(call(world, "WriteTxnMarkers", 1)) & {31}
