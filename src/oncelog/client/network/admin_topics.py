"""The administrator's requests about topics, partitions, configs and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from oncelog.client.core.admin_results import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    PartitionDescription,
    Results,
    TopicCreated,
    TopicDescription,
)
from oncelog.client.errors import ClientError
from oncelog.client.network.admin_calls import (
    AdminCalls,
    Build,
    check_codes,
    code_of,
    outcome,
    raise_error,
)
from oncelog.ids import Partition
from oncelog.protocol import versions

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

TypesT = TypeVar("TypesT")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

_SET, _DELETE = 0, 1
"""Operations of IncrementalAlterConfigs."""
_HERE: Final = frozenset({ConfigResource.BROKER, ConfigResource.BROKER_LOGGER})
"""The resources whose configs each broker keeps for itself: a request about one broker goes to that broker."""


async def create_topics(
    calls: AdminCalls, topics: Iterable[NewTopic], *, validate_only: bool
) -> Results[str, TopicCreated]:
    wanted = tuple(topics)
    response = await calls.any(
        versions.CREATE_TOPICS,
        lambda types: types.CreateTopicsRequest(
            topics=tuple(_creatable(types, one) for one in wanted),
            timeout=timedelta(milliseconds=calls.timeout_ms),
            validate_only=validate_only,
        ),
        "create_topics()",
        lambda response: map(code_of, response.topics),
    )
    return Results(
        {
            one.name: outcome(
                one,
                f"topic {one.name!r}",
                TopicCreated(
                    one.name, str(one.topic_id), one.num_partitions, one.replication_factor
                ),
            )
            for one in response.topics
        }
    )


def _creatable(
    types: kafka.CreateTopicsRequestTypes, topic: NewTopic
) -> kafka.CreateTopicsRequestTypes.CreatableTopic:
    assignment = topic.assignment or {}
    return types.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignment else topic.partitions,
        replication_factor=-1 if assignment else topic.replication_factor,
        assignments=tuple(
            types.CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(nodes))
            for number, nodes in assignment.items()
        ),
        configs=tuple(
            types.CreatableTopicConfig(name=name, value=str(value))
            for name, value in topic.configs.items()
        ),
    )


async def delete_topics(calls: AdminCalls, names: Iterable[str]) -> Results[str, None]:
    wanted = tuple(names)
    response = await calls.any(
        versions.DELETE_TOPICS,
        lambda types: types.DeleteTopicsRequest(
            topics=tuple(types.DeleteTopicState(name=name, topic_id=None) for name in wanted),
            topic_names=wanted,
            timeout=timedelta(milliseconds=calls.timeout_ms),
        ),
        "delete_topics()",
        lambda response: map(code_of, response.responses),
    )
    return Results(
        {
            one.name: outcome(one, f"topic {one.name!r}", None)
            for one in response.responses
            if one.name is not None
        }
    )


async def create_partitions(
    calls: AdminCalls, counts: Mapping[str, int], *, validate_only: bool
) -> Results[str, None]:
    response = await calls.any(
        versions.CREATE_PARTITIONS,
        lambda types: types.CreatePartitionsRequest(
            topics=tuple(
                types.CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in counts.items()
            ),
            timeout=timedelta(milliseconds=calls.timeout_ms),
            validate_only=validate_only,
        ),
        "create_partitions()",
        lambda response: map(code_of, response.results),
    )
    return Results(
        {one.name: outcome(one, f"topic {one.name!r}", None) for one in response.results}
    )


async def describe_topics(
    calls: AdminCalls, names: Iterable[str] | None
) -> Results[str, TopicDescription]:
    """Return the description of each topic; names None: of all that the user may see."""
    wanted = None if names is None else tuple(names)
    response = await calls.any(
        versions.METADATA,
        lambda types: types.MetadataRequest(
            topics=None
            if wanted is None
            else tuple(types.MetadataRequestTopic(topic_id=None, name=name) for name in wanted),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
        "describe_topics()",
        lambda response: map(code_of, response.topics),
    )
    return Results(
        {
            one.name: outcome(one, f"topic {one.name!r}", _topic(one, one.name))
            for one in response.topics
            if one.name is not None
        }
    )


def _topic(one: kafka.MetadataResponseTypes.MetadataResponseTopic, name: str) -> TopicDescription:
    partitions = sorted(one.partitions, key=lambda each: each.partition_index)
    return TopicDescription(
        name,
        str(one.topic_id),
        one.is_internal,
        tuple(
            PartitionDescription(
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
            )
            for each in partitions
        ),
    )


# ---------------------------------------------------------------------------------------------- configs


async def _config_call(
    calls: AdminCalls,
    kind: ConfigResource,
    name: str,
    api_key: kafka.ApiKey[TypesT, RequestT, object, ResponseT],
    build: Build[TypesT, RequestT],
    what: str,
) -> ResponseT:
    if kind in _HERE and name:
        return await calls.node(int(name), api_key, build, what)
    return await calls.any(api_key, build, what, lambda response: ())


async def describe_configs(
    calls: AdminCalls, kind: ConfigResource, name: str
) -> dict[str, ConfigEntry]:
    what = f"configs of {kind.name.lower()} {name!r}"
    response = await _config_call(
        calls,
        kind,
        name,
        versions.DESCRIBE_CONFIGS,
        lambda types: types.DescribeConfigsRequest(
            resources=(
                types.DescribeConfigsResource(
                    resource_type=int(kind), resource_name=name, configuration_keys=None
                ),
            )
        ),
        what,
    )
    found = response.results[0]
    raise_error(found, what)
    return {
        one.name: ConfigEntry(
            one.name, one.value, _source(one.config_source), one.read_only, one.is_sensitive
        )
        for one in found.configs
    }


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in set(ConfigSource) else ConfigSource.UNKNOWN


async def alter_configs(
    calls: AdminCalls,
    kind: ConfigResource,
    name: str,
    values: Mapping[str, str | None],
    *,
    validate_only: bool,
) -> None:
    what = f"configs of {kind.name.lower()} {name!r}"
    response = await _config_call(
        calls,
        kind,
        name,
        versions.INCREMENTAL_ALTER_CONFIGS,
        lambda types: types.IncrementalAlterConfigsRequest(
            resources=(
                types.AlterConfigsResource(
                    resource_type=int(kind),
                    resource_name=name,
                    configs=tuple(
                        types.AlterableConfig(
                            name=key,
                            config_operation=_DELETE if value is None else _SET,
                            value=None if value is None else str(value),
                        )
                        for key, value in values.items()
                    ),
                ),
            ),
            validate_only=validate_only,
        ),
        what,
    )
    raise_error(response.responses[0], what)


# ---------------------------------------------------------------------------------------------- records


async def delete_records(
    calls: AdminCalls, before: Mapping[Partition, int]
) -> Results[Partition, int]:
    async def ask(
        node_id: int, asked: Mapping[Partition, int]
    ) -> dict[Partition, int | ClientError]:
        response = await calls.brokers.call_node(
            node_id, versions.DELETE_RECORDS, lambda types: _delete_request(types, calls, asked)
        )
        answers = {
            Partition(topic.name, one.partition_index): one
            for topic in response.topics
            for one in topic.partitions
        }
        check_codes(map(code_of, answers.values()), "delete_records()")
        return {key: outcome(one, str(key), one.low_watermark) for key, one in answers.items()}

    return Results(await calls.leaders(before, ask, "delete_records()"))


def _delete_request(
    types: kafka.DeleteRecordsRequestTypes, calls: AdminCalls, asked: Mapping[Partition, int]
) -> kafka.DeleteRecordsRequest:
    topics: dict[str, list[kafka.DeleteRecordsRequestTypes.DeleteRecordsPartition]] = {}
    for partition, offset in asked.items():
        one = types.DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
        topics.setdefault(partition.topic, []).append(one)
    return types.DeleteRecordsRequest(
        topics=tuple(
            types.DeleteRecordsTopic(name=name, partitions=tuple(parts))
            for name, parts in topics.items()
        ),
        timeout=timedelta(milliseconds=calls.timeout_ms),
    )
