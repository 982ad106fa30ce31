"""One client's TCP connection: frames in, frames out, in order.

```
 data_received ──▶ FrameSplitter ──▶ queue ──▶ _serve: one request at a time ──▶ transport.write
       ▲                               │
       └────── pause_reading ◀── full ─┘
```

Requests of a connection are answered strictly one after the other, as Kafka does: their effects happen in the order
they were sent. So a producer with five requests in flight needs no more care than one with a single one. A fetch that
waits for data holds up what comes behind it. One task a connection does all of it; there is none a request.

Every byte that a client can make us hold is bounded: by the frame's maximum, by the queue of its connection, and by
what all connections hold together (`MemoryBudget`).
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Protocol, cast

from oncelog.errors import KafkaError
from oncelog.protocol.frames import FrameError, FrameSplitter, framed_bytes, read_request_prefix
from oncelog.protocol.small_produce import SmallProduce
from oncelog.protocol.versions import PRODUCE
from oncelog.security.ssl_principal import NoMatchingRuleError, refuse_process
from oncelog_listener.admission import Admitted
from oncelog_listener.call import CloseConnection, Session
from oncelog_listener.cluster import Address
from oncelog_listener.core.endpoints import Endpoint
from oncelog_listener.counters import ListenerCounters
from oncelog_listener.dispatcher import Dispatcher
from oncelog_listener.memory_budget import MemoryBudget, UnsentAnswers
from oncelog_listener.protection import Protection
from oncelog_listener.settings import ListenerSettings

log = logging.getLogger("oncelog.listener")

_NO_API_KEY = -1
_ANSWERS_TOGETHER_MAX = 16
"""The most answers that go out in one write, of requests that came together and were answered at once."""
_SETTLE_S = 0.1
"""The seconds that requests wait after the process stood still. The end of a connection is read meanwhile."""
_IPV4_MAPPED = "::ffff:"


class Home(Protocol):
    """The parts of the listener role that a connection uses, and the calls by which it reports its start and end."""

    settings: ListenerSettings
    counters: ListenerCounters
    budget: MemoryBudget
    unsent: UnsentAnswers
    dispatcher: Dispatcher
    protection: Protection

    def opened(self, connection: "Connection", host: str) -> Admitted | None:
        """Count the new connection; return None if a limit refuses it, and it is then closed at once."""

    def closed(self, connection: "Connection") -> None:
        """Forget the connection's socket, which is gone. The request in progress may not be finished yet."""

    def ended(self, connection: "Connection") -> None:
        """Forget the connection for good: its socket is closed and its task has ended."""


