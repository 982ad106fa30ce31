"""The gRPC server of a process: its services as plain gRPC, sessions (streams of calls), health and reflection.

    server = RpcServer("0.0.0.0", 9090, limits)
    server.served.add(STORAGE, storage.servicer)
    await server.start()
    await server.set_ready(True)

Every method that is called over sessions can also be called with grpcurl or from another language.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import grpc
import grpc.aio
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from oncelog.api.v1.peer_pb2 import SessionFrame
from oncelog.errors import OncelogError
from oncelog.rpc.callers import CALLER_ROLE
from oncelog.rpc.channel import server_options
from oncelog.rpc.contract import PEER, SERVICES
from oncelog.rpc.mutual_tls import role_of
from oncelog.rpc.peer_certificates import PeerCertificates
from oncelog.rpc.served import CallRefused, Served, ServedMethods, check_caller
from oncelog.rpc.session_server import PeerServicer
from oncelog.rpc.sessions import SessionLimits

DRAIN_TIMEOUT_S = 5.0
PLAIN_CALLS_MAX = 10_000
"""The most sessions, metadata streams and plain calls at a time, of all callers together;
more are RESOURCE_EXHAUSTED."""

LIVENESS = "liveness"
"""The name under which the health service says that the process lives: SERVING from its start to its stop. The answer
comes from the event loop, so a process that is stuck gives none. The empty name says whether the process is ready."""

_SESSION_PATH = SERVICES[PEER].methods["Session"].path


class RpcServer:
    """The gRPC server of one process. `start` binds its address, `stop` lets calls in flight finish.

    `served` has the methods that it answers; more can be added while it runs.
    """

    def __init__(self, host: str, port: int, limits: SessionLimits) -> None:
        self._host = host
        self._requested_port = port
        self._limits = limits
        self.served = ServedMethods()
        self._certificates = None if limits.tls is None else PeerCertificates(limits.tls)
        self._peer = PeerServicer(self.served, limits, self._certificates)
        self._looking: asyncio.Task[None] | None = None
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self._is_ready = False
        self.port = port

    @property
    def calls_in_flight(self) -> int:
        """The number of calls from other processes that are not answered yet. Plain gRPC calls do not count."""
        return self._peer.calls_in_flight

    @property
    def is_ready(self) -> bool:
        """True if the health service says that the process is ready."""
        return self._is_ready

    async def start(self) -> None:
        """Bind the address and serve. Raises OncelogError when the address cannot be had."""
        server = grpc.aio.server(
            options=server_options(self._limits), maximum_concurrent_rpcs=PLAIN_CALLS_MAX
        )
        await self.set_ready(False)
        await self._health.set(LIVENESS, health_pb2.HealthCheckResponse.SERVING)
        handler = _ContractHandler(self.served, self._peer, self._certificates)
        server.add_generic_rpc_handlers((handler,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = [service.full_name for service in SERVICES.values()]
        names += [health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, server)
        address = f"{f'[{self._host}]' if ':' in self._host else self._host}:{self._requested_port}"
        try:
            if self._limits.tls is None:
                self.port = server.add_insecure_port(address)
            else:
                credentials = self._limits.tls.server_credentials()
                self.port = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            await server.stop(None)
            raise OncelogError(
                f"cannot listen on {address} for calls of other nodes: the address is in use or not of this host; "
                "choose another with ONCELOG_NODE_HOST and ONCELOG_NODE_PORT"
            ) from error
        await server.start()
        self._server = server
        if self._certificates is not None:
            self._looking = asyncio.create_task(
                self._certificates.run(), name="certificates of callers"
            )

    async def stop(self, timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Take no more calls, finish those in flight within `timeout_s`, close every connection."""
        server, self._server = self._server, None
        if server is None:
            return
        if self._looking is not None:
            self._looking.cancel()
        await self.set_ready(False)
        await self._peer.drain(timeout_s)
        await server.stop(0)

    async def set_ready(self, is_ready: bool) -> None:
        """Set whether the health service says that this process is ready; probes and load balancers ask it."""
        self._is_ready = is_ready
        status = health_pb2.HealthCheckResponse
        await self._health.set("", status.SERVING if is_ready else status.NOT_SERVING)


