from oncelog.api.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_CONTROLLER: _ClassVar[Role]
    ROLE_COORDINATOR: _ClassVar[Role]
    ROLE_STORAGE: _ClassVar[Role]
    ROLE_MARKER_SENDER: _ClassVar[Role]
    ROLE_LISTENER: _ClassVar[Role]
    ROLE_GATEWAY: _ClassVar[Role]

class ConfigKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONFIG_KIND_TOPIC: _ClassVar[ConfigKind]
    CONFIG_KIND_BROKER: _ClassVar[ConfigKind]
    CONFIG_KIND_GROUP: _ClassVar[ConfigKind]

class ShardKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHARD_KIND_TRANSACTION: _ClassVar[ShardKind]
    SHARD_KIND_GROUP: _ClassVar[ShardKind]
ROLE_UNSPECIFIED: Role
ROLE_CONTROLLER: Role
ROLE_COORDINATOR: Role
ROLE_STORAGE: Role
ROLE_MARKER_SENDER: Role
ROLE_LISTENER: Role
ROLE_GATEWAY: Role
CONFIG_KIND_TOPIC: ConfigKind
CONFIG_KIND_BROKER: ConfigKind
CONFIG_KIND_GROUP: ConfigKind
SHARD_KIND_TRANSACTION: ShardKind
SHARD_KIND_GROUP: ShardKind

class Node(_message.Message):
    __slots__ = ("node_id", "node_epoch", "roles", "rpc_address", "kafka_host", "kafka_port", "rack", "fenced", "draining", "configs", "given")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    RPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KAFKA_HOST_FIELD_NUMBER: _ClassVar[int]
    KAFKA_PORT_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    node_epoch: int
    roles: _containers.RepeatedScalarFieldContainer[Role]
    rpc_address: str
    kafka_host: str
    kafka_port: int
    rack: str
    fenced: bool
    draining: bool
    configs: _containers.ScalarMap[str, str]
    given: bool
    def __init__(self, node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ..., roles: _Optional[_Iterable[_Union[Role, str]]] = ..., rpc_address: _Optional[str] = ..., kafka_host: _Optional[str] = ..., kafka_port: _Optional[int] = ..., rack: _Optional[str] = ..., fenced: _Optional[bool] = ..., draining: _Optional[bool] = ..., configs: _Optional[_Mapping[str, str]] = ..., given: _Optional[bool] = ...) -> None: ...

