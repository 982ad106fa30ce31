"""The brokers of one cluster: a connection to each that is needed, the leaders and the coordinators.

Connections open in the background: `ready` says whether one is there, and asks for it where it is not. After a failed
attempt a broker is left alone for a while that grows (`reconnect.backoff.ms`). Metadata is asked for when a topic is
needed, when an answer says that the metadata is old, and after `metadata.max.age.ms`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from oncelog.client.core.addresses import Address
from oncelog.client.core.backoff import Backoff
from oncelog.client.core.cluster_view import ClusterView, Leader, Node
from oncelog.client.core.login import ClientLogin
from oncelog.client.core.spoken import TRANSACTION_VERSION, TV2
from oncelog.client.errors import (
    AuthenticationError,
    ClientError,
    DisconnectedError,
    FatalError,
    RetriableError,
    TimedOutError,
)
from oncelog.client.network.connection import Connection, Features
from oncelog.client.network.metadata_messages import metadata_request, topic_views
from oncelog.errors import ErrorCode, KafkaError, error_code_of
from oncelog.ids import Partition
from oncelog.protocol import versions

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

logger = logging.getLogger(__name__)

GROUP, TRANSACTION = 0, 1
"""The kinds of coordinator that FindCoordinator finds."""
START_TIMEOUT_MS: Final = 30_000
"""Milliseconds within which a client must have reached its cluster. An error then says why it could not."""
_METADATA_PAUSE_S: Final = 0.1
"""Seconds between two requests for metadata that brought no news."""

ResultT = TypeVar("ResultT")
TypesT = TypeVar("TypesT")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
Build: TypeAlias = Callable[[TypesT], RequestT]
"""A function that makes a request from the constructors of its version (`Schema.request_types`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """The settings of a program's network, beside its servers and its login. Times are in milliseconds."""

    client_id: str = "oncelog"
    connect_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """The settings with which a client reaches its brokers. Times are in milliseconds."""

    bootstrap: tuple[Address, ...]
    client_id: str = "oncelog"
    login: ClientLogin | None = None
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000


class Brokers:
    """The brokers of one cluster for one client: its metadata and its connections, on one event loop. `close` ends
    it."""

    def __init__(
        self,
        settings: NetworkSettings,
        on_change: Callable[[], None] | None = None,
        *,
        makes_topics: bool = False,
    ) -> None:
        """Make the view without connecting. `on_change` is called after each change of connections or metadata.
        `makes_topics`: a Metadata request may create missing topics, if the broker allows it, but none that existed
        once: it was deleted."""
        self.settings = settings
        self.view = ClusterView()
        self.features = Features(-1, {})
        self.fatal: FatalError | None = None
        """The error for which no broker will ever be reached: the login was refused."""
        self._on_change = on_change or (lambda: None)
        self._loop = asyncio.get_running_loop()
        self._connections: dict[Address, Connection] = {}
        self._connecting: dict[Address, asyncio.Task[Connection]] = {}
        self._backoffs: dict[Address, Backoff] = {}
        self._resting: dict[Address, float] = {}
        self._muted: dict[Address, float] = {}
        """Brokers that asked for silence (KIP-219), with the time until which nothing is sent to them."""
        self._coordinators: dict[tuple[int, str], int] = {}
        self._makes_topics = makes_topics
        self._found_once: set[str] = set()
        self._topics: dict[str, None] = {}
        """Topics that somebody needs."""
        self._refreshing: asyncio.Task[None] | None = None
        self._asked_at = float("-inf")
        self._age_timer: asyncio.TimerHandle | None = None
        self.last_failure: ClientError | None = None
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True
        if self._age_timer is not None:
            self._age_timer.cancel()
        tasks = [*self._connecting.values(), *([self._refreshing] if self._refreshing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()

    @property
    def has_tv2(self) -> bool:
        """True if the cluster has finalized the transaction protocol of KIP-890 (`transaction.version` 2)."""
        return self.features.levels.get(TRANSACTION_VERSION, 0) >= TV2

    # ---------------------------------------------------------------------------------------------- connections

    def ready(self, node_id: int) -> Connection | None:
        """Return an open connection to the node that is not throttled. None: there is none now, one is being opened,
        and `on_change` is called later."""
        node = self.view.nodes.get(node_id)
        if node is None:
            return None
        connection = self._connections.get(node.address)
        now = self._loop.time()
        if connection is None or now >= connection.renew_at:
            self._connect_soon(node.address)
        if connection is None or node.address in self._muted:
            return None
        return connection

    def throttle(self, connection: Connection, seconds: float) -> None:
        """Send nothing to a broker for some seconds, because its answer asked for that (KIP-219)."""
        if seconds > 0:
            self._leave_alone(self._muted, connection.address, seconds)

    def _leave_alone(self, whom: dict[Address, float], address: Address, seconds: float) -> None:
        """Send nothing to a broker until a timer removes it from `whom`, and then call `on_change`.

        The timer alone decides: a timer of uvloop may be a millisecond early, so comparing the clock then would be
        wrong.
        """
        until = self._loop.time() + seconds
        if until > whom.get(address, 0.0):
            whom[address] = until
            self._loop.call_at(until, self._look_again, whom, address, until)

    def _look_again(self, whom: dict[Address, float], address: Address, until: float) -> None:
        if whom.get(address) == until:
            del whom[address]
            self._on_change()

    async def connection(self, address: Address) -> Connection:
        """Return the open connection to `address`; make one if there is none. Raises the errors of
        `Connection.connect`.
        """
        found = self._connections.get(address)
        if found is not None and self._loop.time() < found.renew_at:
            return found
        return await asyncio.shield(self._connect_task(address))

    def _connect_soon(self, address: Address) -> None:
        if address in self._connecting or self.fatal is not None or self.is_closed:
            return
        if address in self._resting:
            return
        self._connect_task(address).add_done_callback(_retrieved)

    def _connect_task(self, address: Address) -> asyncio.Task[Connection]:
        task = self._connecting.get(address)
        if task is None:
            task = self._loop.create_task(self._connect(address), name=f"connect {address}")
            self._connecting[address] = task
        return task

    async def _connect(self, address: Address) -> Connection:
        settings = self.settings
        try:
            connection = await Connection.connect(
                address, settings.client_id, settings.connect_timeout_ms / 1000, settings.login
            )
        except ClientError as error:
            self._failed_to_connect(address, error)
            raise
        finally:
            self._connecting.pop(address, None)
        old = self._connections.get(address)
        self._connections[address] = connection
        connection.on_close = lambda: self._lost(connection)
        if old is not None:
            self._retire(old)
        self._backoffs.pop(address, None)
        self._resting.pop(address, None)
        if connection.features.epoch >= self.features.epoch:
            self.features = connection.features
        self._on_change()
        return connection

    def _failed_to_connect(self, address: Address, error: ClientError) -> None:
        self.last_failure = error
        if isinstance(error, AuthenticationError):
            self.fatal = error
        settings = self.settings
        backoff = self._backoffs.setdefault(
            address,
            Backoff(
                settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, random.random
            ),
        )
        pause_s = backoff.next_ms() / 1000
        self._leave_alone(self._resting, address, pause_s)
        logger.info("%s; the next attempt is in %.0f ms", error, pause_s * 1000)
        self.update_soon()
        self._on_change()

    def _retire(self, connection: Connection) -> None:
        """Close a connection that a newer one has replaced, once its last answer has come."""
        if connection.pending_count:
            self._loop.call_later(0.1, self._retire, connection)
        else:
            connection.close()

    def _lost(self, connection: Connection) -> None:
        if self._connections.get(connection.address) is connection:
            del self._connections[connection.address]
        if not self.is_closed:
            self.update_soon()
            self._on_change()

    async def reach(self, timeout_ms: int) -> None:
        """Wait until a broker has described the cluster, 30 s at most.
        Raises TimedOutError, and FatalError if a broker refuses."""
        try:
            await self.retrying(
                lambda: self.refresh(()), min(START_TIMEOUT_MS, timeout_ms), "reaching the cluster"
            )
        except KafkaError as error:
            raise FatalError(str(error), error.error_code) from error

    async def any_connection(self) -> Connection:
        """Return the open connection with the fewest pending requests; else connect to the first broker that accepts.

        The bootstrap addresses come last. Raises what the last attempt raised.
        """
        if self.fatal is not None:
            raise self.fatal
        now = self._loop.time()
        usable = [one for one in self._connections.values() if one.is_open and now < one.renew_at]
        if usable:
            return min(usable, key=lambda one: one.pending_count)
        known = [node.address for node in self.view.nodes.values()]
        random.shuffle(known)
        failure: ClientError = DisconnectedError("no broker is known")
        for address in dict.fromkeys((*known, *self.settings.bootstrap)):
            try:
                return await self.connection(address)
            except RetriableError as error:
                failure = error
        raise failure

    # ---------------------------------------------------------------------------------------------- calls

    async def call(
        self,
        connection: Connection,
        api_key: kafka.ApiKey[TypesT, RequestT, object, ResponseT],
        build: Build[TypesT, RequestT],
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> ResponseT:
        """Send a request on this connection, in the newest version that both sides know, at most `at_most`. Return the
        answer.

        Raises DisconnectedError, TimedOutError, UnsupportedError. `timeout_ms` None: the time-out of the settings.
        """
        schema = connection.schema(api_key, at_most)
        timeout_s = (timeout_ms or self.settings.request_timeout_ms) / 1000
        response = await connection.call(schema, build(schema.request_types), timeout_s)
        throttle: timedelta | None = getattr(response, "throttle_time", None)
        if throttle:
            self.throttle(connection, throttle.total_seconds())
        return response

    async def call_any(
        self,
        api_key: kafka.ApiKey[TypesT, RequestT, object, ResponseT],
        build: Build[TypesT, RequestT],
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> ResponseT:
        return await self.call(await self.any_connection(), api_key, build, timeout_ms, at_most)

    async def call_node(
        self,
        node_id: int,
        api_key: kafka.ApiKey[TypesT, RequestT, object, ResponseT],
        build: Build[TypesT, RequestT],
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> ResponseT:
        """Send a request to a node by its id, as `call` does, and return the answer. Raises
        KafkaError(COORDINATOR_NOT_AVAILABLE) for a node that is not in the metadata."""
        node = self.view.nodes.get(node_id)
        if node is None:
            self.update_soon()
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"node {node_id} is not in the metadata"
            )
        connection = await self.connection(node.address)
        return await self.call(connection, api_key, build, timeout_ms, at_most)

    async def call_coordinator(
        self,
        kind: int,
        key: str,
        api_key: kafka.ApiKey[TypesT, RequestT, object, ResponseT],
        build: Build[TypesT, RequestT],
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> ResponseT:
        """Send a request to the coordinator of this group or transactional id, as `call` does. `kind` is GROUP or
        TRANSACTION. After a failure the coordinator is looked up again for the next call."""
        node_id = await self.coordinator_of(kind, key)
        try:
            return await self.call_node(node_id, api_key, build, timeout_ms, at_most)
        except (ClientError, KafkaError):
            self.forget_coordinator(kind, key)
            raise

    async def coordinator_of(self, kind: int, key: str) -> int:
        """Return the node id of the coordinator of the group or transactional id `key`. Raises KafkaError with the
        error of FindCoordinator."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        response = await self.call_any(
            versions.FIND_COORDINATOR,
            lambda types: types.FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,)),
        )
        found = response.coordinators[0]
        code = error_code_of(found.error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, found.error_message or f"coordinator of {key!r}")
        node = Node(found.node_id, Address(found.host, found.port), None)
        if (
            self.view.nodes.get(node.node_id, node).address != node.address
            or node.node_id not in self.view.nodes
        ):
            nodes = {**self.view.nodes, node.node_id: node}
            self.view = self.view.with_answer(
                nodes.values(), (), self.view.cluster_id, self.view.controller
            )
        self._coordinators[(kind, key)] = node.node_id
        return node.node_id

    def forget_coordinator(self, kind: int, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    async def retrying(
        self, attempt: Callable[[], Awaitable[ResultT]], timeout_ms: int, what: str
    ) -> ResultT:
        """Repeat a call while it raises a retriable error and time is left; then TimedOutError tells the last error.
        `what` names the call in its text.

        The call must do no harm when it is done twice.
        """
        deadline = self._loop.time() + timeout_ms / 1000
        backoff = Backoff(
            self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms, random.random
        )
        while True:
            try:
                async with asyncio.timeout_at(deadline) as limit:
                    return await attempt()
            except RetriableError as error:
                last: Exception = error
            except KafkaError as error:
                if not error.error_code.is_retriable:
                    raise
                last = error
            except TimeoutError as error:
                if not limit.expired():
                    raise
                last = error
            pause_s = backoff.next_ms() / 1000
            if self._loop.time() + pause_s >= deadline:
                said = (
                    self.last_failure if isinstance(last, TimeoutError) and not str(last) else last
                )
                raise TimedOutError(
                    f"{what} did not succeed in {timeout_ms} ms: {said or 'no answer'}"
                ) from last
            await asyncio.sleep(pause_s)

    # ---------------------------------------------------------------------------------------------- metadata

    def need(self, topics: Iterable[str]) -> bool:
        """Keep the metadata of these topics up to date from now on. Return True if all of them are known already."""
        is_known = True
        for topic in topics:
            if topic not in self._topics:
                self._topics[topic] = None
            if topic not in self.view.topics:
                is_known = False
        if not is_known:
            self.update_soon()
        return is_known

    def update_soon(self) -> None:
        """Ask for the metadata of the needed topics, in the background. `on_change` is called when it is there."""
        if self._refreshing is None and not self.is_closed:
            self._refreshing = self._loop.create_task(self._refresh_later(), name="metadata")
            self._refreshing.add_done_callback(self._refreshed)

    def told_of_leader(self, partition: Partition, leader: Leader, node: Node | None) -> None:
        """Store the newer leader that a Produce or Fetch answer named (KIP-951)."""
        self.view = self.view.with_leader(partition, leader, node)

    async def refresh(self, topics: Sequence[str] | None) -> ClusterView:
        """Ask for the metadata of these topics (None: of all), store it, and return the new view. Raises as `call_any`
        does."""
        is_any_new = not self._found_once.issuperset(topics or ())
        response = await self.call_any(
            versions.METADATA,
            lambda types: metadata_request(
                types, topics, may_make=self._makes_topics and is_any_new
            ),
        )
        nodes = [
            Node(one.node_id, Address(one.host, one.port), one.rack) for one in response.brokers
        ]
        found = topic_views(response)
        self._found_once.update(one.name for one in found if one.leaders)
        self._asked_at = self._loop.time()
        if nodes:
            self.view = self.view.with_answer(
                nodes, found, response.cluster_id or "", response.controller_id
            )
        return self.view

    async def _refresh_later(self) -> None:
        """Ask for metadata until an answer has come, at most ten times a second."""
        while not self.is_closed and self.fatal is None:
            wait_s = self._asked_at + _METADATA_PAUSE_S - self._loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            try:
                await self.refresh(list(self._topics))
            except RetriableError as error:
                self.last_failure = error
                self._asked_at = self._loop.time()
                continue
            except FatalError as error:
                self.fatal = error
            return

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if task.cancelled() or self.is_closed:
            return
        if task.exception() is not None:
            logger.error("metadata could not be read", exc_info=task.exception())
        if self._age_timer is not None:
            self._age_timer.cancel()
        self._age_timer = self._loop.call_later(
            self.settings.metadata_max_age_ms / 1000, self.update_soon
        )
        self._on_change()


def _retrieved(task: asyncio.Task[Connection]) -> None:
    """Read the task's exception, so that asyncio does not log it as never seen: `on_change` was told of the failure."""
    if not task.cancelled():
        task.exception()
