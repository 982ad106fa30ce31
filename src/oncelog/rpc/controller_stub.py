"""A stub of the controller that finds the active one among several.

Every controller says which one is active (`DescribeController`). A call goes to the active one. It is sent to another
only when that is safe: it was never sent, it was refused with NOT_CONTROLLER, or a repetition changes nothing.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc.aio
from google.protobuf.message import Message

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, OncelogError
from oncelog.rpc.backoff import Backoff
from oncelog.rpc.channel import open_channel
from oncelog.rpc.contract import CONTROLLER, SERVICES, Method, Response, UnaryCall
from oncelog.rpc.session_client import SessionStub
from oncelog.rpc.session_pool import SessionPool
from oncelog.rpc.sessions import PeerUnavailable

DEFAULT_TIMEOUT_S = 15.0
"""Seconds that a call takes at most if its caller gives no timeout: the search for a controller must end."""

logger = logging.getLogger(__name__)

ATTEMPT_TIMEOUT_S = 3.0
"""Seconds for one attempt of a call that may be repeated: a frozen controller must not use up the caller's time."""

DESCRIBE_TIMEOUT_S = 1.0
ACQUAINTED_EVERY_S = 5.0
SEARCH_PAUSE_MS = 50
SEARCH_PAUSE_MAX_MS = 200

REPEATABLE = frozenset(
    {"RegisterNode", "NodeHeartbeat", "DescribeController", "AllocateProducerIds", "DrainNode"}
)
"""The methods that may be called again when their answer is lost: the second call does no harm.

RegisterNode of the same incarnation returns the epoch that it has. A block of producer ids whose answer was lost is
never given again. The other methods state or ask what holds anyway.
"""

_METHODS = SERVICES[CONTROLLER].methods


