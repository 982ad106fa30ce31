"""Kafka's protocol for a client on asyncio. A connection has up to five requests under way, answered in their
order.

    Unreachable   the request was not sent
    Lost          it was sent, and no response came: it may have been carried out
    KafkaError    the response has this error (`oncelog.errors`)

The caller repeats a request, because it knows what is safe to repeat; `retrying` does so for requests that always
are.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version as installed_version
from typing import Any, Final, TypeVar

from oncelog.client.core.addresses import Address, parse_addresses
from oncelog.client.login import Exchange, login_exchange, tls_context
from oncelog.errors import ErrorCode, KafkaError, error_code_of
from oncelog.protocol import versions
from oncelog.protocol.frames import (
    LENGTH_BYTES,
    FrameError,
    framed,
    read_correlation_id,
    write_request_head,
)
from oncelog.protocol.messages import schema_of
from oncelog_robustness.clients.login import chosen_login
from oncelog_robustness.history import Partition

SPOKEN: Final[Mapping[int, int]] = {
    versions.PRODUCE: 12,
    versions.LIST_OFFSETS: 6,
    versions.METADATA: 9,
    versions.OFFSET_COMMIT: 8,
    versions.OFFSET_FETCH: 7,
    versions.FIND_COORDINATOR: 3,
    versions.JOIN_GROUP: 9,
    versions.HEARTBEAT: 4,
    versions.LEAVE_GROUP: 5,
    versions.SYNC_GROUP: 5,
    versions.DESCRIBE_GROUPS: 5,
    versions.LIST_GROUPS: 5,
    versions.API_VERSIONS: 3,
    versions.CREATE_TOPICS: 5,
    versions.DELETE_TOPICS: 4,
    versions.DELETE_RECORDS: 2,
    versions.INIT_PRODUCER_ID: 4,
    versions.ADD_PARTITIONS_TO_TXN: 3,
    versions.CREATE_PARTITIONS: 2,
    versions.END_TXN: 5,
    versions.TXN_OFFSET_COMMIT: 5,
    versions.DELETE_GROUPS: 2,
    versions.INCREMENTAL_ALTER_CONFIGS: 1,
    versions.OFFSET_DELETE: 0,
    versions.DESCRIBE_PRODUCERS: 0,
    versions.DESCRIBE_TRANSACTIONS: 0,
    versions.LIST_TRANSACTIONS: 1,
    versions.CONSUMER_GROUP_HEARTBEAT: 0,
    versions.CONSUMER_GROUP_DESCRIBE: 0,
}
"""The version of each API that is sent; Apache Kafka 4.0 and later has them all. Produce 12, EndTxn 5 and
TxnOffsetCommit 5 make a client speak TV2 (KIP-890)."""

TOPIC_IDS_VERSION: Final = 12
"""The version of Metadata that `topic_id` sends: the first whose request names a topic by its name and whose
response has its id."""

IN_FLIGHT_MAX: Final = 5
"""The most requests under way on a connection, as in the Java client with idempotence."""
CONNECT_TIMEOUT_S: Final = 3.0
REQUEST_TIMEOUT_S: Final = 6.0
BACKOFF_MIN_S: Final = 0.05
BACKOFF_MAX_S: Final = 1.0
GROUP, TRANSACTION = 0, 1
"""The kinds of coordinators that FindCoordinator looks for."""

ResultT = TypeVar("ResultT")


class Unreachable(Exception):
    """The request was not sent, so nothing was done."""


class Lost(Exception):
    """The request was sent, and no response came. It may have been carried out."""


class Connection:
    """An open connection to a broker. After a failed request it is closed for good: where the next response begins
    is unknown then."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._correlation_id = 0
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._reading = asyncio.Lock()
        """The lock under which a request reads its response. Requests get it in the order in which they were sent,
        in which the responses come."""
        self.is_open = True

    @classmethod
    async def connect(cls, address: Address, client_id: str) -> "Connection":
        login = chosen_login()
        context = tls_context(login) if login is not None and login.has_tls else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(
                    address.host, address.port, ssl=context
                )
        except (OSError, TimeoutError) as error:
            raise Unreachable(f"{address}: {error!r}") from error
        connection = cls(reader, writer, client_id)
        if login is not None and login.has_sasl:
            try:
                await connection._log_in(login_exchange(str(address), login))
            except Lost as error:
                raise Unreachable(f"{address}: it went away during the login") from error
        return connection

    async def _log_in(self, exchange: Exchange) -> None:
        """Make the SASL exchange of this login on the connection. Raises Lost, and OncelogError for a login that is
        refused."""
        answer = None
        while True:
            try:
                schema, request = exchange.send(answer)
            except StopIteration:
                return
            answer = await self.call(schema.api_key, request, schema.version)

    async def call(self, api_key: int, request: Any, version: int | None = None) -> Any:
        async with self._room:
            if not self.is_open:
                raise Unreachable("the connection broke under another request")
            schema = schema_of(api_key, SPOKEN[api_key] if version is None else version)
            is_flexible = schema.request.__flexible__
            self._correlation_id = correlation_id = self._correlation_id + 1
            head = write_request_head(
                api_key, schema.version, correlation_id, self._client_id, is_flexible
            )
            is_answered = False
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    self._writer.write(framed([head, *schema.write_request(request)]))
                    # No wait lies between the two, so that a later writer cannot read first.
                    frame = await self._next_answer()
                if read_correlation_id(frame) != correlation_id:
                    raise FrameError("the answer belongs to another request")
                has_tags = schema.response.__flexible__ and api_key != versions.API_VERSIONS
                response = schema.read_response(frame, LENGTH_BYTES + has_tags)
                is_answered = True
            except (OSError, EOFError, TimeoutError, FrameError) as error:
                raise Lost(repr(error)) from error
            finally:
                if not is_answered:
                    self.close()
            return response

    async def _next_answer(self) -> memoryview:
        async with self._reading:
            if not self.is_open:
                raise EOFError("the connection broke under another request")
            size = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
            return memoryview(await self._reader.readexactly(size))

    def close(self) -> None:
        self.is_open = False
        self._writer.close()


