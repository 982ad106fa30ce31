"""Connections between simulated processes, as kernels know them: two ends, and a pipe in each direction.

A pipe keeps order, loses nothing, and takes time. It carries segments: bytes for TCP, frames for gRPC; each is an
`item`, its size and a checksum. An end belongs to a process; when the process ends, its kernel closes the end.

```
 End.send ──▶ Pipe.push ── latency, faults ──▶ Receiver.received(item)     in the receiving process
 End.finish ─────────────── FIN ─────────────▶ Receiver.finished()
 End.abort, or data for a closed end ── RST ─▶ Receiver.broken(error)
```
"""

import asyncio
import contextvars
import errno
import zlib
from collections import deque
from enum import Enum
from typing import Any, Final, Protocol

from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.loop import SimLoop
from oncelog_robustness.simulator.process import SimProcess
from oncelog_robustness.simulator.world import World

_HELD: Final = float("inf")
"""The arrival time of a segment that a fault holds back."""


def checksum(data: bytes) -> int:
    """Return a checksum that ignores the order of the bytes: a protobuf map has its entries in
    another order in every process."""
    # The lower half of Adler-32 is the sum of all bytes, at the speed of C.
    return zlib.adler32(data) & 0xFFFF


class Signal(Enum):
    FIN = "fin"
    RST = "rst"


class Receiver(Protocol):
    """The code that uses one end of a connection and is called with what arrives, such as a transport of
    asyncio. Its methods run in the context of the end's process."""

    def received(self, item: Any) -> None: ...

    def finished(self) -> None:
        """Handle the end of the stream: the other side will send nothing more."""

    def broken(self, error: OSError) -> None:
        """Handle the loss of the connection, whose end is closed."""

    def has_room(self) -> None:
        """Go on sending. This is called once the other side has read enough: no more bytes are unread than
        `End.notify_of_room` was given."""


