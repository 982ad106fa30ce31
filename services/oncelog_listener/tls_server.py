"""A listening socket whose connections begin with TLS. Behind the handshake a connection is one like any other.

Connections are accepted here, and not by a server of the event loop, for three reasons: a connection counts from its
first byte, its handshake has a deadline, and it uses the certificates of the moment.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from oncelog_listener.connection import Connection

log = logging.getLogger("oncelog.listener")

_NO_DESCRIPTOR_PAUSE_S: Final = 0.1
"""The pause in seconds after a failed accept: mostly the process has no file descriptor left for now."""

_HANDSHAKE_LEAST_S: Final = 0.001
"""The least time in seconds for the handshake of a client whose first byte came at the end of the deadline."""


class TlsServer:
    """Accepts TLS connections on one listening socket, between `start` and `close`."""

    def __init__(
        self,
        listening: socket.socket,
        make_connection: Callable[[], Connection],
        context: Callable[[], ssl.SSLContext],
        handshake_timeout_s: float,
    ) -> None:
        self._listening = listening
        self._make_connection = make_connection
        self._context = context
        self._timeout_s = handshake_timeout_s
        self._accepting: asyncio.Task[None] | None = None
        self._handshakes: set[asyncio.Task[None]] = set()

    def start(self, backlog: int) -> None:
        self._listening.listen(backlog)
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept no more connections, and abort the handshakes under way."""
        if self._accepting is not None:
            self._accepting.cancel()
        for task in self._handshakes:
            task.cancel()
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._listening)
            except OSError as error:
                log.warning("a connection could not be accepted: %s", error)
                await asyncio.sleep(_NO_DESCRIPTOR_PAUSE_S)
                continue
            connection = self._make_connection()
            if not connection.admitted(peer, accepted.getsockname()):
                accepted.close()
                continue
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = loop.create_task(self._shake_hands(connection, accepted))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connection: Connection, accepted: socket.socket) -> None:
        is_open = False
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        try:
            if not await _said_something(accepted, self._timeout_s):
                # Another listener that watches this one (`peer_watch.py`), or the probe of a load balancer.
                log.debug("%s: closed without a word", connection.peer)
                return
            await loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context(),
                ssl_handshake_timeout=max(deadline - loop.time(), _HANDSHAKE_LEAST_S),
            )
            is_open = True
        except (OSError, TimeoutError) as error:
            log.info("%s: no TLS: %s", connection.peer, error or type(error).__name__)
        finally:
            if not is_open:
                accepted.close()
                connection.connection_lost(None)


async def _said_something(accepted: socket.socket, timeout_s: float) -> bool:
    """Wait until the client has sent its first byte, without reading it. False: the connection ended before, or nothing
    came in time.

    Raises OSError.
    """
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(accepted, is_readable.set)
    try:
        async with asyncio.timeout(timeout_s):
            await is_readable.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(accepted)
    return bool(accepted.recv(1, socket.MSG_PEEK))
