"""The serving end of sessions: calls of another process come in frames of a stream, and run as tasks (ADR 0013).

Their replies leave in frames, too. All that are ready in one turn of the event loop leave together, so load makes
frames larger and not more frequent. A session that holds too many calls or bytes is not read from until some are done:
HTTP/2 flow control then holds up the caller.
"""

import asyncio
import contextlib
import logging
from collections import deque

import grpc.aio
from google.protobuf.message import Message
from grpc import StatusCode

from oncelog.api.v1.peer_pb2 import SessionCall, SessionFrame
from oncelog.api.v1.types_pb2 import TraceContext
from oncelog.rpc.callers import CALLER_ROLE
from oncelog.rpc.contract import PEER, SERVICES
from oncelog.rpc.deadline import DeadlineTimer
from oncelog.rpc.mutual_tls import role_of
from oncelog.rpc.peer_certificates import PeerCertificates
from oncelog.rpc.served import CallRefused, Served, ServedMethods, check_caller
from oncelog.rpc.sessions import SessionLimits
from oncelog.rpc.trace_context import answered_trace, serving_span
from oncelog.telemetry.spans import Nothing, Span

logger = logging.getLogger(__name__)

REPLY_OVERHEAD_BYTES = 64
"""Bytes that an unsent reply counts beside its content, so that many empty ones are bounded too."""

GOING_AWAY_S = 0.5
"""Seconds that a caller has to end the stream, once it was told that the session goes away. A caller of an older
version does not know that message; its later calls are lost."""

DRAINED_WITHIN_S = 5.0
"""Seconds for calls in flight when their caller's certificate ends: one without an answer must not hold a stream
open."""

_SESSION = SERVICES[PEER].methods["Session"].path

STOPPING = "this process is stopping"
LATE = (StatusCode.DEADLINE_EXCEEDED.value[0], "the caller's deadline passed")


class PeerServicer:
    """The `Peer` service: answers the sessions (streams of calls) of all other processes. `drain` before the server
    stops.
    """

    def __init__(
        self,
        served: ServedMethods,
        limits: SessionLimits,
        certificates: PeerCertificates | None = None,
    ) -> None:
        self._served = served
        self._limits = limits
        self._certificates = certificates
        self._sessions: dict[ServerSession, None] = {}
        self._is_draining = False

    @property
    def calls_in_flight(self) -> int:
        return sum(session.calls_in_flight for session in self._sessions)

    async def Session(self, requests: object, context: grpc.aio.ServicerContext) -> None:
        if self._is_draining:
            await context.abort(StatusCode.UNAVAILABLE, STOPPING)
        role = None if self._limits.tls is None else role_of(context.auth_context())
        if role is not None:
            try:
                check_caller(role, _SESSION)
            except CallRefused as refused:
                await context.abort(refused.code, refused.message)
        CALLER_ROLE.set(role)  # Of every call on it: their tasks begin in this context.
        session = ServerSession(self._served, self._limits, context, role)
        self._sessions[session] = None
        forget = None
        if self._certificates is not None:
            forget = self._certificates.hold(context.auth_context(), session.expire)
        try:
            # The frame tells the caller that a process serves here, before it entrusts a call to the stream.
            await context.send_initial_metadata(())
            await session.run()
        finally:
            self._sessions.pop(session, None)
            if forget is not None:
                forget()

    async def drain(self, timeout_s: float) -> None:
        """Refuse new calls, let those in flight finish, and end every session; cut them off after `timeout_s`."""
        sessions = list(self._sessions)
        self._is_draining = True
        for session in sessions:
            session.drain()
        try:
            async with asyncio.timeout(timeout_s):
                for session in sessions:
                    await session.ended.wait()
        except TimeoutError:
            if self.calls_in_flight:
                logger.warning(
                    "%d calls of sessions are cut off after %.1f s", self.calls_in_flight, timeout_s
                )