class DynamicConfigs(_message.Message):
    __slots__ = ("kind", "name", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    kind: ConfigKind
    name: str
    configs: _containers.ScalarMap[str, str]
    def __init__(self, kind: _Optional[_Union[ConfigKind, str]] = ..., name: _Optional[str] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Acl(_message.Message):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int
    def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., pattern_type: _Optional[int] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission: _Optional[int] = ...) -> None: ...

class ScramCredential(_message.Message):
    __slots__ = ("user", "mechanism", "salt", "stored_key", "server_key", "iterations")
    USER_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    STORED_KEY_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    user: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int
    def __init__(self, user: _Optional[str] = ..., mechanism: _Optional[int] = ..., salt: _Optional[bytes] = ..., stored_key: _Optional[bytes] = ..., server_key: _Optional[bytes] = ..., iterations: _Optional[int] = ...) -> None: ...

class QuotaEntity(_message.Message):
    __slots__ = ("type", "name")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    type: str
    name: str
    def __init__(self, type: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ClientQuota(_message.Message):
    __slots__ = ("entity", "values")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    entity: _containers.RepeatedCompositeFieldContainer[QuotaEntity]
    values: _containers.ScalarMap[str, float]
    def __init__(self, entity: _Optional[_Iterable[_Union[QuotaEntity, _Mapping]]] = ..., values: _Optional[_Mapping[str, float]] = ...) -> None: ...

class ApiToken(_message.Message):
    __slots__ = ("name", "digest", "role", "created_ms", "expires_ms", "last_used_ms", "created_by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_USED_MS_FIELD_NUMBER: _ClassVar[int]
    CREATED_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: bytes
    role: str
    created_ms: int
    expires_ms: int
    last_used_ms: int
    created_by: str
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[bytes] = ..., role: _Optional[str] = ..., created_ms: _Optional[int] = ..., expires_ms: _Optional[int] = ..., last_used_ms: _Optional[int] = ..., created_by: _Optional[str] = ...) -> None: ...

class EndedConsoleSession(_message.Message):
    __slots__ = ("session_id", "expires_ms")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    expires_ms: int
    def __init__(self, session_id: _Optional[str] = ..., expires_ms: _Optional[int] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("partition", "leader", "leader_epoch", "partition_epoch", "replicas", "isr", "adding_replicas", "removing_replicas")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    ADDING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    isr: _containers.RepeatedScalarFieldContainer[int]
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[int]] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class Topic(_message.Message):
    __slots__ = ("name", "topic_id", "internal", "configs", "partitions")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    internal: bool
    configs: _containers.ScalarMap[str, str]
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., internal: _Optional[bool] = ..., configs: _Optional[_Mapping[str, str]] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ...) -> None: ...

class Shard(_message.Message):
    __slots__ = ("kind", "shard", "coordinator", "coordinator_epoch")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    kind: ShardKind
    shard: int
    coordinator: int
    coordinator_epoch: int
    def __init__(self, kind: _Optional[_Union[ShardKind, str]] = ..., shard: _Optional[int] = ..., coordinator: _Optional[int] = ..., coordinator_epoch: _Optional[int] = ...) -> None: ...

class Features(_message.Message):
    __slots__ = ("features_epoch", "levels")
    class LevelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    FEATURES_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    features_epoch: int
    levels: _containers.ScalarMap[str, int]
    def __init__(self, features_epoch: _Optional[int] = ..., levels: _Optional[_Mapping[str, int]] = ...) -> None: ...

class MetadataSnapshot(_message.Message):
    __slots__ = ("cluster_id", "controller", "controller_epoch", "nodes", "topics", "shards", "features", "configs", "controller_incarnation_id", "acls", "scram_credentials", "client_quotas", "api_tokens", "ended_console_sessions", "console_sessions_void_until_ms", "unknown_user_key")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    SCRAM_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_QUOTAS_FIELD_NUMBER: _ClassVar[int]
    API_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ENDED_CONSOLE_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    CONSOLE_SESSIONS_VOID_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_USER_KEY_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller: int
    controller_epoch: int
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    features: Features
    configs: _containers.RepeatedCompositeFieldContainer[DynamicConfigs]
    controller_incarnation_id: str
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    scram_credentials: _containers.RepeatedCompositeFieldContainer[ScramCredential]
    client_quotas: _containers.RepeatedCompositeFieldContainer[ClientQuota]
    api_tokens: _containers.RepeatedCompositeFieldContainer[ApiToken]
    ended_console_sessions: _containers.RepeatedCompositeFieldContainer[EndedConsoleSession]
    console_sessions_void_until_ms: int
    unknown_user_key: bytes
    def __init__(self, cluster_id: _Optional[str] = ..., controller: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ..., features: _Optional[_Union[Features, _Mapping]] = ..., configs: _Optional[_Iterable[_Union[DynamicConfigs, _Mapping]]] = ..., controller_incarnation_id: _Optional[str] = ..., acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., scram_credentials: _Optional[_Iterable[_Union[ScramCredential, _Mapping]]] = ..., client_quotas: _Optional[_Iterable[_Union[ClientQuota, _Mapping]]] = ..., api_tokens: _Optional[_Iterable[_Union[ApiToken, _Mapping]]] = ..., ended_console_sessions: _Optional[_Iterable[_Union[EndedConsoleSession, _Mapping]]] = ..., console_sessions_void_until_ms: _Optional[int] = ..., unknown_user_key: _Optional[bytes] = ...) -> None: ...

class MetadataDelta(_message.Message):
    __slots__ = ("nodes", "removed_nodes", "topics", "removed_topics", "shards", "features", "controller", "controller_epoch", "configs", "controller_incarnation_id", "acls", "removed_acls", "scram_credentials", "client_quotas", "api_tokens", "ended_console_sessions", "console_sessions_void_until_ms", "unknown_user_key")
    NODES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_NODES_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_ACLS_FIELD_NUMBER: _ClassVar[int]
    SCRAM_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_QUOTAS_FIELD_NUMBER: _ClassVar[int]
    API_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ENDED_CONSOLE_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    CONSOLE_SESSIONS_VOID_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_USER_KEY_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    removed_nodes: _containers.RepeatedScalarFieldContainer[int]
    topics: _containers.RepeatedCompositeFieldContainer[Topic]
    removed_topics: _containers.RepeatedScalarFieldContainer[str]
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    features: Features
    controller: int
    controller_epoch: int
    configs: _containers.RepeatedCompositeFieldContainer[DynamicConfigs]
    controller_incarnation_id: str
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    removed_acls: _containers.RepeatedCompositeFieldContainer[Acl]
    scram_credentials: _containers.RepeatedCompositeFieldContainer[ScramCredential]
    client_quotas: _containers.RepeatedCompositeFieldContainer[ClientQuota]
    api_tokens: _containers.RepeatedCompositeFieldContainer[ApiToken]
    ended_console_sessions: _containers.RepeatedCompositeFieldContainer[EndedConsoleSession]
    console_sessions_void_until_ms: int
    unknown_user_key: bytes
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., removed_nodes: _Optional[_Iterable[int]] = ..., topics: _Optional[_Iterable[_Union[Topic, _Mapping]]] = ..., removed_topics: _Optional[_Iterable[str]] = ..., shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ..., features: _Optional[_Union[Features, _Mapping]] = ..., controller: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., configs: _Optional[_Iterable[_Union[DynamicConfigs, _Mapping]]] = ..., controller_incarnation_id: _Optional[str] = ..., acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., removed_acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., scram_credentials: _Optional[_Iterable[_Union[ScramCredential, _Mapping]]] = ..., client_quotas: _Optional[_Iterable[_Union[ClientQuota, _Mapping]]] = ..., api_tokens: _Optional[_Iterable[_Union[ApiToken, _Mapping]]] = ..., ended_console_sessions: _Optional[_Iterable[_Union[EndedConsoleSession, _Mapping]]] = ..., console_sessions_void_until_ms: _Optional[int] = ..., unknown_user_key: _Optional[bytes] = ...) -> None: ...

