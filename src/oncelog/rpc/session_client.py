"""The calling end of sessions: a session is one gRPC stream to another process that carries many calls (ADR 0013).

    session = PeerSession("10.0.0.7:9090", limits)
    storage = SessionStub(session, STORAGE)
    response = await storage.Produce(request, timeout=1.0)

The stubs look like gRPC's. The stream is opened by the first call. When it breaks, every call on it fails at once with
PeerUnavailable, and after a jittered pause the next call opens another. Calls of one turn of the event loop leave in
one frame.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import grpc
import grpc.aio
from google.protobuf.message import EncodeError, Message

from oncelog.api.v1.peer_pb2 import SessionFrame, SessionReply
from oncelog.errors import OncelogError
from oncelog.rpc.backoff import Backoff
from oncelog.rpc.channel import open_channel
from oncelog.rpc.contract import PEER, SERVICES, Method, Response, UnaryCall
from oncelog.rpc.deadline import DeadlineTimer
from oncelog.rpc.served import NOT_BEGUN
from oncelog.rpc.sessions import MethodMissing, PeerUnavailable, SessionLimits
from oncelog.rpc.trace_context import calling_span, take_answered, write_caller

_SESSION_PATH = SERVICES[PEER].methods["Session"].path
_CODE_OF = {code.value[0]: code for code in grpc.StatusCode}
_NEVER = float("inf")
CLOSED = "this session is closed"


class SessionStub:
    """Calls the unary methods of one service at another process, over a session (a stream that carries many calls)."""

    def __init__(self, session: "PeerSession", service_name: str) -> None:
        self._session = session
        self._methods = SERVICES[service_name].methods

    def __getattr__(self, name: str) -> UnaryCall:
        """Return the service's method of this name as a call. It is kept as an attribute, so this runs once per
        method.
        """
        method = None if name.startswith("_") else self._methods.get(name)
        if method is None or not method.is_unary:
            raise AttributeError(name)
        call = self.__dict__[name] = _session_call(self._session, method)
        return call


def _session_call(session: "PeerSession", method: Method) -> UnaryCall:
    path, read = method.path, method.response_from_string

    async def call(request: Message, timeout: float | None = None) -> Response:
        return read(await session.call(path, request.SerializeToString, timeout))

    return call


class PeerSession:
    """The calls of this process to one address. They share one gRPC stream, which is opened when it is needed.

    `close` it when the address is not needed any more.
    """

    def __init__(self, address: str, limits: SessionLimits) -> None:
        self.address = address
        self._limits = limits
        self._stream: _Stream | None = None
        self._backoff = Backoff(limits.backoff_ms, limits.backoff_max_ms)
        self._retry_at = 0.0
        self._last_error = ""
        self._is_closed = False
        # A stream that broke may still be closing its connection when the next is opened.
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(
        self, path: str, serialize: Callable[[], bytes], timeout_s: float | None
    ) -> bytes:
        """Call the method at `path`, and return the serialized response.

        `serialize` makes the request when its turn has come, so a waiting call takes no memory twice. Raises
        PeerUnavailable, TimeoutError, and OncelogError as the servicer raised it.
        """
        stream = self._stream
        if stream is None or stream.is_over or stream.is_retired:
            # A caller that repeats without a pause must not keep the loop to itself.
            await asyncio.sleep(0)
            stream = self._open()
        return await stream.call(path, serialize, timeout_s)

    @property
    def calls_in_flight(self) -> int:
        """The number of calls that are sent, or wait for their turn."""
        return 0 if self._stream is None else self._stream.calls_in_flight

    @property
    def is_open(self) -> bool:
        """True if the stream is open, so that a call now needs no new one.

        When the other end is gone, gRPC's pings find out.
        """
        stream = self._stream
        return stream is not None and not stream.is_over and not stream.is_retired

    def end(self) -> None:
        """Fail the calls in flight and end the stream, without waiting for its end."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Fail the calls in flight, end the stream, and wait for its end."""
        self.end()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def has_ended(self) -> bool:
        """True once the session was ended and its stream has closed its connection."""
        return self._is_closed and not self._tasks

    def _open(self) -> "_Stream":
        stream = self._stream
        if stream is not None and not stream.is_over and not stream.is_retired:
            return stream
        if self._is_closed:
            raise PeerUnavailable(f"{self.address}: {CLOSED}", was_sent=False)
        if asyncio.get_running_loop().time() < self._retry_at:
            raise PeerUnavailable(f"{self.address}: {self._last_error}", was_sent=False)
        self._stream = _Stream(self.address, self._limits, self._backoff.reset, self._broke)
        stream = self._stream
        task = asyncio.create_task(stream.run(), name=f"session to {self.address}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: stream.finish(CLOSED))
        return stream

    def _broke(self, reason: str) -> None:
        self._retry_at = asyncio.get_running_loop().time() + self._backoff.next_s()
        self._last_error = reason


class _Call:
    """One call of this process to another: it waits for its turn to be sent, or for its reply."""

    __slots__ = (
        "bytes_sent", "caller", "deadline", "path", "reply", "serialize", "was_sent"
    )  # fmt: skip

    def __init__(
        self,
        path: str,
        serialize: Callable[[], bytes],
        reply: "asyncio.Future[bytes]",
        deadline: float,
    ) -> None:
        self.path = path
        self.serialize = serialize
        self.reply = reply
        self.deadline = deadline
        self.caller = calling_span()
        self.was_sent = False
        self.bytes_sent = 0


class _Stream:
    """The gRPC stream that carries the calls of a session, from its opening to its end. When it breaks, all calls on it
    fail, and the session opens another stream.
    """

    def __init__(
        self,
        address: str,
        limits: SessionLimits,
        on_open: Callable[[], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._address = address
        self._limits = limits
        self._on_open = on_open
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, _Call] = {}
        self._queue: OrderedDict[int, _Call] = OrderedDict()
        self._sent_count = 0
        self._sent_bytes = 0
        self._last_id = 0
        self._cancelled: list[int] = []
        self._has_work = asyncio.Event()
        self._deadlines = DeadlineTimer(self._loop, self._end_late)
        self.is_over = False
        self.is_retired = False
        """True once the stream takes no more calls, and ends with those that it has."""

    @property
    def calls_in_flight(self) -> int:
        return len(self._calls)

    # -------------------------------------------------------------------------------------------------- calls

    async def call(
        self, path: str, serialize: Callable[[], bytes], timeout_s: float | None
    ) -> bytes:
        deadline = _NEVER
        if timeout_s is not None:
            deadline = self._loop.time() + timeout_s
            self._deadlines.add(deadline)
        self._last_id = call_id = self._last_id + 1
        call = _Call(path, serialize, self._loop.create_future(), deadline)
        self._calls[call_id] = self._queue[call_id] = call
        self._has_work.set()
        try:
            return await call.reply
        except asyncio.CancelledError:
            self._give_up(call_id)
            raise

    def _give_up(self, call_id: int) -> None:
        """Drop a call whose caller waits no longer. If it was sent, tell the other process to cancel it."""
        call = self._take(call_id)
        if call is not None and call.was_sent:
            self._cancelled.append(call_id)
            self._has_work.set()

    def _take(self, call_id: int) -> _Call | None:
        """Remove the call from those in flight, and return it; None: it is not in flight. The next call in the queue
        may then be sent."""
        call = self._calls.pop(call_id, None)
        if call is None:
            return None
        if call.was_sent:
            self._sent_count -= 1
            self._sent_bytes -= call.bytes_sent
            if self._queue:
                self._has_work.set()
        else:
            del self._queue[call_id]
        if self.is_retired and not self._calls:
            self._has_work.set()
        return call

    def _end_late(self, now: float) -> float | None:
        earliest = _NEVER
        for call_id, call in list(self._calls.items()):
            if call.deadline <= now:
                self._give_up(call_id)
                if not call.reply.done():
                    call.reply.set_exception(
                        TimeoutError(f"{self._address}{call.path}: no answer in time")
                    )
            else:
                earliest = min(earliest, call.deadline)
        return None if earliest == _NEVER else earliest

    # ------------------------------------------------------------------------------------------------- stream

    async def run(self) -> None:
        """Open the stream, and send and receive on it until it ends. Then every call on it fails."""
        try:
            channel = open_channel(self._address, self._limits)
        except OncelogError as error:
            self.finish(str(error))
            return
        reason = CLOSED
        try:
            reason = await self._serve(channel)
        finally:
            self.finish(reason)
            await channel.close()

    def finish(self, reason: str) -> None:
        """Fail the calls in flight, because the stream has ended. A second call does nothing.

        It is also called when `run` was cancelled before its first step.
        """
        if self.is_over:
            return
        self.is_over = True
        self._deadlines.stop()
        if not self.is_retired:
            self._on_end(reason)
        self._fail_all(reason)

    async def _serve(self, channel: grpc.aio.Channel) -> str:
        """Open the gRPC stream, send calls and receive replies until it ends. Return the reason of its end."""
        stream: grpc.aio.StreamStreamCall = channel.stream_stream(
            _SESSION_PATH,
            request_serializer=SessionFrame.SerializeToString,
            response_deserializer=SessionFrame.FromString,
        )()
        try:
            async with asyncio.timeout(self._limits.connect_timeout_ms / 1000):
                await stream.wait_for_connection()
            self._on_open()
            writer = asyncio.create_task(self._write(stream))
            try:
                await self._read(stream)
            finally:
                writer.cancel()
            return "the process ended the session"
        except TimeoutError:
            return f"no connection within {self._limits.connect_timeout_ms} ms"
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
        finally:
            stream.cancel()

    def _fail_all(self, reason: str) -> None:
        calls, self._calls = self._calls, {}
        self._queue.clear()
        for call in calls.values():
            if not call.reply.done():
                call.reply.set_exception(
                    PeerUnavailable(f"{self._address}{call.path}: {reason}", was_sent=call.was_sent)
                )

    async def _write(self, stream: grpc.aio.StreamStreamCall) -> None:
        """Write frames with calls until the stream ends. An error is not raised here: the reader gets it."""
        try:
            await self._write_frames(stream)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return
        finally:
            # Without a writer the stream is of no use. A broken one keeps the error that it ended with.
            stream.cancel()

    async def _write_frames(self, stream: grpc.aio.StreamStreamCall) -> None:
        while True:
            while not (self._cancelled or (self._queue and self._has_room())):
                if self.is_retired and not self._calls:
                    await stream.done_writing()
                    await asyncio.Event().wait()  # The reader sees the end.
                self._has_work.clear()
                await self._has_work.wait()
            frame = self._next_frame()
            await stream.write(frame)
            del frame

    def _has_room(self) -> bool:
        limits = self._limits
        return self._sent_count < limits.calls_max and self._sent_bytes < limits.bytes_max

    def _next_frame(self) -> SessionFrame:
        frame = SessionFrame(cancelled=self._cancelled)
        self._cancelled.clear()
        add = frame.calls.add
        size = 0
        now = self._loop.time()
        while self._queue and size < self._limits.frame_bytes and self._has_room():
            call_id, call = next(iter(self._queue.items()))
            try:
                request = self._serialized(call)
            except (OncelogError, EncodeError, ValueError) as error:
                self._take(call_id)
                call.reply.set_exception(error)
                continue
            del self._queue[call_id]
            call.was_sent = True
            call.bytes_sent = len(request)
            self._sent_count += 1
            self._sent_bytes += len(request)
            size += len(request)
            timeout_ms = 0
            if call.deadline != _NEVER:
                timeout_ms = max(1, int((call.deadline - now) * 1000))
            message = add(call_id=call_id, method=call.path, request=request, timeout_ms=timeout_ms)
            write_caller(message, call.caller)
        return frame

    def _serialized(self, call: _Call) -> bytes:
        request, most = call.serialize(), self._limits.message_bytes_max
        if len(request) > most:
            raise OncelogError(
                f"{call.path}: the request has {len(request)} bytes, more than {most}; split it"
            )
        return request

    async def _read(self, stream: grpc.aio.StreamStreamCall) -> None:
        while True:
            frame = await stream.read()
            if frame is grpc.aio.EOF:
                return
            if frame.going_away:
                self.is_retired = True
                self._has_work.set()
            for reply in frame.replies:
                call = self._take(reply.call_id)
                if call is None or call.reply.done():
                    continue
                take_answered(reply, call.caller)
                if reply.status:
                    call.reply.set_exception(self._refusal(call.path, reply))
                else:
                    call.reply.set_result(reply.response)
            # The next frame may be long in coming: this one's bytes must not wait for it.
            del frame
            reply = None

    def _refusal(self, path: str, reply: SessionReply) -> Exception:
        code = _CODE_OF.get(reply.status, grpc.StatusCode.UNKNOWN)
        match code:
            case grpc.StatusCode.FAILED_PRECONDITION:
                return OncelogError(reply.message)
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return TimeoutError(f"{self._address}{path}: {reply.message}")
            case grpc.StatusCode.UNIMPLEMENTED:
                return MethodMissing(f"{self._address}: {code.name}: {reply.message}")
            case _:
                return PeerUnavailable(
                    f"{self._address}: {code.name}: {reply.message}", was_sent=code not in NOT_BEGUN
                )