class Brokers:
    """A client's connections to the brokers of a cluster, each opened when it is needed. It keeps the leaders and
    coordinators that it has looked up."""

    def __init__(self, bootstrap: Sequence[str], client_id: str) -> None:
        self._bootstrap = parse_addresses(",".join(bootstrap))
        self._client_id = client_id
        self._connections: dict[Address, Connection] = {}
        self._connecting = asyncio.Lock()
        self._addresses: dict[int, Address] = {}
        self._leaders: dict[Partition, int] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._turn = 0

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def call(
        self, address: Address, api_key: int, request: Any, version: int | None = None
    ) -> Any:
        """Send a request to this broker and return the response. `version`, if given, replaces the one in `SPOKEN`;
        `request` must be of that version."""
        connection = await self._connection(address)
        try:
            return await connection.call(api_key, request, version)
        except (Lost, Unreachable):
            self.forget()
            raise

    async def call_any(self, api_key: int, request: Any, version: int | None = None) -> Any:
        """Send a request that any broker can answer, and return the response. The same broker is used until a
        request to it fails; then the next one is."""
        known = tuple(dict.fromkeys((*self._addresses.values(), *self._bootstrap)))
        try:
            return await self.call(known[self._turn % len(known)], api_key, request, version)
        except (Lost, Unreachable):
            self._turn += 1
            raise

    async def _connection(self, address: Address) -> Connection:
        async with self._connecting:
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                connection = await Connection.connect(address, self._client_id)
                self._connections[address] = connection
            return connection

    # -------------------------------------------------------------------------------------------- who is who

    async def check_versions(self) -> Mapping[str, int]:
        """Return the finalized features of the cluster, each with its level. Raises KafkaError(UNSUPPORTED_VERSION)
        if the broker lacks a version in `SPOKEN`."""
        request = types_of(versions.API_VERSIONS).ApiVersionsRequest(
            client_software_name="oncelog-robustness",
            client_software_version=installed_version("oncelog"),
        )
        response = await self.call_any(versions.API_VERSIONS, request)
        check(response.error_code.value, "ApiVersions")
        served = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        for api_key, spoken in SPOKEN.items():
            low, high = served.get(api_key, (0, -1))
            if not low <= spoken <= high:
                name = versions.APIS[api_key].name
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION, f"{name} {low} to {high}; we speak {spoken}"
                )
        return {one.name: one.max_version_level for one in response.finalized_features}

    async def leader_of(self, partition: Partition) -> Address:
        if partition not in self._leaders:
            await self.refresh(partition[0])
        leader = self._addresses.get(self._leaders.get(partition, -1))
        if leader is None:
            self._leaders.pop(partition, None)
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader now")
        return leader

    async def refresh(self, topic: str) -> int:
        """Look up the leaders of a topic's partitions, and return how many partitions it has. Raises KafkaError
        when the topic does not exist."""
        types = types_of(versions.METADATA)
        request = types.MetadataRequest(
            topics=(types.MetadataRequestTopic(name=topic),),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        response = await self.call_any(versions.METADATA, request)
        self._addresses = {one.node_id: Address(one.host, one.port) for one in response.brokers}
        found = response.topics[0]
        check(found.error_code.value, f"metadata of {topic}")
        for one in found.partitions:
            self._leaders[(topic, one.partition_index)] = one.leader_id
        return len(found.partitions)

    async def topic_id(self, topic: str) -> uuid.UUID:
        """Return the topic's id. Raises KafkaError when there is no such topic."""
        types = types_of(versions.METADATA, TOPIC_IDS_VERSION)
        request = types.MetadataRequest(
            topics=(types.MetadataRequestTopic(topic_id=None, name=topic),),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        response = await self.call_any(versions.METADATA, request, TOPIC_IDS_VERSION)
        found = response.topics[0]
        check(found.error_code.value, f"metadata of {topic}")
        assert isinstance(found.topic_id, uuid.UUID), found
        return found.topic_id

    async def coordinator_of(self, kind: int, key: str) -> Address:
        if (kind, key) not in self._coordinators:
            request = types_of(versions.FIND_COORDINATOR).FindCoordinatorRequest(
                key=key, key_type=kind
            )
            response = await self.call_any(versions.FIND_COORDINATOR, request)
            check(response.error_code.value, f"coordinator of {key}")
            self._coordinators[(kind, key)] = Address(response.host, response.port)
        return self._coordinators[(kind, key)]

    def forget(self) -> None:
        """Drop what is known of leaders and coordinators, so that the next request looks them up again."""
        self._leaders.clear()
        self._coordinators.clear()


class Deadline:
    """The time limit of a repeated request, and the pauses between its tries. Each pause is twice as long as the one
    before, up to a second."""

    def __init__(self, timeout_s: float) -> None:
        self._ends_at = time.monotonic() + timeout_s
        self._pause_s = BACKOFF_MIN_S

    async def pause(self) -> bool:
        """Sleep, and return True: the caller may try again. Return False at once if the time limit would be over
        after the sleep."""
        if time.monotonic() + self._pause_s > self._ends_at:
            return False
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, BACKOFF_MAX_S)
        return True


async def retrying(
    brokers: Brokers, attempt: Callable[[], Awaitable[ResultT]], timeout_s: float
) -> ResultT:
    """Call `attempt` until it succeeds, with pauses, for at most `timeout_s`, and return its result. `attempt` must
    do no harm when it is done twice. An error that no repetition cures is raised at once, any other when the time
    is over."""
    deadline = Deadline(timeout_s)
    while True:
        try:
            return await attempt()
        except (Unreachable, Lost, KafkaError) as error:
            if isinstance(error, KafkaError) and not error.error_code.is_retriable:
                raise
            brokers.forget()
            if not await deadline.pause():
                raise


def types_of(api_key: int, version: int | None = None) -> Any:
    return schema_of(api_key, SPOKEN[api_key] if version is None else version).request_types


def check(error_code: int, what: str) -> None:
    code = error_code_of(error_code)
    if code is not ErrorCode.NONE:
        raise KafkaError(code, what)


def by_topic(partitions: Sequence[Partition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
