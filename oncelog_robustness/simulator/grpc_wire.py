"""The frames that two ends of a simulated gRPC connection exchange: those of HTTP/2 that matter, but not their bytes.

Messages travel serialized; only the framing around them is a tuple instead of bytes. Each stream has a window in each
direction, so a message that is not read holds up its writer. Each end pings a quiet connection.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import grpc

from oncelog_robustness.simulator.links import End, checksum

if TYPE_CHECKING:
    from oncelog_robustness.simulator.network import SimNetwork

SETTINGS: Final = 0
HEADERS: Final = 1  # extra: path, timeout_s, metadata, whether the payload is the whole request
DATA: Final = 2
HALF_CLOSE: Final = 3
INITIAL_METADATA: Final = 4  # extra: metadata
STATUS: Final = 5  # extra: code, details, metadata
CANCEL: Final = 6
WINDOW: Final = 7  # extra: bytes that were read
PING: Final = 8
PONG: Final = 9
GO_AWAY: Final = 10

Frame = tuple[int, int, bytes, Any]
Metadata = tuple[tuple[str, Any], ...]

_FRAME_BYTES: Final = 16
"""The bytes that count for a frame besides its payload, so that empty frames are bounded, too."""


class Options:
    """The options of a channel or a server: the part of gRPC's channel arguments that is simulated."""

    def __init__(self, given: Any) -> None:
        options: Mapping[str, Any] = dict(given or ())
        self.keepalive_s = options.get("grpc.keepalive_time_ms", 7_200_000) / 1000
        self.keepalive_timeout_s = options.get("grpc.keepalive_timeout_ms", 20_000) / 1000
        self.receive_bytes_max: int = options.get(
            "grpc.max_receive_message_length", 4 * 1024 * 1024
        )
        self.send_bytes_max: int = options.get("grpc.max_send_message_length", -1)

    def is_too_large_to_receive(self, payload: bytes) -> bool:
        return 0 <= self.receive_bytes_max < len(payload)

    def is_too_large_to_send(self, payload: bytes) -> bool:
        return 0 <= self.send_bytes_max < len(payload)


class Wire:
    """One end of one simulated gRPC connection: it sends and receives frames, and pings a quiet peer. The
    client's and the server's ends are subclasses."""

    def __init__(self, network: "SimNetwork", end: End, options: Options) -> None:
        self._end = end
        self._loop = network.loop
        self.options = options
        self.window_bytes = network.profile.grpc_window_bytes
        self._last_received = self._loop.time()
        self._pinged_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if not self._end.is_open:
            # The connection broke before the process took it up.
            self._loop.call_soon(self.lost, "recvmsg:Connection reset by peer")
            return
        self._watch(self.options.keepalive_s, self._is_quiet)
        self._end.attach(self)

    @property
    def is_open(self) -> bool:
        return self._end.is_open

    @property
    def peer_address(self) -> tuple[str, int]:
        return self._end.peer.address

    def send(self, kind: int, stream_id: int, payload: bytes = b"", extra: Any = None) -> None:
        self._end.send(
            (kind, stream_id, payload, extra), _FRAME_BYTES + len(payload), checksum(payload)
        )

    def close(self) -> None:
        """Close the connection; frames that were sent still arrive."""
        self._stop_watching()
        self._end.close()

    # ------------------------------------------------------------------------------------------------ receiver

    def received(self, item: Frame | bytes) -> None:
        if isinstance(item, bytes):
            self._lose("this is not HTTP/2")
            return
        self._last_received = self._loop.now_s
        kind = item[0]
        if kind == PING:
            self.send(PONG, 0)
        elif kind != PONG:
            self.handle(item)

    def finished(self) -> None:
        self._lose("Socket closed")

    def broken(self, error: OSError) -> None:
        self._lose(f"recvmsg:{error.strerror}")

    def has_room(self) -> None:
        return

    def handle(self, frame: Frame) -> None:
        raise NotImplementedError

    def lost(self, why: str) -> None:
        """React to the loss of the connection, for the reason `why`; subclasses implement this."""
        raise NotImplementedError

    def _lose(self, why: str) -> None:
        self._stop_watching()
        self._end.abort()
        self.lost(why)

    # ----------------------------------------------------------------------------------------------- keepalive

    def _watch(self, after_s: float, look: Any) -> None:
        self._timer = self._loop.call_at(
            self._loop.time() + after_s, look, context=self._end.context
        )

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_quiet(self) -> None:
        quiet_s = self._loop.time() - self._last_received
        if quiet_s < self.options.keepalive_s - 1e-6:
            self._watch(self.options.keepalive_s - quiet_s, self._is_quiet)
            return
        self._pinged_at = self._loop.time()
        self.send(PING, 0)
        self._watch(self.options.keepalive_timeout_s, self._has_answered)

    def _has_answered(self) -> None:
        if self._last_received > self._pinged_at:
            self._is_quiet()
        else:
            self._lose("keepalive watchdog timeout")


class StreamEnd:
    """One end of one gRPC call: the messages that wait to be read, and the flow control of those that are
    written."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.wire: Wire | None = None
        self.stream_id = 0
        self.inbox: deque[bytes] = deque()
        self.has_all = False
        """True if no message will come any more."""
        self.is_over = False
        """True if the call has ended, so that nothing can be sent."""
        self._read_bytes = 0
        self._unread_bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    def put(self, payload: bytes) -> None:
        self.inbox.append(payload)
        self.wake_reader()

    def wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def wake_all(self) -> None:
        self.wake_reader()
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    async def next_message(self) -> bytes | None:
        """Wait for the next message and return it; None when no message will come any more."""
        while not self.inbox:
            if self.has_all:
                return None
            if self._reader is not None and not self._reader.done():
                raise grpc.aio.UsageError("only one read at a time")
            self._reader = self._loop.create_future()
            await self._reader
        payload = self.inbox.popleft()
        self._read_bytes += _FRAME_BYTES + len(payload)
        wire = self.wire
        if wire is not None and not self.is_over and 2 * self._read_bytes >= wire.window_bytes:
            wire.send(WINDOW, self.stream_id, b"", self._read_bytes)
            self._read_bytes = 0
        return payload

    async def send_message(self, payload: bytes) -> bool:
        """Wait for room in the call's flow-control window, then send the message and return True. Return
        False if the call is over."""
        wire = self.wire
        assert wire is not None
        while self._unread_bytes >= wire.window_bytes and not self.is_over:
            if self._writer is None or self._writer.done():
                self._writer = self._loop.create_future()
            # Shielded: several may wait, as when a session is drained while it writes.
            await asyncio.shield(self._writer)
        if self.is_over:
            return False
        self._unread_bytes += _FRAME_BYTES + len(payload)
        wire.send(DATA, self.stream_id, payload)
        return True

    def was_read(self, size: int) -> None:
        self._unread_bytes -= size
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)
