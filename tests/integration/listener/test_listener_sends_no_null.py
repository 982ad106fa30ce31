"""No response holds null where Kafka's schema forbids it, or where a Kafka broker never sends it.

Clients are written against what Kafka's broker sends. The Java Admin client copies lists that its schema lets be null,
and a null ends `describeTopics`. So every API is called in every version that is advertised, against all roles in one
process. Each response is read back from its bytes.
"""

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple, get_args, get_origin

import pytest
import uvloop
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.integration.listener.requests_by_vocabulary import request_of
from tests.worlds.listener.listener_requests import batch, in_words
from tests.worlds.listener.wire_client import WireClient

from oncelog.errors import ErrorCode
from oncelog.process.sources import Flag, Sources
from oncelog.protocol.messages import schema_of
from oncelog.protocol.shape import without_none
from oncelog.protocol.versions import APIS, JOIN_GROUP, Api
from oncelog_server.composition import embedded_roles
from oncelog_server.settings import EmbeddedSettings

NO_ERROR = "there is no error"
NO_RACK = "the broker has no rack"

MAY_BE_NULL = {
    "Produce.PartitionProduceResponse.error_message": NO_ERROR,
    "Produce.NodeEndpoint.rack": NO_RACK,
    "Fetch.NodeEndpoint.rack": NO_RACK,
    "Fetch.PartitionData.aborted_transactions": "the reader is read_uncommitted, or there is an error",
    "Metadata.MetadataResponseBroker.rack": NO_RACK,
    "Metadata.MetadataResponseTopic.name": "no topic has the id that was asked for",
    "JoinGroup.JoinGroupResponseMember.group_instance_id": "the member is not static",
    "JoinGroup.JoinGroupResponse.protocol_type": "there is an error",
    "JoinGroup.JoinGroupResponse.protocol_name": "there is an error",
    "LeaveGroup.MemberResponse.group_instance_id": "the member is not static",
    "SyncGroup.SyncGroupResponse.protocol_type": "there is an error",
    "SyncGroup.SyncGroupResponse.protocol_name": "there is an error",
    "DescribeGroups.DescribedGroupMember.group_instance_id": "the member is not static",
    "DescribeGroups.DescribedGroup.error_message": NO_ERROR,
    "DeleteGroups.DeletableGroupResult.error_message": "Kafka says it of streams groups only",
    "CreateTopics.CreatableTopicResult.error_message": NO_ERROR,
    "CreateTopics.CreatableTopicConfigs.value": "the config is secret, or has no value",
    "DeleteTopics.DeletableTopicResult.error_message": NO_ERROR,
    "DeleteTopics.DeletableTopicResult.name": "no topic has the id that was asked for",
    "DescribeConfigs.DescribeConfigsResourceResult.value": "the config is secret, or has no value",
    "DescribeConfigs.DescribeConfigsSynonym.value": "the config is secret, or has no value",
    "DescribeConfigs.DescribeConfigsResourceResult.documentation": "it was not asked for",
    "CreatePartitions.CreatePartitionsTopicResult.error_message": NO_ERROR,
    "AlterConfigs.AlterConfigsResourceResponse.error_message": NO_ERROR,
    "ElectLeaders.PartitionResult.error_message": NO_ERROR,
    "AlterPartitionReassignments.AlterPartitionReassignmentsResponse.error_message": NO_ERROR,
    "AlterPartitionReassignments.ReassignablePartitionResponse.error_message": NO_ERROR,
    "ListPartitionReassignments.ListPartitionReassignmentsResponse.error_message": NO_ERROR,
    "UpdateFeatures.UpdateFeaturesResponse.error_message": NO_ERROR,
    "UpdateFeatures.UpdatableFeatureResult.error_message": NO_ERROR,
    "IncrementalAlterConfigs.AlterConfigsResourceResponse.error_message": NO_ERROR,
    "DescribeCluster.DescribeClusterResponse.error_message": NO_ERROR,
    "DescribeCluster.DescribeClusterBroker.rack": NO_RACK,
    "DescribeProducers.PartitionResponse.error_message": NO_ERROR,
    "ConsumerGroupHeartbeat.ConsumerGroupHeartbeatResponse.error_message": NO_ERROR,
    "ConsumerGroupHeartbeat.ConsumerGroupHeartbeatResponse.member_id": "there is an error",
    "ConsumerGroupHeartbeat.ConsumerGroupHeartbeatResponse.assignment": "the assignment is as it was",
    "ConsumerGroupDescribe.DescribedGroup.error_message": NO_ERROR,
    "ConsumerGroupDescribe.Member.instance_id": "the member is not static",
    "ConsumerGroupDescribe.Member.rack_id": "the member has no rack",
    "ConsumerGroupDescribe.Member.subscribed_topic_regex": "the member subscribes by names",
    "DescribeAcls.DescribeAclsResponse.error_message": NO_ERROR,
    "CreateAcls.AclCreationResult.error_message": NO_ERROR,
    "DeleteAcls.DeleteAclsFilterResult.error_message": NO_ERROR,
    "DeleteAcls.DeleteAclsMatchingAcl.error_message": NO_ERROR,
    "SaslAuthenticate.SaslAuthenticateResponse.error_message": NO_ERROR,
    "DescribeClientQuotas.DescribeClientQuotasResponse.error_message": NO_ERROR,
    "DescribeClientQuotas.DescribeClientQuotasResponse.entries": "there is an error",
    "DescribeClientQuotas.EntityData.entity_name": "it is the default of its type",
    "AlterClientQuotas.EntryData.error_message": NO_ERROR,
    "AlterClientQuotas.EntityData.entity_name": "it is the default of its type",
    "DescribeUserScramCredentials.DescribeUserScramCredentialsResponse.error_message": NO_ERROR,
    "DescribeUserScramCredentials.DescribeUserScramCredentialsResult.error_message": NO_ERROR,
    "AlterUserScramCredentials.AlterUserScramCredentialsResult.error_message": NO_ERROR,
    "DescribeTopicPartitions.DescribeTopicPartitionsResponse.next_cursor": "this is the last page",
}
"""Where Kafka's broker sends null, and when. Every other field of every response always has a value."""