class Connection(asyncio.Protocol):
    def __init__(self, home: Home, endpoint: Endpoint) -> None:
        settings = home.settings
        self._home = home
        self._endpoint = endpoint
        self._admitted: Admitted | None = None
        self._login_deadline: asyncio.TimerHandle | None = None
        self._splitter = FrameSplitter(settings.request_bytes_max)
        self._frames: deque[memoryview] = deque()
        self._queue_bytes_max = settings.connection_queue_bytes_max
        self._queue_requests_max = settings.connection_queue_requests_max
        self._queued_bytes = 0
        """The bytes of whole requests that wait or are in progress."""
        self._in_progress_bytes = 0
        self._answers: list[bytes] = []
        """The frames of answers that are not written yet. They are written before anything is awaited."""
        self._answered_count = 0
        """The number of requests answered since other tasks certainly had a turn."""
        self._held_bytes = 0
        self._complete_bytes = 0
        """The part of the budget's `_held_bytes` for this connection that belongs to whole requests."""
        self._transport: asyncio.Transport | None = None
        self._session = Session("?", Address("", 0), endpoint.name)
        self._wake: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._left_bytes = -1
        self._took_at = 0.0
        """The last time at which the client took some of an answer, of which `_left_bytes` were left."""
        self._is_reading = True
        self._is_closing = False
        self._may_be_cut = True
        self._is_answering = False
        self._is_doubtful = False
        self.turned_away_ms = 0
        """The milliseconds after which a connection that was not admitted is closed; 0: it is closed at once."""
        self.task: asyncio.Task[None] | None = None
        self.last_progress = time.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        stream = cast(asyncio.Transport, transport)
        self._transport = stream
        if self._admitted is None and not self.admitted(
            stream.get_extra_info("peername"), stream.get_extra_info("sockname")
        ):
            if not self.turned_away_ms:
                stream.abort()
                return
            # A client whose connection is closed at once comes again at once.
            stream.pause_reading()
            asyncio.get_running_loop().call_later(self.turned_away_ms / 1000, stream.abort)
            return
        session, protection = self._session, self._home.protection
        if self._endpoint.protocol.has_tls:
            try:
                ssl_object = stream.get_extra_info("ssl_object")
                refuse_process(ssl_object.getpeercert())
                shown = ssl_object.getpeercert(binary_form=True)
                session.principal = protection.principal_of(shown)
            except (NoMatchingRuleError, ValueError) as error:
                log.info("%s closed: its certificate: %s", self.peer, error)
                stream.abort()
                return
        if self._endpoint.protocol.has_sasl:
            session.sasl = protection.sasl_session()
            session.on_login = self._logged_in
            self._splitter.size_max_bytes = self._home.settings.unauthenticated_bytes_max
        else:
            self._proven()
        self.task = asyncio.get_running_loop().create_task(self._serve())
        self.task.add_done_callback(lambda _: self._home.ended(self))

    def admitted(self, peer: tuple[str, int] | None, local: tuple[str, int]) -> bool:
        """Count this connection against the limits, and start the deadline of its login. False: it is refused."""
        self._session = Session(
            _printed(peer),
            _address(local),
            self._endpoint.name,
            _address(peer).host if peer else "",
            connection=self._home.counters.connections_accepted + 1,
        )
        self._admitted = self._home.opened(self, self._session.host)
        if self._admitted is None:
            return False
        self._login_deadline = asyncio.get_running_loop().call_later(
            self._home.settings.authentication_timeout_ms / 1000, self._login_is_late
        )
        return True

    def _login_is_late(self) -> None:
        # One that sent no request is most often another listener, which keeps a connection to see that this one lives.
        level = logging.INFO if self._session.received_count else logging.DEBUG
        log.log(level, "%s closed: it has not logged in in time", self.peer)
        self.abort()

    def _proven(self) -> None:
        """Count the connection as logged in; on a listener without login it is so at once."""
        if self._admitted is not None:
            self._admitted.proven()
        if self._login_deadline is not None:
            self._login_deadline.cancel()
            self._login_deadline = None

    def _logged_in(self) -> None:
        self._proven()
        self._splitter.size_max_bytes = self._home.settings.request_bytes_max

    def data_received(self, data: bytes) -> None:
        self._home.counters.bytes_received += len(data)
        if self._is_closing:
            return
        try:
            frames = self._splitter.feed(data)
        except FrameError as error:
            self._refuse(_NO_API_KEY, _NO_API_KEY, str(error))
            return
        self._session.received_count += len(frames)
        if frames and self._is_waiting:
            frames = self._glance_at(frames)
        for frame in frames:
            self._frames.append(frame)
            self._queued_bytes += len(frame)
        self._hold()
        if frames and self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    @property
    def _is_waiting(self) -> bool:
        """True if the connection is idle: no request is handled or queued, and the client has read all answers."""
        has_no_request = self._wake is not None and not self._wake.done()
        return has_no_request and self._writable is None and not self._is_doubtful

    def _glance_at(self, frames: list[memoryview]) -> list[memoryview]:
        """Answer the first small requests that need no wait; return the other requests."""
        answers, began = self._answers, time.monotonic()
        try:
            for frame in frames[:_ANSWERS_TOGETHER_MAX]:
                answer = self._home.dispatcher.glance(frame, self._session)
                if answer is None:
                    break
                answers.append(answer)
                self.last_progress = time.monotonic()
                self._home.counters.count_request(frame[1], self.last_progress - began)
                began = self.last_progress
        except Exception:
            # The connection ends as in `_answer`. Answers to the requests before are in `answers`.
            log.exception("%s: a small request failed", self.peer)
            self._home.counters.count_failure(frame[1])
            self._write()
            self._is_closing = True
            self._close()
            return []
        left = frames[len(answers) :]
        self._write()
        return left

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = self._session.is_gone = True
        if self._admitted is not None:
            self._proven()
            self._admitted.closed()
        self._drop_queue()
        self._home.closed(self)
        for future in (self._wake, self._writable):
            if future is not None and not future.done():
                future.set_result(None)
        if self.task is None:
            # Its handshake failed, or its certificate was refused: nothing serves it.
            self._home.ended(self)
        elif self._may_be_cut:
            self.task.cancel()

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()
        self._left_bytes = -1

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def resume(self) -> None:
        """Read from the socket again, because memory for requests was given back."""
        self._read_or_pause()

    def doubt(self) -> None:
        """Mark all requests received so far as possibly late: the process stood still (`pause_detector.py`)."""
        self._is_doubtful = True
        self._session.doubtful_count = self._session.received_count

    def finish(self) -> None:
        """Take no more requests; answer the one in progress, then close. A long poll is ended at once."""
        self._is_closing = True
        self._drop_queue()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        if not self._is_answering:
            self._close()
        elif self._may_be_cut and self.task is not None:
            self.task.cancel()

    def abort(self) -> None:
        """Close the connection at once, without waiting for a request in progress."""
        if self._transport is not None:
            self._transport.abort()
        if self.task is not None:
            self.task.cancel()

    @property
    def number(self) -> int:
        """The number of this connection, counted from the listener's start."""
        return self._session.connection

    @property
    def is_idle(self) -> bool:
        """True if no request is being worked on: the client sends nothing, or does not read its answers."""
        return not self._is_answering or self._writable is not None

    def takes_nothing(self, now: float, since_s: float) -> bool:
        """True if the client has read no byte of its answer for `since_s` seconds. It compares with its last call, so
        it must be called regularly."""
        if self._writable is None or self._transport is None:
            return False
        left_bytes = self._transport.get_write_buffer_size()
        if left_bytes != self._left_bytes:
            self._left_bytes, self._took_at = left_bytes, now
        return now - self._took_at >= since_s

    @property
    def peer(self) -> str:
        return self._session.peer

    async def _serve(self) -> None:
        try:
            while not self._is_closing:
                if not self._frames:
                    self._wake = asyncio.get_running_loop().create_future()
                    await self._wake
                    continue
                if self._is_doubtful:
                    await self._settle()
                    continue
                frames, together = self._taken()
                in_progress_bytes = self._in_progress_bytes = sum(map(len, frames))
                await self._answer(frames[0], together)
                self._in_progress_bytes = 0
                if not self._is_closing:
                    self._queued_bytes -= in_progress_bytes
                    self._hold()
        except asyncio.CancelledError:
            # Only its own shell cancels this task, when the client is gone or the role stops: this is its end.
            if not self._is_closing:
                raise
        finally:
            self._write()
            self._is_answering = False
            self._in_progress_bytes = 0
            self._drop_queue()
            self._close()

    def _taken(self) -> tuple[list[memoryview], Sequence[SmallProduce]]:
        """Return the frames of the next request, or of several small Produce requests to be handled as one. The second
        list has those decoded; it is empty for one request."""
        is_one = len(self._frames) == 1
        together = () if is_one else self._home.dispatcher.together(self._frames, self._session)
        return [self._frames.popleft() for _ in together or (None,)], together

    async def _settle(self) -> None:
        """Wait a moment after a pause of the process: if the client has left, its requests are dropped."""
        await asyncio.sleep(_SETTLE_S)
        self._session.doubtful_count = self._session.received_count
        self._is_doubtful = False

    async def _answer(self, frame: memoryview, together: Sequence[SmallProduce]) -> None:
        """Answer one request, or the Produce requests in `together`; on a failure close the connection and log why."""
        api_key = version = _NO_API_KEY
        counters = self._home.counters
        self._is_answering = True
        began = time.monotonic()
        try:
            may_be_cut = True
            answer: Awaitable[bytes | None] | bytes
            if self._session.sasl is not None and self._session.sasl.is_raw:
                answer = self._raw_login(frame)
            elif together:
                api_key, version = PRODUCE, together[0].version
                answer, may_be_cut = self._home.dispatcher.dispatch_together(
                    together, self._session
                )
            else:
                prefix = read_request_prefix(frame)
                api_key, version = prefix.api_key, prefix.api_version
                answer, may_be_cut = self._home.dispatcher.dispatch(prefix, frame, self._session)
            is_at_once = isinstance(answer, bytes)
            if isinstance(answer, bytes):
                response: bytes | None = answer
            else:
                self._write()
                self._may_be_cut = may_be_cut
                response = await answer
        except (FrameError, CloseConnection) as error:
            self._refuse(api_key, version, str(error))
            return
        except Exception:
            # A bug of ours, or of a role called directly. It ends this connection, whose client will see an
            # unanswered request; it must not end the others.
            log.exception("%s: api key %d version %d failed", self.peer, api_key, version)
            counters.count_failure(api_key)
            self._is_closing = True
            return
        finally:
            self._may_be_cut = True
        self.last_progress = time.monotonic()
        for _ in together or (None,):
            counters.count_request(api_key, self.last_progress - began)
        if response is not None:
            self._answers.append(response)
        is_more_to_come = is_at_once and self._frames and not self._is_doubtful
        if not is_more_to_come or len(self._answers) >= _ANSWERS_TOGETHER_MAX:
            sent_bytes = self._write()
            if self._writable is not None:
                self._home.unsent.held_bytes += sent_bytes
                try:
                    await self._writable
                finally:
                    self._home.unsent.held_bytes -= sent_bytes
        self._is_answering = False
        self._answered_count += len(together) or 1
        if self._frames and self._answered_count >= _ANSWERS_TOGETHER_MAX:
            # One read brings two thousand small requests, and none of them may wait for anything: others have a turn.
            self._answered_count = 0
            await asyncio.sleep(0)
        if self._session.is_refused:
            self._is_closing = True
        if self._session.throttle_ms and not self._is_closing:
            throttle_s, self._session.throttle_ms = self._session.throttle_ms / 1000, 0
            counters.throttles += 1
            await asyncio.sleep(throttle_s)
            self.last_progress = time.monotonic()

    def _write(self) -> int:
        """Write the waiting answers in one write, and return their size in bytes."""
        answers, transport = self._answers, self._transport
        if not answers or transport is None or transport.is_closing():
            answers.clear()
            return 0
        data = answers[0] if len(answers) == 1 else b"".join(answers)
        answers.clear()
        self._home.counters.bytes_sent += len(data)
        transport.write(data)
        return len(data)

    async def _raw_login(self, frame: memoryview) -> bytes:
        """Handle one SASL message without Kafka's header. Raises CloseConnection: such a client reads no error."""
        sasl = self._session.sasl
        assert sasl is not None
        try:
            answer = await sasl.step(bytes(frame))
        except KafkaError as error:
            raise CloseConnection(f"login refused: {error.message}") from None
        if sasl.principal is not None:
            self._session.logged_in(sasl.principal)
        return framed_bytes(answer)

    def _refuse(self, api_key: int, version: int, reason: str) -> None:
        log.warning("%s closed: api key %d version %d: %s", self.peer, api_key, version, reason)
        self._home.counters.count_failure(api_key)
        self._is_closing = True
        if not self._is_answering:
            self._close()

    def _close(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _hold(self) -> None:
        """Report the bytes of waiting requests to the memory budget; read on, or stop if that is full."""
        self._update_budget()
        if (
            self._is_reading
            and self._queued_bytes < self._queue_bytes_max
            and len(self._frames) < self._queue_requests_max
            and not self._home.budget.is_exhausted
        ):
            return
        self._read_or_pause()

    def _update_budget(self) -> None:
        held = self._queued_bytes + self._splitter.buffered_bytes
        held_before, self._held_bytes = self._held_bytes, held
        complete_before, self._complete_bytes = self._complete_bytes, self._queued_bytes
        self._home.budget.change(held - held_before, self._queued_bytes - complete_before)

    def _read_or_pause(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or self._is_closing:
            return
        budget = self._home.budget
        is_full = (
            self._queued_bytes >= self._queue_bytes_max
            or len(self._frames) >= self._queue_requests_max
        )
        if not is_full and self._held_bytes and budget.is_exhausted:
            if not budget.wait(self):
                self._home.counters.connections_refused += 1
                self._refuse(_NO_API_KEY, _NO_API_KEY, "all memory for requests is taken")
                return
            is_full = True
        if is_full and self._is_reading:
            transport.pause_reading()
        elif not is_full and not self._is_reading:
            transport.resume_reading()
        self._is_reading = not is_full

    def _drop_queue(self) -> None:
        self._frames.clear()
        self._splitter.clear()
        # A JoinGroup may wait for minutes after its client has left: its bytes are held as long as it is.
        self._queued_bytes = self._in_progress_bytes
        self._home.budget.forget(self)
        self._update_budget()


def _address(sockname: tuple[str, int]) -> Address:
    host, port = sockname[0], sockname[1]
    return Address(host.removeprefix(_IPV4_MAPPED), port)


def _printed(peername: tuple[str, int] | None) -> str:
    return "?" if not peername else f"{peername[0]}:{peername[1]}"
