"""The calling side of `grpc.aio`, over the simulated network: channels, and their connections."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from oncelog_robustness.simulator.contract_calls import as_caller
from oncelog_robustness.simulator.dialing import dial
from oncelog_robustness.simulator.grpc_call import ClientStream, SimCall, SimUnaryCall, until_done
from oncelog_robustness.simulator.grpc_wire import (
    GO_AWAY,
    SETTINGS,
    Frame,
    Options,
    Wire,
)
from oncelog_robustness.simulator.links import End

if TYPE_CHECKING:
    from oncelog_robustness.simulator.network import SimNetwork

_CONNECT_TIMEOUT_S: Final = 20.0


class ClientWire(Wire):
    """The client's end of one gRPC connection. It is ready for calls once the server has sent its
    settings."""

    def __init__(
        self, network: "SimNetwork", end: End, options: Options, channel: "SimChannel"
    ) -> None:
        super().__init__(network, end, options)
        self._channel = channel
        self._streams: dict[int, ClientStream] = {}
        self._last_id = -1

    def open(self, stream: ClientStream) -> None:
        self._last_id += 2
        self._streams[self._last_id] = stream
        stream.open(self, self._last_id)

    def forget(self, stream: ClientStream) -> None:
        self._streams.pop(stream.stream_id, None)

    def handle(self, frame: Frame) -> None:
        kind, stream_id = frame[0], frame[1]
        if kind == SETTINGS:
            self._channel.ready(self)
        elif kind == GO_AWAY:
            self._channel.left(self)
        else:
            stream = self._streams.get(stream_id)
            if stream is not None:
                stream.frame_received(frame)

    def lost(self, why: str) -> None:
        self._channel.left(self)
        for stream in list(self._streams.values()):
            stream.inbox.clear()
            stream.end(grpc.StatusCode.UNAVAILABLE, why)
        self._channel.could_not_connect(self, why)


class SimChannel(grpc.aio.Channel):  # type: ignore[misc]
    """A simulated gRPC channel. It connects at the first call, and again at the first call after the
    connection broke."""

    def __init__(self, network: "SimNetwork", target: str, options: Any) -> None:
        self._network = network
        self.loop = network.loop
        self.options = Options(options)
        host, _, port = target.rpartition(":")
        self._target = target
        self._address = host.strip("[]"), int(port)
        self._wires: dict[ClientWire, None] = {}
        self._ready: ClientWire | None = None
        self._pending: ClientWire | None = None
        self._waiting: dict[ClientStream, None] = {}
        self._calls: dict[ClientStream, None] = {}
        self._connecting: asyncio.Task[None] | None = None
        self._is_closed = False

    async def __aenter__(self) -> "SimChannel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        self._is_closed = True
        if grace and self._calls:
            ended = [asyncio.ensure_future(until_done(stream)) for stream in self._calls]
            await asyncio.wait(ended, timeout=grace)
        for stream in list(self._calls):
            stream.is_cancelled_here = True
            stream.give_up(grpc.StatusCode.CANCELLED, "Channel closed!")
        if self._connecting is not None:
            self._connecting.cancel()
        for wire in list(self._wires):
            wire.close()
        self._wires.clear()
        self._ready = None

    # --------------------------------------------------------------------------------------------- connection

    def begin(self, stream: ClientStream) -> None:
        if self._is_closed:
            raise grpc.aio.UsageError("Channel is closed.")
        self._calls[stream] = None
        if self._ready is not None:
            self._ready.open(stream)
            return
        self._waiting[stream] = None
        if self._connecting is None:
            self._connecting = self.loop.create_task(self._connect())

    def forget(self, stream: ClientStream) -> None:
        self._calls.pop(stream, None)
        self._waiting.pop(stream, None)
        if isinstance(stream.wire, ClientWire):
            stream.wire.forget(stream)

    async def _connect(self) -> None:
        """Connect, and return when the server's settings came or no server can be reached."""
        wire = None
        settled = self._settled = self.loop.create_future()
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                end = await dial(self._network, *self._address)
                wire = ClientWire(self._network, end, self.options, self)
                self._wires[wire] = None
                self._pending = wire
                wire.start()
                await settled
        except OSError as error:
            # A TimeoutError is one, too.
            if wire is not None:
                self._wires.pop(wire, None)
                wire.close()
            why = error.strerror or "Timeout occurred: FD Shutdown"
            self._fail(f"Failed to connect to remote host: connect: {why} ({error.errno})")
        finally:
            self._connecting = self._pending = None
            if self._waiting and self._ready is None and not self._is_closed:
                self._connecting = self.loop.create_task(self._connect())

    def ready(self, wire: ClientWire) -> None:
        self._ready = wire
        waiting, self._waiting = self._waiting, {}
        for stream in waiting:
            wire.open(stream)
        if not self._settled.done():
            self._settled.set_result(None)

    def left(self, wire: ClientWire) -> None:
        """Stop sending new calls on this connection: the server is shutting down, or the connection broke."""
        if self._ready is wire:
            self._ready = None
        if not wire.is_open:
            self._wires.pop(wire, None)

    def could_not_connect(self, wire: ClientWire, why: str) -> None:
        """Fail all calls that wait for a connection if this one ended before it was ready; `why` is their
        error's text."""
        if self._pending is wire and not self._settled.done():
            self._settled.set_result(None)
            self._fail(why)

    def _fail(self, why: str) -> None:
        waiting, self._waiting = self._waiting, {}
        details = (
            f"failed to connect to all addresses; last error: UNKNOWN: ipv4:{self._target}: {why}"
        )
        for stream in waiting:
            stream.end(grpc.StatusCode.UNAVAILABLE, details)

    # --------------------------------------------------------------------------------------------------- calls

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return _maker(self, method, False, False, *args, **kwargs)

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return _maker(self, method, False, True, *args, **kwargs)

    def stream_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return _maker(self, method, True, False, *args, **kwargs)

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return _maker(self, method, True, True, *args, **kwargs)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        raise NotImplementedError("connectivity is not simulated: make a call")

    async def wait_for_state_change(self, last_observed_state: Any) -> None:
        raise NotImplementedError("connectivity is not simulated: make a call")

    async def channel_ready(self) -> None:
        raise NotImplementedError("connectivity is not simulated: make a call")


def _maker(
    channel: SimChannel,
    method: str | bytes,
    takes_stream: bool,
    answers_stream: bool,
    request_serializer: Any = None,
    response_deserializer: Any = None,
    **_: Any,
) -> Callable[..., "SimCall"]:
    path = method.decode() if isinstance(method, bytes) else method

    def call(
        request: Any = None, *, timeout: float | None = None, metadata: Any = None, **_: Any
    ) -> SimCall:
        sent_path, write, read = as_caller(path, request_serializer, response_deserializer)
        stream = ClientStream(channel, sent_path, timeout)
        stream.metadata = tuple(metadata or ())
        kind = SimCall if answers_stream else SimUnaryCall
        made = kind(stream, write, read)
        if not takes_stream:
            stream.request = made.serialize(request)
        channel.begin(stream)
        if takes_stream and request is not None:
            made.poller = channel.loop.create_task(_write_all(made, request))
        return made

    return call


async def _write_all(call: "SimCall", requests: Any) -> None:
    """Write all requests of a streaming call, then close its sending side. If the call ends before, stop
    without an error: the reader of the call gets its status."""
    try:
        if hasattr(requests, "__aiter__"):
            async for request in requests:
                await call.write(request)
        else:
            for request in requests:
                await call.write(request)
        await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return
