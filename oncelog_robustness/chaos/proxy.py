"""The network between the processes of a cluster, as a process: `python -m oncelog_robustness.chaos.proxy`.

Every process of a cluster has an HTTP CONNECT proxy of its own for its calls (`ONCELOG_NODE_HTTP_PROXY`). A frontend
is an address on which this proxy listens. The frontend of a connection tells who opened it, and CONNECT names its
target. Postgres, Redis and the Kafka ports have frontends with one target. No advertised address changes but that of
listeners.

A held flow is like TCP on a network that drops every packet. Connections stay, new ones are not made, and nothing
arrives, not even the end of a connection. A hold is no refusal: neither side learns of it.

The runner sends lines of JSON and receives one line for each; when its input ends, the proxy ends.
"""

import asyncio
import json
import socket
import struct
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

import uvloop

from oncelog_robustness.chaos.links import AfterHold, LinkState, Rule, Rules, rule_from

QUEUED_BYTES_MAX: Final = 1024 * 1024
"""The most bytes of one flow that may wait in the proxy. Beyond them the sender has to wait, as for a full TCP
window."""
CONNECT_BYTES_MAX: Final = 8192
_RESET: Final = struct.pack("ii", 1, 0)
"""The option SO_LINGER, on with a time of zero: closing the socket sends a reset."""


@dataclass(frozen=True, slots=True)
class Frontend:
    """An address on which the proxy listens for the connections of one party, such as a process."""

    sender: str
    listen: str
    """The address on which the frontend listens: `host:port`, or the path of a socket."""
    receiver: str = ""
    """The party that every connection goes to; empty if the connection names its target by CONNECT."""
    target: str = ""


@dataclass(eq=False, slots=True)
class Flow:
    """One direction of one connection through the proxy: its bytes that wait, and whether a rule holds or
    delays them."""

    sender: str
    receiver: str
    source: "Side"
    sink: "Side | None" = None
    link: LinkState = field(default_factory=lambda: LinkState(False, 0))
    queue: deque[tuple[float, bytes]] = field(default_factory=deque)
    """The bytes that wait, each with the time before which they may not go on; empty bytes are the sender's end."""
    queued_bytes: int = 0
    was_held: bool = False
    """True if bytes had to wait for a rule since the flow was last open."""
    timer: asyncio.TimerHandle | None = None


