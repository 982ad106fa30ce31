"""One process of a cluster: its server, its registration, its session with the controller, its image of the cluster.

    node = Node(settings, [pb.ROLE_STORAGE])
    storage = build_storage(storage_settings, node.node_id, node.metadata, node.directory)
    await node.start()                      # bound, registered, and the image is there
    await storage.start()
    node.serve(STORAGE, storage.servicer)   # until then other nodes are answered UNAVAILABLE
    await node.ready()                      # its first heartbeat makes it a living node
    ...
    await node.drain(timeout_s)             # the controller moves leaders and shards away
    await storage.stop()
    await node.stop()

While no controller answers the node goes on with the image it has. It cannot go on when a newer process has taken its
node id, nor when the metadata is not the one it has followed (ADR 0039): then `failure()` returns why, and the process
must end.

With node id 0 the controller gives the node its id (ADR 0025). What is built with the id needs the real one, so then
`await node.claim()` binds and registers before anything is built; where the id is set it does nothing.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, OncelogError, error_code_of
from oncelog.rpc.backoff import Backoff
from oncelog.rpc.cluster_directory import ClusterDirectory
from oncelog.rpc.controller_stub import ActiveControllerStub, ControllerStreams
from oncelog.rpc.metadata import MetadataFollower
from oncelog.rpc.mutual_tls import limits_of
from oncelog.rpc.node_settings import NO_NODE_ID, NodeSettings
from oncelog.rpc.server import RpcServer
from oncelog.rpc.session_pool import SessionPool
from oncelog.rpc.sessions import PeerUnavailable

logger = logging.getLogger(__name__)

REGISTER_TIMEOUT_S = 5.0
BEAT_OF_SESSION = 0.3
"""The part of a session timeout between two heartbeats: two lost ones, or a busy moment, must not look like a dead
process."""

DRAINING_BEAT_S = 0.1
RETRY_PAUSE_MS = 20
RETRY_PAUSE_MAX_MS = 1000

_WAIT_AND_REGISTER = (
    ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class NodeHistory(Protocol):
    """Keeps a storage node's registrations in its data folder, so that a mixed-up folder is noticed (ADR 0027)."""

    def begin(self, incarnation_id: str) -> None: ...

    def message(self) -> pb.FolderHistory | None: ...

    def registered(self) -> None: ...

    def follow(self, metadata: MetadataFollower) -> None: ...

    def close(self) -> None: ...


