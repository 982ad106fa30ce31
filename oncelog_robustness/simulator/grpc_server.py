"""The serving side of `grpc.aio`, over the simulated network."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import grpc
import grpc.aio

from oncelog_robustness.simulator.contract_calls import as_server, contracts_here
from oncelog_robustness.simulator.grpc_wire import (
    CANCEL,
    DATA,
    GO_AWAY,
    HALF_CLOSE,
    HEADERS,
    INITIAL_METADATA,
    SETTINGS,
    STATUS,
    WINDOW,
    Frame,
    Metadata,
    Options,
    StreamEnd,
    Wire,
)
from oncelog_robustness.simulator.links import End
from oncelog_robustness.simulator.listening import Listener

if TYPE_CHECKING:
    from oncelog_robustness.simulator.network import SimNetwork

log = logging.getLogger("grpc")

_OVER: Final = "RPC already finished."


class CallDetails(NamedTuple):
    """The method and metadata of a call, with which a `GenericRpcHandler` is chosen."""

    method: str
    invocation_metadata: Metadata


class ServerCall(StreamEnd, grpc.aio.ServicerContext):  # type: ignore[misc]
    """One gRPC call at the server: its stream of messages, and the context that its handler receives."""

    def __init__(self, wire: "ServerWire", stream_id: int, extra: Any) -> None:
        super().__init__(asyncio.get_running_loop())
        self._server_wire = wire
        self.wire, self.stream_id = wire, stream_id
        self.path, timeout_s, self._metadata, self.has_all = extra
        self.task: asyncio.Task[None] | None = None
        self._handler: Any = None
        self._has_sent_metadata = False
        self._aborted: Exception | None = None
        self._code: grpc.StatusCode | None = None
        self._details = ""
        self._trailing: Metadata = ()
        self._callbacks: list[Callable[[Any], None]] = []
        self._deadline = None if timeout_s is None else self._loop.time() + timeout_s
        self._timer: asyncio.TimerHandle | None = None
        if timeout_s is not None:
            self._timer = self._loop.call_later(max(0.0, timeout_s), self.cancel_by_peer)

    # --------------------------------------------------------------------------------------------------- life

    def begin(self, handler: Any) -> None:
        self._handler = handler
        self.task = self._loop.create_task(self._run())
        self.task.add_done_callback(self._ended)

    def frame_received(self, frame: Frame) -> None:
        kind, _, payload, extra = frame
        if kind == DATA:
            if self._server_wire.options.is_too_large_to_receive(payload):
                self.refuse(
                    grpc.StatusCode.RESOURCE_EXHAUSTED, "SERVER: Received message too large"
                )
                self.cancel_by_peer()
            else:
                self.put(payload)
        elif kind == WINDOW:
            self.was_read(extra)
        elif kind == HALF_CLOSE:
            self.has_all = True
            self.wake_reader()
        elif kind == CANCEL:
            self.cancel_by_peer()

    def cancel_by_peer(self) -> None:
        """End the call and cancel its handler, because the caller gave up, the deadline passed or the
        connection broke."""
        self._finish()
        if self.task is not None:
            self.task.cancel()

    def refuse(self, code: grpc.StatusCode, details: str) -> None:
        """Send the call's final status, which may also be OK, and end the call; do nothing if it is over."""
        if not self.is_over:
            self._server_wire.send(STATUS, self.stream_id, b"", (code, details, self._trailing))
            self._finish()

    def _finish(self) -> None:
        self.is_over = self.has_all = True
        if self._timer is not None:
            self._timer.cancel()
        self.inbox.clear()
        self.wake_all()

    def _ended(self, _: object) -> None:
        self._finish()
        self._server_wire.forget(self)
        for callback in self._callbacks:
            callback(self)

    async def _run(self) -> None:
        try:
            await self._answer()
        except asyncio.CancelledError:
            self.refuse(grpc.StatusCode.CANCELLED, "the handler was cancelled")
        except grpc.aio.BaseError as error:
            if error is not self._aborted and not self.is_over:
                self.refuse(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")
        except Exception as error:  # A handler's bug is its caller's answer, as in gRPC itself.
            log.exception("unexpected error in %s", self.path)
            code = self._code or grpc.StatusCode.UNKNOWN
            self.refuse(code, f"Unexpected {type(error)}: {error}")

    async def _answer(self) -> None:
        handler = self._handler
        request: Any = self._requests()
        if not handler.request_streaming:
            payload = await self.next_message()
            if payload is None:
                return
            request = self._deserialized(payload)
        if handler.response_streaming:
            method = handler.stream_stream if handler.request_streaming else handler.unary_stream
            answers = method(request, self)
            if inspect.isawaitable(answers):
                await answers
            else:
                async for answer in answers:
                    await self.write(answer)
        else:
            method = handler.stream_unary if handler.request_streaming else handler.unary_unary
            answer = await method(request, self)
            await self.write(answer)
        self._check()
        self.refuse(self._code or grpc.StatusCode.OK, self._details)

    async def _requests(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not grpc.aio.EOF:
            yield message

    def _deserialized(self, payload: bytes) -> Any:
        read = self._handler.request_deserializer
        return payload if read is None else read(payload)

    # ------------------------------------------------------------------------------------------------- context

    def _check(self) -> None:
        if self._aborted is not None:
            raise self._aborted
        if self.is_over:
            raise grpc.aio.UsageError(_OVER)

    async def read(self) -> Any:
        if self._aborted is not None:
            raise self._aborted
        payload = await self.next_message()
        return grpc.aio.EOF if payload is None else self._deserialized(payload)

    async def write(self, message: Any) -> None:
        self._check()
        write = self._handler.response_serializer
        payload = message if write is None else write(message)
        if self._server_wire.options.is_too_large_to_send(payload):
            self.refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, "Sent message larger than max")
        if not await self.send_message(payload):
            self._check()

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        self._check()
        if self._has_sent_metadata:
            raise grpc.aio.UsageError("Send initial metadata failed: already sent")
        self._has_sent_metadata = True
        metadata = tuple(initial_metadata)
        self._server_wire.send(INITIAL_METADATA, self.stream_id, b"", metadata)

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()
    ) -> NoReturn:
        if self._aborted is not None:
            raise grpc.aio.UsageError("Abort already called!")
        self._aborted = grpc.aio.AbortError("Locally aborted.")
        self._trailing = tuple(trailing_metadata) or self._trailing
        self.refuse(code, details)
        raise self._aborted

    async def abort_with_status(self, status: Any) -> NoReturn:
        await self.abort(status.code, status.details, status.trailing_metadata)

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        self._trailing = tuple(trailing_metadata)

    def invocation_metadata(self) -> Metadata:
        metadata: Metadata = self._metadata
        return metadata

    def set_code(self, code: grpc.StatusCode) -> None:
        self._code = code

    def set_details(self, details: str) -> None:
        self._details = details

    def set_compression(self, compression: Any) -> None:
        return

    def disable_next_message_compression(self) -> None:
        return

    def peer(self) -> str:
        host, port = self._server_wire.peer_address
        return f"ipv4:{host}:{port}"

    def peer_identities(self) -> None:
        return None

    def peer_identity_key(self) -> None:
        return None

    def auth_context(self) -> Mapping[str, Any]:
        return {}

    def time_remaining(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - self._loop.time())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def done(self) -> bool:
        return self.is_over

    def cancelled(self) -> bool:
        return self.task is not None and self.task.cancelled()