class Side(asyncio.Protocol):
    """One end of a connection: towards the party that opened it, or towards the target."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.transport: asyncio.Transport | None = None
        self.flow: Flow | None = None
        """The flow into which bytes go that this side receives."""
        self.is_reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:

        self.transport = cast(asyncio.Transport, transport)
        self.connection.made(self)

    def data_received(self, data: bytes) -> None:
        self.connection.received(self, data)

    def eof_received(self) -> bool:
        self.connection.received(self, b"")
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if error is not None:
            self.connection.received(self, b"")
        self.connection.lost(self)

    def pause_writing(self) -> None:
        self.connection.throttle(self, is_full=True)

    def resume_writing(self) -> None:
        self.connection.throttle(self, is_full=False)

    def set_reading(self, wanted: bool) -> None:
        if self.transport is None or wanted == self.is_reading:
            return
        self.is_reading = wanted
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def reset(self) -> None:
        """Break the connection as a network does; bytes that were not sent are lost."""
        if self.transport is None:
            return
        own = self.transport.get_extra_info("socket")
        if own is not None and own.family != socket.AF_UNIX:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()


class Connection:
    """A connection that was opened through a frontend, together with the proxy's own connection to the target."""

    def __init__(self, proxy: "Proxy", frontend: Frontend) -> None:
        self._proxy = proxy
        self._frontend = frontend
        self._opener = Side(self)
        self._target: Side | None = None
        self._head = b""
        self._address = frontend.target
        self.receiver = frontend.receiver
        self._task: asyncio.Task[None] | None = None
        self.forth: Flow | None = None
        self.back: Flow | None = None
        self._full: set[Side] = set()

    @property
    def opener(self) -> Side:
        return self._opener

    @property
    def target(self) -> Side | None:
        return self._target

    @property
    def sender(self) -> str:
        return self._frontend.sender

    def flows(self) -> Iterator[Flow]:
        for flow in (self.forth, self.back):
            if flow is not None:
                yield flow

    # ------------------------------------------------------------------------------------------------- opening

    def made(self, side: Side) -> None:
        if side is not self._opener:
            # This is done here, before the connecting task goes on: a server may send first, and at once.
            self._reached(side)
            return
        self._proxy.connections[self] = None
        if self.receiver:
            self._start_to_connect()

    def _start_to_connect(self) -> None:
        self.forth = Flow(self.sender, self.receiver, self._opener)
        self.back = Flow(self.receiver, self.sender, Side(self))
        self._opener.flow = self.forth
        for flow in self.flows():
            flow.link = self._proxy.rules.state(flow.sender, flow.receiver)
        self._task = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        """Connect to the target once both directions are open, because TCP needs packets both ways."""
        assert self.forth is not None
        assert self.back is not None
        while (link := self._link()).is_held:
            await self._proxy.changed()
        await asyncio.sleep(2 * link.delay_ms / 1000)
        loop = asyncio.get_running_loop()
        try:
            if self._address.startswith("/"):
                await loop.create_unix_connection(lambda: Side(self), self._address)
            else:
                host, _, port = self._address.rpartition(":")
                await loop.create_connection(lambda: Side(self), host, int(port))
        except OSError:
            self._proxy.refused_count += 1
            self._opener.reset()

    def _reached(self, target: Side) -> None:
        assert self.forth is not None
        assert self.back is not None
        self._target = target
        target.flow = self.back
        self.back.source, self.back.sink = target, self._opener
        self.forth.sink = target
        if self._opener.transport is None:
            target.reset()
            return
        if not self._frontend.receiver:
            self._opener.transport.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for flow in self.flows():
            self.pump(flow)

    def _link(self) -> LinkState:
        forth = self._proxy.rules.state(self.sender, self.receiver)
        back = self._proxy.rules.state(self.receiver, self.sender)
        return LinkState(forth.is_held or back.is_held, max(forth.delay_ms, back.delay_ms))

    # ------------------------------------------------------------------------------------------------- passing on

    def received(self, side: Side, data: bytes) -> None:
        """Pass on the bytes that a side received, or queue them while a rule holds or delays them. Empty
        `data` means that the side has ended."""
        if side.flow is None:
            if side is self._opener and not self.receiver:
                self._read_connect(data)
            return
        flow = side.flow
        if not flow.queue and flow.sink is not None and flow.link == LinkState(False, 0):
            self._write(flow, data)
            return
        due = asyncio.get_running_loop().time() + flow.link.delay_ms / 1000
        flow.queue.append((due, data))
        flow.queued_bytes += len(data)
        flow.was_held = flow.was_held or flow.link.is_held
        if flow.queued_bytes > QUEUED_BYTES_MAX:
            side.set_reading(False)
        self.pump(flow)

    def _read_connect(self, data: bytes) -> None:
        self._head += data
        if not data or len(self._head) > CONNECT_BYTES_MAX:
            self._opener.reset()
            return
        head, found, rest = self._head.partition(b"\r\n\r\n")
        if not found:
            return
        words = head.split(b"\r\n", 1)[0].split()
        self._address = words[1].decode() if len(words) > 1 and words[0] == b"CONNECT" else ""
        receiver = self._proxy.names.get(self._address)
        if receiver is None:
            self._opener.reset()
            return
        self.receiver = receiver
        self._start_to_connect()
        if rest:
            self.received(self._opener, rest)

    def pump(self, flow: Flow) -> None:
        """Send on the bytes of the flow whose time has come and which no rule holds."""
        if flow.timer is not None:
            flow.timer.cancel()
            flow.timer = None
        if flow.link.is_held or flow.sink is None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        while flow.queue:
            due, data = flow.queue[0]
            if due > now + 0.0005:
                flow.timer = loop.call_at(due, self.pump, flow)
                return
            flow.queue.popleft()
            flow.queued_bytes -= len(data)
            self._write(flow, data)
        flow.was_held = False
        if flow.sink not in self._full:
            flow.source.set_reading(True)

    def _write(self, flow: Flow, data: bytes) -> None:
        assert flow.sink is not None
        transport = flow.sink.transport
        if transport is None or transport.is_closing():
            return
        if data:
            transport.write(data)
        else:
            # None of these protocols closes only one half.
            transport.close()

    def throttle(self, side: Side, *, is_full: bool) -> None:
        """Stop reading from the sender while the buffer of `side`, which gets its bytes, is full; go on when
        it has room again."""
        (self._full.add if is_full else self._full.discard)(side)
        for flow in self.flows():
            if flow.sink is side:
                flow.source.set_reading(not is_full and flow.queued_bytes <= QUEUED_BYTES_MAX)

    # ------------------------------------------------------------------------------------------------- the end

    def lost(self, side: Side) -> None:
        other = self._target if side is self._opener else self._opener
        if side is self._opener and self._target is None and self._task is not None:
            self._task.cancel()
        if other is not None and other.transport is not None:
            if side.flow is None or not side.flow.queue:
                other.transport.close()
            return
        self._proxy.connections.pop(self, None)

    def break_off(self) -> None:
        """Reset both ends; the bytes under way are lost."""
        for flow in self.flows():
            flow.queue.clear()
            flow.queued_bytes = 0
        if self._task is not None:
            self._task.cancel()
        self._opener.reset()
        if self._target is not None:
            self._target.reset()

    def haunt(self) -> None:
        """Reset the connection for the party that opened it, and yet let the bytes that it had sent
        arrive."""
        if self.forth is not None:
            self.forth.queue.append((0.0, b""))
        self._opener.reset()