class _Call:
    """One call of another process that is not answered yet."""

    __slots__ = ("bytes_held", "deadline", "has_begun", "is_late", "task")

    def __init__(self, bytes_held: int, deadline: float | None) -> None:
        self.bytes_held = bytes_held
        self.deadline = deadline
        self.has_begun = False
        self.is_late = False
        self.task: asyncio.Task[None] | None = None


class ServerSession:
    """One stream on which another process sends calls, and gets their replies."""

    def __init__(
        self,
        served: ServedMethods,
        limits: SessionLimits,
        context: grpc.aio.ServicerContext,
        role: str | None = None,
    ) -> None:
        """`role` is the one in the caller's certificate; None: there is no TLS, and every call is allowed."""
        self._served = served
        self._context = context
        self._role = role
        self._frame_bytes = limits.frame_bytes
        self._message_bytes_max = limits.message_bytes_max
        # Twice what a caller of the same limits may have in flight: it never stops there, others do.
        self._calls_max = 2 * limits.calls_max
        self._bytes_max = 2 * limits.bytes_max
        self._calls: dict[int, _Call] = {}
        self._bytes_held = 0
        self._outbox: deque[tuple[int, bytes, int, str, TraceContext | None]] = deque()
        self._has_replies = asyncio.Event()
        self._was_freed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._deadlines = DeadlineTimer(self._loop, self._end_late)
        self._is_draining = asyncio.Event()
        self._why_draining = STOPPING
        self._drained_within_s: float | None = None
        self._is_going_away = False
        """True if the caller is to be told that this session goes away."""
        self.ended = asyncio.Event()

    @property
    def calls_in_flight(self) -> int:
        return len(self._calls)

    async def run(self) -> None:
        """Serve calls until the caller ends the stream, it breaks, or the session is drained."""
        try:
            async with asyncio.TaskGroup() as group:
                writer = group.create_task(self._write())
                reader = group.create_task(self._read(group))
                drained = group.create_task(self._drained())
                ends = (reader, writer, drained)
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for task in ends:
                    task.cancel()
                for call_id in list(self._calls):
                    self._cancel(call_id)
        finally:
            self._deadlines.stop()
            self.ended.set()

    def drain(self) -> None:
        """Refuse new calls, and let `run` return when the last reply is written. `PeerServicer.drain` has the time
        limit.
        """
        self._is_draining.set()

    def expire(self, why: str) -> None:
        """Refuse new calls for the reason `why`, as the caller's certificate is no longer good.

        `run` returns when the last reply is written, at the latest after DRAINED_WITHIN_S.
        """
        self._why_draining = why
        self._drained_within_s = DRAINED_WITHIN_S
        self._is_draining.set()

    async def _drained(self) -> None:
        await self._is_draining.wait()
        self._is_going_away = True
        self._has_replies.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drained_within_s):
                while self._calls or self._bytes_held or self._is_going_away:
                    self._was_freed.clear()
                    await self._was_freed.wait()
        # A caller that has been told ends the stream when it waits for nothing more, so that no call of its is lost.
        await asyncio.sleep(GOING_AWAY_S)

    # ----------------------------------------------------------------------------------------------- requests

    async def _read(self, group: asyncio.TaskGroup) -> None:
        with contextlib.suppress(grpc.aio.BaseError):  # The stream broke: its caller knows as well.
            await self._read_frames(group)

    async def _read_frames(self, group: asyncio.TaskGroup) -> None:
        read = self._context.read
        call: SessionCall | None
        while True:
            while len(self._calls) >= self._calls_max or self._bytes_held >= self._bytes_max:
                self._was_freed.clear()
                await self._was_freed.wait()
            frame: SessionFrame = await read()
            if frame is grpc.aio.EOF:
                return
            for call in frame.calls:
                self._begin(group, call)
            for call_id in frame.cancelled:
                if call_id in self._calls:
                    self._cancel(call_id)
            # The next frame may be long in coming: this one's bytes must not wait for it.
            del frame
            call = None

    def _begin(self, group: asyncio.TaskGroup, message: SessionCall) -> None:
        if self._is_draining.is_set():
            self._reply(message.call_id, b"", StatusCode.UNAVAILABLE.value[0], self._why_draining)
            return
        encoded = message.request
        try:
            if message.call_id in self._calls:
                raise CallRefused(
                    StatusCode.INVALID_ARGUMENT, f"call id {message.call_id} is in flight already"
                )
            if self._role is not None:
                check_caller(self._role, message.method)
            served = self._served.find(message.method)
            request = served.read(encoded)
        except CallRefused as refused:
            self._reply(message.call_id, b"", refused.code.value[0], refused.message)
            return
        deadline = None
        if message.timeout_ms:
            deadline = self._loop.time() + message.timeout_ms / 1000
            self._deadlines.add(deadline)
        call = self._calls[message.call_id] = _Call(len(encoded), deadline)
        self._bytes_held += call.bytes_held
        # The message itself is let go: it holds the request's bytes.
        span = serving_span(message.method, message)
        call.task = group.create_task(self._serve(message.call_id, call, served, request, span))

    async def _serve(
        self, call_id: int, call: _Call, served: Served, request: Message, span: Span | Nothing
    ) -> None:
        response, status, message = b"", 0, ""
        call.has_begun = True
        try:
            with span:
                response = await served.call(request)
            if len(response) > self._message_bytes_max:
                status = StatusCode.RESOURCE_EXHAUSTED.value[0]
                message = (
                    f"{served.method.path}: the reply has {len(response)} bytes, "
                    f"more than {self._message_bytes_max}; ask for less"
                )
                response = b""
        except CallRefused as refused:
            status, message = refused.code.value[0], refused.message
        except asyncio.CancelledError:
            if not call.is_late:
                raise
            status, message = LATE
        finally:
            self._release(call_id)
        self._reply(call_id, response, status, message, answered_trace(span))

    def _cancel(self, call_id: int) -> None:
        call = self._calls[call_id]
        if call.task is not None:
            call.task.cancel()
        if not call.has_begun:
            # A task that is cancelled before its first step never runs at all.
            self._release(call_id)
            if call.is_late:
                self._reply(call_id, b"", *LATE)

    def _release(self, call_id: int) -> None:
        self._bytes_held -= self._calls.pop(call_id).bytes_held
        self._was_freed.set()

    def _end_late(self, now: float) -> float | None:
        earliest = None
        for call_id, call in list(self._calls.items()):
            if call.deadline is None or call.is_late:
                continue
            if call.deadline <= now:
                call.is_late = True
                self._cancel(call_id)
            elif earliest is None or call.deadline < earliest:
                earliest = call.deadline
        return earliest

    # ------------------------------------------------------------------------------------------------ replies

    def _reply(
        self,
        call_id: int,
        response: bytes,
        status: int,
        message: str,
        trace: TraceContext | None = None,
    ) -> None:
        self._bytes_held += REPLY_OVERHEAD_BYTES + len(response) + len(message)
        self._outbox.append((call_id, response, status, message, trace))
        self._has_replies.set()

    async def _write(self) -> None:
        with contextlib.suppress(grpc.aio.BaseError):
            await self._write_frames()

    async def _write_frames(self) -> None:
        write = self._context.write
        while True:
            if not self._outbox and not self._is_going_away:
                self._has_replies.clear()
                await self._has_replies.wait()
            frame, size = self._next_frame()
            await write(frame)
            del frame
            self._bytes_held -= size
            self._was_freed.set()

    def _next_frame(self) -> tuple[SessionFrame, int]:
        frame = SessionFrame(going_away=self._is_going_away)
        self._is_going_away = False
        add = frame.replies.add
        size = 0
        outbox = self._outbox
        while outbox:
            call_id, response, status, message, trace = outbox[0]
            length = REPLY_OVERHEAD_BYTES + len(response) + len(message)
            if size and size + length > self._frame_bytes:
                break
            outbox.popleft()
            size += length
            if status:
                add(call_id=call_id, status=status, message=message, trace=trace)
            else:
                add(call_id=call_id, response=response, trace=trace)
        return frame, size
