"""A gRPC call as its caller holds it: `read`, `write`, `await`, iteration, `cancel`, and the status at the end."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, Final, Protocol

import grpc
import grpc.aio

from oncelog_robustness.simulator.grpc_wire import (
    CANCEL,
    DATA,
    HALF_CLOSE,
    HEADERS,
    INITIAL_METADATA,
    STATUS,
    WINDOW,
    Frame,
    Metadata,
    Options,
    StreamEnd,
    Wire,
)
from oncelog_robustness.simulator.loop import SimLoop

_CANCELLED_HERE: Final = "Locally cancelled by application!"
_FINISHED: Final = "RPC already finished."


class Channel(Protocol):
    """The part of a simulated gRPC channel that its calls use."""

    loop: SimLoop
    options: Options

    def forget(self, stream: "ClientStream") -> None:
        """Remove the call from the channel's open calls, because it is over."""


class ClientStream(StreamEnd):
    """A gRPC call as its connection knows it. `SimCall` is what the caller holds."""

    def __init__(self, channel: Channel, path: str, timeout_s: float | None) -> None:
        super().__init__(channel.loop)
        self.channel = channel
        self.path = path
        self.request: bytes | None = None
        """The whole request, for a call that has one request."""
        self.metadata: Metadata = ()
        self.deadline = None if timeout_s is None else self._loop.time() + timeout_s
        self.connected: asyncio.Future[None] = self._loop.create_future()
        self.initial_metadata: Metadata = ()
        self.answered: asyncio.Future[None] = self._loop.create_future()
        """A future that is done when the server's first message came, or the call is over."""
        self.status: tuple[grpc.StatusCode, str, Metadata] | None = None
        self.is_cancelled_here = False
        self.has_closed_half = False
        self.callbacks: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        if timeout_s is not None:
            self._timer = self._loop.call_later(max(0.0, timeout_s), self._is_late)

    @property
    def is_done(self) -> bool:
        """True if the call has a status, and every message before the status was read."""
        return self.status is not None and not self.inbox

    def open(self, wire: Wire, stream_id: int) -> None:
        self.wire, self.stream_id = wire, stream_id
        timeout_s = None if self.deadline is None else self.deadline - self._loop.time()
        is_whole = self.has_closed_half = self.request is not None
        extra = (self.path, timeout_s, self.metadata, is_whole)
        wire.send(HEADERS, stream_id, self.request or b"", extra)
        self.connected.set_result(None)

    def frame_received(self, frame: Frame) -> None:
        kind, _, payload, extra = frame
        if kind == DATA:
            assert self.wire is not None
            if self.wire.options.is_too_large_to_receive(payload):
                limit = self.wire.options.receive_bytes_max
                self.give_up(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"CLIENT: Received message larger than max ({len(payload)} vs. {limit})",
                )
            else:
                self._has_answered()
                self.put(payload)
        elif kind == WINDOW:
            self.was_read(extra)
        elif kind == INITIAL_METADATA:
            self.initial_metadata = extra
            self._has_answered()
        elif kind == STATUS:
            self.end(*extra)

    def end(self, code: grpc.StatusCode, details: str, metadata: Metadata = ()) -> None:
        if self.status is not None:
            return
        self.status = code, details, metadata
        self.is_over = self.has_all = True
        if self._timer is not None:
            self._timer.cancel()
        self.channel.forget(self)
        if not self.connected.done():
            self.connected.set_result(None)
        self._has_answered()
        self.wake_all()
        for callback in self.callbacks:
            self._loop.call_soon(callback)

    def _has_answered(self) -> None:
        if not self.answered.done():
            self.answered.set_result(None)

    def give_up(self, code: grpc.StatusCode, details: str) -> None:
        """End the call here and inform the other side; messages that were not read are lost."""
        if self.status is not None:
            return
        if self.wire is not None:
            self.wire.send(CANCEL, self.stream_id)
        self.inbox.clear()
        self.end(code, details)

    def _is_late(self) -> None:
        self.give_up(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")


async def until_done(stream: ClientStream) -> None:
    ended = stream.channel.loop.create_future()

    def notify() -> None:
        if not ended.done():
            ended.set_result(None)

    stream.callbacks.append(notify)
    await ended


class SimCall:
    """The object that the caller of a simulated gRPC call holds: `read`, `write`, iteration, `cancel`, and
    the status. As in gRPC, the call goes on when this object is dropped."""

    poller: "asyncio.Task[None] | None" = None

    def __init__(self, stream: ClientStream, serializer: Any, deserializer: Any) -> None:
        self._stream = stream
        self._serializer = serializer
        self._deserializer = deserializer

    def serialize(self, message: Any) -> bytes:
        encoded: bytes = message if self._serializer is None else self._serializer(message)
        return encoded

    def _deserialized(self, payload: bytes) -> Any:
        return payload if self._deserializer is None else self._deserializer(payload)

    # ------------------------------------------------------------------------------------------------- reading

    async def read(self) -> Any:
        if self._stream.is_done:
            self._raise_for_status()
            return grpc.aio.EOF
        return await self._read()

    async def _read(self) -> Any:
        payload = await self._next()
        if payload is None:
            self._raise_for_status()
            return grpc.aio.EOF
        return self._deserialized(payload)

    async def _next(self) -> bytes | None:
        try:
            return await self._stream.next_message()
        except asyncio.CancelledError:
            self.cancel()
            raise

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[Any]:
        while True:
            payload = await self._next()
            if payload is None:
                self._raise_for_status()
                return
            yield self._deserialized(payload)

    # ------------------------------------------------------------------------------------------------- writing

    async def wait_for_connection(self) -> None:
        await self._connected()

    async def _connected(self) -> None:
        if not self._stream.connected.done():
            await asyncio.shield(self._stream.connected)
        if self._stream.is_done:
            self._raise_for_status()

    async def write(self, request: Any) -> None:
        stream = self._stream
        if stream.is_done:
            raise asyncio.InvalidStateError(_FINISHED)
        if stream.has_closed_half:
            raise asyncio.InvalidStateError('RPC is half closed after calling "done_writing".')
        await self._connected()
        payload = self.serialize(request)
        if stream.channel.options.is_too_large_to_send(payload):
            stream.give_up(grpc.StatusCode.RESOURCE_EXHAUSTED, "Sent message larger than max")
        try:
            if stream.is_over or not await stream.send_message(payload):
                self._raise_for_status()
                raise asyncio.InvalidStateError(_FINISHED)
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def done_writing(self) -> None:
        stream = self._stream
        if stream.is_over or stream.has_closed_half:
            return
        await self._connected()
        stream.has_closed_half = True
        if stream.wire is not None:
            stream.wire.send(HALF_CLOSE, stream.stream_id)

    # --------------------------------------------------------------------------------------------------- ends

    def cancel(self) -> bool:
        stream = self._stream
        if stream.is_done:
            return False
        stream.is_cancelled_here = stream.status is None
        stream.give_up(grpc.StatusCode.CANCELLED, _CANCELLED_HERE)
        if self.poller is not None:
            self.poller.cancel()
        return True

    def cancelled(self) -> bool:
        status = self._stream.status
        return status is not None and status[0] is grpc.StatusCode.CANCELLED

    def done(self) -> bool:
        return self._stream.is_done

    def time_remaining(self) -> float | None:
        deadline = self._stream.deadline
        return None if deadline is None else max(0.0, deadline - self._stream.channel.loop.time())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._stream.callbacks.append(lambda: callback(self))

    async def code(self) -> grpc.StatusCode:
        return (await self._final())[0]

    async def details(self) -> str:
        return (await self._final())[1]

    async def initial_metadata(self) -> Metadata:
        if not self._stream.answered.done():
            await asyncio.shield(self._stream.answered)
        return self._stream.initial_metadata

    async def trailing_metadata(self) -> Metadata:
        return (await self._final())[2]

    async def _final(self) -> tuple[grpc.StatusCode, str, Metadata]:
        if self._stream.status is None:
            await until_done(self._stream)
        assert self._stream.status is not None
        return self._stream.status

    def _raise_for_status(self) -> None:
        stream = self._stream
        assert stream.status is not None
        code, details, metadata = stream.status
        if stream.is_cancelled_here:
            raise asyncio.CancelledError
        if code is not grpc.StatusCode.OK:
            raise grpc.aio.AioRpcError(
                code,
                grpc.aio.Metadata(*stream.initial_metadata),
                grpc.aio.Metadata(*metadata),
                details=details,
                debug_error_string=f"simulated: {details}",
            )


class SimUnaryCall(SimCall):
    """A simulated gRPC call with one response, which the caller gets by awaiting this object."""

    _answer: bytes | None = None

    def __await__(self) -> Generator[Any, None, Any]:
        return self._response().__await__()

    async def _response(self) -> Any:
        payload = await self._next()
        if payload is not None:
            self._answer = payload
            await self._next()
        self._raise_for_status()
        if self._answer is None:
            raise grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, details="no answer came")
        return self._deserialized(self._answer)
