"""The events that the controller's metadata machine decides (requests, lost sessions, timers), and its answers.

The shell adds everything drawn by chance (topic ids, cluster id) before the event enters. So a decision depends on
nothing but the event and the metadata.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from oncelog.errors import ErrorCode
from oncelog.security.acl import Acl, AclFilter
from oncelog.security.api_tokens import ApiToken
from oncelog.security.quotas import Entity
from oncelog_controller.core.history import NOWHERE, MetadataPosition
from oncelog_controller.core.records import MetadataRecord, Replicas, ScramRow


@dataclass(frozen=True, slots=True)
class Folder:
    """The facts about a storage node's data folder that its registration states. `core.folders` checks whether the
    folder may have lost records.

    `incarnation_ids` name the process starts under which its node registered; `seen` is the newest metadata it acted
    on. `accepts_loss`: an operator said that the folder holds all the data there is.
    """

    incarnation_ids: tuple[str, ...] = ()
    seen: MetadataPosition = NOWHERE
    accepts_loss: bool = False


@dataclass(frozen=True, slots=True)
class RegisterNode:
    """A node's request to be registered.

    `cluster_id` and the ids of the internal topics are proposals; they are dropped if the cluster has its own.
    `node_id` 0 asks for an id. `given` with another `node_id`: the process got that id earlier and asks for it again.
    `is_other_live`: another process has a session under this node id.
    """

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
    is_other_live: bool = False  # another process with this node id has a session that stands
    configs: Mapping[str, str] = field(default_factory=dict)
    given: bool = False
    folder: Folder | None = None


@dataclass(frozen=True, slots=True)
class NodeHeartbeat:
    """A node's heartbeat.

    It proposes ids for the internal topics. They are used if the topics can be created now that this node is there.
    `seen` is the newest metadata that the node knows.
    """

    request_id: int
    node_id: int
    node_epoch: int
    want_drain: bool = False
    transaction_topic_id: str = ""
    group_topic_id: str = ""
    seen: MetadataPosition = NOWHERE


@dataclass(frozen=True, slots=True)
class SessionsEnded:
    """Nodes whose process is gone or silent, as (node id, node epoch): they lose leadership and shards."""

    nodes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BeginTerm:
    """A controller has become active. It writes its name to the journal, so that every process learns who is active."""


@dataclass(frozen=True, slots=True)
class BalanceLeaders:
    """A timer's event: leadership returns to preferred replicas where they are in sync."""


@dataclass(frozen=True, slots=True)
class DrainNode:
    request_id: int
    node_id: int
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class RemoveNode:
    request_id: int
    node_id: int


@dataclass(frozen=True, slots=True)
class ProposedIsr:
    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Replicas


@dataclass(frozen=True, slots=True)
class AlterPartition:
    """A leader's request to change the ISR of its partitions. `seen` is the newest metadata that its node knows."""

    request_id: int
    node_id: int
    node_epoch: int
    proposals: tuple[ProposedIsr, ...]
    seen: MetadataPosition = NOWHERE


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The wanted replicas of one partition, in order of preference. An empty tuple cancels a reassignment under way."""

    topic: str
    partition: int
    replicas: Replicas


@dataclass(frozen=True, slots=True)
class ReassignPartitions:
    request_id: int
    assignments: tuple[Reassignment, ...]


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """A request to elect leaders for these partitions, as (topic, partition).

    `unclean`: a partition without a leader may get one from outside the ISR.
    """

    request_id: int
    partitions: tuple[tuple[str, int], ...]
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 stands for a default, as in Kafka's CreateTopics."""

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
    """The wish to give a topic more partitions, as one of a CreatePartitions request. `count` is the new total."""

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
    """A change of configs. `kind` is "topic", "broker" (`name` is a node id, or empty for all nodes) or "group"."""

    request_id: int
    name: str
    set: Mapping[str, str]
    remove: tuple[str, ...] = ()
    validate_only: bool = False
    kind: str = "topic"


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    request_id: int
    levels: Mapping[str, int]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class CreateAcls:
    request_id: int
    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True)