class _ContractHandler(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the servicer's method for gRPC when a call comes, so roles may be added while the server runs."""

    def __init__(
        self, served: ServedMethods, peer: PeerServicer, certificates: PeerCertificates | None
    ) -> None:
        """`certificates` checks those of callers; None: calls are without TLS, and any process may call."""
        self._served = served
        self._certificates = certificates
        self._session = grpc.stream_stream_rpc_method_handler(
            peer.Session,
            request_deserializer=SessionFrame.FromString,
            response_serializer=SessionFrame.SerializeToString,
        )

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler | None:
        path = handler_call_details.method
        if path == _SESSION_PATH:
            return self._session
        try:
            return _handler(self._served.find(path), self._certificates)
        except CallRefused as refused:
            if refused.code is grpc.StatusCode.UNIMPLEMENTED:
                return None
            return _refusing(refused)


def _require_good(certificates: PeerCertificates, context: grpc.aio.ServicerContext) -> None:
    reason = certificates.refusal(context.auth_context(), time.time())
    if reason:
        raise CallRefused(grpc.StatusCode.UNAUTHENTICATED, reason)


def _ends_task(reasons: list[str]) -> Callable[[str], None]:
    """Return a function that adds its argument, a reason, to `reasons` and cancels the current task."""
    task = asyncio.current_task()
    assert task is not None

    def end(reason: str) -> None:
        reasons.append(reason)
        task.cancel()

    return end


def _handler(served: Served, certificates: PeerCertificates | None) -> grpc.RpcMethodHandler:
    """Return the object by which gRPC calls this method.

    A unary call is served like a call over a session. A stream is the servicer's own generator.
    """
    method = served.method
    if method.is_unary:

        async def answer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            try:
                if certificates is not None:
                    _admit(context, method.path)
                    _require_good(certificates, context)
                return await served.call(served.read(request))
            except CallRefused as refused:
                await context.abort(refused.code, refused.message)
                raise

        return grpc.unary_unary_rpc_method_handler(answer)

    async def stream(
        request: Message | AsyncIterator[Message], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[Message]:
        forget = None
        refused_for: list[str] = []
        if certificates is not None:
            try:
                _admit(context, method.path)
            except CallRefused as refused:
                await context.abort(refused.code, refused.message)
        answers = aiter(served.answer(request, context))
        try:
            if certificates is not None:
                forget = certificates.hold(context.auth_context(), _ends_task(refused_for))
            while True:
                try:
                    response = await served.called(anext(answers))
                except StopAsyncIteration:
                    return
                yield response
        except CallRefused as refused:
            await context.abort(refused.code, refused.message)
        except asyncio.CancelledError:
            if not refused_for:
                raise
            await context.abort(grpc.StatusCode.UNAVAILABLE, refused_for[0])
        finally:
            if forget is not None:
                forget()
            close = getattr(answers, "aclose", None)
            if close is not None:
                await close()

    kind = (
        grpc.stream_stream_rpc_method_handler
        if method.takes_stream
        else grpc.unary_stream_rpc_method_handler
    )
    return kind(
        stream,
        request_deserializer=method.request_from_string,
        response_serializer=_serialized,
    )


def _admit(context: grpc.aio.ServicerContext, path: str) -> None:
    """Raise CallRefused if the caller's role may not call the method; else store the role for the servicer
    (`CALLER_ROLE`).
    """
    role = role_of(context.auth_context())
    check_caller(role, path)
    CALLER_ROLE.set(role)


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _refusing(refused: CallRefused) -> grpc.RpcMethodHandler:
    async def refuse(request: bytes, context: grpc.aio.ServicerContext) -> None:
        await context.abort(refused.code, refused.message)

    return grpc.unary_unary_rpc_method_handler(refuse)
