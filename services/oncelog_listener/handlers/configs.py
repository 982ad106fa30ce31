"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources: topics, brokers, groups.

Clients see listeners as brokers. Every listener also returns the settings of storage nodes and coordinators: those
nodes publish them when they register. A node that is no listener can be named too, which Kafka's own clients never do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.rpc.metadata import ALL_BROKERS, MetadataImage
from oncelog.security import acl
from oncelog.security.acl import Operation
from oncelog_listener.broker_values import broker_values, of_roles
from oncelog_listener.brokers import brokers_for
from oncelog_listener.call import Call, CloseConnection
from oncelog_listener.cluster import ApiError, api_error
from oncelog_listener.core.config_entries import (
    ConfigEntry,
    ConfigOperation,
    ResourceType,
    altered,
    broker_entries,
    entries_of_all_brokers,
    group_entries,
    topic_entries,
)
from oncelog_listener.topic_access import GROUP_REFUSED, TOPIC_REFUSED, cluster_refusal

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import (
        AlterConfigsCall,
        DescribeConfigsCall,
        IncrementalAlterConfigsCall,
        ListConfigResourcesCall,
    )


class _Resource(Protocol):
    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


_ResourceT = TypeVar("_ResourceT", bound=_Resource)
_ResourceT_co = TypeVar("_ResourceT_co", bound=_Resource, covariant=True)

_RowT_co = TypeVar("_RowT_co", covariant=True)


class _Changes(Protocol[_ResourceT_co]):
    """An AlterConfigs or IncrementalAlterConfigs request: the resources to change, and whether to validate only."""

    @property
    def resources(self) -> tuple[_ResourceT_co, ...]: ...
    @property
    def validate_only(self) -> bool: ...


class _RowType(Protocol[_RowT_co]):
    """The constructor of the row that answers one resource in AlterConfigs or IncrementalAlterConfigs."""

    def __call__(
        self, *, error_code: int, error_message: str | None, resource_type: int, resource_name: str
    ) -> _RowT_co: ...


_Change: TypeAlias = Callable[
    [_ResourceT, Mapping[str, str], ResourceType], tuple[dict[str, str], list[str]]
]
"""A function that takes a resource of the request and its present configs, and returns (what to set, what to
remove)."""

_DOCUMENTATION_FROM: Final = 3
_ALL_TYPES_FROM: Final = 1
_DESCRIBED_MAX: Final = 400_000
"""The most configs in one answer, enough for all of ten thousand topics. Each costs some hundred bytes."""
_NOTHING_FAILED: Final = ApiError(ErrorCode.NONE, "")
_KINDS: Final = {
    ResourceType.TOPIC: pb.CONFIG_KIND_TOPIC,
    ResourceType.BROKER: pb.CONFIG_KIND_BROKER,
    ResourceType.GROUP: pb.CONFIG_KIND_GROUP,
}
_LISTED: Final = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


async def describe_configs(call: DescribeConfigsCall) -> kafka.DescribeConfigsResponse:
    types = call.types
    results = []
    described_count = 0
    for (resource_type, name), names in (await _wanted(call)).items():
        refusal = _refusal(call, resource_type, name, Operation.DESCRIBE_CONFIGS)
        found = _entries(call, resource_type, name, names) if refusal is None else refusal
        failed = found if isinstance(found, ApiError) else _NOTHING_FAILED
        results.append(
            types.DescribeConfigsResult(
                error_code=failed.error_code,
                # Kafka sends an empty message here where its other responses have null.
                error_message=failed.error_message,
                resource_type=resource_type,
                resource_name=name,
                configs=()
                if isinstance(found, ApiError)
                else tuple(_described(call, entry) for entry in found),
            )
        )
        count = 1 if isinstance(found, ApiError) else 1 + len(found)
        described_count += count
        if described_count > _DESCRIBED_MAX:
            raise CloseConnection(f"its answer would have more than {_DESCRIBED_MAX} configs")
        if call.is_turn_over(count):
            await call.next_turn()
    return types.DescribeConfigsResponse(results=tuple(results))


