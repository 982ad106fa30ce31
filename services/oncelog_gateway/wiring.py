"""Builds the gateway and serves it on the loop of its process.

`start` only binds the port. FastAPI and everything behind it is imported in a thread, which takes about half a second
of CPU and 20 MB. Clients that connect meanwhile wait in the kernel's queue. A gateway in a process of its own begins to
import at its start. Beside other roles, as under `oncelog up`, nothing is imported before a client connects.
"""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower
from oncelog.runtime.clock import Clock, SystemClock
from oncelog.telemetry.history import History
from oncelog.telemetry.stream_reader import StreamReader, build_reader
from oncelog_gateway.rate_recorder import RateRecorder
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.ways_in import NO_WAYS_IN, ways_in

if TYPE_CHECKING:
    import uvicorn

    from oncelog.security.tls import ReloadingContext
    from oncelog_gateway.metrics import ReadMetrics

logger = logging.getLogger(__name__)

BACKLOG: Final = 128
DATE_HEADER_S: Final = 1.0
"""Seconds that the `Date` of an answer may be old."""


def build_gateway(
    settings: GatewaySettings,
    metadata: MetadataFollower,
    directory: Directory,
    *,
    read_metrics: "ReadMetrics" = lambda: (),
    history: History | None = None,
    waits_for_client: bool = False,
) -> "GatewayRole":
    """Return the gateway of one process; it asks other roles through `directory`.

    `read_metrics` gives metrics of other roles in this process, and `history` has their events. With `waits_for_client`
    nothing of the web framework is imported before the first client connects.
    """
    return GatewayRole(
        settings, metadata, directory, SystemClock(), read_metrics, history, waits_for_client
    )


class GatewayRole:
    """The gateway as a part of a process that can be started and stopped. `start` binds its port; `stop` lets requests
    that are under way end, then closes.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        metadata: MetadataFollower,
        directory: Directory,
        clock: Clock,
        read_metrics: "ReadMetrics" = lambda: (),
        history: History | None = None,
        waits_for_client: bool = False,
    ) -> None:
        self._reader: StreamReader | None = None
        if history is None:
            history = History(settings.history_events_max)
            self._reader = build_reader(settings.redis_url, history, settings.history_events_max)
        self._history = history
        self._settings = settings
        self._metadata = metadata
        self._directory = directory
        self._clock = clock
        self._read_metrics = read_metrics
        self._waits_for_client = waits_for_client
        self._recorder = RateRecorder(metadata, directory, clock)
        self._ways_in = NO_WAYS_IN
        self._tls: ReloadingContext | None = None
        self._port: int | None = None
        self._listening: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._ends = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The bound port; known after `start`."""
        assert self._port is not None, "the gateway is not started"
        return self._port

    async def start(self) -> None:
        """Bind the port. Raises OncelogError, with the way out, when the address cannot be bound or would let
        everybody in.
        """
        self._ways_in = ways_in(self._settings, self._settings.host)
        if self._settings.tls_certificate_file is not None:
            from oncelog_gateway.tls import build_tls

            self._tls = build_tls(self._settings)
        self._listening = _bound(self._settings.host, self._settings.port)
        self._port = self._listening.getsockname()[1]
        self._serving = asyncio.create_task(self._serve(self._listening), name="gateway")
        self._serving.add_done_callback(_log_failure)
        if self._reader is not None:
            self._reader.start()
        self._recorder.start()

    async def stop(self) -> None:
        """Stop the gateway. Raises the error that ended serving before, if there was one."""
        assert self._listening is not None, "the gateway is not started"
        assert self._serving is not None
        if self._reader is not None:
            await self._reader.stop()
        await self._recorder.stop()
        if self._server is not None:
            self._ends.set()
        else:
            self._serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._serving
        self._listening.close()

    async def _serve(self, listening: socket.socket) -> None:
        # Closed whatever happens: a port that accepts and never answers would hang its clients.
        with listening:
            if self._waits_for_client:
                await _until_somebody_connects(listening)
            self._server = await asyncio.to_thread(self._load)
            await self._server.serve(sockets=[listening])

    def _load(self) -> "uvicorn.Server":
        import uvicorn

        from oncelog.process.connections import Connections
        from oncelog_gateway.application import create_app
        from oncelog_gateway.http_connection import HttpConnection

        ends = self._ends

        class Server(uvicorn.Server):
            """A uvicorn server that handles no signals, because these belong to the whole process. uvicorn would check
            ten times a second whether it must end; this one waits for an event.
            """

            @contextmanager
            def capture_signals(self) -> Generator[None, None, None]:
                yield

            async def main_loop(self) -> None:
                while not ends.is_set():
                    await self.on_tick(0)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(DATE_HEADER_S):
                            await ends.wait()

        settings = self._settings
        app = create_app(
            settings,
            self._metadata,
            self._directory,
            self._clock,
            self._read_metrics,
            self._history,
            self._ways_in,
            self._recorder,
        )
        config = uvicorn.Config(
            app,
            access_log=False,
            log_config=None,
            lifespan="off",
            ws="none",
            server_header=False,
            # X-Forwarded-For is anybody's to write; `operators` believes it from trusted proxies only.
            proxy_headers=False,
            http=partial(HttpConnection, Connections(settings.connections_max), settings),  # type: ignore[arg-type]
            timeout_graceful_shutdown=max(settings.shutdown_timeout_ms // 1000, 1),
        )
        config.load()
        if self._tls is not None:
            config.ssl = self._tls.fronting()
        return Server(config)


async def _until_somebody_connects(listening: socket.socket) -> None:
    """Wait until the first client connects. The connection is not accepted here: the server does that later."""
    loop = asyncio.get_running_loop()
    connected = asyncio.Event()
    loop.add_reader(listening, connected.set)
    try:
        await connected.wait()
    finally:
        loop.remove_reader(listening)


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OncelogError(
            f"the gateway cannot use the address {host!r}: {error.strerror}; choose another with --host"
        ) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        reason = (
            "is in use" if error.errno == errno.EADDRINUSE else f"cannot be bound: {error.strerror}"
        )
        raise OncelogError(
            f"the gateway's port {port} on {host} {reason}; choose another with --gateway-port or "
            "ONCELOG_GATEWAY_PORT (0 lets the system choose)"
        ) from error
    listening.setblocking(False)
    return listening


def _log_failure(serving: asyncio.Task[None]) -> None:
    if not serving.cancelled() and (error := serving.exception()) is not None:
        logger.error("the gateway ended and its port is closed: %r", error, exc_info=error)
