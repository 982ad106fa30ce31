"""What a client needs for each request about topics and the cluster, and what it learns without it.

A table of API, operation and resource, as Kafka 4.4 has it, in every version.
"""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from tests.integration.listener.requests_by_vocabulary import request_of
from tests.worlds.listener.authorized_world import allow, codes_of, everything, found_in, world_with
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import ask, batch

from oncelog.protocol import versions
from oncelog.record.batch import TRANSACTIONAL
from oncelog.security.acl import CLUSTER_NAME, Permission, ResourceType
from oncelog.security.acl import Operation as Op
from oncelog_listener.access import REFUSALS_LOGGED_MAX

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTIONAL_ID = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
SECURITY_DISABLED = 54
CODES = {TOPIC: 29, GROUP: 30, CLUSTER: 31, TRANSACTIONAL_ID: 53}
MESSAGES = {
    None,
    "",
    "Authorization failed.",
    "Topic authorization failed.",
    "Group authorization failed.",
    "Cluster authorization failed.",
    "Transactional Id authorization failed.",
}
CONFIG_TYPES = {TOPIC: 2, CLUSTER: 4, GROUP: 32}


class Case(NamedTuple):
    api_key: int
    version: int
    needs: tuple[tuple[ResourceType, Op], ...]
    """One of them is enough."""
    words: dict[str, Any]
    """What is special in the request."""
    also: tuple[tuple[ResourceType, Op], ...] = ()
    """What it needs beside, and has here."""
    passes_on: str = "orders"
    since: int = 0
    """The first version that has what the case is about."""

    def request(self, name):
        words = {
            "topic": name,
            "name": name,
            "topic_name": name,
            "key": name,
            "resource_name": name,
            "coordinator_keys": (name,),
            "partitions": (0,),
            "partition_indexes": (0,),
            "topic_names": (name,),
            "records": batch(),
            "acks": -1,
            "timeout": timedelta(seconds=1),
            "max_bytes": 1 << 20,
            "partition_max_bytes": 1 << 20,
            "forgotten_topics_data": (),
            "timestamp": -1,
            "configs": (),
            "assignments": (),
            "num_partitions": 1,
            "replication_factor": -1,
            "count": 3,
            "response_partition_limit": 10,
            "cursor": None,
            "topic_id": None,
            "Produce.topic_id": UUID(bytes=topic(name, 1).topic_id),
            "Fetch.topic_id": UUID(bytes=topic(name, 1).topic_id),
            "session_epoch": -1,
            "transactional_id": None,
            "replica_id": -1,
            "allow_auto_topic_creation": False,
            **self.words,
        }
        return request_of(versions.APIS[self.api_key], self.version, words)

    def ask(self, world, name="orders"):
        return ask(world, self.api_key, self.version, request=self.request(name))

    def in_every_version(self):
        api = versions.APIS[self.api_key]
        first = self.since or api.served_min
        return [self._replace(version=one) for one in range(first, api.max_version + 1)]

    @property
    def code(self):
        return CODES[self.needs[-1][0]]


def on_topic(api_key, version, operation, **words):
    return Case(api_key, version, ((TOPIC, operation),), words)


def on_cluster(api_key, version, *operations, **words):
    return Case(api_key, version, tuple((CLUSTER, one) for one in operations), words)


def on_configs(api_key, version, operation):
    names = {TOPIC: "orders", CLUSTER: "1", GROUP: "orders"}
    return {
        f"{versions.APIS[api_key].name} of {kind.name}": Case(
            api_key,
            version,
            ((kind, operation),),
            {"resource_type": code} | ({"resource_name": "1"} if kind is CLUSTER else {}),
            passes_on=names[kind],
        )
        for kind, code in CONFIG_TYPES.items()
    }