async def _wanted(call: DescribeConfigsCall) -> dict[tuple[int, str], frozenset[str] | None]:
    """Return which config names the request asks for, by (type, name) of the resource; None: all names.

    A resource that is named many times is answered once. Otherwise the answer would be a thousand times larger than the
    request.
    """
    wanted: dict[tuple[int, str], frozenset[str] | None] = {}
    for resource in call.request.resources:
        key = (resource.resource_type, resource.resource_name)
        # Clients send an empty list as well as null for "all" (KAFKA-6774 fixed Kafka's own).
        names = frozenset(resource.configuration_keys) if resource.configuration_keys else None
        before = wanted.get(key, names)
        wanted[key] = None if names is None or before is None else before | names
        if call.is_turn_over():
            await call.next_turn()
    return wanted


def _entries(
    call: Call, resource_type: int, name: str, names: frozenset[str] | None
) -> tuple[ConfigEntry, ...] | ApiError:
    image = call.cluster.image
    match resource_type:
        case ResourceType.TOPIC:
            topic = image.topics.get(name)
            if topic is None:
                return _no_topic(name)
            if topic.internal:
                return topic_entries(topic.configs, names)
            # The defaults of this node's storage, where one process is both.
            of_node = image.topic_defaults_of(call.cluster.node_id)
            return topic_entries(topic.configs, names, image.topic_defaults, of_node)
        case ResourceType.BROKER if name == ALL_BROKERS:
            return entries_of_all_brokers(image.broker_configs(ALL_BROKERS), names)
        case ResourceType.BROKER:
            node = _node_named(image, name)
            if node is None:
                return ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"there is no broker {name!r}; known are {sorted(image.nodes)}",
                )
            return broker_entries(broker_values(call, node), names)
        case ResourceType.GROUP:
            if not name:
                return ApiError(ErrorCode.INVALID_REQUEST, "a group's configs need its name")
            return group_entries(image.group_configs(name), of_roles(image), names)
        case _:
            return _not_served(resource_type)


def _node_named(image: MetadataImage, name: str) -> pb.Node | None:
    """Return the node whose id is this text; None: there is none. "01" and digits of other scripts name no node, as in
    AlterConfigs."""
    return next((one for node_id, one in image.nodes.items() if str(node_id) == name), None)


def _refusal(call: Call, resource_type: int, name: str, operation: Operation) -> ApiError | None:
    """Return the error if ACLs forbid the operation on this resource; None: it is allowed. Topics, groups and the
    cluster have ACLs of their own."""
    match resource_type:
        case ResourceType.TOPIC:
            return None if call.may(operation, acl.ResourceType.TOPIC, name) else TOPIC_REFUSED
        case ResourceType.GROUP:
            return None if call.may(operation, acl.ResourceType.GROUP, name) else GROUP_REFUSED
        case _:
            return cluster_refusal(call, operation)


