"""DescribeConfigs and IncrementalAlterConfigs: topics can be changed, the broker can be looked at."""

from typing import Any, Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import INTERNAL_TOPICS
from oncelog_listener.call import Call
from oncelog_listener.cluster import NO_THROTTLE, PEER_FAILURES, Cluster, Unanswered, wire_error
from oncelog_listener.core.config_entries import (
    ConfigEntry,
    ResourceType,
    altered,
    broker_entries,
    topic_entries,
)

_DOCUMENTATION_FROM: Final = 3
_NOTHING_FAILED: Final = Unanswered(ErrorCode.NONE, "")


async def describe_configs(call: Call) -> Any:
    request, types = call.request, call.types
    results = []
    for resource in request.resources:
        found = _entries(call.cluster, resource)
        failed = found if isinstance(found, Unanswered) else _NOTHING_FAILED
        results.append(
            types.DescribeConfigsResult(
                error_code=wire_error(failed.error_code),
                # Kafka sends an empty message here where its other responses have null.
                error_message=failed.error_message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=()
                if isinstance(found, Unanswered)
                else tuple(_described(call, entry) for entry in found),
            )
        )
    return types.DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _entries(cluster: Cluster, resource: Any) -> tuple[ConfigEntry, ...] | Unanswered:
    # Clients send an empty list as well as null for "all" (KAFKA-6774 fixed Kafka's own).
    names = resource.configuration_keys or None
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        topic = cluster.image.topics.get(name)
        if topic is None:
            return Unanswered(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return topic_entries(topic.configs, names)
    if resource.resource_type == ResourceType.BROKER:
        if name not in ("", str(cluster.node_id)):
            return Unanswered(
                ErrorCode.INVALID_REQUEST,
                f"no broker {name!r} is visible here; this listener is {cluster.node_id}",
            )
        return broker_entries(_broker_settings(cluster), names)
    return Unanswered(
        ErrorCode.INVALID_REQUEST,
        f"configs of resource type {resource.resource_type} are not served",
    )


def _broker_settings(cluster: Cluster) -> dict[str, tuple[str, str]]:
    settings = cluster.settings
    return {
        "broker.id": ("int", str(cluster.node_id)),
        "auto.create.topics.enable": ("boolean", str(settings.auto_create_topics).lower()),
        "num.partitions": ("int", str(settings.num_partitions)),
        "socket.request.max.bytes": ("int", str(settings.request_bytes_max)),
        "fetch.max.bytes": ("int", str(settings.fetch_bytes_max)),
        "max.connections": ("int", str(settings.connections_max)),
        "connections.max.idle.ms": ("long", str(settings.connection_idle_max_ms)),
    }


def _described(call: Call, entry: ConfigEntry) -> Any:
    types, request = call.types, call.request
    wants_documentation = call.version >= _DOCUMENTATION_FROM and request.include_documentation
    return types.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source.value,
        is_sensitive=False,
        synonyms=tuple(
            types.DescribeConfigsSynonym(name=name, value=value, source=source.value)
            for name, value, source in entry.synonyms
        )
        if request.include_synonyms
        else (),
        config_type=entry.type_code,
        documentation=(entry.documentation or None) if wants_documentation else None,
    )


async def incremental_alter_configs(call: Call) -> Any:
    types = call.types
    results = []
    for resource in call.request.resources:
        failed = await _alter(call, resource)
        results.append(
            types.AlterConfigsResourceResponse(
                error_code=wire_error(failed.error_code),
                error_message=failed.error_message or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return types.IncrementalAlterConfigsResponse(
        throttle_time=NO_THROTTLE, responses=tuple(results)
    )


async def _alter(call: Call, resource: Any) -> Unanswered:
    cluster, name = call.cluster, resource.resource_name
    if resource.resource_type != ResourceType.TOPIC:
        return Unanswered(
            ErrorCode.INVALID_REQUEST, "only topic configs can be changed while oncelog runs"
        )
    topic = cluster.image.topics.get(name)
    if topic is None:
        return Unanswered(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    if name in INTERNAL_TOPICS:
        return Unanswered(ErrorCode.INVALID_TOPIC_EXCEPTION, "an internal topic keeps its configs")
    try:
        to_set, to_remove = altered(
            topic.configs,
            [(one.name, one.config_operation, one.value) for one in resource.configs],
        )
    except KafkaError as error:
        return Unanswered(error.error_code, error.message)
    request = pb.AlterConfigsRequest(
        topic=name, set=to_set, remove=to_remove, validate_only=call.request.validate_only
    )
    try:
        answer = await cluster.ask(cluster.directory.controller().AlterConfigs(request))
    except PEER_FAILURES as error:
        return Unanswered(ErrorCode.REQUEST_TIMED_OUT, f"the controller: {error!r}")
    if answer.status.error_code:
        return Unanswered(answer.status.error_code, answer.status.error_message)
    if not call.request.validate_only:
        await cluster.wait_for_image(answer.metadata_offset)
    return _NOTHING_FAILED