class End:
    """One end of a connection, which belongs to a process and its host. Its process sends through it; what
    arrives goes to its receiver."""

    __slots__ = (
        "address",
        "context",
        "host",
        "inbound",
        "is_open",
        "is_reading",
        "outbound",
        "process",
        "receiver",
    )
    inbound: "Pipe"
    outbound: "Pipe"

    def __init__(
        self,
        host: str,
        address: tuple[str, int],
        process: SimProcess | None,
        context: contextvars.Context,
    ) -> None:
        self.host = host
        self.address = address
        self.process = process
        self.context = context
        self.receiver: Receiver | None = None
        """The receiver of what arrives; nothing is delivered before there is one."""
        self.is_open = True
        self.is_reading = False

    @property
    def peer(self) -> "End":
        return self.outbound.target

    @property
    def unread_bytes(self) -> int:
        """Return how many bytes were sent and not yet read by the other side."""
        return self.outbound.unread

    def attach(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.start_reading()

    def send(self, item: Any, size: int, checksum: int) -> None:
        if self.is_open:
            self.outbound.push(item, size, checksum)
            if self.inbound.has_reset:
                self.inbound.look_for_reset()

    def finish(self) -> None:
        """Send FIN: nothing more will be sent, and reading goes on."""
        if self.is_open and not self.outbound.is_finished:
            self.outbound.is_finished = True
            self.outbound.push(Signal.FIN, 0, 0)

    def close(self) -> None:
        """Close the end as close(2) does: sent bytes still arrive, then FIN; or RST when something was not read."""
        if not self.is_open:
            return
        is_unread = self.inbound.has_arrived
        self._shut()
        if is_unread:
            self.outbound.push(Signal.RST, 0, 0)
        elif not self.outbound.is_finished:
            self.outbound.is_finished = True
            self.outbound.push(Signal.FIN, 0, 0)
        self.inbound.drain()

    def abort(self) -> None:
        """Close the end with RST."""
        if self.is_open:
            self._shut()
            self.outbound.push(Signal.RST, 0, 0)
            self.inbound.drain()

    def vanish(self) -> None:
        """Close the end as a power cut does: the other side learns nothing, and sent bytes on their way are lost."""
        if self.is_open:
            self._shut()
            self.outbound.drop()
            self.inbound.drain()

    def break_down(self, error: OSError) -> None:
        """Close the end and tell its receiver, because the network has ended the connection with `error`."""
        if not self.is_open:
            return
        self._shut()
        self.inbound.drop()
        self.inbound.network.settle(self.inbound)
        if self.receiver is not None:
            self.receiver.broken(error)

    def stop_reading(self) -> None:
        self.is_reading = False

    def start_reading(self) -> None:
        if not self.is_reading:
            self.is_reading = True
            self.inbound.go_on()

    def notify_of_room(self, unread_max: int) -> None:
        """Call the receiver's `has_room` once, when the other side has no more than `unread_max` bytes
        unread."""
        self.outbound.room_mark = unread_max
        self.inbound.look_for_reset()

    def _shut(self) -> None:
        self.is_open = False
        self.outbound.room_mark = -1
        self.outbound.network.forget_end(self)


class Carrier(Protocol):
    """The part of the simulated network that the ends and pipes of connections call."""

    world: World
    loop: SimLoop
    context: contextvars.Context
    """The context (of `contextvars`) in which the kernels' callbacks run. It belongs to no process."""

    def latency_s(self, extra_delays: tuple[tuple[float, float], ...]) -> float:
        """Draw the latency of one segment, in seconds. `extra_delays` are those of faults, as pairs of seconds: a fixed
        delay, and the most that a draw adds to it."""

    def settle(self, pipe: "Pipe") -> None:
        """Remove a connection from the network if neither of its two pipes is in use any more."""

    def forget_end(self, end: End) -> None:
        """Remove the end from the open sockets of its process."""

    def note(self, what: str, pipe: "Pipe") -> None:
        """Add to the run's trace what happened to a connection, such as `reset`."""

    def note_haunting(self, pipe: "Pipe") -> None:
        """Count that bytes arrive on a connection which their sender has given up."""

    def note_segment(self, pipe: "Pipe", size: int, checksum: int) -> None:
        """Add the delivery of a segment to the run's trace."""


class Pipe:
    """One direction of a connection, from one end to the other. It delivers segments in order, each after a
    drawn latency."""

    __slots__ = (
        "extra_delays",
        "has_reset",
        "is_blocked",
        "is_cut",
        "is_finished",
        "is_forward",
        "is_haunting",
        "is_room_owed",
        "last_at",
        "network",
        "number",
        "queue",
        "room_mark",
        "source",
        "target",
        "timer",
        "unread",
    )

    def __init__(
        self, network: Carrier, number: int, source: End, target: End, is_forward: bool
    ) -> None:
        self.network = network
        self.number = number
        self.source = source
        self.target = target
        self.is_forward = is_forward
        """True for the direction from the dialer to the acceptor."""
        self.queue: deque[tuple[float, Any, int, int]] = deque()
        self.unread = 0
        self.last_at = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.is_finished = False
        self.has_reset = False
        self.is_cut = False
        """True if whatever is sent is lost, because both ends are about to learn that the connection is gone."""
        self.is_haunting = False
        """True if the sender has given the connection up, and segments of it are still to arrive."""
        self.is_blocked = False
        self.extra_delays: tuple[tuple[float, float], ...] = ()
        self.room_mark = -1
        self.is_room_owed = False
        source.outbound = self
        target.inbound = self

    @property
    def has_arrived(self) -> bool:
        """True if a segment waits to be read."""
        return bool(self.queue) and self.queue[0][0] <= self.network.loop.time()

    def push(self, item: Any, size: int, checksum: int) -> None:
        if self.is_cut:
            return
        if self.is_blocked:
            self.network.world.effects[Effect.SEGMENT_HELD] += 1
            at = _HELD
        else:
            if self.extra_delays:
                self.network.world.effects[Effect.SEGMENT_DELAYED] += 1
            network = self.network
            at = network.loop.now_s + network.latency_s(self.extra_delays)
            if at < self.last_at:
                at = self.last_at
            self.last_at = at
        self.queue.append((at, item, size, checksum))
        self.unread += size
        if item is Signal.RST:
            self.has_reset = True
            if self.target.outbound.room_mark >= 0:
                self.look_for_reset()
        if self.timer is None and at != _HELD:
            self.go_on()

    def take_back(self, size_max: int) -> bytes | None:
        """Take back the newest segment and return it, to be sent together with the next. None if it is not on its way
        any more, or has more than `size_max` bytes."""
        if not self.queue:
            return None
        at, item, size, _ = self.queue[-1]
        if size > size_max or not isinstance(item, bytes) or at <= self.network.loop.time():
            return None
        self.queue.pop()
        self.unread -= size
        return item

    def go_on(self) -> None:
        """Start the timer for the arrival of the next segment, unless it runs already or nothing can arrive
        now."""
        if not self.queue or self.timer is not None:
            return
        at = self.queue[0][0]
        target = self.target
        if at == _HELD:
            return
        if not target.is_open:
            network = self.network
            self.timer = network.loop.call_at(at, self._arrived_at_nobody, context=network.context)
        elif target.is_reading:
            self.timer = self.network.loop.call_on_arrival(
                at, self._arrived, context=target.context
            )

    def look_for_reset(self) -> None:
        """Let a process that only writes notice a reset, although it does not read."""
        target = self.target
        if self.has_reset and self.queue and self.queue[-1][0] != _HELD and not target.is_reading:
            at = max(self.queue[-1][0], self.network.loop.time())
            self.network.loop.call_on_arrival(at, self._noticed_reset, context=target.context)

    def _noticed_reset(self) -> None:
        self.network.note("reset", self)
        self.target.break_down(_reset_by_peer())

    # ------------------------------------------------------------------------------------------------ arrival

    def _arrived(self) -> None:
        self.timer = None
        target, queue, network = self.target, self.queue, self.network
        receiver = target.receiver
        assert receiver is not None
        now = network.loop.time()
        if self.is_haunting:
            network.note_haunting(self)
        while queue and queue[0][0] <= now and target.is_open and target.is_reading:
            _, item, size, checksum = queue.popleft()
            self.unread -= size
            if item is Signal.RST:
                network.note("reset", self)
                target.break_down(
                    ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
                )
            elif item is Signal.FIN:
                network.note("finished", self)
                receiver.finished()
            else:
                network.note_segment(self, size, checksum)
                receiver.received(item)
        if self.room_mark >= 0:
            self._look_for_room()
        self.go_on()
        if not target.is_open:
            network.settle(self)

    def _arrived_at_nobody(self) -> None:
        """Answer data for a closed end with RST, once, as its kernel does."""
        self.timer = None
        now = self.network.loop.time()
        is_data = False
        while self.queue and self.queue[0][0] <= now:
            item = self.queue.popleft()[1]
            is_data = is_data or not isinstance(item, Signal)
        back = self.target.outbound
        if is_data and self.source.is_open and not any(one[1] is Signal.RST for one in back.queue):
            back.push(Signal.RST, 0, 0)
        self.go_on()
        self.network.settle(self)

    def _look_for_room(self) -> None:
        if self.room_mark < 0 or self.unread > self.room_mark:
            return
        self.room_mark = -1
        self._notify_of_room()

    def _notify_of_room(self) -> None:
        """Tell the sender that there is room. This acknowledgement takes its time as well, and waits while
        the way back is cut."""
        back = self.target.outbound
        self.is_room_owed = back.is_blocked
        if self.is_room_owed or not self.source.is_open:
            return
        loop = self.network.loop
        at = loop.time() + self.network.latency_s(back.extra_delays)
        loop.call_on_arrival(at, self._room_arrived, context=self.source.context)

    def _room_arrived(self) -> None:
        source = self.source
        if source.is_open and source.receiver is not None:
            source.receiver.has_room()

    # ------------------------------------------------------------------------------------------------- faults

    def hold(self) -> None:
        """Hold all segments that have not arrived yet until `release`."""
        if self.is_blocked:
            return
        self.is_blocked = True
        now = self.network.loop.time()
        self.queue = deque(one if one[0] <= now else (_HELD, *one[1:]) for one in self.queue)
        self._disarm_unless_due(now)

    def release(self, late_s: float) -> None:
        """End a hold: all held segments arrive together, after `late_s` seconds and a latency."""
        if not self.is_blocked:
            return
        self.is_blocked = False
        now = self.network.loop.time()
        at = max(self.last_at, now + late_s + self.network.latency_s(self.extra_delays))
        self.last_at = at
        self.queue = deque(one if one[0] != _HELD else (at, *one[1:]) for one in self.queue)
        self.go_on()
        forth = self.target.outbound
        if forth.is_room_owed:
            forth.is_room_owed = False
            forth._notify_of_room()

    def postpone(self, at: float) -> None:
        """Let no segment that is on its way arrive before `at`."""
        now = self.network.loop.time()
        self.queue = deque(
            one if one[0] <= now else (max(one[0], at), *one[1:]) for one in self.queue
        )
        self.last_at = max(self.last_at, at)
        self._disarm_unless_due(now)
        self.go_on()

    def drop(self) -> None:
        """Lose every segment that has not been read."""
        self.queue.clear()
        self.unread = 0
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def cut(self) -> None:
        self.network.world.effects[Effect.SEGMENT_DROPPED] += len(self.queue)
        self.is_cut = True
        self.drop()

    def drain(self) -> None:
        """Stop reading: segments that have arrived are thrown away, and those on their way will find a closed end."""
        now = self.network.loop.time()
        while self.queue and self.queue[0][0] <= now:
            self.queue.popleft()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.go_on()

    def _disarm_unless_due(self, now: float) -> None:
        # A timer that is due belongs to a paused process, which handles it when it goes on.
        if self.timer is not None and self.timer.when() > now:
            self.timer.cancel()
            self.timer = None


def _reset_by_peer() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