NEW_PRODUCER = {
    "transaction_timeout": timedelta(seconds=60),
    "producer_id": -1,
    "producer_epoch": -1,
}
CASES = {
    "Produce": on_topic(versions.PRODUCE, 9, Op.WRITE),
    "InitProducerId": Case(
        versions.INIT_PRODUCER_ID,
        6,
        ((TRANSACTIONAL_ID, Op.WRITE),),
        {"transactional_id": "orders"} | NEW_PRODUCER,
    ),
    "InitProducerId of a two-phase producer": Case(
        versions.INIT_PRODUCER_ID,
        6,
        ((TRANSACTIONAL_ID, Op.TWO_PHASE_COMMIT),),
        {"transactional_id": "orders", "enable2_pc": True} | NEW_PRODUCER,
        also=((TRANSACTIONAL_ID, Op.WRITE),),
        since=6,
    ),
    "Produce transactional": Case(
        versions.PRODUCE,
        9,
        ((TRANSACTIONAL_ID, Op.WRITE),),
        {"records": batch(TRANSACTIONAL, 4000), "transactional_id": "orders"},
        also=((TOPIC, Op.WRITE),),
    ),
    "Fetch": on_topic(versions.FETCH, 11, Op.READ),
    "ListOffsets": on_topic(versions.LIST_OFFSETS, 7, Op.DESCRIBE),
    "Metadata": on_topic(versions.METADATA, 9, Op.DESCRIBE),
    "DescribeTopicPartitions": on_topic(versions.DESCRIBE_TOPIC_PARTITIONS, 0, Op.DESCRIBE),
    "OffsetForLeaderEpoch": Case(
        versions.OFFSET_FOR_LEADER_EPOCH,
        4,
        ((CLUSTER, Op.CLUSTER_ACTION), (TOPIC, Op.DESCRIBE)),
        {},
    ),
    "DeleteRecords": on_topic(versions.DELETE_RECORDS, 2, Op.DELETE),
    "CreateTopics": Case(
        versions.CREATE_TOPICS,
        7,
        ((CLUSTER, Op.CREATE), (TOPIC, Op.CREATE)),
        {},
        passes_on="absent",
    ),
    "DeleteTopics": Case(
        versions.DELETE_TOPICS,
        6,
        ((CLUSTER, Op.DELETE), (TOPIC, Op.DELETE)),
        {},
    ),
    "CreatePartitions": on_topic(versions.CREATE_PARTITIONS, 3, Op.ALTER),
    "DescribeProducers": on_topic(versions.DESCRIBE_PRODUCERS, 0, Op.READ),
    **on_configs(versions.DESCRIBE_CONFIGS, 4, Op.DESCRIBE_CONFIGS),
    **on_configs(versions.ALTER_CONFIGS, 2, Op.ALTER_CONFIGS),
    **on_configs(versions.INCREMENTAL_ALTER_CONFIGS, 1, Op.ALTER_CONFIGS),
    "ListConfigResources": on_cluster(
        versions.LIST_CONFIG_RESOURCES, 1, Op.DESCRIBE_CONFIGS, resource_types=()
    ),
    "FindCoordinator 3 of a group": Case(
        versions.FIND_COORDINATOR, 3, ((GROUP, Op.DESCRIBE),), {"key_type": 0}
    ),
    "FindCoordinator of a group": Case(
        versions.FIND_COORDINATOR, 4, ((GROUP, Op.DESCRIBE),), {"key_type": 0}
    ),
    "FindCoordinator of a transaction": Case(
        versions.FIND_COORDINATOR, 4, ((TRANSACTIONAL_ID, Op.DESCRIBE),), {"key_type": 1}, since=1
    ),
    "AlterReplicaLogDirs": on_cluster(
        versions.ALTER_REPLICA_LOG_DIRS, 2, Op.ALTER, path="storage-1:"
    ),
    "DescribeLogDirs": on_cluster(versions.DESCRIBE_LOG_DIRS, 4, Op.DESCRIBE)._replace(since=3),
    "ElectLeaders": on_cluster(versions.ELECT_LEADERS, 2, Op.ALTER),
    "AlterPartitionReassignments": on_cluster(
        versions.ALTER_PARTITION_REASSIGNMENTS, 0, Op.ALTER, replicas=(1,)
    ),
    "ListPartitionReassignments": on_cluster(versions.LIST_PARTITION_REASSIGNMENTS, 0, Op.DESCRIBE),
    "DescribeQuorum": on_cluster(
        versions.DESCRIBE_QUORUM, 2, Op.DESCRIBE, topic_name="__cluster_metadata"
    ),
    "UpdateFeatures": on_cluster(
        versions.UPDATE_FEATURES,
        1,
        Op.ALTER,
        feature="transaction.version",
        max_version_level=2,
        upgrade_type=1,
    ),
    "WriteTxnMarkers": on_cluster(versions.WRITE_TXN_MARKERS, 1, Op.ALTER, Op.CLUSTER_ACTION),
    "DescribeAcls": on_cluster(
        *(versions.DESCRIBE_ACLS, 3, Op.DESCRIBE),
        resource_type_filter=1,
        pattern_type_filter=1,
        operation=1,
        permission_type=1,
    ),
    "CreateAcls": on_cluster(versions.CREATE_ACLS, 3, Op.ALTER),
    "DeleteAcls": on_cluster(versions.DELETE_ACLS, 3, Op.ALTER),
    "DescribeUserScramCredentials": on_cluster(
        versions.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, Op.DESCRIBE, users=()
    ),
    "AlterUserScramCredentials": on_cluster(
        versions.ALTER_USER_SCRAM_CREDENTIALS, 0, Op.ALTER, deletions=()
    ),
    "DescribeClientQuotas": on_cluster(
        *(versions.DESCRIBE_CLIENT_QUOTAS, 1, Op.DESCRIBE_CONFIGS),
        entity_type="user",
        match_type=2,
    ),
    "AlterClientQuotas": on_cluster(
        versions.ALTER_CLIENT_QUOTAS, 1, Op.ALTER_CONFIGS, entity_type="user"
    ),
}