class MetadataUpdate(_message.Message):
    __slots__ = ("metadata_offset", "snapshot", "delta")
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    metadata_offset: int
    snapshot: MetadataSnapshot
    delta: MetadataDelta
    def __init__(self, metadata_offset: _Optional[int] = ..., snapshot: _Optional[_Union[MetadataSnapshot, _Mapping]] = ..., delta: _Optional[_Union[MetadataDelta, _Mapping]] = ...) -> None: ...

class MetadataPosition(_message.Message):
    __slots__ = ("metadata_offset", "controller_epoch", "controller_incarnation_id")
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    metadata_offset: int
    controller_epoch: int
    controller_incarnation_id: str
    def __init__(self, metadata_offset: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., controller_incarnation_id: _Optional[str] = ...) -> None: ...

class WatchMetadataRequest(_message.Message):
    __slots__ = ("node_id", "from_metadata_offset", "seen")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    from_metadata_offset: int
    seen: MetadataPosition
    def __init__(self, node_id: _Optional[int] = ..., from_metadata_offset: _Optional[int] = ..., seen: _Optional[_Union[MetadataPosition, _Mapping]] = ...) -> None: ...

class RegisterNodeRequest(_message.Message):
    __slots__ = ("node", "incarnation_id", "folder")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    node: Node
    incarnation_id: str
    folder: FolderHistory
    def __init__(self, node: _Optional[_Union[Node, _Mapping]] = ..., incarnation_id: _Optional[str] = ..., folder: _Optional[_Union[FolderHistory, _Mapping]] = ...) -> None: ...

