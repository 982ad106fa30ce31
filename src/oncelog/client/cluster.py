"""A cluster as the blocking client of Spark sees it: the leaders of partitions, and calls that are repeated until a
broker answers.

The client asks the bootstrap addresses in turn for the metadata. Then it speaks to the leaders directly, over one
connection each. A call that fails with a retriable code, or loses its answer, is repeated with growing pauses until its
deadline. That is safe for every call here: all of them read, or are idempotent by a sequence, a nonce or a name
(docs/kafka-facts.md, 9).

The client speaks one version of each API, present in Kafka 2.7 and later. It raises an error that names a broker
without that version.
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from oncelog.client.connection import Connection, Deadline, PrivateRequest
from oncelog.client.core.addresses import Address
from oncelog.client.core.log_places import READ_COMMITTED
from oncelog.client.core.login import ClientLogin
from oncelog.client.core.transaction_calls import GroupMember, OffsetToCommit
from oncelog.client.network.consumer_messages import (
    commit_codes,
    list_offsets_request,
    offset_commit_request,
)
from oncelog.errors import ErrorCode, KafkaError, OncelogError, error_code_of
from oncelog.ids import NodeId, Partition
from oncelog.protocol import versions
from oncelog.protocol.any_version import AnyMessage
from oncelog.protocol.messages import Schema, schema_of
from oncelog.protocol.private_api import CLIENT_SOFTWARE_NAME, KEY_OF_METHOD
from oncelog.wording import counted

_NO_LEADER_EPOCH: Final = -1
SPOKEN: Final[Mapping[int, int]] = {
    versions.PRODUCE: 12,
    versions.FETCH: 12,
    versions.LIST_OFFSETS: 6,
    versions.METADATA: 9,
    versions.CREATE_TOPICS: 5,
    versions.FIND_COORDINATOR: 3,
    versions.OFFSET_COMMIT: 8,
    versions.INIT_PRODUCER_ID: 4,
    versions.END_TXN: 5,
    versions.DESCRIBE_CONFIGS: 4,
}
"""api key → the version this client speaks. Produce 12 lets the leader add a partition to the transaction, and EndTxn 5
raises the producer's epoch (KIP-890)."""

API_VERSIONS_VERSION: Final = 3

GROUP: Final = 0
TRANSACTION: Final = 1
"""FindCoordinator's key type of a transactional id; `GROUP` is that of a group."""

_TOPIC_APPEARS_MS: Final = 2_000
"""Milliseconds that a topic may be unknown: the metadata of a new topic reaches every broker within this time."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """A client's name, its login and its time limits. All times are in milliseconds."""

    client_id: str = "oncelog"
    login: ClientLogin | None = None
    """The login; None: the connections are unencrypted, and the client is an anonymous user."""
    bootstrap_timeout_ms: int = 10_000
    """The first metadata must come within this time. It is short, so that the user hears of a wrong address soon."""
    request_timeout_ms: int = 30_000
    """The answer to one request must come within this time."""
    call_timeout_ms: int = 120_000
    """A call with its repetitions must succeed within this time, which is longer than a broker's restart."""
    backoff_min_ms: int = 20
    backoff_max_ms: int = 1_000
    isolation_level: int = READ_COMMITTED
    """The isolation level of reads.
    READ_UNCOMMITTED reads to the high watermark, with the records of open and aborted transactions."""


class NoSuchTopicError(OncelogError):
    """The cluster does not know the topic, or the topic has no such partition."""


class _Broker(NamedTuple):
    """The API versions of one broker, and the features that its cluster has finalized, from its ApiVersions answer."""

    versions: Mapping[int, tuple[int, int]]
    """api key → (lowest, highest version)."""
    features: Mapping[str, int]
    """Name → the level that the cluster has finalized."""


class _Leaders(NamedTuple):
    addresses: Mapping[NodeId, Address]
    leaders: Mapping[Partition, NodeId]
    partition_counts: Mapping[str, int]