class DeleteAcls:
    request_id: int
    filters: tuple[AclFilter, ...]


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentials:
    """A change of users' SCRAM credentials.

    `unknown_user_key` is a fresh secret for logins of unknown users; only the cluster's first such change stores it.
    """

    request_id: int
    credentials: tuple[ScramRow, ...] = field(repr=False)
    unknown_user_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AlterClientQuotas:
    """A change of client quotas: for each entity the (key, value) pairs to set. Value None removes the key."""

    request_id: int
    changes: tuple[tuple[Entity, tuple[tuple[str, float | None], ...]], ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class CreateToken:
    token: ApiToken = field(repr=False)


@dataclass(frozen=True, slots=True)
class RevokeToken:
    name: str


@dataclass(frozen=True, slots=True)
class UseToken:
    """A client has used an API token, at the time `time_ms` in milliseconds."""

    name: str
    digest: str = field(repr=False)
    time_ms: int


TokenChange = CreateToken | RevokeToken | UseToken


@dataclass(frozen=True, slots=True)
class AlterApiTokens:
    request_id: int
    changes: tuple[TokenChange, ...]


@dataclass(frozen=True, slots=True)
class EndConsoleSession:
    """A logout from the console. `time_ms` is the time by the clock of the gateway, in milliseconds."""

    request_id: int
    session_id: str
    expires_ms: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    request_id: int
    node_id: int
    node_epoch: int
    seen: MetadataPosition = NOWHERE


MetadataRequest = (
    RegisterNode
    | NodeHeartbeat
    | DrainNode
    | RemoveNode
    | AlterPartition
    | ReassignPartitions
    | ElectLeaders
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | UpdateFeatures
    | CreateAcls
    | DeleteAcls
    | AlterUserScramCredentials
    | AlterClientQuotas
    | AlterApiTokens
    | EndConsoleSession
    | AllocateProducerIds
)
MetadataEvent = MetadataRequest | SessionsEnded | BeginTerm | BalanceLeaders


@dataclass(frozen=True, slots=True)
class StatusAnswer:
    """The answer to a request without results of its own.

    Metadata at `metadata_offset`, or a later one, shows the change.
    """

    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""
    metadata_offset: int = -1


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""
    node_epoch: int = -1
    node_id: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The answer to a node's heartbeat. `fenced`: it leads and owns nothing until it has a session.

    `drained`: everything that could go to another node is gone, so the node may stop.
    """

    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""
    fenced: bool = False
    drained: bool = False


@dataclass(frozen=True, slots=True)
class PartitionResult:
    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""


@dataclass(frozen=True, slots=True)
class PartitionsAnswer:
    """The controller's answer to a call about several partitions: a result for each of them. `error_code` is set when
    the node that calls is refused as a whole."""

    results: tuple[PartitionResult, ...]
    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""
    metadata_offset: int = -1


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
    metadata_offset: int = -1


@dataclass(frozen=True, slots=True)
class SecurityResult:
    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""


@dataclass(frozen=True, slots=True)
class FilterResult(SecurityResult):
    deleted: tuple[Acl, ...] = ()


@dataclass(frozen=True, slots=True)
class SecurityAnswer:
    """One result for each item of a request about ACLs, credentials, quotas, tokens or sessions.

    For credentials: one for each user, in order of first appearance.
    """

    results: tuple[SecurityResult, ...]
    metadata_offset: int = -1


@dataclass(frozen=True, slots=True)
class ProducerIdsAnswer:
    error_code: ErrorCode = ErrorCode.NONE
    message: str = ""
    first_producer_id: int = -1
    count: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A rule's decision about a request: the answer, the records that make it true, and the decision's label."""

    answer: object
    label: str
    records: tuple[MetadataRecord, ...] = ()


WATCHERS = "watchers"
"""The destination to which the metadata machine sends `Committed`: the streams of metadata to nodes."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A message to the metadata streams: the durable records of one decision. The last one has `metadata_offset`."""

    metadata_offset: int
    records: tuple[MetadataRecord, ...]
