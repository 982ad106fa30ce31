"""The watch over other listeners: it notices within milliseconds that one is gone, before the controller says so.

Why: a client that loses its listener asks another one for metadata at once. If that answer still names the dead one,
librdkafka waits a whole second before it asks again.

How: each listener keeps an idle connection to the Kafka port of every other one; the operating system closes it when
that process ends.

- A peer whose connection broke is a suspect. Clients are not told of it until it can be reached again.
- A peer also closes idle connections by itself, so a watch renews its connection before that.
- Where the end looks orderly all the same, the watch connects again at once: the port of a dead process refuses.
- A peer that could never be reached is no suspect: perhaps its address is meant for clients only.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from oncelog.rpc.metadata import MetadataImage
from oncelog_listener.brokers import Broker, live_listeners
from oncelog_listener.cluster import Address, Cluster
from oncelog_listener.settings import ListenerSettings

log = logging.getLogger("oncelog.listener")

CONNECT_TIMEOUT_S: Final = 1.0
DEPARTED_S: Final = 60.0
"""The seconds for which a listener that went away is told to clients, longer than a restart takes."""
SETTLED_S: Final = 0.1
"""The seconds after which a connection that is still open counts as one to its peer. A proxy accepts for a dead peer as
well, and hangs up at once."""
PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 2.0


class _End(Enum):
    """The ways in which a connection to another listener ended. They tell whether that listener may be dead."""

    NEVER_THERE = auto()
    """The connection never lasted long enough to have reached its peer."""
    RENEWED = auto()
    """This listener ended the connection, and opens the next one."""
    IN_ORDER = auto()
    """The peer, or its system after the peer's death, closed the connection."""
    BROKEN = auto()


def _patience_ms(settings: ListenerSettings) -> int:
    """Return after how many milliseconds a listener with these settings closes a connection on which nothing is
    sent."""
    protocol = settings.endpoints[0].protocol
    if protocol.has_tls or protocol.has_sasl:
        return min(settings.authentication_timeout_ms, settings.connection_idle_max_ms)
    return settings.connection_idle_max_ms


class PeerWatch:
    """Watches all other listeners. It puts the node ids of dead ones into the cluster's `suspects`, which `brokers.py`
    hides from clients."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watched: dict[int, tuple[Address, asyncio.Task[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._renewal_s = _patience_ms(cluster.settings) / 2000
        self._forget: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._forget = self._cluster.metadata.on_change(self._changed)
        self._changed(self._cluster.image, self._cluster.image)

    async def stop(self) -> None:
        self._forget()
        for node_id in tuple(self._watched):
            self._end(node_id)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _changed(self, old: MetadataImage, new: MetadataImage) -> None:
        if new.nodes is old.nodes and new is not old:
            return
        live = live_listeners(new, self._cluster.node_id)
        peers = {one.node_id: Address(one.host, one.port) for one in live}
        for one in live_listeners(old, self._cluster.node_id):
            if one.node_id not in peers:
                self._departed(one)
        for node_id, (address, _) in tuple(self._watched.items()):
            if peers.get(node_id) != address:
                self._end(node_id)
        for node_id, address in peers.items():
            if node_id not in self._watched:
                task = asyncio.create_task(self._watch(node_id, address), name=f"peer {node_id}")
                self._watched[node_id] = address, task

    def _departed(self, broker: Broker) -> None:
        departed = self._cluster.departed
        departed[broker.node_id] = broker

        def forget() -> None:
            if departed.get(broker.node_id) is broker:
                del departed[broker.node_id]

        asyncio.get_running_loop().call_later(DEPARTED_S, forget)

    def _end(self, node_id: int) -> None:
        _, task = self._watched.pop(node_id)
        self._cluster.suspects.discard(node_id)
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _watch(self, node_id: int, address: Address) -> None:
        pause_s = PAUSE_S
        # A proxy accepts for a dead peer. Who was there, or broke off at once, and now refuses has died just then.
        may_have_died = is_in_doubt = False
        while True:
            end = _End.NEVER_THERE
            try:
                async with asyncio.timeout(SETTLED_S if is_in_doubt else CONNECT_TIMEOUT_S):
                    reader, writer = await asyncio.open_connection(*address)
                try:
                    if await self._settles(reader):
                        self._cluster.suspects.discard(node_id)
                        end = await self._end_of(node_id, reader)
                finally:
                    writer.close()
                may_have_died = end in (_End.NEVER_THERE, _End.RENEWED)
            except (OSError, TimeoutError) as error:
                if may_have_died and isinstance(error, ConnectionRefusedError):
                    self._lost(node_id)
                    may_have_died = False
            if end is not _End.NEVER_THERE:
                pause_s = PAUSE_S
                is_in_doubt = end is _End.IN_ORDER
                if end is _End.BROKEN:
                    self._lost(node_id)
                continue
            if is_in_doubt:
                self._lost(node_id)
                is_in_doubt = False
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    async def _settles(self, reader: asyncio.StreamReader) -> bool:
        """Wait a short time on a new connection. True: it is still open, so the peer is there. False: it ended so soon
        that perhaps only a proxy accepted it. Raises OSError."""
        # Nothing is ever sent, so a read ends with the connection.
        try:
            async with asyncio.timeout(SETTLED_S):
                await reader.read(1)
        except TimeoutError:
            return True
        return False

    async def _end_of(self, node_id: int, reader: asyncio.StreamReader) -> _End:
        """Wait until the connection ends, or is due to be renewed, and return which of these it was."""
        try:
            async with asyncio.timeout(self._renewal_s) as wait:
                await reader.read(1)
        except OSError as error:
            if wait.expired():
                return _End.RENEWED
            log.info("listener %d: %r", node_id, error)
            return _End.BROKEN
        return _End.IN_ORDER

    def _lost(self, node_id: int) -> None:
        self._cluster.suspects.add(node_id)
        for one in live_listeners(self._cluster.image, self._cluster.node_id):
            if one.node_id == node_id:
                self._departed(one)
