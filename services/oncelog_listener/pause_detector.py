"""The detector of pauses: it notices that this process stood still, stopped by a signal or on a frozen machine.

A listener that stood still has requests that nobody may want any more:

1. A client sends a request to listener A. A stands still.
2. The client's timeout passes. The client closes the connection, sends its request to listener B, and is answered.
3. The client goes on: it ends the transaction and begins the next one, commits newer offsets, has a newer epoch.
4. A goes on and finds the old request. The old request would end the next transaction, set the offsets back, or fence
   the client.

So every request that came before the listener went on is doubtful. No connection is closed for that. Three rules hold:

- A connection's doubtful requests wait for a moment (`Connection._settle`). If the client has left, the end of the
  connection is read meanwhile, and its requests are dropped.
- A doubtful InitProducerId, OffsetCommit, TxnOffsetCommit or ConsumerGroupHeartbeat is not begun and not repeated
  (`Call.is_wanted`). The client reads a retriable code and repeats the request. Nobody repeats what was left behind.
- Every other request is done. It only reads, or a late copy is known: by its origin (ADR 0018), by the sequence of its
  batch, or by the generation of its group.

A connection that is silent while the process goes on stays doubtful until its next request: a frozen machine receives
what was sent to it when the sender's kernel sends it again, which is seconds later.

Both event loops handle what can be read, then timers that are due, and only then the tasks that this wakes. So when a
frozen process goes on, the timer here fires after the waiting bytes were taken from the sockets. It fires before any
request among them is begun, but for a small Produce in a process with every role (`Dispatcher.glance`): its sequence
says whether it is late, and no other listener has answered its client.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

_TICKS: Final = 5
_FRESH_S: Final = 1.0


class PauseDetector:
    """A timer that finds that the process stood still. It calls `stood_still(seconds)` when the event loop has not run
    for `longest_s` seconds."""

    def __init__(self, longest_s: float, stood_still: Callable[[float], None]) -> None:
        self._longest_s = longest_s
        self._stood_still = stood_still
        self._ticked_at = time.monotonic()
        self._fresh_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_fresh(self) -> bool:
        """True if the process stood still until a moment ago, or still does as far as the timer knows. Requests that
        arrive then may be out of date."""
        now = time.monotonic()
        return now < self._fresh_until or now - self._ticked_at > self._longest_s

    def start(self) -> None:
        self._ticked_at = time.monotonic()
        self._again()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _again(self) -> None:
        delay_s = self._longest_s / _TICKS
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        span_s, self._ticked_at = now - self._ticked_at, now
        if span_s > self._longest_s:
            self._fresh_until = now + _FRESH_S
            self._stood_still(span_s)
        self._again()
