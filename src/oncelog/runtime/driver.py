"""One state machine, its journal, and the commit gate: replies and sends wait until their records are committed.

```
submit(event) ── enrich ── decide ── apply ──▶ queue ──▶ append (group commit) ──▶ release replies, sends, timers
                                       │              └── confirm, without records ─────────▲
                                       └── append at once, where nothing is waited for ───────▲
```

A machine is pure: `decide` returns records and effects for an event, `apply` changes its state by a record. The driver
runs both without an await in between. So no lock is needed, and the next decision sees applied state at once. The
effects of a decision wait behind every record appended before it, a read's reply too: otherwise a reader could be told
of a state that a failed append takes back. Everything that queues while an append is under way goes into the next one.

When an append fails, the machine is ahead of its journal; when `apply` raises, its state cannot be trusted. In both
cases the driver refuses the requests that wait, stops, and calls `on_failure`: the owner drops the machine and replays.
"""

import asyncio
import contextvars
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import Millis, Offset
from oncelog.journal import AppendFailed, Journal
from oncelog.machine import Answer, CancelTimer, Decision, Effect, Machine, Reply, Send, SetTimer
from oncelog.runtime.clock import Clock
from oncelog.telemetry.spans import detached_context

_log = logging.getLogger(__name__)

EventT = TypeVar("EventT")
RecordT = TypeVar("RecordT")

_Event: TypeAlias = Any
_Record: TypeAlias = Any
"""The type of a machine's events and records: any, because an owner holds drivers of many kinds of machines.
`Driver.__init__` checks that machine, journal and callbacks agree on theirs."""

BATCH_RECORDS_MAX: Final = 1000
"""The most records in one append; further ones wait for the next."""

NO_OFFSET: Final = Offset(-1)
"""The offset of a change that is applied without being in the journal."""

WAITING_MAX: Final = 20_000
"""The most requests whose answers wait for the journal. One more is refused: the journal is not keeping up."""

TIMER_RETRY_MS: Final = Millis(5_000)
"""Milliseconds after which a timer whose event broke `decide` goes off again: its work must not be forgotten."""

STOP_TIMEOUT_S: Final = 2.0
"""Seconds that `stop` waits for the append under way. A cut append is no worse than a crash."""


class DriverStopped(OncelogError):
    """The state machine was dropped before this event was decided or its records committed: the outcome is unknown.

    `error_code` is what the client gets: it tells it to retry here, or to look for the owner elsewhere.
    """

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(f"machine stopped: {error_code.name}")
        self.error_code = error_code


@dataclass(slots=True)
class _Waiting:
    event: _Event
    decision: Decision[_Record]
    context: contextvars.Context
    """The context of the caller that submitted the event.
    The event's effects belong to that request, not to the first one that the writer's task ever saw."""
    decided_ns: int
    """Unix time of the decision in ns; 0 if no callback needs it."""