IN_EVERY_VERSION = {
    f"{name} v{case.version}": case
    for name, one in CASES.items()
    for case in one.in_every_version()
}


def is_untouched(world):
    """Nobody behind the listener was asked."""
    return not (world.storage.calls or world.controller.calls or world.coordinator.calls)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_without_an_acl_nothing_is_learnt(case):
    answers = []
    for name in ("orders", "absent"):
        world = world_with([allow(operation, kind, name) for kind, operation in case.also])
        answer = case.ask(world, name)
        assert codes_of(answer) == {case.code}
        assert set(found_in(answer, "error_message")) <= MESSAGES
        assert is_untouched(world)
        answers.append(re.sub(r"port=\d+", "port", str(answer)).replace(name, "NAME"))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("case", IN_EVERY_VERSION.values(), ids=IN_EVERY_VERSION)
def test_no_other_operation_is_enough(case):
    world = world_with(everything(but=case.needs))
    answer = case.ask(world, case.passes_on)
    assert codes_of(answer) == {case.code}
    assert is_untouched(world)


@pytest.mark.parametrize(
    ("case", "need"),
    [
        pytest.param(case, need, id=f"{name} by {need[1].name} on {need[0].name}")
        for name, case in IN_EVERY_VERSION.items()
        for need in case.needs
    ],
)
def test_the_operation_is_enough(case, need):
    world = world_with(
        [allow(operation, kind, case.passes_on) for kind, operation in (need, *case.also)]
    )
    assert codes_of(case.ask(world, case.passes_on)) == set()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_without_an_authorizer_nobody_is_refused(case):
    world = world_with([], authorizer="none")
    are_acls = case.api_key in (versions.DESCRIBE_ACLS, versions.CREATE_ACLS, versions.DELETE_ACLS)
    expected = {SECURITY_DISABLED} if are_acls else set()
    assert codes_of(case.ask(world, case.passes_on)) == expected


@pytest.mark.parametrize("api", ["Produce", "Fetch", "ListOffsets", "DeleteRecords"])
def test_only_what_is_allowed_reaches_a_leader(api):
    case = CASES[api]
    world = world_with(
        [allow(operation, kind) for kind, operation in case.needs], topics=("orders", "secret")
    )
    mine, other = case.request("orders"), case.request("secret")
    lists = "topic_data" if api == "Produce" else "topics"
    both = replace(mine, **{lists: getattr(other, lists) + getattr(mine, lists)})
    answer = ask(world, case.api_key, case.version, request=both)
    assert sorted(map(int, found_in(answer, "error_code")))[-2:] == [0, 29]
    assert "orders" in str(world.storage.calls)
    assert "secret" not in str(world.storage.calls)


@pytest.mark.parametrize(
    ("timestamp", "first"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12)]
)
def test_a_time_means_something_from_its_version_on(timestamp, first):
    """-5 and -6 are of a remote store, which there is not: no offset, and no error."""
    world = world_with([], authorizer="none")
    for version in range(1, versions.APIS[versions.LIST_OFFSETS].max_version + 1):
        case = on_topic(versions.LIST_OFFSETS, version, Op.DESCRIBE, timestamp=timestamp)
        answer = case.ask(world, "orders")
        assert codes_of(answer) == (set() if version >= first else {35}), version
        if timestamp in (-5, -6):
            assert found_in(answer, "offset") == [-1]


