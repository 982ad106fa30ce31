"""The TLS handshake of one connection. Behind it the connection is one like any other.

The handshake is done here, and not by the server of the event loop, for three reasons: a connection counts from its
first byte, it has a deadline, and it uses the certificates of the moment.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final, cast

from oncelog_listener.connection import Connection

log = logging.getLogger("oncelog.listener")

_TLS_FAULTS: Final = (ssl.SSLError, OSError, TimeoutError)


class TlsDoor(asyncio.Protocol):
    """Opens `connection` when the handshake succeeds."""

    def __init__(
        self,
        connection: Connection,
        context: Callable[[], ssl.SSLContext],
        handshake_timeout_s: float,
    ) -> None:
        self._connection = connection
        self._context = context
        self._timeout_s = handshake_timeout_s
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw = cast(asyncio.Transport, transport)
        # What comes now belongs to the handshake.
        raw.pause_reading()
        if self._connection.admitted(raw):
            self._task = asyncio.get_running_loop().create_task(self._shake_hands(raw))

    async def _shake_hands(self, raw: asyncio.Transport) -> None:
        try:
            transport = await asyncio.get_running_loop().start_tls(
                raw,
                self._connection,
                self._context(),
                server_side=True,
                ssl_handshake_timeout=self._timeout_s,
            )
        except _TLS_FAULTS as error:
            log.info("%s: no TLS: %s", self._connection.peer, error or type(error).__name__)
            transport = None
        if transport is None:
            raw.abort()
            self._connection.connection_lost(None)
            return
        self._connection.connection_made(transport)