class Node:
    """This process as a node of the cluster (see the module). Roles are built with its `metadata` and `directory`."""

    def __init__(self, settings: NodeSettings, roles: Sequence[pb.Role]) -> None:
        self._settings = settings
        self._roles = list(roles)
        self._incarnation_id = uuid.uuid4().hex
        limits = limits_of(settings)
        self._pool = SessionPool(limits)
        controllers = settings.controller_addresses
        if not controllers:
            raise OncelogError(
                f"ONCELOG_NODE_CONTROLLERS={settings.controllers!r} names no controller; "
                "give host:port of each, separated by commas"
            )
        self._controller = ActiveControllerStub(controllers, self._pool)
        self.server = RpcServer(settings.host, settings.port, limits)
        self._take_id(settings.node_id)
        self.kafka_host = ""
        self.kafka_port = 0
        self.configs: Mapping[str, str] = {}
        """Settings under Kafka's names, for the registration; set before `start` (`oncelog.broker_config`)."""
        self.history: NodeHistory | None = None
        """The history of a node with a data folder; set before `start`."""
        self._node_epoch = -1
        self._is_registered = False
        self._session_timeout_s = 9.0
        self._answered_at = 0.0
        self._heard_at = 0.0
        self._is_ready = asyncio.Event()
        self._wants_drain = False
        self._is_drained = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._failure: asyncio.Future[BaseException] | None = None
        self._task: asyncio.Task[None] | None = None
        self._acquainted: asyncio.Task[None] | None = None
        self._getting_ready: asyncio.Task[None] | None = None

    def _take_id(self, node_id: int) -> None:
        """Set the node id, and build the objects that depend on it."""
        self._node_id = node_id
        self.metadata = MetadataFollower(node_id, self._controller)
        self.directory = ClusterDirectory(
            node_id,
            self.metadata,
            self._controller,
            frozenset(self._settings.controller_addresses),
            self._pool,
        )

    @property
    def node_id(self) -> int:
        """The node's id. If the controller gives it, it is 0 until `claim` returns."""
        return self._node_id

    @property
    def _is_given(self) -> bool:
        return self._settings.node_id == NO_NODE_ID

    @property
    def node_epoch(self) -> int:
        """The epoch that the controller gave with the last registration; -1 before the first."""
        return self._node_epoch

    @property
    def rpc_address(self) -> str:
        """The address that other nodes are told, once the node is started."""
        return self._settings.address(self.server.port)

    def advertise_kafka(self, host: str, port: int) -> None:
        """Set the address at which clients reach this node's listener; call it before `start`."""
        assert self._task is None, "the address is part of the registration"
        self.kafka_host, self.kafka_port = host, port

    def serve(self, service_name: str, servicer: object) -> None:
        """Answer calls of this service from now on. Calls from this process go to the servicer directly."""
        self.directory.add_local(service_name, servicer)
        self.server.served.add(service_name, servicer)

    async def claim(self) -> None:
        """Get the node id from the controller, if the settings have none. It waits for a controller as long as it
        takes.

        Raises OncelogError when the address cannot be had or the controller refuses the node.
        """
        if self._is_given and not self._is_registered:
            await self._bind_and_register()

    async def _bind_and_register(self) -> None:
        await self.server.start()
        try:
            if self.history is not None:
                self.history.begin(self._incarnation_id)
            await self._register()
            if self.history is not None:
                self.history.follow(self.metadata)
        except BaseException:
            await self.stop()
            raise
        self._is_registered = True

    async def start(self) -> None:
        """Bind the address, register the node, and wait for the metadata image. It waits for a controller as long as it
        takes.

        Raises OncelogError when the address cannot be had or the controller refuses the node.
        """
        self._failure = asyncio.get_running_loop().create_future()
        if not self._is_registered:
            await self._bind_and_register()
        try:
            self._task = asyncio.create_task(self._stay(), name="node session")
            self._task.add_done_callback(self._ended)
            self._acquainted = asyncio.create_task(
                self._controller.keep_acquainted(), name="sessions with controllers"
            )
            self._acquainted.add_done_callback(self._ended)
            await self._image_or_failure()
        except BaseException:
            await self.stop()
            raise

    async def ready(self, after: Callable[[], Awaitable[None]] | None = None) -> None:
        """Begin heartbeats. Once `after` has returned, the health service says that this process is ready.

        Until its first heartbeat the controller counts a registered node as fenced and gives it nothing to lead.
        """
        self._is_ready.set()
        if after is None:
            await self.server.set_ready(True)
        else:
            self._getting_ready = asyncio.create_task(self._ready_after(after), name="ready")
            self._getting_ready.add_done_callback(self._ended)

    async def _ready_after(self, after: Callable[[], Awaitable[None]]) -> None:
        await after()
        await self.server.set_ready(True)

    async def ready_no_more(self) -> None:
        """Let the health service say that this process is not ready; heartbeats go on."""
        if self._getting_ready is not None:
            self._getting_ready.cancel()
            await asyncio.wait((self._getting_ready,))
        await self.server.set_ready(False)

    async def failure(self) -> BaseException:
        """Wait for an error that this node cannot recover from, and return it. Its process must then end."""
        assert self._failure is not None, "the node was not started"
        return await asyncio.shield(self._failure)

    async def drain(self, timeout_s: float) -> bool:
        """Ask the controller to move leaderships and shards off this node. Return True when that is done.

        False: it is not done within `timeout_s`, or no controller answers for a while: perhaps all are being stopped.
        """
        await self.ready_no_more()
        if not self._is_ready.is_set():
            return True
        self._wants_drain = True
        self._beat_now.set()
        loop = asyncio.get_running_loop()
        began = loop.time()
        silence_s = self._settings.drain_silence_ms / 1000
        while not self._is_drained.is_set():
            give_up_at = min(began + timeout_s, max(began, self._heard_at) + silence_s)
            if loop.time() >= give_up_at:
                logger.warning("node %d stops without having been drained", self.node_id)
                return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(give_up_at):
                    await self._is_drained.wait()
        return True

    async def stop(self) -> None:
        """End the session with the controller, take no more calls, close every connection."""
        for task in (self._task, self._acquainted):
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))
        await self.ready_no_more()
        if self.history is not None:
            self.history.close()
        await self.server.stop()
        await self._pool.close()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        logger.error("node %d cannot go on: %s", self.node_id, error)
        if self._failure is not None and not self._failure.done():
            self._failure.set_result(error)

    async def _image_or_failure(self) -> None:
        while not await self._image_came():
            # The process stood still between its registration and its first image, and the controller forgot it.
            await self._register()

    async def _image_came(self) -> bool:
        """Wait for an image of the metadata that has this node.

        False: after a session timeout no image has it. That is only checked if the controller gave the node's id.
        Raises the node's failure.
        """
        image = asyncio.create_task(
            self.metadata.wait_for(lambda image: self.node_id in image.nodes, None)
        )
        failure = asyncio.create_task(self.failure())
        timeout_s = self._session_timeout_s if self._is_given else None
        try:
            done, _ = await asyncio.wait(
                (image, failure), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if failure.done():
                raise failure.result()
            return bool(done)
        finally:
            image.cancel()
            failure.cancel()

    # ------------------------------------------------------------------------------------------- registration

    async def _register(self) -> None:
        """Register the node, and repeat that until a controller accepts. Raises OncelogError when one refuses it for
        good.
        """
        loop = asyncio.get_running_loop()
        backoff = Backoff(RETRY_PAUSE_MS, RETRY_PAUSE_MAX_MS)
        logged_at = float("-inf")
        while True:
            waits_for = await self._try_to_register()
            if waits_for is None:
                return
            if loop.time() >= logged_at + self._settings.register_log_interval_ms / 1000:
                logged_at = loop.time()
                logger.warning("%s waits to be registered: %s", self._name, waits_for)
            await backoff.pause()

    async def _try_to_register(self) -> str | None:
        """Try once to register the node. Return None when it is done, otherwise the reason why it must be repeated."""
        node = pb.Node(
            node_id=self.node_id,
            roles=self._roles,
            rpc_address=self.rpc_address,
            kafka_host=self.kafka_host,
            kafka_port=self.kafka_port,
            rack=self._settings.rack,
            configs=self.configs,
            given=self._is_given,
        )
        folder = None if self.history is None else self.history.message()
        request = pb.RegisterNodeRequest(
            node=node, incarnation_id=self._incarnation_id, folder=folder
        )
        try:
            answer = await self._controller.RegisterNode(request, timeout=REGISTER_TIMEOUT_S)
        except (PeerUnavailable, TimeoutError) as error:
            return str(error)
        error_code = error_code_of(answer.status.error_code)
        reason = f"{error_code.name} {answer.status.error_message}"
        if error_code is ErrorCode.NONE:
            self._node_epoch = answer.node_epoch
            self._session_timeout_s = answer.session_timeout_ms / 1000
            if self.node_id == NO_NODE_ID:
                self._take_id(answer.node_id)
            if self.history is not None:
                self.history.registered()
            return None
        if self._is_given and error_code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            raise self._replaced(reason)
        if error_code is ErrorCode.KAFKA_STORAGE_ERROR and self._is_registered:
            # A node that starts waits. A running node would go on serving what the controller does not know of.
            raise self._in_another_history(reason)
        if error_code.is_retriable or error_code in _WAIT_AND_REGISTER:
            return reason
        raise OncelogError(f"the controller refuses {self._name}: {reason}")

    @property
    def _name(self) -> str:
        return f"node {self.node_id}" if self.node_id else "a node without an id"

    def _replaced(self, reason: str) -> OncelogError:
        way_out = "; its next start gets another id" if self._is_given else ""
        return OncelogError(
            f"a newer process has taken node id {self.node_id}; this one must end{way_out}: {reason}"
        )

    def _in_another_history(self, reason: str) -> OncelogError:
        return OncelogError(f"node {self.node_id} must end: {reason}")

    # ------------------------------------------------------------------------------------------------ session

    async def _stay(self) -> None:
        """Keep the heartbeat stream and the metadata stream with the active controller, for ever; register again where
        needed.
        """
        backoff = Backoff(RETRY_PAUSE_MS, RETRY_PAUSE_MAX_MS)
        is_quiet = False
        while True:
            answered_at = self._answered_at
            try:
                await self._stay_with_one()
            except _MustRegister as must:
                logger.warning("node %d registers again: %s", self.node_id, must)
                await self._register()
            except PeerUnavailable as error:
                if self._answered_at != answered_at:
                    backoff.reset()
                    is_quiet = False
                log = logger.debug if is_quiet else logger.warning
                log("node %d lost the controller: %s", self.node_id, error)
                is_quiet = True
            await backoff.pause()

    async def _stay_with_one(self) -> None:
        """Keep the heartbeat stream and the metadata stream with one controller.

        Raises PeerUnavailable when the controller is lost, _MustRegister, and OncelogError when another process took
        the node id.
        """
        async with self._controller.connection() as streams:
            # Not a task group: it forgets its cancellation when a member fails in the same moment. Here the two meet:
            # the silence after which a drain gives up is as long as that of a lost heartbeat.
            parts = [
                asyncio.create_task(self._beat(streams)),
                asyncio.create_task(self._watch(streams)),
            ]
            try:
                await asyncio.wait(parts, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                for part in parts:
                    part.cancel()
                ends = await asyncio.gather(*parts, return_exceptions=True)
            errors = [end for end in ends if isinstance(end, Exception)]
            if errors:
                raise _gravest(errors)

    async def _watch(self, streams: ControllerStreams) -> None:
        request = pb.WatchMetadataRequest(
            node_id=self.node_id,
            from_metadata_offset=self.metadata.image.metadata_offset,
            seen=self.metadata.image.position,
        )
        async for update in streams.watch(request):
            self.metadata.apply_update(update)

    async def _beat(self, streams: ControllerStreams) -> None:
        await self._is_ready.wait()
        session = streams.node_session()
        loop = asyncio.get_running_loop()
        while True:
            answer = await session.beat(
                pb.NodeHeartbeatRequest(
                    node_id=self.node_id,
                    node_epoch=self._node_epoch,
                    metadata_offset=self.metadata.image.metadata_offset,
                    want_drain=self._wants_drain,
                    seen=self.metadata.image.position,
                ),
                timeout_s=self._session_timeout_s / 2,
            )
            self._heartbeat_answered(answer, loop.time())
            interval_s = self._session_timeout_s * BEAT_OF_SESSION
            if self._wants_drain:
                interval_s = min(interval_s, DRAINING_BEAT_S)
            self._beat_now.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_s):
                    await self._beat_now.wait()

    def _heartbeat_answered(self, answer: pb.NodeHeartbeatResponse, now: float) -> None:
        # A controller that cannot write at the moment counts, too: not all are being stopped.
        self._heard_at = now
        error_code = error_code_of(answer.status.error_code)
        reason = f"{error_code.name} {answer.status.error_message}"
        if error_code is ErrorCode.STALE_BROKER_EPOCH:
            raise self._replaced(reason)
        if error_code is ErrorCode.KAFKA_STORAGE_ERROR:
            raise self._in_another_history(reason)
        if self._wants_drain and (answer.fenced or answer.drained):
            # A fenced node leads nothing, and is not brought back to life for its last moments.
            self._answered_at = now
            self._is_drained.set()
            return
        if answer.fenced or error_code is ErrorCode.BROKER_ID_NOT_REGISTERED:
            raise _MustRegister("its session had ended" if answer.fenced else reason)
        if error_code is not ErrorCode.NONE:
            # NOT_CONTROLLER, or a controller that cannot write at the moment: look for the active one.
            raise PeerUnavailable(f"the controller answered a heartbeat with {reason}")
        self._answered_at = now


class _MustRegister(OncelogError):
    """The controller has no session of this process any more, so the node must register again."""


def _gravest(errors: list[Exception]) -> Exception:
    """Return the gravest of the errors that ended the two streams to the controller.

    The order is: a bug, a replaced node, a lost registration, a lost stream.
    """
    weights = {PeerUnavailable: 0, _MustRegister: 1, OncelogError: 2}
    return max(errors, key=lambda error: weights.get(type(error), 3))
