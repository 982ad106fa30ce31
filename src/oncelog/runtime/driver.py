"""One machine, its journal, and the commit gate between decisions and the world.

```
submit(event) ── decide ── apply ──▶ queue ──▶ append (group commit) ──▶ release replies, sends, timers
```

`decide` and `apply` run in one synchronous step, so no lock is needed; the next decision sees applied state at once.
What a decision says to the world waits behind every record appended before it, a read's reply too: otherwise a reader
could be told of a state that a failed append takes back. Everything that queues while an append is under way goes
into the next one.

When an append fails the machine is ahead of its journal. The driver then refuses what waits, stops, and calls
`on_failure`: the owner drops the machine and replays.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import Offset
from oncelog.journal import AppendFailed, Journal
from oncelog.machine import CancelTimer, Decision, Effect, Machine, Reply, Send, SetTimer
from oncelog.runtime.clock import Clock

_log = logging.getLogger(__name__)

BATCH_RECORDS_MAX = 1000
"""Records in one append; what is over waits for the next."""


class DriverStopped(OncelogError):
    """The machine was dropped before this event was decided or its records committed: the outcome is unknown."""

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(f"machine stopped: {error_code.name}")
        self.error_code = error_code


@dataclass(slots=True)
class _Waiting:
    records: tuple[Any, ...]
    effects: tuple[Effect, ...]


class Driver:
    """Owns one machine. `start` replays; `submit` decides; `stop` refuses what is left.

    `send` takes the machine's `Send` effects; `on_label(label)` counts decisions.
    """

    def __init__(
        self,
        name: str,
        machine: Machine[Any, Any],
        journal: Journal[Any],
        clock: Clock,
        *,
        send: Callable[[Send], None],
        on_failure: Callable[[AppendFailed], None],
        on_label: Callable[[str], None] = lambda _label: None,
    ) -> None:
        self.machine = machine
        self._name = name
        self._journal = journal
        self._clock = clock
        self._send = send
        self._on_failure = on_failure
        self._on_label = on_label
        self._queue: deque[_Waiting] = deque()
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._appending = False
        self._stopped: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._next_offset = 0
        self._next_request_id = 0

    async def start(self) -> None:
        """Replay the journal, then let `resume`'s effects out. Raises what the journal's replay raises."""
        async for offset, record in self._journal.replay():
            self.machine.apply(offset, record)
        self._next_offset = self._journal.next_offset
        self._stopped = None
        self._writer = asyncio.create_task(self._write_loop(), name=f"{self._name} journal")
        for effect in self.machine.resume(self._clock.now()):
            self._release(effect)

    def request_id(self) -> int:
        """An id for an event whose reply the caller awaits with `ask`."""
        self._next_request_id += 1
        return self._next_request_id

    async def ask(self, event: Any, request_id: int) -> Any:
        """Decide `event`, which carries `request_id`, and return its reply once committed. Raises DriverStopped."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies[request_id] = future
        try:
            self.submit(event)
            return await future
        finally:
            self._replies.pop(request_id, None)

    def submit(self, event: Any) -> None:
        """Decide `event` now; its effects follow when its records are committed. Raises DriverStopped."""
        if self._stopped is not None:
            raise DriverStopped(self._stopped)
        decision: Decision[Any] = self.machine.decide(event, self._clock.now())
        for record in decision.records:
            self.machine.apply(Offset(self._next_offset), record)
            self._next_offset += 1
        if decision.label:
            self._on_label(decision.label)
        if decision.records or self._queue or self._appending:
            self._queue.append(_Waiting(decision.records, decision.effects))
            self._wake.set()
        else:
            for effect in decision.effects:
                self._release(effect)

    async def stop(self, error_code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Finish the append under way, refuse the rest with `error_code`."""
        self._refuse(error_code)
        if self._writer is not None and self._writer is not asyncio.current_task():
            self._wake.set()
            await asyncio.gather(self._writer, return_exceptions=True)

    async def _write_loop(self) -> None:
        while self._stopped is None:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
                continue
            batch = self._take_batch()
            records = [record for waiting in batch for record in waiting.records]
            if records:
                self._appending = True
                try:
                    await self._journal.append(records)
                except AppendFailed as failure:
                    _log.warning("%s: %s; the machine is replayed", self._name, failure)
                    self._refuse(failure.error_code)
                    self._on_failure(failure)
                    return
                finally:
                    self._appending = False
            for waiting in batch:
                for effect in waiting.effects:
                    self._release(effect)

    def _take_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        count = 0
        while self._queue and count < BATCH_RECORDS_MAX:
            waiting = self._queue.popleft()
            count += len(waiting.records)
            batch.append(waiting)
        return batch

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
            delay_s, self._fire, effect.name, effect.event
        )

    def _fire(self, name: str, event: Any) -> None:
        self._timers.pop(name, None)
        if self._stopped is None:
            self.submit(event)

    def _refuse(self, error_code: ErrorCode) -> None:
        self._stopped = self._stopped or error_code
        self._queue.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for future in self._replies.values():
            if not future.done():
                future.set_exception(DriverStopped(error_code))
        self._replies.clear()