class ActiveControllerStub:
    """Calls the active controller, whichever of the named ones that is.

    It has the unary methods of `Controller`, as `await stub.CreateTopics(request, timeout=1.0)`, and its streams.
    """

    def __init__(self, addresses: Sequence[str], pool: SessionPool) -> None:
        assert addresses, "at least one controller must be named"
        self._addresses = list(addresses)
        self._pool = pool
        self._active: str | None = None
        self._told: dict[str, str] = {}
        """The address of an active controller → the address that it gives for itself."""
        self._astray: set[str] = set()
        """Addresses that controllers gave for themselves and at which nobody answered: they belong to another
        network."""
        self._search = asyncio.Lock()

    def __getattr__(self, name: str) -> UnaryCall:
        method = None if name.startswith("_") else _METHODS.get(name)
        if method is None or not method.is_unary:
            raise AttributeError(name)
        call = self.__dict__[name] = self._unary(method)
        return call

    def _unary(self, method: Method) -> UnaryCall:
        async def call(request: Message, timeout: float | None = None) -> Response:
            return await self._call(
                method, request, DEFAULT_TIMEOUT_S if timeout is None else timeout
            )

        return call

    async def _call(self, method: Method, request: Message, timeout_s: float) -> Response:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        backoff = Backoff(SEARCH_PAUSE_MS, SEARCH_PAUSE_MAX_MS)
        is_repeatable = method.name in REPEATABLE
        while True:
            address = await self.find(deadline)
            response: Response = None
            lost: Exception | None = None
            try:
                session = self._pool.get(address)
                left_s = max(0.001, deadline - loop.time())
                if is_repeatable:
                    left_s = min(left_s, ATTEMPT_TIMEOUT_S)
                encoded = await session.call(method.path, request.SerializeToString, left_s)
                response = method.response_from_string(encoded)
            except TimeoutError as error:
                # The controller may be frozen: the next attempt asks around first.
                if not is_repeatable or loop.time() >= deadline:
                    self.forget(address)
                    raise
                lost = error
            except PeerUnavailable as error:
                if error.was_sent and not is_repeatable:
                    self.forget(address)
                    raise
                lost = error
            if response is not None and not _is_not_controller(response):
                return response
            self.forget(address)
            pause_s = backoff.next_s()
            if loop.time() + pause_s >= deadline:
                if lost is not None:
                    raise lost
                return response
            await asyncio.sleep(pause_s)

    # ------------------------------------------------------------------------------------------------- search

    async def find(self, deadline: float | None = None) -> str:
        """Return the address of the active controller. Raises PeerUnavailable if none is found by `deadline`.

        `deadline` is a time of the event loop's clock; None: search for ever.
        """
        if self._active is not None:
            return self._active
        try:
            async with asyncio.timeout_at(deadline), self._search:
                backoff = Backoff(SEARCH_PAUSE_MS, SEARCH_PAUSE_MAX_MS)
                while self._active is None:
                    self._active = await self._ask_around()
                    if self._active is None:
                        await backoff.pause()
                return self._active
        except TimeoutError:
            raise PeerUnavailable(
                f"no active controller among {', '.join(self._addresses)}", was_sent=False
            ) from None

    def forget(self, address: str) -> None:
        """Forget that this controller is the active one, as it is not or does not answer. The next call searches
        again.
        """
        if self._active == address:
            self._active = None

    async def _ask_around(self) -> str | None:
        """Ask all controllers at once which one is active, and return its address; None: no controller is, or answers.

        If none of them is active, those that their answers name are asked.
        """
        called: set[str] = set()
        candidates = list(self._addresses)
        while candidates:
            called.update(candidates)
            tasks = [asyncio.create_task(self._describe(address)) for address in candidates]
            hints: list[str] = []
            try:
                for answered in asyncio.as_completed(tasks):
                    address, answer = await answered
                    if answer is None:
                        continue
                    if answer.active:
                        self._told[address] = answer.active_rpc_address or address
                        return address
                    hints.append(answer.active_rpc_address)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
            candidates = [hint for hint in dict.fromkeys(hints) if hint and hint not in called]
        return None

    async def _describe(self, address: str) -> tuple[str, pb.DescribeControllerResponse | None]:
        stub = SessionStub(self._pool.get(address), CONTROLLER)
        try:
            request = pb.DescribeControllerRequest()
            return address, await stub.DescribeController(request, timeout=DESCRIBE_TIMEOUT_S)
        except (PeerUnavailable, TimeoutError):
            return address, None

    async def keep_acquainted(self) -> None:
        """Keep a session (a stream for calls) with every controller, for ever: one that broke is opened again.

        The controller that becomes active is then called over an open connection. Its name need not be resolved in that
        moment: the name server may be busy, or be on the machine that took the active controller with it.
        """
        while True:
            await asyncio.sleep(ACQUAINTED_EVERY_S)
            away = [address for address in self._addresses if not self._pool.get(address).is_open]
            asked = (self._describe(address) for address in away)
            for answer in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(answer, Exception):
                    # It must not end the process: a call that needs the controller finds out by itself.
                    logger.warning("a controller was not asked: %r", answer)

    # ------------------------------------------------------------------------------------------------ streams

    @asynccontextmanager
    async def connection(self, deadline: float | None = None) -> AsyncIterator["ControllerStreams"]:
        """Open a connection to the active controller for its streams: metadata and heartbeats. `deadline` is that of
        `find`.

        Raises PeerUnavailable when the connection breaks.
        """
        found = await self.find(deadline)
        told = self._told.get(found, found)
        # The address that the controller gives for itself needs no name server. If nobody answers there, use the name.
        address = found if told in self._astray else told
        try:
            channel = open_channel(address, self._pool.limits)
        except OncelogError as error:
            # Perhaps the files for TLS are being replaced: the node waits, as for a controller that is away.
            raise PeerUnavailable(f"{address}: {error}", was_sent=False) from error
        streams = ControllerStreams(address, channel)
        try:
            yield streams
        except PeerUnavailable:
            self.forget(found)
            if address != found and not streams.has_answered:
                self._astray.add(address)
            raise
        finally:
            await channel.close()

    async def WatchMetadata(
        self, request: pb.WatchMetadataRequest
    ) -> AsyncIterator[pb.MetadataUpdate]:
        """Yield the updates of the metadata until the stream ends. Raises PeerUnavailable."""
        async with self.connection() as streams:
            async for update in streams.watch(request):
                yield update


