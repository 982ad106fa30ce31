"""The network between simulated processes: hosts with addresses, ordered byte streams, and their faults.

    network = SimNetwork(world)          # a profile other than CALM makes it slower and less regular
    world.loop.network = SimTcp(network) # oncelog_robustness.simulator.tcp: asyncio's servers and connections
    install_tcp(network)                 # the same: `socket` where production code uses it
    install_grpc(network)                # oncelog_robustness.simulator.grpc_network: grpc.aio

A host is the name in `SimProcess.host`; it has one address, 10.0.0.N, known by `address_of(host)`, and 127.0.0.1 means
itself. Names of hosts resolve. Code that belongs to no process lives on the host "outside".

Faults work by host, on every connection there is and every one that is made while they last. Each method returns a
function that undoes the fault, which takes no arguments and is harmless when repeated; `heal_all` undoes all faults.

- `partition(a, b, one_way=False)`: nothing passes from `a` to `b` (and back). Nothing is lost, because TCP sends
  again: segments arrive after the end. Connecting needs both ways. A death on the other side is not noticed before
  the end.
- `delay(host, added_s, jitter_s)`: traffic to and from the host takes that much longer.
- `clog(host)`: as a partition from everybody, but at its end everything arrives at once.
- `unplug(host)`: a power cut. The host's connections are gone and no peer is informed; nothing reaches the host
  before the end. Call this before the host's processes are ended: their kernel would still close connections in
  order.
- `reset(host)`: every connection of the host breaks for both ends; segments on their way are lost. It has no end.
- `ghost(host, gather_s, late_s)`: for `gather_s` the network holds traffic to the side that accepted a connection.
  Then the connections break for the side that made them. The held segments still arrive, up to `late_s` later, and
  are processed as from a living connection: a repetition on a new connection races with them. Up to `late_s` after
  that the receiver learns that its sender is gone. It has no end.

Everything is drawn from the streams `network.*`, and every opening, delivery and end adds to the trace.
"""

import contextvars
import errno
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Protocol

from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.faults import Fault
from oncelog_robustness.simulator.links import End, Pipe
from oncelog_robustness.simulator.listening import Listener
from oncelog_robustness.simulator.process import ProcessState, SimProcess, owner
from oncelog_robustness.simulator.world import World

OUTSIDE: Final = "outside"
LOOPBACK: Final = "127.0.0.1"
ANY: Final = ("", "0.0.0.0")
_FIRST_EPHEMERAL_PORT: Final = 40_000

Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class NetworkProfile:
    """The behaviour of a run's network without any fault: latencies, split and merged segments, buffers."""

    latency_s: tuple[float, float] = (0.000_1, 0.001)
    """The shortest and the longest latency of a segment, one way, in seconds."""
    tail_probability: float = 0.0
    tail_mean_s: float = 0.02
    """The mean of an additional latency that some segments get by an exponential draw, in seconds."""
    split_probability: float = 0.0
    """The probability that a written piece of bytes arrives as two."""
    merge_probability: float = 0.0
    """The probability that a written piece arrives together with the one before."""
    kernel_buffer_bytes: int = 262_144
    """The most bytes sent and not yet read on a TCP connection; more wait in the sender's transport."""
    grpc_window_bytes: int = 1_048_576
    """The most bytes sent and not yet read on a gRPC stream."""


CALM: Final = NetworkProfile()


def drawn_profile(world: World, wildness: float) -> NetworkProfile:
    """Draw how this run's network behaves without faults: as CALM at wildness 0, and up to very slow and
    irregular at 1."""
    draw = world.streams.stream("network.profile")
    slowest_s = 0.001 * (1 + 9 * wildness * draw.random())
    return NetworkProfile(
        latency_s=(0.000_1, slowest_s),
        tail_probability=0.05 * wildness * draw.random(),
        tail_mean_s=0.005 + 0.1 * wildness * draw.random(),
        split_probability=0.3 * wildness * draw.random(),
        merge_probability=0.5 * wildness * draw.random(),
        kernel_buffer_bytes=draw.choice((4_096, 65_536, 262_144)) if wildness else 262_144,
        grpc_window_bytes=draw.choice((65_535, 262_144, 1_048_576)) if wildness else 1_048_576,
    )


