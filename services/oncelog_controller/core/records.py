"""The records of the metadata journal: one record per change, replayed in order into a `ClusterImage`.

A record says what was decided, with everything that was drawn by chance (ids) or assigned (epochs) already in it. Some
changes imply others by a fixed rule, and then only the first is recorded: `NodeRegistered` raises the leader epoch of
every partition that the node leads and the coordinator epoch of every shard that it owns. So a restart of a node costs
one small record however many partitions there are. Such a rule may never change for a record type that exists; a new
rule is a new type.

On disk a record is its type's name and a JSON object of its fields. A field may be added with a default; a type or
field that this version does not know comes from a newer one, and is refused: metadata may not be skipped.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from oncelog.errors import OncelogError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Replicas = tuple[int, ...]
"""The replicas of a partition: node ids in order of preference. The first one is the preferred leader."""


@dataclass(frozen=True, slots=True)
class ControllerClaimed:
    """A controller process has become active and writes: the first record of each process's first append."""

    controller: int
    controller_epoch: int
    incarnation_id: str


@dataclass(frozen=True, slots=True)
class ClusterCreated:
    cluster_id: str


@dataclass(frozen=True, slots=True)
class FeaturesChanged:
    """All finalized feature levels of the cluster, by feature name; they replace the earlier ones."""

    features_epoch: int
    levels: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeRegistered:
    """A process registers as a node. It raises the epochs of what the node leads and owns, which fences its earlier
    process.

    A node that keeps a session begins `fenced`, until its first heartbeat; a drain of the earlier process ends.
    `given`: the controller chose the node id, and removes the node when its session ends.
    """

    node_id: int
    node_epoch: int
    incarnation_id: str
    roles: tuple[str, ...]
    rpc_address: str = ""
    kafka_host: str = ""
    kafka_port: int = 0
    rack: str = ""
    fenced: bool = False
    configs: Mapping[str, str] = field(default_factory=dict)
    given: bool = False


@dataclass(frozen=True, slots=True)
class NodeFenced:
    """A node's session has ended. The resulting changes of partitions and shards are records beside this one."""

    node_id: int
    node_epoch: int


@dataclass(frozen=True, slots=True)
class NodeUnfenced:
    """A node's session has begun, or the node is back: it may lead and own again."""

    node_id: int
    node_epoch: int


@dataclass(frozen=True, slots=True)
class NodeDrainChanged:
    """A node begins to drain, or stops draining.

    A draining node should lead and own nothing: it stops, or an operator wants that.
    """

    node_id: int
    draining: bool


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """A node is no longer registered: an operator removed it, or its session ended and the controller had given its
    id.
    """

    node_id: int


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """The new leaders, replicas and ISRs of partitions, each replaced as a whole.

    The record raises the partition epoch of each, and the leader epoch of those that get another leader.
    """

    topics: tuple[tuple[str, tuple["PartitionState", ...]], ...]


PartitionState = tuple[int, int, Replicas, Replicas, Replicas, Replicas]
"""The state of a partition: (partition, leader or -1, replicas, ISR, replicas being added, replicas being removed)."""


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A new topic. Every partition starts at leader epoch 0 with all its replicas in sync."""

    name: str
    topic_id: str  # 32 hex digits
    internal: bool
    configs: Mapping[str, str]
    assignment: tuple[Replicas, ...]


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    name: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    name: str
    assignment: tuple[Replicas, ...]


@dataclass(frozen=True, slots=True)
class TopicConfigsChanged:
    """All overrides of a topic. A config that is not named has its default."""

    name: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfigsChanged:
    """All configs of a broker or of a group, which replace the earlier ones. `kind` is "broker" or "group".

    `name` is the broker's node id, or empty for every broker; else the group's id.
    """

    kind: str
    name: str
    configs: Mapping[str, str]


Stored: TypeAlias = Any
"""A value of the journal's JSON, which any version of oncelog may have written. The class of its record checks it."""
AclRow = tuple[str, str, str, str, str, str, str]
"""An ACL: the fields of `oncelog.security.acl.Acl` in order, enums by name."""
ScramRow = tuple[str, int, str, str, str, int]
"""A SCRAM credential: (user, mechanism's number, salt, stored key, server key, iterations). Bytes are in base64.

0 iterations: the credential was deleted.
"""
QuotaRow = tuple[tuple[tuple[str, str | None], ...], Mapping[str, float]]
"""An entity's quotas: (entity, all its quotas). An empty mapping: it has none of its own."""
TokenRow = tuple[str, str, str, int, int, int, str]
"""An API token: the fields of `oncelog.security.api_tokens.ApiToken` in order."""


@dataclass(frozen=True, slots=True)
class AclsChanged:
    added: tuple[AclRow, ...] = ()
    removed: tuple[AclRow, ...] = ()