def _no_topic(name: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")


def _not_served(resource_type: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REQUEST, f"configs of resource type {resource_type} are not served"
    )


def _described(
    call: DescribeConfigsCall, entry: ConfigEntry
) -> kafka.DescribeConfigsResponseTypes.DescribeConfigsResourceResult:
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


async def incremental_alter_configs(
    call: IncrementalAlterConfigsCall,
) -> kafka.IncrementalAlterConfigsResponse:
    types = call.types
    rows = await _altered(call, call.request, _incremental, types.AlterConfigsResourceResponse)
    return types.IncrementalAlterConfigsResponse(responses=rows)


async def alter_configs(call: AlterConfigsCall) -> kafka.AlterConfigsResponse:
    """Answer AlterConfigs: it sets all configs of a resource, so one that is not named goes back to its default. Kafka
    deprecated it for that; older clients send it."""
    types = call.types
    rows = await _altered(call, call.request, _whole, types.AlterConfigsResourceResponse)
    return types.AlterConfigsResponse(responses=rows)


def _incremental(
    resource: kafka.IncrementalAlterConfigsRequestTypes.AlterConfigsResource,
    overrides: Mapping[str, str],
    resource_type: ResourceType,
) -> tuple[dict[str, str], list[str]]:
    operations = [(one.name, one.config_operation, one.value) for one in resource.configs]
    return altered(overrides, operations, resource_type)


def _whole(
    resource: kafka.AlterConfigsRequestTypes.AlterConfigsResource,
    overrides: Mapping[str, str],
    resource_type: ResourceType,
) -> tuple[dict[str, str], list[str]]:
    operations = [(one.name, ConfigOperation.SET, one.value) for one in resource.configs]
    to_set, _ = altered(overrides, operations, resource_type)
    return to_set, [name for name in overrides if name not in to_set]


async def _altered(
    call: Call,
    request: _Changes[_ResourceT],
    change: _Change[_ResourceT],
    row_of: _RowType[_RowT_co],
) -> tuple[_RowT_co, ...]:
    """Change the configs of each resource at the controller, and return each resource's row. A resource that is named
    twice is refused once, as in Kafka."""
    resources: dict[tuple[int, str], list[_ResourceT]] = {}
    for one in request.resources:
        resources.setdefault((one.resource_type, one.resource_name), []).append(one)
        if call.is_turn_over():
            await call.next_turn()
    rows = []
    for (resource_type, name), found in resources.items():
        if len(found) > 1:
            failed = ApiError(ErrorCode.INVALID_REQUEST, "each resource may stand once")
        else:
            failed = await _alter(call, found[0], change, request.validate_only)
        rows.append(
            row_of(
                error_code=failed.error_code,
                error_message=failed.error_message or None,
                resource_type=resource_type,
                resource_name=name,
            )
        )
        if call.is_turn_over():
            await call.next_turn()
    return tuple(rows)


async def _alter(
    call: Call, resource: _ResourceT, change: _Change[_ResourceT], validate_only: bool
) -> ApiError:
    cluster, name = call.cluster, resource.resource_name
    if resource.resource_type not in _KINDS:
        return _not_served(resource.resource_type)
    refusal = _refusal(call, resource.resource_type, name, Operation.ALTER_CONFIGS)
    if refusal is not None:
        return refusal
    resource_type = ResourceType(resource.resource_type)
    overrides = _overrides(cluster.image, resource_type, name)
    if overrides is None:
        return _no_topic(name)
    try:
        to_set, to_remove = change(resource, overrides, resource_type)
    except KafkaError as error:
        return ApiError(error.error_code, error.message)
    request = pb.AlterConfigsRequest(
        kind=_KINDS[resource_type],
        name=name,
        set=to_set,
        remove=to_remove,
        validate_only=validate_only,
    )
    answer = await cluster.ask_controller(
        lambda controller: controller.AlterConfigs(request), validate_only=validate_only
    )
    return answer if isinstance(answer, ApiError) else api_error(answer.status)


def _overrides(
    image: MetadataImage, resource_type: ResourceType, name: str
) -> Mapping[str, str] | None:
    """Return the configs that are set on the resource now; None for a topic that does not exist."""
    match resource_type:
        case ResourceType.TOPIC:
            topic = image.topics.get(name)
            return None if topic is None else topic.configs
        case ResourceType.GROUP:
            return image.group_configs(name)
        case _:
            return image.broker_configs(name)


async def list_config_resources(call: ListConfigResourcesCall) -> kafka.ListConfigResourcesResponse:
    """Answer ListConfigResources: the resources that have configs (KIP-1142). Version 0 asks for client metrics, which
    oncelog does not have."""
    types, image = call.types, call.cluster.image
    if not call.may_cluster(Operation.DESCRIBE_CONFIGS):
        return types.ListConfigResourcesResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            config_resources=(),
        )
    supported: tuple[int, ...] = (ResourceType.CLIENT_METRICS,)
    wanted: tuple[int, ...] = supported
    if call.version >= _ALL_TYPES_FROM:
        supported = _LISTED
        wanted = tuple(call.request.resource_types) or supported
    if any(one not in supported for one in wanted):
        return types.ListConfigResourcesResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            config_resources=(),
        )
    names: dict[int, list[str]] = {
        ResourceType.GROUP: [name for kind, name in image.configs if kind == pb.CONFIG_KIND_GROUP],
        ResourceType.CLIENT_METRICS: [],
        ResourceType.BROKER_LOGGER: [],
        ResourceType.BROKER: [str(one.node_id) for one in brokers_for(call).live],
        ResourceType.TOPIC: list(image.topics),
    }
    return types.ListConfigResourcesResponse(
        error_code=ErrorCode.NONE,
        config_resources=tuple(
            _listed(call, resource_type, name)
            for resource_type, found in names.items()
            if resource_type in wanted
            for name in found
        ),
    )


def _listed(
    call: ListConfigResourcesCall, resource_type: int, name: str
) -> kafka.ListConfigResourcesResponseTypes.ConfigResource:
    return call.types.ConfigResource(resource_name=name, resource_type=resource_type)