class Driver:
    """Runs one state machine: it gives it events, writes its records to the journal, and then releases its effects.

    `start` replays; `submit` and `ask` decide events; `stop` refuses what is left. `send` gets the machine's `Send`
    effects. `enrich` completes an event right before it is decided (a producer id, a feature level): timers need that
    as requests do. `on_label(label)` counts decisions. `observe(event, decision, now)` is called with each one.
    `committed(event, decision, decided_ns)` is called once its records are committed, in the context of its caller.
    `on_failure` is called once at most. `append_at_once(records)` says whether the journal has committed them without a
    wait. Where it says no, it has written nothing, and its `append` is called. `confirm` returns when the journal knows
    that no other writer has written to it, or raises AppendFailed; it is never called beside an append.
    """

    def __init__(
        self,
        name: str,
        machine: Machine[EventT, RecordT],
        journal: Journal[RecordT],
        clock: Clock,
        *,
        send: Callable[[Send], None],
        on_failure: Callable[[AppendFailed], None],
        on_label: Callable[[str], None] | None = None,
        enrich: Callable[[EventT], EventT] | None = None,
        observe: Callable[[EventT, Decision[RecordT], Millis], None] | None = None,
        committed: Callable[[EventT, Decision[RecordT], int], None] | None = None,
        append_at_once: Callable[[tuple[RecordT, ...]], bool] | None = None,
        confirm: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.machine: Machine[_Event, _Record] = machine
        self.name = name
        self._journal: Journal[_Record] = journal
        self._clock = clock
        self._send = send
        self._on_failure = on_failure
        self._on_label = on_label
        self._enrich: Callable[[_Event], _Event] | None = enrich
        self._observe: Callable[[_Event, Decision[_Record], Millis], None] | None = observe
        self._committed: Callable[[_Event, Decision[_Record], int], None] | None = committed
        self._append_at_once: Callable[[tuple[_Record, ...]], bool] | None = append_at_once
        self._confirm = confirm
        self._context = detached_context()
        self._queue: deque[_Waiting] = deque()
        self._replies: dict[int, asyncio.Future[Answer]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._wake: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._appending = False
        self._stopped: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._next_offset = 0
        self._next_request_id = 0

    async def start(self) -> None:
        """Replay the journal into the state machine, then release the effects that `resume` returns: timers and sends.

        Raises what the journal's replay raises.
        """
        async for offset, record in self._journal.replay():
            self.machine.apply(offset, record)
        self._next_offset = self._journal.next_offset
        self._stopped = None
        for effect in self.machine.resume(self._clock.now()):
            self._release(effect)

    @property
    def stopped(self) -> ErrorCode | None:
        """None while the state machine runs; otherwise the error code that clients get."""
        return self._stopped

    @property
    def is_settled(self) -> bool:
        """True if every decision is committed, so that the state machine's state may be told to clients."""
        return self._stopped is None and not self._queue and not self._appending

    def request_id(self) -> int:
        """Return a new id, for an event whose answer the caller awaits with `ask`."""
        self._next_request_id += 1
        return self._next_request_id

    async def ask(self, event: _Event, request_id: int) -> Answer:
        """Let the state machine decide on `event`, which carries `request_id`; return its answer once the records are
        committed.

        Raises DriverStopped.
        """
        if len(self._replies) >= WAITING_MAX:
            raise DriverStopped(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._replies[request_id] = future
        try:
            self.submit(event)
            return await future
        finally:
            self._replies.pop(request_id, None)

    def ask_at_once(self, event: _Event) -> Answer | None:
        """Let the state machine decide on an event, and return its answer if it succeeds and its records can be
        committed without a wait.

        None: nothing was written or changed, and the caller uses `ask`, which waits or raises the error. A machine's
        `decide` changes nothing by itself.
        """
        if not self.is_settled:
            return None
        try:
            event, decision, now = self._decide(event)
            reply = next((one for one in decision.effects if isinstance(one, Reply)), None)
            if (
                reply is None
                or reply.answer.error_code is not ErrorCode.NONE
                or decision.needs_confirmation
                or (decision.records and not self._is_appended_at_once(decision.records))
            ):
                return None
            self._let_out(event, decision, self._take(event, decision, now))
        except DriverStopped:
            return None
        return reply.answer

    def submit(self, event: _Event) -> None:
        """Let the state machine decide on `event` now. Its effects are released when its records are committed. Raises
        DriverStopped.
        """
        if self._stopped is not None:
            raise DriverStopped(self._stopped)
        event, decision, now = self._decide(event)
        decided_ns = self._take(event, decision, now)
        if decision.records:
            is_waited_for = not self._is_appended_at_once(decision.records)
        else:
            is_waited_for = decision.needs_confirmation and self._confirm is not None
        if is_waited_for or self._queue or self._appending:
            self._queue.append(_Waiting(event, decision, contextvars.copy_context(), decided_ns))
            self._wake_writer()
        else:
            self._let_out(event, decision, decided_ns)

    def _decide(self, event: _Event) -> tuple[_Event, Decision[_Record], Millis]:
        """Complete the event (`enrich`), and return it with the state machine's decision on it and the time of that."""
        if self._enrich is not None:
            event = self._enrich(event)
        now = self._clock.now()
        try:
            return event, self.machine.decide(event, now), now
        except Exception as error:
            # `decide` changes nothing, so the machine is as good as before: only this event is lost.
            _log.error("%s: broke while deciding %r", self.name, event, exc_info=error)
            raise DriverStopped(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    def _take(self, event: _Event, decision: Decision[_Record], now: Millis) -> int:
        """Apply the decision's records to the state machine, and call the observers.

        Returns the time of the decision in ns of Unix time, or 0 if no callback needs it.
        """
        if decision.records or decision.unlogged:
            self._apply(decision.records, decision.unlogged)
        if self._on_label is not None and decision.label:
            self._on_label(decision.label)
        if self._observe is not None:
            self._observe(event, decision, now)
        return 0 if self._committed is None else time.time_ns()

    async def stop(self, error_code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Stop running the state machine: requests that wait get `error_code`, and an append under way gets a moment to
        end.
        """
        self._refuse(error_code)
        writer = self._writer
        if writer is None or writer is asyncio.current_task():
            return
        if self._appending:
            await asyncio.wait([writer], timeout=STOP_TIMEOUT_S)
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)

    def _apply(self, records: tuple[_Record, ...], unlogged: tuple[_Record, ...]) -> None:
        try:
            for record in records:
                self.machine.apply(Offset(self._next_offset), record)
                self._next_offset += 1
            for change in unlogged:
                self.machine.apply(NO_OFFSET, change)
        except Exception as error:
            self._break(f"applying {(*records, *unlogged)!r}", error)
            raise DriverStopped(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    def _is_appended_at_once(self, records: tuple[_Record, ...]) -> bool:
        if self._append_at_once is None or self._queue or self._appending:
            return False
        try:
            return self._append_at_once(records)
        except Exception as error:
            self._break(f"appending {len(records)} records", error)
            raise DriverStopped(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    def _wake_writer(self) -> None:
        if self._writer is None:
            self._writer = asyncio.create_task(
                self._write_loop(), name=f"{self.name} journal", context=self._context.copy()
            )
        elif self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _write_loop(self) -> None:
        while self._stopped is None:
            if not self._queue:
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
                continue
            batch = self._take_batch()
            if not await self._is_durable(batch):
                return
            if self._stopped is None:
                for waiting in batch:
                    waiting.context.run(
                        self._let_out, waiting.event, waiting.decision, waiting.decided_ns
                    )

    async def _is_durable(self, batch: list[_Waiting]) -> bool:
        """Append the records of these decisions; return True once the journal has them.

        If they have no records but one needs confirmation, the journal confirms that no other writer has written to it.
        """
        if len(batch) == 1:
            records = batch[0].decision.records
        else:
            records = tuple(record for waiting in batch for record in waiting.decision.records)
        if records:
            return await self._has(
                f"appending {len(records)} records", self._journal.append(records)
            )
        if self._confirm is None or not any(one.decision.needs_confirmation for one in batch):
            return True
        return await self._has("confirming", self._confirm())

    async def _has(self, doing: str, call: Awaitable[object]) -> bool:
        """Await an append or confirmation of the journal, which `doing` names in the log. False: it failed or its
        outcome is unknown, so the state machine was dropped."""
        self._appending = True
        try:
            await call
        except AppendFailed as failure:
            if self._stopped is None:
                _log.warning("%s: %s; the machine is replayed", self.name, failure)
                self._refuse(failure.error_code)
                self._on_failure(failure)
            return False
        except Exception as error:
            self._break(doing, error)
            return False
        finally:
            self._appending = False
        return True

    def _take_batch(self) -> list[_Waiting]:
        if len(self._queue) == 1:
            return [self._queue.popleft()]
        batch: list[_Waiting] = []
        count = 0
        while self._queue and count < BATCH_RECORDS_MAX:
            waiting = self._queue.popleft()
            count += len(waiting.decision.records)
            batch.append(waiting)
        return batch

    def _let_out(self, event: _Event, decision: Decision[_Record], decided_ns: int) -> None:
        if self._committed is not None:
            self._committed(event, decision, decided_ns)
        for effect in decision.effects:
            self._release(effect)

    def _release(self, effect: Effect) -> None:
        match effect:
            case Reply():
                future = self._replies.pop(effect.request_id, None)
                if future is not None and not future.done():
                    future.set_result(effect.answer)
            case Send():
                self._send(effect)
            case SetTimer():
                self._set_timer(effect)
            case CancelTimer():
                timer = self._timers.pop(effect.name, None)
                if timer is not None:
                    timer.cancel()

    def _set_timer(self, effect: SetTimer) -> None:
        previous = self._timers.pop(effect.name, None)
        if previous is not None:
            previous.cancel()
        jitter_ms = random.randint(0, effect.jitter_ms) if effect.jitter_ms else 0
        delay_s = (effect.after_ms + jitter_ms) / 1000
        self._timers[effect.name] = asyncio.get_running_loop().call_later(
            delay_s, self._fire, effect.name, effect.event, context=self._context.copy()
        )

    def _fire(self, name: str, event: _Event) -> None:
        self._timers.pop(name, None)
        try:
            self.submit(event)
        except DriverStopped:
            # A machine that is gone sets its timers anew when it is replayed.
            if self._stopped is None and name not in self._timers:
                self._set_timer(SetTimer(name, TIMER_RETRY_MS, event))

    def _break(self, doing: str, error: Exception) -> None:
        """Stop running the state machine because of a bug: it may disagree with the journal, so its owner replays.
        `doing` says in the log what it was doing."""
        _log.error("%s: broke while %s; the machine is replayed", self.name, doing, exc_info=error)
        if self._stopped is None:
            self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
            self._on_failure(AppendFailed(ErrorCode.UNKNOWN_SERVER_ERROR, f"broke while {doing}"))

    def _refuse(self, error_code: ErrorCode) -> None:
        self._stopped = self._stopped or error_code
        self._queue.clear()
        if self._wake is not None and not self._wake.done():
            # An idle writer sees that it is over. A caller that drops a broken machine need not stop the writer.
            self._wake.set_result(None)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for future in self._replies.values():
            if not future.done():
                future.set_exception(DriverStopped(error_code))
                # A caller that was cancelled meanwhile does not look at it.
                future.exception()
        self._replies.clear()
