"""CreateTopics, DeleteTopics and CreatePartitions. The listener checks ACLs and duplicates; the controller decides and
makes the change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import INTERNAL_TOPICS
from oncelog.rpc.metadata import MetadataImage
from oncelog.rpc.stubs import ControllerStub
from oncelog.security.acl import Operation, ResourceType
from oncelog.topic_config import TOPIC_CONFIGS
from oncelog_listener.call import Call
from oncelog_listener.cluster import ApiError
from oncelog_listener.core.config_entries import topic_entries
from oncelog_listener.core.topic_names import is_legal_topic_name
from oncelog_listener.topic_access import TOPIC_REFUSED, refused_creations, refused_topics

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import (
        CreatePartitionsCall,
        CreateTopicsCall,
        DeleteTopicsCall,
    )

TopicsAnswer = pb.CreateTopicsResponse | pb.DeleteTopicsResponse | pb.CreatePartitionsResponse

_DEFAULT: Final = -1
_STATES_FROM: Final = 6
_CONFIGS_FROM: Final = 5
_CONFIGS_MAX: Final = 500
"""The most configs of one new topic. More are not even looked at: it would take long to find the first that does not
exist."""

_CREATION_REFUSED: Final = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
"""The refusal of a creation, in Kafka's words for this request."""
_THROTTLED: Final = ApiError(
    ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
)

_Named = tuple[str | None, UUID | None]


async def create_topics(call: CreateTopicsCall) -> kafka.CreateTopicsResponse:
    request = call.request
    times = Counter(topic.name for topic in request.topics)
    results: dict[str | bytes, pb.TopicResult | ApiError] = {}
    new_topics: list[pb.NewTopic] = []
    refused = refused_creations(call, times)
    for topic in request.topics:
        if times[topic.name] > 1:
            results.setdefault(topic.name, _twice(topic.name))
        elif topic.name in refused:
            results[topic.name] = _CREATION_REFUSED
        elif not is_legal_topic_name(topic.name) or topic.name in INTERNAL_TOPICS:
            results[topic.name] = ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic name {topic.name!r} is internal, or not 1 to 249 of letters, digits, '.', '_', '-'",
            )
        elif len(topic.configs) > _CONFIGS_MAX:
            results[topic.name] = ApiError(
                ErrorCode.INVALID_CONFIG,
                f"{len(topic.configs)} configs: there are only {len(TOPIC_CONFIGS)}",
            )
        elif not request.validate_only and not _takes_changes(call, _partition_count(call, topic)):
            results[topic.name] = _THROTTLED
        else:
            new_topics.append(_new_topic(topic))
    configs_of = {new.name: new.configs for new in new_topics}
    if new_topics:
        wanted = pb.CreateTopicsRequest(topics=new_topics, validate_only=request.validate_only)
        results |= await _decided(
            call,
            [topic.name for topic in new_topics],
            lambda controller: controller.CreateTopics(wanted),
            validate_only=request.validate_only,
        )
    return call.types.CreateTopicsResponse(
        topics=tuple(
            _created(call, name, results.get(name), configs_of.get(name, {})) for name in times
        ),
    )


def _partition_count(call: Call, topic: kafka.CreateTopicsRequestTypes.CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return (
        topic.num_partitions if topic.num_partitions > 0 else call.cluster.settings.num_partitions
    )


def _takes_changes(call: Call, partition_count: int) -> bool:
    return call.cluster.throttling.takes_changes(call, max(0, partition_count))


def _twice(name: str | bytes | None) -> ApiError:
    shown = name.hex() if isinstance(name, bytes) else repr(name)
    return ApiError(ErrorCode.INVALID_REQUEST, f"topic {shown} stands twice in one request")


def _new_topic(topic: kafka.CreateTopicsRequestTypes.CreatableTopic) -> pb.NewTopic:
    new = pb.NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs={config.name: config.value for config in topic.configs if config.value is not None},
    )
    for assignment in topic.assignments:
        new.assignment[assignment.partition_index].replicas.extend(assignment.broker_ids)
    return new