class ServerWire(Wire):
    """The server's end of one gRPC connection, with the calls that are made on it."""

    def __init__(
        self, network: "SimNetwork", end: End, options: Options, server: "SimServer"
    ) -> None:
        super().__init__(network, end, options)
        self._server = server
        self.calls: dict[int, ServerCall] = {}

    def handle(self, frame: Frame) -> None:
        kind, stream_id, payload, extra = frame
        if kind != HEADERS:
            call = self.calls.get(stream_id)
            if call is not None:
                call.frame_received(frame)
            return
        call = self.calls[stream_id] = ServerCall(self, stream_id, extra)
        if call.has_all:
            call.put(payload)
        self._server.begin(call)

    def forget(self, call: ServerCall) -> None:
        self.calls.pop(call.stream_id, None)
        self._server.ended(call)

    def refused(self, call: ServerCall, code: grpc.StatusCode, details: str) -> None:
        call.refuse(code, details)
        self.calls.pop(call.stream_id, None)

    def lost(self, why: str) -> None:
        self._server.left(self)
        for call in list(self.calls.values()):
            call.cancel_by_peer()


class SimServer(grpc.aio.Server):  # type: ignore[misc]
    """A simulated `grpc.aio` server. It looks for a method's handler in the order in which handlers were
    added."""

    def __init__(self, network: "SimNetwork", options: Any, maximum_concurrent_rpcs: int | None):
        self._network = network
        self._options = Options(options)
        self._calls_max = maximum_concurrent_rpcs
        self._contracts = contracts_here()
        self._handlers: list[Any] = []
        self._registered: dict[str, Any] = {}
        self._listeners: list[Listener] = []
        self._wires: dict[ServerWire, None] = {}
        self._calls: dict[ServerCall, None] = {}
        self._is_stopping = False
        self._terminated = asyncio.Event()

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Sequence[Any]) -> None:
        self._handlers.extend(generic_rpc_handlers)

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, Any]
    ) -> None:
        for name, handler in method_handlers.items():
            self._registered[f"/{service_name}/{name}"] = handler

    def add_insecure_port(self, address: str) -> int:
        host, _, port = address.rpartition(":")
        try:
            listener = self._network.listener(host.strip("[]"), int(port))
        except OSError as error:
            raise RuntimeError(f"Failed to bind to address {address}: {error.strerror}") from error
        self._listeners.append(listener)
        return listener.address[1]

    def add_secure_port(self, address: str, server_credentials: Any) -> int:
        raise NotImplementedError("the simulated network carries plain text")

    async def start(self) -> None:
        for listener in self._listeners:
            listener.listen(self._accepted)

    async def stop(self, grace: float | None) -> None:
        """Accept no new calls, and end those in flight after `grace` seconds."""
        if not self._is_stopping:
            self._is_stopping = True
            for listener in self._listeners:
                listener.close()
            for wire in self._wires:
                wire.send(GO_AWAY, 0)
        if grace and (tasks := self._tasks()):
            await asyncio.wait(tasks, timeout=grace)
        for call in list(self._calls):
            call.refuse(grpc.StatusCode.UNAVAILABLE, "Cancelling all calls")
            call.cancel_by_peer()
        if tasks := self._tasks():
            await asyncio.wait(tasks)
        for wire in list(self._wires):
            wire.close()
        self._wires.clear()
        self._terminated.set()

    async def wait_for_termination(self, timeout: float | None = None) -> bool:
        try:
            async with asyncio.timeout(timeout):
                await self._terminated.wait()
        except TimeoutError:
            return True
        return False

    def _tasks(self) -> list["asyncio.Task[None]"]:
        current = asyncio.current_task()
        tasks = (call.task for call in self._calls)
        return [task for task in tasks if task is not None and task is not current]

    def _accepted(self, end: End) -> None:
        wire = ServerWire(self._network, end, self._options, self)
        self._wires[wire] = None
        wire.start()
        wire.send(SETTINGS, 0)

    def left(self, wire: ServerWire) -> None:
        self._wires.pop(wire, None)

    def begin(self, call: ServerCall) -> None:
        wire = call.wire
        assert isinstance(wire, ServerWire)
        if self._is_stopping:
            wire.refused(call, grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
            return
        if self._calls_max is not None and len(self._calls) >= self._calls_max:
            wire.refused(call, grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
            return
        found = self._find(CallDetails(call.path, call.invocation_metadata()))
        handler = as_server(self._contracts, call.path, found)
        if handler is None:
            wire.refused(call, grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            return
        self._calls[call] = None
        call.begin(handler)

    def ended(self, call: ServerCall) -> None:
        self._calls.pop(call, None)

    def _find(self, details: CallDetails) -> Any:
        registered = self._registered.get(details.method)
        if registered is not None:
            return registered
        for generic in self._handlers:
            handler = generic.service(details)
            if handler is not None:
                return handler
        return None