class Cluster:
    """The blocking client of one cluster: metadata, calls, connections. Connections open as needed; `close` closes
    them. Two threads must not use it at a time."""

    def __init__(
        self, bootstrap: Sequence[Address], settings: ClientSettings | None = None
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self.settings = settings or ClientSettings()
        self._connections: dict[Address, Connection] = {}
        self._brokers: dict[Address, _Broker] = {}
        self._topology = _Leaders({}, {}, {})
        self._has_answered = False

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---------------------------------------------------------------------------------------------- metadata

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Ask for topic → number of partitions. Raises OncelogError naming a topic that does not exist."""
        names = sorted(set(topics))
        self.refresh(names)
        return {name: self._topology.partition_counts[name] for name in names}

    def partition_counts_of_all(self) -> dict[str, int]:
        """Topic → number of partitions, for every topic that the user may see;
        the cluster's internal topics are left out."""

        def attempt() -> dict[str, int]:
            response = self._call_any(self._metadata_request(None))
            self._take(response)
            return {
                topic.name: len(topic.partitions)
                for topic in response.topics
                if not topic.is_internal and error_code_of(topic.error_code.value) is ErrorCode.NONE
            }

        return self.retrying(attempt)

    def refresh(self, topics: Sequence[str]) -> None:
        """Ask for the metadata of these topics, and store which brokers lead their partitions. Raises OncelogError
        naming a topic that does not exist."""
        appears = Deadline(min(_TOPIC_APPEARS_MS, self.settings.call_timeout_ms // 4))

        def attempt() -> None:
            response = self._call_any(self._metadata_request(topics))
            for topic in response.topics:
                code = error_code_of(topic.error_code.value)
                if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and appears.has_passed:
                    raise NoSuchTopicError(
                        f"topic {topic.name!r} does not exist: create it first, "
                        f"for example with `oncelog topics create {topic.name}`"
                    )
                if code is not ErrorCode.NONE:
                    raise KafkaError(code, f"metadata of topic {topic.name!r}")
            self._take(response)

        self.retrying(attempt)

    def leader_of(self, partition: Partition) -> Address:
        """Return the leader's address from the newest metadata; ask for the metadata if it names no leader.

        Raises KafkaError(LEADER_NOT_AVAILABLE), which `retrying` repeats, and OncelogError for a partition that does
        not exist.
        """
        if partition not in self._topology.leaders:
            self.refresh([partition.topic])
        count = self._topology.partition_counts.get(partition.topic, 0)
        if partition.partition >= count:
            raise NoSuchTopicError(
                f"topic {partition.topic!r} has {counted(count, 'partition')}; there is no partition "
                f"{partition.partition}"
            )
        address = self._topology.addresses.get(self._topology.leaders[partition])
        if address is None:
            self.forget_leaders(partition.topic)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader now")
        return address

    # ---------------------------------------------------------------------------------------------- calls

    def list_offsets(
        self, timestamps: Mapping[Partition, int], isolation_level: int | None = None
    ) -> dict[Partition, int]:
        """Return, for each partition, the first offset at or after a time in milliseconds; -1 asks for the partition's
        end, -2 for its first offset.

        The end is the LSO, or the high watermark at READ_UNCOMMITTED. `isolation_level` None: the one in the client's
        settings.

        For a time after the last record the answer is -1. Each leader is asked once for all its partitions.
        """
        found: dict[Partition, int] = {}
        level = self.settings.isolation_level if isolation_level is None else isolation_level
        types = schema_of(versions.LIST_OFFSETS, SPOKEN[versions.LIST_OFFSETS]).request_types

        def attempt() -> None:
            wanted: dict[Address, list[Partition]] = {}
            for partition in timestamps:
                if partition not in found:
                    wanted.setdefault(self.leader_of(partition), []).append(partition)
            for address, partitions in wanted.items():
                asked = [(one, timestamps[one], _NO_LEADER_EPOCH) for one in partitions]
                request = list_offsets_request(
                    types, level, asked, self.settings.request_timeout_ms
                )
                response = self._call(address, versions.LIST_OFFSETS, request)
                for partition, answer in _by_partition(response.topics):
                    self.check_partition(partition, answer.error_code.value)
                    found[partition] = answer.offset

        self.retrying(attempt)
        return found

    def commit_offsets(
        self, group_id: str, offsets: Mapping[Partition, int], timeout_ms: int
    ) -> None:
        """Commit offsets to a group that has no members, as tools do.

        Raises KafkaError: UNKNOWN_MEMBER_ID if the group has members, and any error that lasts for `timeout_ms`.
        """
        places = {partition: OffsetToCommit(offset) for partition, offset in offsets.items()}

        def attempt() -> None:
            types = schema_of(versions.OFFSET_COMMIT, SPOKEN[versions.OFFSET_COMMIT])
            request = offset_commit_request(types.request_types, GroupMember(group_id), places)
            response = self.ask_coordinator(GROUP, group_id, versions.OFFSET_COMMIT, request)
            for partition, code in commit_codes(response).items():
                if code is not ErrorCode.NONE:
                    raise KafkaError(code, f"commit of {partition} to group {group_id!r}")

        self.retrying(attempt, timeout_ms)

    def ask(self, api_key: int, request: object) -> AnyMessage:
        """Send a request to any broker, once, and return the answer. Raises KafkaError if no answer comes; the effect
        is then unknown."""
        return self._call_any((api_key, request))

    def ask_coordinator(self, key_type: int, key: str, api_key: int, request: object) -> AnyMessage:
        """Send a request to the coordinator of this group or transactional id, and return the answer. Raises as
        `ask`."""
        types = schema_of(versions.FIND_COORDINATOR, SPOKEN[versions.FIND_COORDINATOR])
        find = types.request_types.FindCoordinatorRequest(key=key, key_type=key_type)
        found = self.ask(versions.FIND_COORDINATOR, find)
        code = error_code_of(found.error_code.value)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, found.error_message or f"coordinator of {key!r}")
        return self._call(Address(found.host, found.port), api_key, request)

    def offers(self, method: str) -> bool:
        """Return True if the cluster has this private call, which means that it is oncelog. Raises as
        `private_call`."""
        connection = self.retrying(self._any_connection)
        return KEY_OF_METHOD[method] in self._brokers[connection.address].versions

    def feature_level(self, name: str) -> int:
        """Return the level of a feature that the cluster has finalized; 0: none. Raises as `private_call`."""
        connection = self.retrying(self._any_connection)
        return self._brokers[connection.address].features.get(name, 0)

    def private_call(self, method: str, request: PrivateRequest) -> AnyMessage:
        """Make a private call of Spark's sink (`oncelog.protocol.private_api`), and repeat it while its error code is
        retriable.

        Raises OncelogError when the broker is not oncelog, and KafkaError for codes that no repetition cures.
        """

        def attempt() -> AnyMessage:
            connection = self._any_connection()
            if KEY_OF_METHOD[method] not in self._brokers[connection.address].versions:
                raise OncelogError(
                    f"the broker at {connection.address} does not offer {method}: it is no oncelog, which "
                    "alone has this call"
                )
            deadline = Deadline(self.settings.request_timeout_ms)
            try:
                response = connection.call_private(method, request, deadline)
            except KafkaError:
                self._drop(connection)
                raise
            if response.error_code:
                message = response.error_message if hasattr(response, "error_message") else ""
                raise KafkaError(error_code_of(response.error_code), f"{method}: {message}")
            return response

        return self.retrying(attempt)

    def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic with the default replication; a topic that exists already is left as it is."""
        types = schema_of(versions.CREATE_TOPICS, SPOKEN[versions.CREATE_TOPICS]).request_types
        topic = types.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1,
            assignments=(),
            configs=tuple(
                types.CreatableTopicConfig(name=key, value=value)
                for key, value in (configs or {}).items()
            ),
        )
        request = types.CreateTopicsRequest(topics=(topic,))

        def attempt() -> None:
            response = self._call_any((versions.CREATE_TOPICS, request))
            code = error_code_of(response.topics[0].error_code.value)
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise KafkaError(code, f"create topic {name!r}: {response.topics[0].error_message}")

        self.retrying(attempt)

    def open_connection(self, address: Address) -> Connection:
        """Open a connection that the caller alone uses, to send several requests before reading answers. Check its API
        versions. The caller closes it."""
        timeout_ms = (
            self.settings.request_timeout_ms
            if self._has_answered
            else self.settings.bootstrap_timeout_ms
        )
        deadline = Deadline(timeout_ms)
        connection = Connection.connect(
            address, self.settings.client_id, deadline, self.settings.login
        )
        if address not in self._brokers:
            self._brokers[address] = _negotiate(connection, deadline)
        return connection

    def schema(self, address: Address, api_key: int) -> Schema:
        """Return the encoder and decoder of the API's version that this client speaks. Raises OncelogError if the
        broker does not serve it."""
        version = SPOKEN[api_key]
        broker = self._brokers.get(address)
        if broker is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the connection to {address} closed")
        low, high = broker.versions.get(api_key, (0, -1))
        if not low <= version <= high:
            name = versions.APIS[api_key].name
            offers = f"versions {low} to {high}" if high >= 0 else "none"
            raise OncelogError(
                f"the broker at {address} offers {offers} of {name}; this client needs version {version}"
            )
        return schema_of(api_key, version)

    def check_partition(self, partition: Partition, error_code: int) -> None:
        """Raise KafkaError unless the code is NONE. After one such as NOT_LEADER the leader is looked for anew."""
        code = error_code_of(error_code)
        if code is ErrorCode.NONE:
            return
        if code.is_retriable:
            self.forget_leaders(partition.topic)
        raise KafkaError(code, str(partition))

    def retrying(self, attempt: Callable[[], ResultT], timeout_ms: int | None = None) -> ResultT:
        """Call `attempt` until it raises no retriable KafkaError, or the time is over; then raise the last error."""
        deadline = Deadline(self.settings.call_timeout_ms if timeout_ms is None else timeout_ms)
        backoff_ms = float(self.settings.backoff_min_ms)
        while True:
            try:
                return attempt()
            except KafkaError as error:
                if not error.error_code.is_retriable or deadline.left_s < backoff_ms / 1000:
                    raise
                if error.error_code is ErrorCode.NETWORK_EXCEPTION:
                    self.forget_leaders()
            time.sleep(backoff_ms / 1000 * random.uniform(0.8, 1.2))
            backoff_ms = min(backoff_ms * 2, self.settings.backoff_max_ms)

    # ---------------------------------------------------------------------------------------------- inside

    def _call(self, address: Address, api_key: int, request: object) -> AnyMessage:
        connection = self._connection(address)
        schema = self.schema(address, api_key)
        try:
            return connection.call(schema, request, Deadline(self.settings.request_timeout_ms))
        except KafkaError:
            self._drop(connection)
            raise

    def _call_any(self, api_key_and_request: tuple[int, object]) -> AnyMessage:
        api_key, request = api_key_and_request
        return self._call(self._any_connection().address, api_key, request)

    def _connection(self, address: Address) -> Connection:
        if address not in self._connections:
            self._connections[address] = self.open_connection(address)
        return self._connections[address]

    def _any_connection(self) -> Connection:
        """Return an open connection; without one, connect to the first bootstrap address that accepts."""
        for connection in self._connections.values():
            return connection
        if self._has_answered:
            return self._connect_any()
        try:
            connection = self.retrying(self._connect_any, self.settings.bootstrap_timeout_ms)
        except KafkaError as error:
            # Nobody ever answered: more likely a wrong address than a restart, so the caller does not wait longer.
            raise OncelogError(error.message) from error
        self._has_answered = True
        return connection

    def _connect_any(self) -> Connection:
        known = dict.fromkeys((*self._bootstrap, *self._topology.addresses.values()))
        reasons = []
        for address in known:
            try:
                return self._connection(address)
            except KafkaError as error:
                reasons.append(error.message)
        raise KafkaError(
            ErrorCode.NETWORK_EXCEPTION,
            f"no broker answers ({'; '.join(reasons)}). Is the cluster up, and is bootstrap.servers right?",
        )

    def _drop(self, connection: Connection) -> None:
        connection.close()
        self._connections.pop(connection.address, None)
        self._brokers.pop(connection.address, None)

    def _metadata_request(self, topics: Sequence[str] | None) -> tuple[int, object]:
        """Return Metadata's API key, and its request for these topics; None asks for all topics."""
        types = schema_of(versions.METADATA, SPOKEN[versions.METADATA]).request_types
        return versions.METADATA, types.MetadataRequest(
            topics=None
            if topics is None
            else tuple(types.MetadataRequestTopic(name=topic) for topic in topics),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )

    def _take(self, response: AnyMessage) -> None:
        leaders = dict(self._topology.leaders)
        counts = dict(self._topology.partition_counts)
        for topic in response.topics:
            counts[topic.name] = len(topic.partitions)
            for partition in topic.partitions:
                leaders[Partition(topic.name, partition.partition_index)] = partition.leader_id
        addresses = {
            broker.node_id: Address(broker.host, broker.port) for broker in response.brokers
        }
        self._topology = _Leaders(addresses, leaders, counts)

    def forget_leaders(self, topic: str | None = None) -> None:
        """Make the next call ask again for the leaders of this topic; None: of all topics."""
        kept = {
            partition: leader
            for partition, leader in self._topology.leaders.items()
            if topic is not None and partition.topic != topic
        }
        self._topology = self._topology._replace(leaders=kept)


def _negotiate(connection: Connection, deadline: Deadline) -> _Broker:
    """Ask the broker for its API versions and features, and return them. Our software name makes oncelog list its
    private calls too."""
    schema = schema_of(versions.API_VERSIONS, API_VERSIONS_VERSION)
    request = schema.request_types.ApiVersionsRequest(
        client_software_name=CLIENT_SOFTWARE_NAME,
        client_software_version=installed_version("oncelog"),
    )
    try:
        response = connection.call(schema, request, deadline)
        code = error_code_of(response.error_code.value)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"ApiVersions at {connection.address}")
    except KafkaError:
        connection.close()
        raise
    return _Broker(
        {api.api_key: (api.min_version, api.max_version) for api in response.api_keys},
        {one.name: one.max_version_level for one in response.finalized_features},
    )


def _by_partition(topics: Iterable[AnyMessage]) -> Iterable[tuple[Partition, AnyMessage]]:
    for topic in topics:
        for answer in topic.partitions:
            yield Partition(topic.name, answer.partition_index), answer