class Waiting(Protocol):
    """An attempt to connect that a fault holds up."""

    def send_again(self, late_s: float) -> None:
        """Send the SYN again, `late_s` seconds from now, because a fault began or ended."""


class _Sockets:
    """The sockets that one process has open, as its kernel knows them."""

    def __init__(self) -> None:
        self.ends: dict[End, None] = {}
        self.listeners: dict[Listener, None] = {}


class SimNetwork:
    def __init__(self, world: World, profile: NetworkProfile = CALM) -> None:
        self.world = world
        self.loop = world.loop
        self.profile = profile
        self.context = contextvars.Context()
        """The context (of `contextvars`) in which the kernels' callbacks run. It belongs to no process."""
        self._latency = world.streams.stream("network.latency")
        self._draw = self._latency.random
        self.dice = world.streams.stream("network.faults")
        self.segmenting = world.streams.stream("network.segments")
        self._addresses: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        self._ports: dict[str, int] = {}
        self._sockets: dict[SimProcess | None, _Sockets] = {}
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._pipes: dict[Pipe, None] = {}
        self._pipe_count = 0
        self._faults: dict[Fault, None] = {}
        self.waiting_attempts: dict[Waiting, None] = {}
        self.segments = 0
        """The number of segments delivered so far."""

    # -------------------------------------------------------------------------------------------------- hosts

    def address_of(self, host: str) -> str:
        address = self._addresses.get(host)
        if address is None:
            number = len(self._addresses) + 1
            address = self._addresses[host] = f"10.0.{number // 250}.{number % 250 + 1}"
            self._hosts[address] = host
        return address

    def host_here(self) -> str:
        """Return the host of the process whose code is running."""
        process = owner()
        return OUTSIDE if process is None else process.host

    def host_at(self, address: str) -> str | None:
        """Return the host at an address, as seen by the code that is running; the name of a host is an address, too."""
        if address.startswith("127.") or address == "localhost":
            return self.host_here()
        host = self._hosts.get(address)
        if host is None and self._is_host(address):
            return address
        return host

    def _is_host(self, name: str) -> bool:
        return (
            name in self._addresses
            or name == OUTSIDE
            or any(process.host == name for process in self.world.processes.values())
        )

    def free_port(self, host: str) -> int:
        while True:
            port = self._ports.get(host, _FIRST_EPHEMERAL_PORT)
            self._ports[host] = port + 1 if port < 65_535 else _FIRST_EPHEMERAL_PORT
            if (host, port) not in self._listeners:
                return port

    # ------------------------------------------------------------------------------------ listening, connecting

    def listener(self, address: str, port: int) -> Listener:
        """Bind a port of the running process's host and return it; its `listen` makes it accept connections.
        Raises OSError."""
        host = self.host_here()
        self.refuse_the_dead()
        if address not in ANY and self.host_at(address) != host:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        port = port or self.free_port(host)
        if (host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        shown = "0.0.0.0" if address in ANY else self._shown(address)
        listener = Listener(host, (shown, port), owner(), self._forget_listener)
        self._listeners[host, port] = listener
        self.sockets_of(listener.process).listeners[listener] = None
        return listener

    def _shown(self, address: str) -> str:
        if address.startswith("127."):
            return address
        return LOOPBACK if address == "localhost" else self.address_of(self.host_here())

    @staticmethod
    def refuse_the_dead() -> None:
        """Raise OSError if the running process is dead. One that was killed in a step unwinds its stack, and
        must reach nobody on the way."""
        process = owner()
        if process is not None and process.state is ProcessState.DEAD:
            raise OSError(errno.EBADF, "Bad file descriptor")

    def listening_at(self, host: str, port: int) -> Listener | None:
        return self._listeners.get((host, port))

    def _forget_listener(self, listener: Listener) -> None:
        self._listeners.pop((listener.host, listener.address[1]), None)
        sockets = self._sockets.get(listener.process)
        if sockets is not None:
            sockets.listeners.pop(listener, None)

    def connect(self, dialer: End, acceptor: End) -> None:
        """Connect two ends by a pipe in each direction. Faults act on these pipes from now on."""
        self._pipe_count += 1
        for source, target in ((dialer, acceptor), (acceptor, dialer)):
            pipe = Pipe(self, self._pipe_count, source, target, source is dialer)
            self._pipes[pipe] = None
            self._apply_faults(pipe)
        self.note("opened", dialer.outbound)
        for end in (dialer, acceptor):
            if end.process is not None and end.process.state is ProcessState.DEAD:
                end.close()
            else:
                self.sockets_of(end.process).ends[end] = None

    @property
    def open_connections(self) -> int:
        """Return the number of connections of which an end or a segment is left."""
        return len(self._pipes) // 2

    def sockets_of(self, process: SimProcess | None) -> _Sockets:
        sockets = self._sockets.get(process)
        if sockets is None:
            sockets = self._sockets[process] = _Sockets()
            if process is not None:
                process.on_end(lambda: self._process_ended(process))
        return sockets

    def forget_end(self, end: End) -> None:
        sockets = self._sockets.get(end.process)
        if sockets is not None:
            sockets.ends.pop(end, None)

    def settle(self, pipe: Pipe) -> None:
        """Remove a connection from the network if neither of its two pipes is in use any more."""
        one, other = pipe.source, pipe.target
        if one.is_open or other.is_open or one.outbound.queue or other.outbound.queue:
            return
        self._pipes.pop(one.outbound, None)
        self._pipes.pop(other.outbound, None)

    def _process_ended(self, process: SimProcess) -> None:
        sockets = self._sockets.pop(process)
        # What waits at its sockets must never be finalized.
        self.world.keep_for_ever(
            [tuple(sockets.ends), tuple(sockets.listeners), [end.receiver for end in sockets.ends]]
        )
        for listener in sockets.listeners:
            listener.close()
        for end in sockets.ends:
            end.close()

    # ------------------------------------------------------------------------------------------------ latency

    def latency_s(self, extra_delays: tuple[tuple[float, float], ...] = ()) -> float:
        """Draw the latency of one segment, in seconds. `extra_delays` are those of faults, as pairs of seconds: a fixed
        delay, and the most that a draw adds to it."""
        profile = self.profile
        shortest, longest = profile.latency_s
        latency_s = shortest + (longest - shortest) * self._draw()
        if profile.tail_probability and self._draw() < profile.tail_probability:
            latency_s += self._latency.expovariate(1 / profile.tail_mean_s)
        for added_s, jitter_s in extra_delays:
            latency_s += added_s + jitter_s * self._draw()
        return latency_s

    # ------------------------------------------------------------------------------------------------- faults

    def partition(
        self, a_hosts: Collection[str], b_hosts: Collection[str], one_way: bool = False
    ) -> Undo:
        return self._begin(Fault.between("partition", a_hosts, b_hosts, one_way=one_way))

    def delay(self, host: str, added_s: float, jitter_s: float) -> Undo:
        return self._begin(Fault.of_host("delay", host, delay=(added_s, jitter_s)))

    def clog(self, host: str) -> Undo:
        return self._begin(Fault.of_host("clog", host, blocks=True))

    def unplug(self, host: str) -> Undo:
        undo = self._begin(Fault.of_host("unplug", host, blocks=True, sends_again=True))
        for pipe in self._pipes_of(host):
            if pipe.source.host == host:
                pipe.source.vanish()
        return undo

    def reset(self, host: str) -> None:
        self.world.trace("net-fault", "reset", host)
        for pipe in self._pipes_of(host):
            pipe.cut()
            self._break(pipe.source)

    def ghost(self, host: str, gather_s: float = 0.1, late_s: float = 1.0) -> None:
        undo = self._begin(Fault.of_host("ghost", host, blocks=True, only_forward=True))
        at = self.loop.time() + gather_s
        self.loop.call_at(at, self._haunt, host, late_s, undo, context=self.context)

    def heal_all(self) -> None:
        faults, self._faults = self._faults, {}
        for fault in faults:
            self.world.trace("net-heal", fault.name)
        self._refresh(sends_again=any(fault.sends_again for fault in faults))

    def is_blocked(self, source: str, target: str, is_forward: bool) -> bool:
        return any(fault.blocks(source, target, is_forward) for fault in self._faults)

    def is_connecting_blocked(self, source: str, target: str) -> bool:
        return any(fault.blocks_connecting(source, target) for fault in self._faults)

    def delays(self, source: str, target: str) -> tuple[tuple[float, float], ...]:
        found = (fault.delay_of(source, target) for fault in self._faults)
        return tuple(delay for delay in found if delay is not None)

    def _begin(self, fault: Fault) -> Undo:
        self._faults[fault] = None
        self.world.trace("net-fault", fault.name, fault.text)
        self._refresh()

        def undo() -> None:
            if fault in self._faults:
                del self._faults[fault]
                self.world.trace("net-heal", fault.name, fault.text)
                self._refresh(sends_again=fault.sends_again)

        return undo

    def _refresh(self, *, sends_again: bool = False) -> None:
        """Apply the present faults to all connections, and let attempts to connect that waited try again.
        `sends_again`: held segments wait for their sender's retransmission timer."""
        for pipe in list(self._pipes):
            self._apply_faults(pipe, sends_again=sends_again)
        attempts, self.waiting_attempts = self.waiting_attempts, {}
        for attempt in attempts:
            attempt.send_again(self.dice.uniform(0, 0.5) if sends_again else 0.0)

    def _apply_faults(self, pipe: Pipe, *, sends_again: bool = False) -> None:
        source, target = pipe.source.host, pipe.target.host
        pipe.extra_delays = self.delays(source, target)
        is_blocked = self.is_blocked(source, target, pipe.is_forward)
        if is_blocked:
            pipe.hold()
        elif pipe.is_blocked:
            pipe.release(self.dice.uniform(0, 0.5) if sends_again else 0.0)

    def _pipes_of(self, host: str) -> list[Pipe]:
        """Return both directions of each connection between this host and others."""
        return [
            pipe
            for pipe in self._pipes
            if host in (pipe.source.host, pipe.target.host) and pipe.source.host != pipe.target.host
        ]

    def _haunt(self, host: str, late_s: float, undo: Undo) -> None:
        undo()
        for pipe in self._pipes_of(host):
            if not pipe.is_forward:
                continue
            self._break(pipe.source)
            after_s = 0.0
            if pipe.queue:
                after_s = late_s * self.dice.uniform(0.05, 1.0)
                pipe.postpone(self.loop.time() + after_s)
                # What arrives so late is also worked on before the receiver learns that its sender is gone.
                after_s += late_s * self.dice.uniform(0.1, 1.0)
                self.note("ghost", pipe)
                pipe.is_haunting = True
            pipe.is_cut = True
            self._break(pipe.target, after_s)

    def _break(self, end: End, after_s: float = 0.0) -> None:
        """Break a connection at this end: after `after_s` seconds and a latency, its process sees a
        connection reset."""
        error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        at = self.loop.time() + after_s + self.latency_s()
        self.loop.call_on_arrival(at, end.break_down, error, context=end.context)

    # -------------------------------------------------------------------------------------------------- trace

    def note(self, what: str, pipe: Pipe) -> None:
        source, target = pipe.source, pipe.target
        self.world.trace(f"net-{what}", pipe.number, source.host, target.host, target.address[1])

    def note_haunting(self, pipe: Pipe) -> None:
        """Count that bytes arrive on a connection which their sender has given up. Count it as overtaken,
        too, if that sender has a newer connection to the same address."""
        effects = self.world.effects
        effects[Effect.SEGMENT_AFTER_BREAK] += 1
        source, target = pipe.source, pipe.target
        if any(
            other.number > pipe.number
            and other.source.host == source.host
            and other.target.address == target.address
            for other in self._pipes
        ):
            effects[Effect.SEGMENT_OVERTAKEN] += 1

    def note_segment(self, pipe: Pipe, size: int, checksum: int) -> None:
        self.segments += 1
        self.world.trace_log.add_segment(
            self.loop.now_s, pipe.number, pipe.is_forward, size, checksum
        )