def test_a_time_that_needs_no_leader_needs_the_acl_too():
    case = on_topic(versions.LIST_OFFSETS, 9, Op.DESCRIBE, timestamp=-5)
    assert codes_of(case.ask(world_with([]), "orders")) == {29}
    assert codes_of(case.ask(world_with([allow(Op.DESCRIBE)]), "orders")) == set()


def deleted(world, **words):
    case = CASES["DeleteTopics"]
    (answer,) = case._replace(words=words).ask(world, "orders").responses
    return int(answer.error_code), answer.name, answer.topic_id


ORDERS_ID = UUID(bytes=topic("orders", 2).topic_id)


def test_an_id_that_nobody_knows_is_not_deleted():
    unknown = {"name": None, "topic_id": UUID(int=7)}
    world = world_with([allow(Op.DELETE, TOPIC, "*")])
    assert deleted(world, **unknown) == (100, None, UUID(int=7))
    assert is_untouched(world)
    world = world_with([allow(Op.DELETE, CLUSTER)])
    assert deleted(world, **unknown) == (100, None, UUID(int=7))
    assert len(world.controller.received("DeleteTopics")) == 1


def test_a_topic_is_deleted_by_its_id():
    by_id = {"name": None, "topic_id": ORDERS_ID}
    assert deleted(world_with([]), **by_id) == (29, None, ORDERS_ID)
    assert deleted(world_with([allow(Op.DESCRIBE)]), **by_id) == (29, "orders", ORDERS_ID)
    assert deleted(world_with([allow(Op.DELETE)]), **by_id) == (0, "orders", ORDERS_ID)


def test_who_describes_learns_what_is_not_there():
    world = world_with([allow(Op.DESCRIBE, TOPIC, "*")])
    assert deleted(world, name="absent") == (3, "absent", None)
    assert deleted(world, name="orders") == (29, "orders", None)
    assert is_untouched(world)


def test_who_may_not_describe_deletes_no_name():
    denied = allow(Op.DESCRIBE)._replace(permission=Permission.DENY)
    world = world_with([allow(Op.DELETE), denied])
    assert deleted(world, name="orders") == (29, "orders", None)
    assert is_untouched(world)


def test_a_name_that_stands_twice_tells_nothing():
    case = CASES["DeleteTopics"]
    request = case.request("orders")
    request = replace(request, topics=request.topics * 2)
    (answer,) = ask(world_with([]), case.api_key, case.version, request=request).responses
    assert (int(answer.error_code), answer.topic_id) == (42, None)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_refused_election_lists_no_topics(version):
    api = versions.APIS[versions.ELECT_LEADERS]
    world = world_with([])
    request = request_of(api, version, {}, is_empty=True)
    answer = ask(world, api.key, version, request=request)
    assert answer.replica_election_results == ()
    assert is_untouched(world)


CREATE, DESCRIBE = 1 << Op.CREATE, 1 << Op.DESCRIBE


@pytest.mark.parametrize(
    ("allowed", "expected"), [((Op.CREATE,), 0), ((Op.CREATE, Op.DESCRIBE), CREATE | DESCRIBE)]
)
def test_operations_on_the_cluster_need_describe(allowed, expected):
    words = {"include_cluster_authorized_operations": True, "endpoint_type": 1}
    for api_key, version in ((versions.METADATA, 9), (versions.DESCRIBE_CLUSTER, 1)):
        world = world_with([allow(one, CLUSTER) for one in allowed])
        answer = Case(api_key, version, ((CLUSTER, Op.DESCRIBE),), words).ask(world, "orders")
        assert answer.cluster_authorized_operations == expected


@pytest.mark.parametrize("api", ["Metadata", "DescribeTopicPartitions"])
@pytest.mark.parametrize("name", ["orders", "absent"])
def test_operations_on_a_topic_are_told_before_it_exists(api, name):
    case = CASES[api]._replace(words={"include_topic_authorized_operations": True})
    world = world_with([allow(Op.CREATE, TOPIC, name), allow(Op.DESCRIBE, TOPIC, name)])
    (found,) = case.ask(world, name).topics
    assert found.topic_authorized_operations == CREATE | DESCRIBE
    (hidden,) = case.ask(world_with([]), name).topics
    assert hidden.topic_authorized_operations == -(2**31)