def _created(
    call: CreateTopicsCall,
    name: str,
    result: pb.TopicResult | ApiError | None,
    configs: Mapping[str, str],
) -> kafka.CreateTopicsResponseTypes.CreatableTopicResult:
    types = call.types
    if result is None:
        result = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller left it out")
    created = None if isinstance(result, ApiError) or result.error_code else result
    is_hidden = created is not None and not call.may(
        Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, is_logged=False
    )
    return types.CreatableTopicResult(
        name=name,
        topic_id=None if created is None else _uuid(created.topic_id),
        error_code=result.error_code,
        error_message=result.error_message or None,
        num_partitions=_DEFAULT if created is None or is_hidden else created.partitions,
        replication_factor=_DEFAULT if created is None or is_hidden else created.replication_factor,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_hidden else 0,
        configs=()
        if created is None or is_hidden or call.version < _CONFIGS_FROM
        else tuple(
            types.CreatableTopicConfigs(
                name=one.name,
                value=one.value,
                read_only=one.is_read_only,
                config_source=one.source.value,
                is_sensitive=False,
            )
            for one in topic_entries(configs, None)
        ),
    )


def _uuid(raw: bytes) -> UUID | None:
    return UUID(bytes=raw) if len(raw) == 16 else None


async def delete_topics(call: DeleteTopicsCall) -> kafka.DeleteTopicsResponse:
    """Delete topics by name, or from version 6 by id. An internal topic is refused before the controller sees it.

    An id goes to the controller as it is, and is not replaced by a name: that name may belong to another topic by now.
    With an authorizer, an id that this listener does not know is refused here: nobody can say whose topic it is.
    """
    if call.version >= _STATES_FROM:
        wanted = Counter((state.name, state.topic_id) for state in call.request.topics)
    else:
        wanted = Counter((name, None) for name in call.request.topic_names)
    image = call.cluster.image
    refused: dict[_Named, ApiError] = {}
    hidden: set[_Named] = set()
    may_delete_all = call.may_cluster(Operation.DELETE, is_logged=False)
    forwarded = pb.DeleteTopicsRequest()
    for named, times in wanted.items():
        name, topic_id = named
        topic = _known(image, name, topic_id)
        failed = _misnamed(name, topic_id, times)
        if failed is None and not may_delete_all:
            failed = _refused_deletion(call, name, topic)
        # A refused client that gave a name learns nothing. One that gave an id gets the name, if it may describe it.
        if failed is not None and (
            name is not None or topic is None or not _may_describe(call, topic.name)
        ):
            hidden.add(named)
        if failed is None and (name in INTERNAL_TOPICS or (topic is not None and topic.internal)):
            failed = ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "an internal topic cannot be deleted"
            )
        if failed is None and not _takes_changes(call, len(topic.partitions) if topic else 0):
            failed = _THROTTLED
        if failed is not None:
            refused[named] = failed
        elif topic_id is not None:
            forwarded.topic_ids.append(topic_id.bytes)
        elif name is not None:
            forwarded.names.append(name)
    deleted: dict[str | bytes, pb.TopicResult | ApiError] = {}
    if forwarded.names or forwarded.topic_ids:
        deleted = await _decided(
            call,
            [*forwarded.names, *forwarded.topic_ids],
            lambda controller: controller.DeleteTopics(forwarded),
        )
    types = call.types
    missing = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller left it out")
    responses = []
    for named in wanted:
        name, topic_id = named
        key = name if topic_id is None else topic_id.bytes
        result = refused.get(named) or deleted.get(key or "") or missing
        known = None if named in hidden else _known(image, name, topic_id)
        is_unknown = result.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        responses.append(
            types.DeletableTopicResult(
                name=known.name if name is None and known and not is_unknown else name,
                topic_id=_uuid(known.topic_id) if known is not None else topic_id,
                error_code=result.error_code,
                error_message=result.error_message or None,
            )
        )
    return types.DeleteTopicsResponse(responses=tuple(responses))


def _known(image: MetadataImage, name: str | None, topic_id: UUID | None) -> pb.Topic | None:
    if topic_id is not None:
        return image.topics_by_id.get(topic_id.bytes)
    return image.topics.get(name or "")