NEVER_NULL = (
    "Produce.BatchIndexAndErrorMessage.batch_index_error_message",
    "Fetch.PartitionData.records",
    "Metadata.MetadataResponse.cluster_id",
    "OffsetFetch.OffsetFetchResponsePartition.metadata",
    "OffsetFetch.OffsetFetchResponsePartitions.metadata",
    "FindCoordinator.FindCoordinatorResponse.error_message",
    "FindCoordinator.Coordinator.error_message",
    "CreateTopics.CreatableTopicResult.configs",
    "DescribeConfigs.DescribeConfigsResult.error_message",
    "DescribeQuorum.DescribeQuorumResponse.error_message",
    "DescribeQuorum.PartitionData.error_message",
    "DescribeTopicPartitions.DescribeTopicPartitionsResponseTopic.name",
    "DescribeTopicPartitions.DescribeTopicPartitionsResponsePartition.eligible_leader_replicas",
    "DescribeTopicPartitions.DescribeTopicPartitionsResponsePartition.last_known_elr",
)
"""Kafka's schema lets these be null, and Kafka's broker never does."""

NOT_REACHED = {
    "Produce.BatchIndexAndErrorMessage",
    "Produce.LeaderIdAndEpoch",
    "Produce.NodeEndpoint",
    "Fetch.EpochEndOffset",
    "Fetch.LeaderIdAndEpoch",
    "Fetch.NodeEndpoint",
    "Fetch.SnapshotId",
    "ApiVersions.SupportedFeatureKey (version 3)",
    "DescribeQuorum.Listener",
    "ListConfigResources.ConfigResource (version 0)",
    "ListPartitionReassignments.OngoingPartitionReassignment",
    "ListPartitionReassignments.OngoingTopicReassignment",
}
"""Structures that these requests do not bring about: leaders and replicas that move, records that are refused,
followers of Kafka, client metrics, and addresses of controllers. Also features that a client of that age cannot read.
"""

_NEVER_NULL_ON_THE_WIRE = {"uuid", "datetime_i64", "timedelta_i32", "timedelta_i64"}
"""kio reads their zero or -1 as None; they have no null."""


class Nullable(NamedTuple):
    path: str
    may_be: bool


