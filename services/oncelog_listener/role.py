"""The listener as a role: it accepts connections, watches over them, and lets them end in order."""

import asyncio
import errno
import logging
import socket
import time
from typing import Final

from oncelog.broker_config import MAX_CONNECTIONS
from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_listener.admission import Admission, Admitted
from oncelog_listener.brokers import is_leaving
from oncelog_listener.cluster import Cluster
from oncelog_listener.connection import Connection
from oncelog_listener.core.endpoints import Endpoint
from oncelog_listener.counters import ListenerCounters
from oncelog_listener.dispatcher import Dispatcher
from oncelog_listener.memory_budget import MemoryBudget
from oncelog_listener.pause_detector import PauseDetector
from oncelog_listener.peer_watch import PeerWatch
from oncelog_listener.protection import Protection
from oncelog_listener.tls_server import TlsServer

log = logging.getLogger("oncelog.listener")

_BACKLOG: Final = 1024
_SWEEP_MAX_S: Final = 30.0
TURNED_AWAY_MAX: Final = 500
"""The most connections above a quota that are held for a moment; more are closed at once."""
HANDOVER_S: Final = 2.0
"""The seconds for which a listener that leaves still answers, to send clients to the others."""
_NO_SUCH_ADDRESS: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class ListenerRole:
    """The listener role of a process: between `start` and `stop` it serves Kafka's protocol to clients."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._peer_watch = PeerWatch(cluster)
        self.settings = cluster.settings
        self.counters = ListenerCounters()
        self.budget = MemoryBudget(cluster.settings.queued_bytes_max)
        self.unsent = cluster.unsent
        self.dispatcher = Dispatcher(cluster)
        self.protection = Protection(cluster)
        self._admission = Admission(cluster.settings)
        self.ports: dict[str, int] = {}
        """The port of each listener by its name; known after `start` when settings say 0."""
        self._servers: list[asyncio.Server | TlsServer] = []
        self._open: dict[Connection, None] = {}
        self._serving: dict[Connection, None] = {}
        self._all_ended = asyncio.Event()
        self._turned_away_count = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._pause_detector = PauseDetector(
            self.settings.stood_still_max_ms / 1000, self._stood_still
        )

    @property
    def queued_bytes(self) -> int:
        """The bytes of requests that all connections hold now, complete or not."""
        return self.budget.held_bytes

    async def start(self) -> None:
        """Bind the addresses and accept connections. Raises OncelogError when an address cannot be bound."""
        bound: list[tuple[Endpoint, list[socket.socket]]] = []
        try:
            for endpoint in self.settings.endpoints:
                bound.append((endpoint, await _bound_sockets(endpoint.host, endpoint.port)))
                self.ports[endpoint.name] = bound[-1][1][0].getsockname()[1]
            self.protection.start()
        except OncelogError:
            for _, sockets in bound:
                for one in sockets:
                    one.close()
            raise
        self._pause_detector.start()
        for endpoint, sockets in bound:
            for one in sockets:
                self._servers.append(await self._serve(endpoint, one))
            port = self.ports[endpoint.name]
            log.info("listening on %s:%d (%s)", endpoint.host, port, endpoint.protocol.value)
        self._sweep()
        self._peer_watch.start()

    @property
    def port(self) -> int:
        """The port of the first listener in the settings, as it was bound."""
        first = self.settings.endpoints[0]
        return self.ports.get(first.name, first.port)

    async def _serve(self, endpoint: Endpoint, one: socket.socket) -> asyncio.Server | TlsServer:
        def make_connection() -> Connection:
            return Connection(self, endpoint)

        if not endpoint.protocol.has_tls:
            loop = asyncio.get_running_loop()
            return await loop.create_server(make_connection, sock=one, backlog=_BACKLOG)
        timeout_s = self.settings.authentication_timeout_ms / 1000
        server = TlsServer(one, make_connection, self.protection.tls_context, timeout_s)
        server.start(_BACKLOG)
        return server

    async def stop(self) -> None:
        """Accept nothing more, let requests in progress end for at most `stop_grace_ms`, close everything."""
        if is_leaving(self._cluster):
            await self._wait_until_ended(HANDOVER_S)
        self._cluster.ending.set()
        await self._peer_watch.stop()
        self._pause_detector.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers:
            server.close()
        self._servers.clear()
        for connection in list(self._open):
            connection.finish()
        await self._wait_until_ended(self.settings.stop_grace_ms / 1000)
        left = {**self._open, **self._serving}
        for connection in left:
            log.warning("%s was cut off: its request did not end in time", connection.peer)
            connection.abort()
        await self._wait_until_ended(1.0)

    async def _wait_until_ended(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while self._open or self._serving:
                    self._all_ended.clear()
                    await self._all_ended.wait()
        except TimeoutError:
            return

    def opened(self, connection: Connection, host: str) -> Admitted | None:
        refusal = self._admission.refusal(host, self.settings.connections_per_address_max)
        left_behind = len(self._serving) - len(self._open)
        if max(len(self._open), left_behind) >= self._connections_max():
            # Requests whose clients have left are finished, a JoinGroup after minutes; so they are counted, too.
            refusal = "too many connections are open"
        if not refusal and (wait_ms := self._cluster.throttling.connection_wait_ms(host)):
            refusal = "its address opens connections faster than its quota allows"
            if self._turned_away_count < TURNED_AWAY_MAX:
                self._turned_away_count += 1
                connection.turned_away_ms = wait_ms
                asyncio.get_running_loop().call_later(wait_ms / 1000, self._was_turned_away)
        if refusal:
            log.warning("%s refused: %s", connection.peer, refusal)
            self.counters.connections_refused += 1
            return None
        self._open[connection] = None
        self._serving[connection] = None
        if self._pause_detector.is_fresh:
            # It may have waited to be accepted, and its client may have left.
            connection.doubt()
        self.counters.connections_accepted += 1
        self.counters.connections_open = len(self._open)
        return self._admission.opened(host)

    def _was_turned_away(self) -> None:
        self._turned_away_count -= 1

    def _connections_max(self) -> int:
        changed = self._cluster.image.changed_setting(self._cluster.node_id, MAX_CONNECTIONS)
        return self.settings.connections_max if changed is None else int(changed)

    def closed(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        self.counters.connections_open = len(self._open)
        self._all_ended.set()

    def ended(self, connection: Connection) -> None:
        self._serving.pop(connection, None)
        self._cluster.fetch_sessions.close(connection.number)
        self._all_ended.set()

    def _stood_still(self, span_s: float) -> None:
        log.warning("stood still for %.1f s; %s", span_s, counted(len(self._open), "connection"))
        for connection in {**self._open, **self._serving}:
            connection.doubt()

    def _sweep(self) -> None:
        """Close connections that finished no request for too long; half a frame, sent byte by byte, counts for nothing.

        When answers take much memory, connections whose clients read nothing of them are closed sooner. A slow reader
        is not closed.
        """
        idle_max_s = self.settings.connection_idle_max_ms / 1000
        unread_max_s = self.settings.unread_max_ms / 1000
        now = time.monotonic()
        is_short = self.unsent.is_short
        for connection in list(self._open):
            takes_nothing = connection.takes_nothing(now, unread_max_s)
            if connection.is_idle and now - connection.last_progress > idle_max_s:
                reason = "idle"
            elif is_short and takes_nothing:
                reason = "it does not read its answer, and answers take much memory"
            else:
                continue
            self.counters.connections_idle_closed += 1
            log.info("%s closed: %s", connection.peer, reason)
            connection.abort()
        self._sweeper = asyncio.get_running_loop().call_later(
            min(idle_max_s / 4, unread_max_s / 4, _SWEEP_MAX_S), self._sweep
        )


async def _bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Return a socket for each address of `host`, all on one port. Raises OncelogError with the way out."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise OncelogError(
            f"cannot listen on {host!r}: {error}; choose an address of this machine with --host or ONCELOG_HOST"
        ) from error
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                one = _bound(family, kind, protocol, (address[0], port))
            except OSError as error:
                if error.errno in _NO_SUCH_ADDRESS and len(found) > 1:
                    continue
                raise
            sockets.append(one)
            port = one.getsockname()[1]
        if not sockets:
            raise OSError(errno.EADDRNOTAVAIL, "no address of this host can be listened on")
    except OSError as error:
        for one in sockets:
            one.close()
        raise OncelogError(_way_out(host, port, error)) from error
    return sockets


def _bound(family: int, kind: int, protocol: int, address: tuple[object, int]) -> socket.socket:
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        one.setblocking(False)
    except OSError:
        one.close()
        raise
    return one


def _way_out(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is in use: stop what listens there, or choose another port "
            f"with --port or ONCELOG_PORT (0 lets the system choose)"
        )
    if error.errno == errno.EACCES:
        return (
            f"port {port} on {host} is reserved: choose one above 1023 with --port or ONCELOG_PORT"
        )
    return f"cannot listen on {host}:{port}: {error}; choose with --host and --port, or ONCELOG_HOST and ONCELOG_PORT"