@dataclass(frozen=True, slots=True)
class ScramCredentialsChanged:
    credentials: tuple[ScramRow, ...]
    unknown_user_key: str = ""
    """A secret in base64 that no listener reveals. The cluster's first change of credentials sets it, and it stays."""

    def __repr__(self) -> str:
        """Return a text without the keys that prove a password."""
        return f"ScramCredentialsChanged({[row[:2] for row in self.credentials]})"


@dataclass(frozen=True, slots=True)
class ClientQuotasChanged:
    quotas: tuple[QuotaRow, ...]


@dataclass(frozen=True, slots=True)
class ApiTokensChanged:
    """The tokens that changed, each as a whole. An empty digest: the token was revoked."""

    tokens: tuple[TokenRow, ...]

    def __repr__(self) -> str:
        """Return a text without the digests by which tokens are known."""
        return f"ApiTokensChanged({[row[0] for row in self.tokens]})"


@dataclass(frozen=True, slots=True)
class ConsoleSessionsEnded:
    """Changes the list of console sessions that were logged out and that every gateway refuses.

    Applying it adds the sessions in `ended`, and removes those in `forgotten`: they are over by now, or `void_until_ms`
    covers them.
    """

    ended: tuple[tuple[str, int], ...]  # (session id, when it would have ended)
    forgotten: tuple[str, ...] = ()
    void_until_ms: int = 0
    """Above 0: every session that would end until this time, in ms, counts as logged out."""


@dataclass(frozen=True, slots=True)
class ShardsAssigned:
    """The new coordinator of each shard named. The record raises the shard's coordinator epoch, from -1 for a new
    shard.
    """

    kind: str
    coordinators: tuple[tuple[int, int], ...]  # (shard, node id; -1: none)


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """A block of producer ids: `count` ids from `first_producer_id` on belong to this process of the node for ever."""

    first_producer_id: int
    count: int
    node_id: int
    node_epoch: int


@dataclass(frozen=True, slots=True)
class MetadataRestored:
    """The cluster continues from a backup (`oncelog_controller.restored`).

    Epochs that were given out since the backup are not known. So leader epochs, partition epochs, coordinator epochs
    and node epochs all rise by `step`. Producer ids are passed over by a `ProducerIdsAllocated` beside this record.
    """

    step: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole metadata as it is after every earlier record, so a replay may begin here.

    `state` is what `ClusterImage.to_state()` returns.
    """

    state: Mapping[str, Stored]


MetadataRecord = (
    ControllerClaimed
    | ClusterCreated
    | FeaturesChanged
    | NodeRegistered
    | NodeFenced
    | NodeUnfenced
    | NodeDrainChanged
    | NodeRemoved
    | PartitionsChanged
    | TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | TopicConfigsChanged
    | ConfigsChanged
    | AclsChanged
    | ScramCredentialsChanged
    | ClientQuotasChanged
    | ApiTokensChanged
    | ConsoleSessionsEnded
    | ShardsAssigned
    | ProducerIdsAllocated
    | MetadataRestored
    | Snapshot
)

RECORD_TYPES: Final[Mapping[str, type[MetadataRecord]]] = {
    record_type.__name__: record_type for record_type in get_args(MetadataRecord)
}


def encode_record(record: MetadataRecord) -> tuple[str, str]:
    """Return (type name, JSON text) of a record."""
    body = {one.name: getattr(record, one.name) for one in fields(record)}
    return type(record).__name__, json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def decode_record(record_type: str, body: str) -> MetadataRecord:
    """Return the metadata record of this type and JSON text.

    Raises OncelogError for one that only a newer oncelog can have written, or that is damaged.
    """
    found = RECORD_TYPES.get(record_type)
    if found is None:
        raise OncelogError(
            f"metadata record type {record_type!r} is unknown: a newer oncelog wrote it; start that one"
        )
    try:
        values = {name: _frozen(value) for name, value in json.loads(body).items()}
        record: MetadataRecord = found(**readable(found, values))
    except (TypeError, ValueError, AttributeError) as error:
        raise OncelogError(
            f"metadata record {record_type} {body[:120]!r} cannot be read ({error}): "
            "a newer oncelog wrote it, or it is damaged"
        ) from error
    return record


def readable(kind: "type[DataclassInstance]", values: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return those of `values` that are fields of this version of the record class `kind` (docs/upgrades.md).

    A newer version's field with an empty value (false, 0, empty) is left out. So a controller can take over from a
    newer one until its new features are used. Raises OncelogError for such a field with another value.
    """
    known = {one.name for one in fields(kind)}
    for name, value in values.items():
        if name not in known and value:
            raise OncelogError(
                f"{kind.__name__}.{name}={value!r} is unknown: a newer oncelog wrote it; start that one"
            )
    return {name: value for name, value in values.items() if name in known}


def _frozen(value: Stored) -> Stored:
    """Return a value that was read from JSON, with the lists turned back into tuples, so that records stay
    immutable.
    """
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {name: _frozen(item) for name, item in value.items()}
    return value