def structures(api: Api, entity: Any) -> Iterator[tuple[str, Any, Any]]:
    """(Api.Structure, the structure, its nested structures) for all of a response's structures."""
    nested = []
    for field in fields(entity):
        kind, _ = without_none(field.type)
        inner = without_none(get_args(kind)[0])[0] if get_origin(kind) is tuple else kind
        if is_dataclass(inner):
            nested.append(inner)
            yield from structures(api, inner)
    yield f"{api.name}.{entity.__name__}", entity, nested


def nullables(api: Api, version: int) -> Iterator[str]:
    for name, entity, _ in structures(api, schema_of(api.key, version).response):
        for field in fields(entity):
            kind, is_nullable = without_none(field.type)
            is_list = get_origin(kind) is tuple
            if is_nullable and (
                is_list or field.metadata.get("kafka_type") not in _NEVER_NULL_ON_THE_WIRE
            ):
                yield f"{name}.{field.name}"


def wrong_nulls(api: Api, value: Any, seen: set[str]) -> Iterator[str]:
    """Where this response is null and may not be. Adds the structures that it holds to `seen`."""
    name = f"{api.name}.{type(value).__name__}"
    seen.add(name)
    for field in fields(value):
        content = getattr(value, field.name)
        kind, is_nullable = without_none(field.type)
        path = f"{name}.{field.name}"
        if content is None:
            is_list = get_origin(kind) is tuple
            if not is_list and field.metadata.get("kafka_type") in _NEVER_NULL_ON_THE_WIRE:
                continue
            if not is_nullable or path not in MAY_BE_NULL:
                yield path
        elif is_dataclass(content):
            yield from wrong_nulls(api, content, seen)
        elif isinstance(content, tuple):
            for one in content:
                if is_dataclass(one):
                    yield from wrong_nulls(api, one, seen)
                elif one is None:
                    yield f"{path}[]"


def test_every_nullable_field_is_in_one_of_the_two_tables():
    found = {
        path
        for api in APIS.values()
        for version in range(api.served_min, api.max_version + 1)
        for path in nullables(api, version)
    }
    assert found - MAY_BE_NULL.keys() - set(NEVER_NULL) == set(), "say when Kafka sends null here"
    assert (MAY_BE_NULL.keys() | set(NEVER_NULL)) - found == set(), "no served version has these"


