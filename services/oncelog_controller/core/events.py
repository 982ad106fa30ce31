"""What reaches the metadata machine, and what it answers.

The shell adds everything drawn by chance (topic ids, cluster id) before the event enters. So a decision depends on
nothing but the event and the image.
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
    """What a storage node's folder remembers (`core.folders`)."""

    incarnation_ids: tuple[str, ...] = ()
    seen: MetadataPosition = NOWHERE
    accepts_loss: bool = False


@dataclass(frozen=True, slots=True)
class RegisterNode:
    """`cluster_id` and the internal topics' ids are used by the registration that needs them, else dropped.

    `node_id` 0 asks for an id. `given` with another one: the process was given that id and asks for it again.
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
    """The internal topics' ids are used by the heartbeat of the last node that they wait for, else dropped."""

    request_id: int
    node_id: int
    node_epoch: int
    want_drain: bool = False
    transaction_topic_id: str = ""
    group_topic_id: str = ""
    seen: MetadataPosition = NOWHERE


@dataclass(frozen=True, slots=True)
class SessionsEnded:
    """These processes are gone or silent: (node id, node epoch)."""

    nodes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BeginTerm:
    """A controller that took over says so in the journal at once, so that every image names it."""


@dataclass(frozen=True, slots=True)
class BalanceLeaders:
    """Leadership goes back to the replicas that the placement prefers."""


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
    """A leader's proposals."""

    request_id: int
    node_id: int
    node_epoch: int
    proposals: tuple[ProposedIsr, ...]
    seen: MetadataPosition = NOWHERE


@dataclass(frozen=True, slots=True)
class Reassignment:
    """`replicas` in order of preference; none: the reassignment under way is cancelled."""

    topic: str
    partition: int
    replicas: Replicas


@dataclass(frozen=True, slots=True)
class ReassignPartitions:
    request_id: int
    assignments: tuple[Reassignment, ...]


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """(topic, partition). `unclean`: where nobody leads, a replica outside the ISR may."""

    request_id: int
    partitions: tuple[tuple[str, int], ...]
    unclean: bool = False


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
    """`kind` is "topic", "broker" (`name` is a node id, or empty for all nodes) or "group"."""

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
    """`unknown_user_key`, a new secret, is used by the first that is done, else dropped."""

    request_id: int
    credentials: tuple[ScramRow, ...] = field(repr=False)
    unknown_user_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AlterClientQuotas:
    """Each entity with (key, value) to set; None removes the key."""

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
    """Somebody came with it."""

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
    """Somebody logged out at a gateway, whose clock says `time_ms`."""

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
    """An image that has `metadata_offset` shows what was done."""

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
    """`drained`: nothing that could go elsewhere is left on the node, so it may stop."""

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
    """One result for each partition asked about; `error_code` when the node itself is refused."""

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
    """One result for each thing asked for: of credentials for each user, in order of first appearance."""

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
    """What a request comes to: an answer for the caller, records to make it true, and the decision's label."""

    answer: object
    label: str
    records: tuple[MetadataRecord, ...] = ()


WATCHERS = "watchers"
"""Destination of `Committed`: the streams of metadata."""


@dataclass(frozen=True, slots=True)
class Committed:
    """One decision's records, durable; the last has `metadata_offset`."""

    metadata_offset: int
    records: tuple[MetadataRecord, ...]
