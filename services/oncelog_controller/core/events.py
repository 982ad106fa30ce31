"""What reaches the metadata machine, and what it answers.

Everything drawn by chance (topic ids, cluster id) is stamped by the shell before the event enters, so that a decision
depends on nothing but the event and the image.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from oncelog.errors import ErrorCode
from oncelog_controller.core.records import MetadataRecord, Replicas


@dataclass(frozen=True, slots=True)
class RegisterNode:
    """`cluster_id` and the internal topics' ids are used by the registration that needs them, else dropped."""

    request_id: int
    node_id: int
    incarnation_id: str
    roles: tuple[str, ...]
    rpc_address: str
    kafka_host: str
    kafka_port: int
    rack: str
    cluster_id: str
    transaction_topic_id: str
    group_topic_id: str


@dataclass(frozen=True, slots=True)
class NodeHeartbeat:
    request_id: int
    node_id: int
    node_epoch: int


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 stands for a default, as in Kafka's CreateTopics."""

    name: str
    topic_id: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    internal: bool = False
    assignment: Mapping[int, Replicas] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreateTopics:
    request_id: int
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    request_id: int
    names: tuple[str, ...] = ()
    topic_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """`count` is the new total."""

    name: str
    count: int
    assignment: Mapping[int, Replicas] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    request_id: int
    topics: tuple[NewPartitions, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    request_id: int
    topic: str
    set: Mapping[str, str]
    remove: tuple[str, ...] = ()
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    request_id: int
    levels: Mapping[str, int]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    request_id: int
    node_id: int
    node_epoch: int


MetadataEvent = (
    RegisterNode
    | NodeHeartbeat
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | UpdateFeatures
    | AllocateProducerIds
)


@dataclass(frozen=True, slots=True)
class StatusAnswer:
    """An image that has `metadata_offset` shows what was done."""

    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""
    metadata_offset: int = -1


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""
    node_epoch: int = -1


@dataclass(frozen=True, slots=True)
class TopicResult:
    name: str
    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""
    topic_id: str = ""
    partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class TopicsAnswer:
    results: tuple[TopicResult, ...]
    metadata_offset: int


@dataclass(frozen=True, slots=True)
class ProducerIdsAnswer:
    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""
    first_producer_id: int = -1
    count: int = 0


WATCHERS = "watchers"
"""Destination of `Committed`: the streams of metadata."""


@dataclass(frozen=True, slots=True)
class Committed:
    """One decision's records, durable; the last has `metadata_offset`."""

    metadata_offset: int
    records: tuple[MetadataRecord, ...]