class FolderHistory(_message.Message):
    __slots__ = ("incarnation_ids", "metadata_offset", "controller_epoch", "controller_incarnation_id", "accepts_loss")
    INCARNATION_IDS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_LOSS_FIELD_NUMBER: _ClassVar[int]
    incarnation_ids: _containers.RepeatedScalarFieldContainer[str]
    metadata_offset: int
    controller_epoch: int
    controller_incarnation_id: str
    accepts_loss: bool
    def __init__(self, incarnation_ids: _Optional[_Iterable[str]] = ..., metadata_offset: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., controller_incarnation_id: _Optional[str] = ..., accepts_loss: _Optional[bool] = ...) -> None: ...

class RegisterNodeResponse(_message.Message):
    __slots__ = ("status", "node_epoch", "session_timeout_ms", "node_id")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    status: _types_pb2.Status
    node_epoch: int
    session_timeout_ms: int
    node_id: int
    def __init__(self, status: _Optional[_Union[_types_pb2.Status, _Mapping]] = ..., node_epoch: _Optional[int] = ..., session_timeout_ms: _Optional[int] = ..., node_id: _Optional[int] = ...) -> None: ...

class NodeHeartbeatRequest(_message.Message):
    __slots__ = ("node_id", "node_epoch", "metadata_offset", "want_drain", "seen")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WANT_DRAIN_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    node_epoch: int
    metadata_offset: int
    want_drain: bool
    seen: MetadataPosition
    def __init__(self, node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ..., metadata_offset: _Optional[int] = ..., want_drain: _Optional[bool] = ..., seen: _Optional[_Union[MetadataPosition, _Mapping]] = ...) -> None: ...

class NodeHeartbeatResponse(_message.Message):
    __slots__ = ("status", "fenced", "drained")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    status: _types_pb2.Status
    fenced: bool
    drained: bool
    def __init__(self, status: _Optional[_Union[_types_pb2.Status, _Mapping]] = ..., fenced: _Optional[bool] = ..., drained: _Optional[bool] = ...) -> None: ...

class NewTopic(_message.Message):
    __slots__ = ("name", "partitions", "replication_factor", "configs", "internal", "assignment")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AssignmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: ReplicaList
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[ReplicaList, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: int
    replication_factor: int
    configs: _containers.ScalarMap[str, str]
    internal: bool
    assignment: _containers.MessageMap[int, ReplicaList]
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., configs: _Optional[_Mapping[str, str]] = ..., internal: _Optional[bool] = ..., assignment: _Optional[_Mapping[int, ReplicaList]] = ...) -> None: ...