class Proxy:
    """The proxy: all frontends and connections, and the rules in force."""

    def __init__(self) -> None:
        self.rules = Rules()
        self.names: dict[str, str] = {}
        """The name of the party that serves at each address."""
        self.connections: dict[Connection, None] = {}
        self.refused_count = 0
        """The number of connections that their servers refused."""
        self._servers: list[asyncio.AbstractServer] = []
        self._change = asyncio.Event()

    async def changed(self) -> None:
        await self._change.wait()

    async def open(self, frontends: list[Frontend]) -> None:
        loop = asyncio.get_running_loop()
        for frontend in frontends:

            def accept(frontend: Frontend = frontend) -> asyncio.Protocol:
                return Connection(self, frontend).opener

            if frontend.listen.startswith("/"):
                server: Any = await loop.create_unix_server(accept, frontend.listen)
            else:
                host, _, port = frontend.listen.rpartition(":")
                server = await loop.create_server(accept, host, int(port))
            self._servers.append(server)

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.break_off()

    def put(self, fault: str, rules: tuple[Rule, ...]) -> None:
        self.rules.put(fault, rules)
        self._apply()

    def lift(self, fault: str) -> None:
        for rule in self.rules.lift(fault):
            if rule.after is AfterHold.DELIVER:
                continue
            for connection in list(self.connections):
                for flow in connection.flows():
                    if flow.was_held and rule.concerns(flow.sender, flow.receiver):
                        self._end_held(connection, flow, rule.after)
                        break
        self._apply()

    def _end_held(self, connection: Connection, flow: Flow, after: AfterHold) -> None:
        if after is AfterHold.GHOST and flow is connection.forth:
            connection.haunt()
        else:
            connection.break_off()

    def reset(self, party: str) -> int:
        """Break every connection of this party at both ends, and return how many there were."""
        found = [one for one in self.connections if party in (one.sender, one.receiver)]
        for connection in found:
            connection.break_off()
        return len(found)

    def _apply(self) -> None:
        change, self._change = self._change, asyncio.Event()
        change.set()
        for connection in list(self.connections):
            for flow in connection.flows():
                flow.link = self.rules.state(flow.sender, flow.receiver)
                connection.pump(flow)

    async def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        match order["do"]:
            case "open":
                self.names.update(order["names"])
                await self.open([Frontend(**frontend) for frontend in order["frontends"]])
            case "put":
                self.put(order["fault"], tuple(rule_from(rule) for rule in order["rules"]))
            case "lift":
                self.lift(order["fault"])
            case "reset":
                return {"broken": self.reset(order["party"])}
        return {}


async def serve() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    proxy = Proxy()
    while line := await reader.readline():
        try:
            answer = await proxy.answer(json.loads(line))
        except (OSError, ValueError, KeyError, TypeError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    proxy.close()


if __name__ == "__main__":
    uvloop.run(serve())