class ControllerStreams:
    """The metadata stream and the heartbeat stream of one controller, as plain gRPC.

    They raise PeerUnavailable when they break or end.
    """

    def __init__(self, address: str, channel: grpc.aio.Channel) -> None:
        self.address = address
        self.has_answered = False
        self._channel = channel

    async def watch(self, request: pb.WatchMetadataRequest) -> AsyncIterator[pb.MetadataUpdate]:
        method = _METHODS["WatchMetadata"]
        call = self._channel.unary_stream(
            method.path,
            request_serializer=pb.WatchMetadataRequest.SerializeToString,
            response_deserializer=method.response_from_string,
        )(request)
        try:
            async for update in call:
                self.has_answered = True
                yield update
        except grpc.aio.AioRpcError as error:
            raise self._lost(error) from error
        raise PeerUnavailable(f"{self.address}: the controller ended the metadata stream")

    def node_session(self) -> "NodeSessionStream":
        method = _METHODS["NodeSession"]
        call = self._channel.stream_stream(
            method.path,
            request_serializer=pb.NodeHeartbeatRequest.SerializeToString,
            response_deserializer=method.response_from_string,
        )()
        return NodeSessionStream(self.address, call)

    def _lost(self, error: grpc.aio.AioRpcError) -> PeerUnavailable:
        return PeerUnavailable(f"{self.address}: {error.code().name}: {error.details()}")


class NodeSessionStream:
    """The stream on which one node sends its heartbeats to the controller and gets an answer to each."""

    def __init__(self, address: str, call: grpc.aio.StreamStreamCall) -> None:
        self._address = address
        self._call = call

    async def beat(
        self, request: pb.NodeHeartbeatRequest, timeout_s: float
    ) -> pb.NodeHeartbeatResponse:
        """Send a heartbeat, and return its answer.

        Raises PeerUnavailable when the stream breaks, ends, or stays silent for `timeout_s`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._call.write(request)
                response = await self._call.read()
        except TimeoutError:
            raise PeerUnavailable(
                f"{self._address}: no answer to a heartbeat within {timeout_s:.1f} s"
            ) from None
        except grpc.aio.AioRpcError as error:
            raise PeerUnavailable(
                f"{self._address}: {error.code().name}: {error.details()}"
            ) from error
        except asyncio.InvalidStateError as error:
            # gRPC raises this for a write to a call that had ended: while this process was frozen, for example.
            raise PeerUnavailable(f"{self._address}: the session is over: {error}") from error
        if response is grpc.aio.EOF:
            raise PeerUnavailable(f"{self._address}: the controller ended the node's session")
        answer: pb.NodeHeartbeatResponse = response
        return answer


def _is_not_controller(response: Response) -> bool:
    """Return True if the response says that the controller is not active, for the whole request."""
    fields = response.DESCRIPTOR.fields_by_name
    if "status" in fields:
        return bool(response.status.error_code == ErrorCode.NOT_CONTROLLER)
    for name in ("results", "partitions"):
        if name in fields:
            items = getattr(response, name)
            return bool(items) and all(
                _error_code(item) == ErrorCode.NOT_CONTROLLER for item in items
            )
    return False


def _error_code(item: Response) -> int:
    """Return the error code of a part of a response: of its status if it has one, else its own."""
    holder = item.status if "status" in item.DESCRIPTOR.fields_by_name else item
    return int(holder.error_code)