class ReplicaList(_message.Message):
    __slots__ = ("replicas",)
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class CreateTopicsRequest(_message.Message):
    __slots__ = ("topics", "validate_only")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[NewTopic]
    validate_only: bool
    def __init__(self, topics: _Optional[_Iterable[_Union[NewTopic, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class TopicResult(_message.Message):
    __slots__ = ("name", "error_code", "error_message", "topic_id", "partitions", "replication_factor")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    error_code: int
    error_message: str
    topic_id: bytes
    partitions: int
    replication_factor: int
    def __init__(self, name: _Optional[str] = ..., error_code: _Optional[int] = ..., error_message: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ...) -> None: ...

class CreateTopicsResponse(_message.Message):
    __slots__ = ("results", "metadata_offset")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[TopicResult]
    metadata_offset: int
    def __init__(self, results: _Optional[_Iterable[_Union[TopicResult, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class DeleteTopicsRequest(_message.Message):
    __slots__ = ("names", "topic_ids")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, names: _Optional[_Iterable[str]] = ..., topic_ids: _Optional[_Iterable[bytes]] = ...) -> None: ...

class DeleteTopicsResponse(_message.Message):
    __slots__ = ("results", "metadata_offset")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[TopicResult]
    metadata_offset: int
    def __init__(self, results: _Optional[_Iterable[_Union[TopicResult, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class CreatePartitionsRequest(_message.Message):
    __slots__ = ("topics", "validate_only")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[NewPartitions]
    validate_only: bool
    def __init__(self, topics: _Optional[_Iterable[_Union[NewPartitions, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class NewPartitions(_message.Message):
    __slots__ = ("name", "count", "assignment")
    class AssignmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: ReplicaList
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[ReplicaList, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    assignment: _containers.MessageMap[int, ReplicaList]
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ..., assignment: _Optional[_Mapping[int, ReplicaList]] = ...) -> None: ...

class CreatePartitionsResponse(_message.Message):
    __slots__ = ("results", "metadata_offset")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[TopicResult]
    metadata_offset: int
    def __init__(self, results: _Optional[_Iterable[_Union[TopicResult, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class AlterConfigsRequest(_message.Message):
    __slots__ = ("name", "set", "remove", "validate_only", "kind")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    name: str
    set: _containers.ScalarMap[str, str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    validate_only: bool
    kind: ConfigKind
    def __init__(self, name: _Optional[str] = ..., set: _Optional[_Mapping[str, str]] = ..., remove: _Optional[_Iterable[str]] = ..., validate_only: _Optional[bool] = ..., kind: _Optional[_Union[ConfigKind, str]] = ...) -> None: ...

class AlterConfigsResponse(_message.Message):
    __slots__ = ("status", "metadata_offset")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    status: _types_pb2.Status
    metadata_offset: int
    def __init__(self, status: _Optional[_Union[_types_pb2.Status, _Mapping]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class UpdateFeaturesRequest(_message.Message):
    __slots__ = ("levels", "validate_only")
    class LevelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.ScalarMap[str, int]
    validate_only: bool
    def __init__(self, levels: _Optional[_Mapping[str, int]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class UpdateFeaturesResponse(_message.Message):
    __slots__ = ("status", "metadata_offset")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    status: _types_pb2.Status
    metadata_offset: int
    def __init__(self, status: _Optional[_Union[_types_pb2.Status, _Mapping]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class CreateAclsRequest(_message.Message):
    __slots__ = ("acls",)
    ACLS_FIELD_NUMBER: _ClassVar[int]
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    def __init__(self, acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ...) -> None: ...

class CreateAclsResponse(_message.Message):
    __slots__ = ("results", "metadata_offset")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[_types_pb2.Status]
    metadata_offset: int
    def __init__(self, results: _Optional[_Iterable[_Union[_types_pb2.Status, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class DeleteAclsRequest(_message.Message):
    __slots__ = ("filters",)
    class Filter(_message.Message):
        __slots__ = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
        RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
        RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
        PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
        PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
        HOST_FIELD_NUMBER: _ClassVar[int]
        OPERATION_FIELD_NUMBER: _ClassVar[int]
        PERMISSION_FIELD_NUMBER: _ClassVar[int]
        resource_type: int
        resource_name: str
        pattern_type: int
        principal: str
        host: str
        operation: int
        permission: int
        def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., pattern_type: _Optional[int] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission: _Optional[int] = ...) -> None: ...
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    filters: _containers.RepeatedCompositeFieldContainer[DeleteAclsRequest.Filter]
    def __init__(self, filters: _Optional[_Iterable[_Union[DeleteAclsRequest.Filter, _Mapping]]] = ...) -> None: ...

class DeleteAclsResponse(_message.Message):
    __slots__ = ("results", "metadata_offset")
    class Result(_message.Message):
        __slots__ = ("status", "deleted")
        STATUS_FIELD_NUMBER: _ClassVar[int]
        DELETED_FIELD_NUMBER: _ClassVar[int]
        status: _types_pb2.Status
        deleted: _containers.RepeatedCompositeFieldContainer[Acl]
        def __init__(self, status: _Optional[_Union[_types_pb2.Status, _Mapping]] = ..., deleted: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[DeleteAclsResponse.Result]
    metadata_offset: int
    def __init__(self, results: _Optional[_Iterable[_Union[DeleteAclsResponse.Result, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class AlterUserScramCredentialsRequest(_message.Message):
    __slots__ = ("credentials",)
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    credentials: _containers.RepeatedCompositeFieldContainer[ScramCredential]
    def __init__(self, credentials: _Optional[_Iterable[_Union[ScramCredential, _Mapping]]] = ...) -> None: ...

class AlterUserScramCredentialsResponse(_message.Message):
    __slots__ = ("results", "metadata_offset")
    class Result(_message.Message):
        __slots__ = ("user", "status")
        USER_FIELD_NUMBER: _ClassVar[int]
        STATUS_FIELD_NUMBER: _ClassVar[int]
        user: str
        status: _types_pb2.Status
        def __init__(self, user: _Optional[str] = ..., status: _Optional[_Union[_types_pb2.Status, _Mapping]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[AlterUserScramCredentialsResponse.Result]
    metadata_offset: int
    def __init__(self, results: _Optional[_Iterable[_Union[AlterUserScramCredentialsResponse.Result, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class AlterClientQuotasRequest(_message.Message):
    __slots__ = ("changes", "validate_only")
    class Change(_message.Message):
        __slots__ = ("entity", "operations")
        ENTITY_FIELD_NUMBER: _ClassVar[int]
        OPERATIONS_FIELD_NUMBER: _ClassVar[int]
        entity: _containers.RepeatedCompositeFieldContainer[QuotaEntity]
        operations: _containers.RepeatedCompositeFieldContainer[AlterClientQuotasRequest.Operation]
        def __init__(self, entity: _Optional[_Iterable[_Union[QuotaEntity, _Mapping]]] = ..., operations: _Optional[_Iterable[_Union[AlterClientQuotasRequest.Operation, _Mapping]]] = ...) -> None: ...
    class Operation(_message.Message):
        __slots__ = ("key", "value", "remove")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        REMOVE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        remove: bool
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ..., remove: _Optional[bool] = ...) -> None: ...
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[AlterClientQuotasRequest.Change]
    validate_only: bool
    def __init__(self, changes: _Optional[_Iterable[_Union[AlterClientQuotasRequest.Change, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class AlterClientQuotasResponse(_message.Message):
    __slots__ = ("results", "metadata_offset")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[_types_pb2.Status]
    metadata_offset: int
    def __init__(self, results: _Optional[_Iterable[_Union[_types_pb2.Status, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class AlterApiTokensRequest(_message.Message):
    __slots__ = ("changes",)
    class Change(_message.Message):
        __slots__ = ("create", "revoke", "use")
        CREATE_FIELD_NUMBER: _ClassVar[int]
        REVOKE_FIELD_NUMBER: _ClassVar[int]
        USE_FIELD_NUMBER: _ClassVar[int]
        create: ApiToken
        revoke: str
        use: ApiToken
        def __init__(self, create: _Optional[_Union[ApiToken, _Mapping]] = ..., revoke: _Optional[str] = ..., use: _Optional[_Union[ApiToken, _Mapping]] = ...) -> None: ...
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[AlterApiTokensRequest.Change]
    def __init__(self, changes: _Optional[_Iterable[_Union[AlterApiTokensRequest.Change, _Mapping]]] = ...) -> None: ...

class AlterApiTokensResponse(_message.Message):
    __slots__ = ("results", "metadata_offset")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[_types_pb2.Status]
    metadata_offset: int
    def __init__(self, results: _Optional[_Iterable[_Union[_types_pb2.Status, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class EndConsoleSessionRequest(_message.Message):
    __slots__ = ("session", "time_ms")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TIME_MS_FIELD_NUMBER: _ClassVar[int]
    session: EndedConsoleSession
    time_ms: int
    def __init__(self, session: _Optional[_Union[EndedConsoleSession, _Mapping]] = ..., time_ms: _Optional[int] = ...) -> None: ...

class EndConsoleSessionResponse(_message.Message):
    __slots__ = ("status", "metadata_offset")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    status: _types_pb2.Status
    metadata_offset: int
    def __init__(self, status: _Optional[_Union[_types_pb2.Status, _Mapping]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class AllocateProducerIdsRequest(_message.Message):
    __slots__ = ("node_id", "node_epoch", "seen")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    node_epoch: int
    seen: MetadataPosition
    def __init__(self, node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ..., seen: _Optional[_Union[MetadataPosition, _Mapping]] = ...) -> None: ...

class AllocateProducerIdsResponse(_message.Message):
    __slots__ = ("status", "first_producer_id", "producer_id_count")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FIRST_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_COUNT_FIELD_NUMBER: _ClassVar[int]
    status: _types_pb2.Status
    first_producer_id: int
    producer_id_count: int
    def __init__(self, status: _Optional[_Union[_types_pb2.Status, _Mapping]] = ..., first_producer_id: _Optional[int] = ..., producer_id_count: _Optional[int] = ...) -> None: ...

class AlterPartitionRequest(_message.Message):
    __slots__ = ("node_id", "node_epoch", "partitions", "seen")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    node_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[ProposedIsr]
    seen: MetadataPosition
    def __init__(self, node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[ProposedIsr, _Mapping]]] = ..., seen: _Optional[_Union[MetadataPosition, _Mapping]] = ...) -> None: ...

class ProposedIsr(_message.Message):
    __slots__ = ("partition", "leader_epoch", "partition_epoch", "isr")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    partition: _types_pb2.TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[_Union[_types_pb2.TopicPartition, _Mapping]] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[int]] = ...) -> None: ...

class AlterPartitionResponse(_message.Message):
    __slots__ = ("status", "partitions", "metadata_offset")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    status: _types_pb2.Status
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.PartitionError]
    metadata_offset: int
    def __init__(self, status: _Optional[_Union[_types_pb2.Status, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.PartitionError, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class ReassignPartitionsRequest(_message.Message):
    __slots__ = ("assignments",)
    class Assignment(_message.Message):
        __slots__ = ("partition", "replicas")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        REPLICAS_FIELD_NUMBER: _ClassVar[int]
        partition: _types_pb2.TopicPartition
        replicas: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, partition: _Optional[_Union[_types_pb2.TopicPartition, _Mapping]] = ..., replicas: _Optional[_Iterable[int]] = ...) -> None: ...
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    assignments: _containers.RepeatedCompositeFieldContainer[ReassignPartitionsRequest.Assignment]
    def __init__(self, assignments: _Optional[_Iterable[_Union[ReassignPartitionsRequest.Assignment, _Mapping]]] = ...) -> None: ...

class ReassignPartitionsResponse(_message.Message):
    __slots__ = ("partitions", "metadata_offset")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.PartitionError]
    metadata_offset: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[_types_pb2.PartitionError, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class ElectLeadersRequest(_message.Message):
    __slots__ = ("partitions", "unclean")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    UNCLEAN_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    unclean: bool
    def __init__(self, partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., unclean: _Optional[bool] = ...) -> None: ...

class ElectLeadersResponse(_message.Message):
    __slots__ = ("partitions", "metadata_offset")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.PartitionError]
    metadata_offset: int
    def __init__(self, partitions: _Optional[_Iterable[_Union[_types_pb2.PartitionError, _Mapping]]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("node_id", "cancel")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    cancel: bool
    def __init__(self, node_id: _Optional[int] = ..., cancel: _Optional[bool] = ...) -> None: ...

class DrainNodeResponse(_message.Message):
    __slots__ = ("status", "metadata_offset")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    status: _types_pb2.Status
    metadata_offset: int
    def __init__(self, status: _Optional[_Union[_types_pb2.Status, _Mapping]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class RemoveNodeRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    def __init__(self, node_id: _Optional[int] = ...) -> None: ...

class RemoveNodeResponse(_message.Message):
    __slots__ = ("status", "metadata_offset")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    status: _types_pb2.Status
    metadata_offset: int
    def __init__(self, status: _Optional[_Union[_types_pb2.Status, _Mapping]] = ..., metadata_offset: _Optional[int] = ...) -> None: ...

class DescribeControllerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeControllerResponse(_message.Message):
    __slots__ = ("node_id", "active", "active_node_id", "active_rpc_address", "controller_epoch", "metadata_offset", "lease_remaining_ms")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_RPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEASE_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    active: bool
    active_node_id: int
    active_rpc_address: str
    controller_epoch: int
    metadata_offset: int
    lease_remaining_ms: int
    def __init__(self, node_id: _Optional[int] = ..., active: _Optional[bool] = ..., active_node_id: _Optional[int] = ..., active_rpc_address: _Optional[str] = ..., controller_epoch: _Optional[int] = ..., metadata_offset: _Optional[int] = ..., lease_remaining_ms: _Optional[int] = ...) -> None: ...