def _refused_deletion(call: Call, name: str | None, topic: pb.Topic | None) -> ApiError | None:
    """Return the error if the client may not delete the topic, or the topic does not exist; None: it may. Only a client
    that may describe the topic learns whether it exists."""
    if name is None:
        if topic is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        return None if call.may(Operation.DELETE, ResourceType.TOPIC, topic.name) else TOPIC_REFUSED
    if not _may_describe(call, name):
        return TOPIC_REFUSED
    if call.may(Operation.DELETE, ResourceType.TOPIC, name, is_logged=topic is not None):
        return None
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
    return TOPIC_REFUSED


def _may_describe(call: Call, name: str) -> bool:
    return call.may(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _misnamed(name: str | None, topic_id: UUID | None, times: int) -> ApiError | None:
    """Return an error if the request names the topic both by name and by id, by neither, or twice; None: it is named
    well."""
    if name is None and topic_id is None:
        return ApiError(ErrorCode.INVALID_REQUEST, "a topic needs its name or its id")
    if name is not None and topic_id is not None:
        return ApiError(ErrorCode.INVALID_REQUEST, "a topic is named by name or by id, not both")
    if times > 1:
        return _twice(name if topic_id is None else topic_id.bytes)
    return None


async def _decided(
    call: Call,
    wanted: Sequence[str | bytes],
    ask: Callable[[ControllerStub], Awaitable[TopicsAnswer]],
    *,
    validate_only: bool = False,
) -> dict[str | bytes, pb.TopicResult | ApiError]:
    """Ask the controller, and return its result for each topic, under its name and under its id.

    The wait ends when this node's metadata has the change, because the client may ask for the topic at once.
    """
    answer = await call.cluster.ask_controller(ask, validate_only=validate_only)
    if isinstance(answer, ApiError):
        return dict.fromkeys(wanted, answer)
    return {key: result for result in answer.results for key in (result.name, result.topic_id)}


async def create_partitions(call: CreatePartitionsCall) -> kafka.CreatePartitionsResponse:
    request = call.request
    times = Counter(topic.name for topic in request.topics)
    results: dict[str | bytes, pb.TopicResult | ApiError] = {}
    new_partitions: list[pb.NewPartitions] = []
    refused = refused_topics(call, Operation.ALTER, times)
    for topic in request.topics:
        if times[topic.name] > 1:
            results.setdefault(topic.name, _twice(topic.name))
        elif topic.name in refused:
            results[topic.name] = TOPIC_REFUSED
        elif topic.name in INTERNAL_TOPICS:
            results[topic.name] = ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "an internal topic keeps its partitions"
            )
        elif not request.validate_only and not _takes_changes(call, _added_count(call, topic)):
            results[topic.name] = _THROTTLED
        else:
            new_partitions.append(_new_partitions(call, topic))
    if new_partitions:
        wanted = pb.CreatePartitionsRequest(
            topics=new_partitions, validate_only=request.validate_only
        )
        results |= await _decided(
            call,
            [topic.name for topic in new_partitions],
            lambda controller: controller.CreatePartitions(wanted),
            validate_only=request.validate_only,
        )
    types = call.types
    missing = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller left it out")
    return types.CreatePartitionsResponse(
        results=tuple(
            types.CreatePartitionsTopicResult(
                name=name,
                error_code=result.error_code,
                error_message=result.error_message or None,
            )
            for name in times
            for result in (results.get(name, missing),)
        ),
    )


def _added_count(
    call: Call, topic: kafka.CreatePartitionsRequestTypes.CreatePartitionsTopic
) -> int:
    existing = call.cluster.image.topics.get(topic.name)
    return topic.count - (len(existing.partitions) if existing is not None else 0)


def _new_partitions(
    call: Call, topic: kafka.CreatePartitionsRequestTypes.CreatePartitionsTopic
) -> pb.NewPartitions:
    new = pb.NewPartitions(name=topic.name, count=topic.count)
    existing = call.cluster.image.topics.get(topic.name)
    first = len(existing.partitions) if existing is not None else 0
    for position, assignment in enumerate(topic.assignments or ()):
        new.assignment[first + position].replicas.extend(assignment.broker_ids)
    return new