def test_a_name_beside_an_id_creates_nothing():
    words = {"topic_id": ORDERS_ID, "name": "absent", "allow_auto_topic_creation": True}
    case = on_topic(versions.METADATA, 12, Op.DESCRIBE, **words)
    world = world_with(everything())
    (found,) = case.ask(world, "orders").topics
    assert (int(found.error_code), found.name) == (0, "orders")
    assert is_untouched(world)


def test_a_fetch_as_a_broker_needs_cluster_action():
    case = on_topic(versions.FETCH, 11, Op.READ, replica_id=4)
    ((refused,),) = (
        one.partitions for one in case.ask(world_with([allow(Op.READ)]), "orders").responses
    )
    assert int(refused.error_code) == CODES[TOPIC]
    world = world_with([allow(Op.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)])
    ((served,),) = (one.partitions for one in case.ask(world, "orders").responses)
    assert int(served.error_code) == 0


def test_one_request_writes_few_lines_about_refusals(caplog):
    caplog.set_level("INFO", logger="oncelog.authorizer")
    case = on_topic(versions.METADATA, 9, Op.DESCRIBE)
    request = case.request("orders")
    topics = tuple(replace(request.topics[0], name=f"t{number}") for number in range(5000))
    ask(world_with([]), case.api_key, case.version, request=replace(request, topics=topics))
    assert len(caplog.records) == REFUSALS_LOGGED_MAX + 1
    assert "more than 20 resources by one Metadata" in caplog.records[-1].getMessage()


def test_the_name_of_a_transaction_alone_needs_nothing():
    world = world_with([allow(Op.WRITE)])
    case = on_topic(versions.PRODUCE, 9, Op.WRITE, transactional_id="pay")
    assert codes_of(case.ask(world)) == set()
    assert "pay" not in str(world.storage.calls)


@pytest.mark.parametrize(
    "api", ["ElectLeaders", "AlterPartitionReassignments", "ListPartitionReassignments"]
)
def test_a_refused_client_reads_the_names_that_it_sent(api):
    answer = CASES[api].ask(world_with([]))
    assert int(answer.error_code) == CODES[CLUSTER]
    assert "'orders'" in str(answer)


def test_each_user_that_is_asked_for_is_refused():
    case = CASES["DescribeUserScramCredentials"]._replace(words={"name": "alice"})
    (refused,) = case.ask(world_with([])).results
    assert (refused.user, int(refused.error_code)) == ("", CODES[CLUSTER])


def test_all_topics_are_those_that_may_be_described():
    world = world_with([allow(Op.DESCRIBE, TOPIC, "open")], topics=("orders", "open"))
    for api_key, version in ((versions.METADATA, 12), (versions.DESCRIBE_TOPIC_PARTITIONS, 0)):
        request = request_of(versions.APIS[api_key], version, {"cursor": None}, is_empty=True)
        answer = ask(world, api_key, version, request=request)
        assert [one.name for one in answer.topics] == ["open"]


def test_a_hidden_topic_id_is_refused_without_its_name():
    case = on_topic(versions.METADATA, 12, Op.DESCRIBE, name=None, topic_id=ORDERS_ID)
    (found,) = case.ask(world_with([])).topics
    assert (int(found.error_code), found.name) == (CODES[TOPIC], None)


def test_topics_are_created_for_those_who_may():
    case = on_topic(versions.METADATA, 9, Op.DESCRIBE, allow_auto_topic_creation=True)
    describe = allow(Op.DESCRIBE, TOPIC, "fresh")
    refused = world_with([describe])
    assert codes_of(case.ask(refused, "fresh")) == {CODES[TOPIC]}
    assert is_untouched(refused)
    for kind in (TOPIC, CLUSTER):
        allowed = world_with([describe, allow(Op.CREATE, kind, "fresh")])
        case.ask(allowed, "fresh")
        assert "fresh" in str(allowed.controller.calls)


def test_configs_of_a_new_topic_need_their_own_right():
    (made,) = CASES["CreateTopics"].ask(world_with([allow(Op.CREATE, CLUSTER)]), "fresh").topics
    assert (int(made.error_code), made.num_partitions, made.configs) == (0, -1, ())
    assert int(made.topic_config_error_code) == CODES[TOPIC]


def test_folders_are_told_to_those_who_may():
    for version in (1, 4):
        assert CASES["DescribeLogDirs"]._replace(version=version).ask(world_with([])).results == ()
