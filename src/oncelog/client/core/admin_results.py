"""The values that an administrator passes and gets: new topics, results by item, descriptions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Self, TypeVar

from oncelog.client.errors import AuthorizationError, ClientError, RefusedError, RetriableError
from oncelog.errors import ErrorCode
from oncelog.ids import Partition

KeyT = TypeVar("KeyT")
ResultT = TypeVar("ResultT")


class Results(Mapping[KeyT, ResultT]):
    """The results of a call about several items, by item. Reading the result of an item that failed raises its error;
    `errors` has all errors."""

    def __init__(self, found: Mapping[KeyT, ResultT | ClientError]) -> None:
        self._found = dict(found)

    def __getitem__(self, key: KeyT) -> ResultT:
        found = self._found[key]
        if isinstance(found, ClientError):
            raise found
        return found

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"Results({self._found!r})"

    @property
    def errors(self) -> dict[KeyT, ClientError]:
        return {key: one for key, one in self._found.items() if isinstance(one, ClientError)}

    def check(self) -> Self:
        """Raise the first error, if there is one; else return these results."""
        for error in self.errors.values():
            raise error
        return self


def item_error(code: ErrorCode, what: str, message: str = "") -> ClientError:
    """Return the client's exception for Kafka's error code on one item, such as one topic of several. Its text begins
    with `what`, the name of the item."""
    text = f"{what}: {message or code.name}"
    if code.name.endswith("_AUTHORIZATION_FAILED"):
        return AuthorizationError(f"{what}: {message or 'the user may not do that'}", code)
    if code.is_retriable and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return RetriableError(text, code)
    return RefusedError(text, code)


class ConfigResource(IntEnum):
    """The kinds of resource that have configs, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 for partitions or replicas takes the cluster's default.

    `assignment` (partition → replicas, the leader first) replaces both numbers.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[int, tuple[int, ...]] | None = None


class TopicCreated(NamedTuple):
    name: str
    topic_id: str
    partitions: int
    replication_factor: int


class PartitionDescription(NamedTuple):
    partition: int
    leader: int
    """The leader's node id; -1: there is no leader now."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class TopicDescription(NamedTuple):
    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    """The config's value; None: the value is secret, or not set."""
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


class GroupListing(NamedTuple):
    group_id: str
    kind: str
    """The kind of group: consumer (KIP-848), classic, share or streams."""
    state: str
    protocol: str


class GroupMemberDescription(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int
    """The member's epoch; -1 for a member of a classic group."""
    assignment: frozenset[Partition]


class GroupDescription(NamedTuple):
    group_id: str
    kind: str
    state: str
    epoch: int
    assignor: str
    members: tuple[GroupMemberDescription, ...]


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    """The start of the open transaction, in ms since 1970; -1: no transaction is open."""
    partitions: frozenset[Partition]


class ProducerDescription(NamedTuple):
    """One producer's state at a partition's leader: its id, epoch, last sequence, and the start of an open
    transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    open_since_offset: int
    """The first offset of the producer's open transaction in the partition; -1: none is open."""


class FencedProducer(NamedTuple):
    producer_id: int
    producer_epoch: int


class FeatureDescription(NamedTuple):
    """One feature of the cluster. `finalized` None: the cluster has not turned the feature on."""

    supported: tuple[int, int] | None
    finalized: int | None


class BrokerDescription(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller: int
    brokers: tuple[BrokerDescription, ...]