def prepare(bootstrap: str) -> Producer:
    """Topics, a committed and an aborted transaction, and one that stays open with the producer that is returned."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic("orders", 2), NewTopic("wide", 1)]).values():
        future.result(20)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "open", "log_level": 0}
    )
    producer.init_transactions(20)
    for end in (producer.abort_transaction, producer.commit_transaction, None):
        producer.begin_transaction()
        producer.produce("orders", b"value", partition=0)
        assert producer.flush(20) == 0
        if end is not None:
            end(20)
    return producer


async def join_classic_group(client: WireClient) -> dict[str, Any]:
    """A stable group "classic" with one static member."""
    words = {"group_id": "classic", "group_instance_id": "fixed", "name": "range"}
    words |= {"protocol_type": "consumer", "session_timeout": timedelta(seconds=30)}
    joined = await client.call(11, 9, request=in_words(11, 9, **words))
    assert joined.error_code == 0
    member = {"member_id": joined.member_id, "generation_id": joined.generation_id}
    member |= {"group_id": "classic", "group_instance_id": "fixed", "assignment": b"mine"}
    member |= {"protocol_type": "consumer", "protocol_name": "range"}
    synced = await client.call(14, 5, request=in_words(14, 5, **member))
    assert synced.error_code == 0
    return member


MODERN = {"group_id": "modern", "member_id": "m-1", "subscribed_topic_names": ("orders",)}
MODERN |= {"rebalance_timeout": timedelta(seconds=30), "topic_partitions": ()}


SECURED = {
    # Numbers of ALLOW READ on a topic, written literally, and of what a filter calls any.
    "CreateAcls.resource_type": 2,
    "CreateAcls.resource_name": "kept",
    "CreateAcls.operation": 3,
    "permission_type": 3,
    "principal": "User:alice",
    "host": "*",
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "DescribeAcls.operation": 1,
    "DescribeAcls.permission_type": 1,
    "DeleteAcls.operation": 1,
    "DeleteAcls.permission_type": 1,
    "entity_type": "user",
    "entity_name": None,
    "match_type": 1,
    "match": None,
    "AlterClientQuotas.key": "producer_byte_rate",
    "AlterClientQuotas.value": 1e9,
    "mechanism": 1,
    "SaslHandshake.mechanism": "PLAIN",
    "iterations": 4096,
    "salt": b"salt",
    "salted_password": b"key",
    "deletions": (),
    "AlterUserScramCredentials.name": "alice",
    "DescribeUserScramCredentials.name": "alice",
}


async def leave_offsets_behind(client: WireClient) -> None:
    """A group "left-behind" that has offsets and no members."""
    words = {"group_id": "left-behind", "name": "orders", "generation_id_or_member_epoch": -1}
    committed = await client.call(8, 9, request=in_words(8, 9, **words))
    assert committed.topics[0].partitions[0].error_code == 0


async def known_words(client: WireClient) -> dict[str, Any]:
    """What exists, by the names of the fields that ask for it."""
    member = await join_classic_group(client)
    joined = await client.call(68, 1, request=in_words(68, 1, **MODERN))
    assert joined.error_code == 0
    metadata = await client.call(3, 13, request=request_of(APIS[3], 13, {}, is_empty=True))
    (orders,) = (one for one in metadata.topics if one.name == "orders")
    started = {"transactional_id": "pay", "transaction_timeout": timedelta(seconds=60)}
    started |= {"producer_id": -1, "producer_epoch": -1}
    pay = await client.call(22, 5, request=in_words(22, 5, **started))
    assert pay.error_code == 0
    await leave_offsets_behind(client)
    for key, version in ((30, 3), (49, 1), (51, 0)):
        await client.call(key, version, request=in_words(key, version, **SECURED))
    return (
        member
        | SECURED
        | {
            "DescribeQuorum.topic_name": "__cluster_metadata",
            "feature": "transaction.version",
            "max_version_level": 2,
            "name": "orders",
            "topic": "orders",
            "topic_id": orders.topic_id,
            "Metadata.topic_id": None,
            "DeleteTopics.topic_id": None,
            "records": batch(),
            "acks": -1,
            "timeout": timedelta(seconds=5),
            "Produce.transactional_id": None,
            "Fetch.max_bytes": 1 << 20,
            "partition_max_bytes": 1 << 20,
            "isolation_level": 1,
            "session_epoch": -1,
            "partition_indexes": (0,),
            "partitions": (0,),
            "generation_id_or_member_epoch": member["generation_id"],
            "groups": ("classic",),
            "groups_names": ("classic", "nobody"),
            "group_ids": ("modern",),
            "key": "classic",
            "coordinator_keys": ("classic",),
            "transactional_id": "pay",
            "transactional_ids": ("open",),
            "transaction_timeout": timedelta(seconds=60),
            "InitProducerId.producer_id": -1,
            "InitProducerId.producer_epoch": -1,
            "producer_id": pay.producer_id,
            "producer_epoch": pay.producer_epoch,
            "v3_and_below_transactional_id": "pay",
            "v3_and_below_producer_id": pay.producer_id,
            "v3_and_below_producer_epoch": pay.producer_epoch,
            "client_software_name": "test",
            "client_software_version": "1",
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": (),
            "resource_type": 2,
            "resource_name": "orders",
            "configuration_keys": None,
            "include_synonyms": True,
            "include_documentation": True,
            "IncrementalAlterConfigs.name": "retention.ms",
            "IncrementalAlterConfigs.value": "100000",
            "endpoint_type": 1,
            "response_partition_limit": 1,
            "CreatePartitions.name": "wide",
            "OffsetDelete.group_id": "left-behind",
        }
    )


def words_of(known: dict[str, Any], api: Api, version: int) -> list[dict[str, Any]]:
    """What is asked of this API in this version: of what exists, of what does not, of another kind."""
    made = f"made-{version}"
    known = known | {
        "JoinGroup.group_id": f"joined-{version}",
        "JoinGroup.member_id": "",
        "JoinGroup.name": "range",
        "JoinGroup.protocol_type": "consumer",
        "JoinGroup.session_timeout": timedelta(seconds=30),
        "JoinGroup.group_instance_id": f"joined-{version}",
        "LeaveGroup.group_id": f"joined-{version}",
        "LeaveGroup.group_instance_id": f"joined-{version}",
        "CreateTopics.name": made,
        "CreateTopics.configs": (),
        "DeleteTopics.name": made,
        "topic_names": (made,),
        "CreateAcls.resource_name": made,
        "resource_name_filter": made if api.name == "DeleteAcls" else None,
        "CreatePartitions.count": version + 2,
        "CreatePartitions.assignments": None,
        "SyncGroup.assignments": (),
    }
    known |= {f"ConsumerGroupHeartbeat.{name}": word for name, word in MODERN.items()}
    unknown: dict[str, Any] = known | {
        "name": "nowhere",
        "topic": "nowhere",
        "topic_id": uuid.UUID(int=77),
        "Metadata.name": None,
        "Metadata.topic_id": uuid.UUID(int=77),
        "DeleteTopics.name": None,
        "DeleteTopics.topic_id": uuid.UUID(int=77),
        "CreateTopics.name": "not a name",
        "JoinGroup.group_id": "",
        "group_id": "nobody",
        "member_id": "nobody",
        "ConsumerGroupHeartbeat.member_epoch": 5,
        "ConsumerGroupHeartbeat.group_id": "nobody",
        "group_instance_id": None,
        "group_ids": ("nobody", "classic"),
        "groups": ("nobody", "modern"),
        "transactional_id": "nobody",
        "InitProducerId.transactional_id": "",
        "transactional_ids": ("nobody",),
        "v3_and_below_transactional_id": "nobody",
        "endpoint_type": 2,
        "key_type": 2,
        "resource_name": "nowhere",
        "isolation_level": 0,
        "include_documentation": False,
        "client_software_name": "-",
    }
    other: dict[str, Any] = known | {
        "resource_type": 4,
        "resource_name": "1",
        "producer_id": 123_456,
        "v3_and_below_producer_id": 123_456,
        "partitions": (99,),
        "partition_indexes": (99,),
        "partition": 99,
        "index": 99,
        "partition_index": 99,
        "JoinGroup.member_id": "nobody",
        "JoinGroup.group_instance_id": None,
        "DescribeTopicPartitions.cursor": None,
    }
    return [known, unknown, other]


def requests_of(known: dict[str, Any], api: Api, version: int) -> list[Any]:
    requests = [request_of(api, version, words) for words in words_of(known, api, version)]
    return [*requests, request_of(api, version, words_of(known, api, version)[0], is_empty=True)]


async def call(client: WireClient, api: Api, version: int, request: Any) -> Any:
    response = await client.call(api.key, version, request=request)
    if api.key == JOIN_GROUP and response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request = replace(request, member_id=response.member_id)
        response = await client.call(api.key, version, request=request)
    return response


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """(API, version) → the responses, read back from their bytes."""
    data = tmp_path_factory.mktemp("oncelog")

    async def scenario():
        settings = EmbeddedSettings(port=0, gateway_port=0, data=data)
        found = {}
        anybody = {
            "ONCELOG_LISTENER_AUTHORIZER": Flag("--authorizer", "acl"),
            "ONCELOG_LISTENER_SUPER_USERS": Flag("--super-users", "User:ANONYMOUS"),
        }
        async with embedded_roles(settings, data, Sources(anybody)) as addresses:
            producer = await asyncio.to_thread(prepare, addresses.bootstrap)
            host, port = addresses.bootstrap.rsplit(":", 1)
            client = await WireClient.connect(int(port), host)
            known = await known_words(client)
            for api in APIS.values():
                for version in range(api.served_min, api.max_version + 1):
                    requests = requests_of(known, api, version)
                    found[api.key, version] = [
                        await call(client, api, version, request) for request in requests
                    ]
            client.close()
            del producer
        return found

    return uvloop.run(scenario())


def test_no_response_is_null_where_kafkas_is_not(answers):
    wrong = {
        f"{path} (version {version})"
        for (key, version), responses in answers.items()
        for response in responses
        for path in wrong_nulls(APIS[key], response, set())
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_the_responses_hold_every_structure_of_their_versions(answers):
    """A list that is always empty would hide what stands in it."""
    missing = set()
    for (key, version), responses in answers.items():
        api, seen = APIS[key], set()
        for response in responses:
            list(wrong_nulls(api, response, seen))
        names = {name for name, _, _ in structures(api, schema_of(key, version).response)}
        missing |= {f"{name} (version {version})" for name in names - seen - NOT_REACHED}
    missing -= NOT_REACHED
    assert not missing, "\n".join(sorted(missing))
