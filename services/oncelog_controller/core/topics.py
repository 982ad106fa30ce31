"""The rules for creating, growing, configuring and deleting topics (Kafka's names, codes and order of checks).

Each function takes one request and the metadata image. It returns one result for each distinct name in the order asked,
and the records of the changes that are accepted. One bad topic never stops the others.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from oncelog.config_key import known_key
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import INTERNAL_TOPICS
from oncelog.topic_config import TOPIC_CONFIGS, check_together, checked_overrides
from oncelog.wording import counted
from oncelog_controller.core.events import (
    AlterConfigs,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    TopicResult,
)
from oncelog_controller.core.image import STORAGE, ClusterImage
from oncelog_controller.core.placement import (
    checked_assignment,
    default_replication_factor,
    round_robin,
)
from oncelog_controller.core.records import (
    PartitionsAdded,
    Replicas,
    TopicConfigsChanged,
    TopicCreated,
    TopicDeleted,
)
from oncelog_controller.core.rules import INTERNAL_TOPIC_LIMITS

TOPIC_NAME_LENGTH_MAX = 249
REPLICAS_FOR_TWO_IN_SYNC = 3
"""The replication factor from which min.insync.replicas is 2 by default. Then one node may still be away."""
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class TopicLimits:
    default_partitions: int
    partitions_max: int  # in the whole cluster


def check_topic_name(name: str) -> None:
    """Raise KafkaError(INVALID_TOPIC_EXCEPTION) for a topic name that Kafka refuses."""
    reason = ""
    if not name:
        reason = "is empty"
    elif name in (".", ".."):
        reason = "is '.' or '..'"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        reason = f"has {len(name)} characters; at most {TOPIC_NAME_LENGTH_MAX} are allowed"
    elif not _TOPIC_NAME.fullmatch(name):
        reason = "has a character other than a-z, A-Z, 0-9, '.', '_' and '-'"
    if reason:
        shown = name if len(name) <= TOPIC_NAME_LENGTH_MAX else f"{name[:40]}…"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name {shown!r} {reason}")


def collision_key(name: str) -> str:
    """Return the topic's name with '.' as '_', as it is in metric names.

    Two topics with the same key would collide there, so the second one is refused.
    """
    return name.replace(".", "_")


class _NewTopics:
    """The names and partition count that the cluster will have, once the topics accepted so far in a CreateTopics
    exist.
    """

    def __init__(self, image: ClusterImage, limits: TopicLimits) -> None:
        self._image = image
        self._limits = limits
        self._storage_nodes = image.nodes_with(STORAGE)
        self._partition_count = image.partition_count
        self._names_by_key = {collision_key(name): name for name in image.topics}

    def create(self, topic: NewTopic) -> TopicCreated:
        """Return the record of a new topic. Raises KafkaError with the code and reason of the refusal."""
        check_topic_name(topic.name)
        if topic.name in self._image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} exists already")
        if topic.name in INTERNAL_TOPICS:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{topic.name!r} is internal; the controller creates it when a coordinator registers",
            )
        if topic.internal:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} may not be made internal"
            )
        rival = self._names_by_key.get(collision_key(topic.name))
        if rival is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {topic.name!r} collides with {rival!r}: '.' and '_' count as one character",
            )
        assignment = self._assignment(topic)
        configs = checked_overrides(topic.configs)
        if len(assignment[0]) >= REPLICAS_FOR_TWO_IN_SYNC:
            # An acknowledged record must survive the loss of any one node.
            configs.setdefault("min.insync.replicas", "2")
        self._partition_count += len(assignment)
        self._names_by_key[collision_key(topic.name)] = topic.name
        return TopicCreated(topic.name, topic.topic_id, False, configs, assignment)

    def _assignment(self, topic: NewTopic) -> tuple[Replicas, ...]:
        if topic.assignment:
            if topic.partitions not in (-1, len(topic.assignment)) or topic.replication_factor > 0:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "give either an assignment, or partitions and replication factor, not both",
                )
            check_room(self._partition_count, len(topic.assignment), self._limits)
            return checked_assignment(
                topic.assignment, self._storage_nodes, first=0, count=len(topic.assignment)
            )
        partitions = topic.partitions
        if partitions == -1:
            partitions = self._limits.default_partitions
        if partitions <= 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"{topic.partitions} partitions; ask for at least 1, or -1 for the default",
            )
        check_room(self._partition_count, partitions, self._limits)
        replication_factor = self._replication_factor(topic.replication_factor)
        return round_robin(
            preferred_nodes(self._image, replication_factor),
            first=self._partition_count,
            partitions=partitions,
            replication_factor=replication_factor,
        )

    def _replication_factor(self, wanted: int) -> int:
        available = len(self._storage_nodes)
        if not available:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "no storage node has registered yet; start one and ask again",
            )
        factor = default_replication_factor(available) if wanted == -1 else wanted
        if factor <= 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {wanted}; ask for at least 1, or -1 for the default",
            )
        if factor > available:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {wanted} is above the {available} storage nodes registered",
            )
        return factor


def preferred_nodes(image: ClusterImage, replication_factor: int) -> list[int]:
    """Return the storage nodes to place new replicas on: those that live and do not drain, if they are enough;
    otherwise all.
    """
    staying = image.staying_with(STORAGE)
    return staying if len(staying) >= replication_factor else image.nodes_with(STORAGE)


def check_room(existing: int, wanted: int, limits: TopicLimits) -> None:
    """Raise KafkaError(INVALID_PARTITIONS) if the cluster would have too many partitions."""
    if existing + wanted > limits.partitions_max:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"{wanted} more partitions on top of {existing} exceed the {limits.partitions_max} allowed in all; "
            "delete topics, or raise ONCELOG_CONTROLLER_PARTITIONS_MAX",
        )


def create_topics(
    image: ClusterImage, event: CreateTopics, limits: TopicLimits
) -> tuple[list[TopicResult], list[TopicCreated]]:
    """Create topics. Return a result for each name, and the records. Codes of results: 17, 36, 37, 38, 39, 40, 42."""
    results, records = [], []
    counts = Counter(topic.name for topic in event.topics)
    planned = _NewTopics(image, limits)
    for name, topic in {topic.name: topic for topic in event.topics}.items():
        if counts[name] > 1:
            results.append(_refused(name, ErrorCode.INVALID_REQUEST, "named twice in one request"))
            continue
        try:
            record = planned.create(topic)
        except KafkaError as error:
            results.append(_refused(name, error.error_code, error.message))
            continue
        records.append(record)
        results.append(
            TopicResult(
                name,
                topic_id="" if event.validate_only else record.topic_id,
                partitions=len(record.assignment),
                replication_factor=len(record.assignment[0]),
            )
        )
    return results, records


def delete_topics(
    image: ClusterImage, event: DeleteTopics
) -> tuple[list[TopicResult], list[TopicDeleted]]:
    """Delete topics. Return a result for each name or id, and the records.

    Codes: 3 for an unknown name, 100 for an unknown id, 17 for an internal topic, 42 for one named twice.
    """
    wanted: list[tuple[str, str]] = [(name, "") for name in event.names]
    wanted += [(image.topic_names.get(topic_id, ""), topic_id) for topic_id in event.topic_ids]
    counts = Counter(name or topic_id for name, topic_id in wanted)
    results, records = [], []
    for name, topic_id in {
        name or topic_id: (name, topic_id) for name, topic_id in wanted
    }.values():
        topic = image.topics.get(name)
        if counts[name or topic_id] > 1:
            result = _refused(name, ErrorCode.INVALID_REQUEST, "named twice in one request")
        elif topic is None and topic_id:
            result = _refused("", ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
        elif topic is None:
            result = _unknown(name)
        elif topic.internal or name in INTERNAL_TOPICS:
            result = _refused(
                name,
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{name!r} is internal and may not be deleted",
            )
        else:
            records.append(TopicDeleted(name, topic.topic_id))
            result = TopicResult(name, topic_id=topic.topic_id)
        results.append(result if result.topic_id else replace(result, topic_id=topic_id))
    return results, records


def create_partitions(
    image: ClusterImage, event: CreatePartitions, limits: TopicLimits
) -> tuple[list[TopicResult], list[PartitionsAdded]]:
    """Add partitions to topics. Return a result for each name, and the records.

    Codes: 3, 17 for an internal topic, 37 for anything but growth, 38, 39, 42.
    """
    results, records = [], []
    counts = Counter(topic.name for topic in event.topics)
    partition_count = image.partition_count
    for name, wanted in {topic.name: topic for topic in event.topics}.items():
        if counts[name] > 1:
            results.append(_refused(name, ErrorCode.INVALID_REQUEST, "named twice in one request"))
            continue
        try:
            record = _grown(image, wanted, partition_count, limits)
        except KafkaError as error:
            results.append(_refused(name, error.error_code, error.message))
            continue
        records.append(record)
        partition_count += len(record.assignment)
        results.append(
            TopicResult(
                name,
                topic_id=image.topics[name].topic_id,
                partitions=wanted.count,
                replication_factor=len(record.assignment[0]),
            )
        )
    return results, records


def _grown(
    image: ClusterImage, wanted: NewPartitions, partition_count: int, limits: TopicLimits
) -> PartitionsAdded:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {wanted.name!r} does not exist"
        )
    if topic.internal:
        # Its partitions are the shards: with another number, ids would belong to other shards.
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{wanted.name!r} is internal; its number of partitions is fixed",
        )
    existing = len(topic.partitions)
    if wanted.count <= existing:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {wanted.name!r} has {counted(existing, 'partition')}; {wanted.count} is not more",
        )
    check_room(partition_count, wanted.count - existing, limits)
    storage_nodes = image.nodes_with(STORAGE)
    replication_factor = len(topic.partitions[0].replicas)
    if wanted.assignment:
        assignment = checked_assignment(
            wanted.assignment,
            storage_nodes,
            first=existing,
            count=wanted.count - existing,
            replication_factor=replication_factor,
        )
    elif replication_factor > len(storage_nodes):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"topic {wanted.name!r} has replication factor {replication_factor}, "
            f"above the {len(storage_nodes)} storage nodes registered",
        )
    else:
        assignment = round_robin(
            preferred_nodes(image, replication_factor),
            first=partition_count,
            partitions=wanted.count - existing,
            replication_factor=replication_factor,
        )
    return PartitionsAdded(wanted.name, assignment)


def altered_configs(image: ClusterImage, event: AlterConfigs) -> TopicConfigsChanged | None:
    """Return the record of an incremental change of a topic's configs; None when nothing changes.

    Raises KafkaError (codes 3, 40, 42).
    """
    topic = image.topics.get(event.name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {event.name!r} does not exist"
        )
    for name in event.remove:
        known_key(TOPIC_CONFIGS, "topic", name)
        if name in event.set:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name!r} is both set and removed")
    configs = {name: value for name, value in topic.configs.items() if name not in event.remove}
    configs.update(checked_overrides(event.set))
    check_together(configs)
    if topic.internal:
        _check_internal(event.name, configs)
    return TopicConfigsChanged(event.name, configs) if configs != topic.configs else None


def _check_internal(topic: str, configs: Mapping[str, str]) -> None:
    """Raise KafkaError(INVALID_CONFIG) for configs of an internal topic that would harm its coordinators.

    With them, decisions could be deleted, or could not be written.
    """
    for name, (must_be, reason) in INTERNAL_TOPIC_LIMITS.items():
        value = configs.get(name, TOPIC_CONFIGS[name].default)
        is_kept = int(value) >= int(must_be) if must_be.isdigit() else value == must_be
        if not is_kept:
            wanted = f"at least {must_be}" if must_be.isdigit() else repr(must_be)
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{name}={value} is refused for the internal topic {topic!r}: {reason}; it must stay {wanted}",
            )


def _refused(name: str, error_code: ErrorCode, message: str) -> TopicResult:
    return TopicResult(name, error_code, message)


def _unknown(name: str) -> TopicResult:
    return _refused(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
