"""`/metrics`, `/health` and `/ready` of one process.

The metrics are what the operating system and Python report, how late the event loop is, and those of its role. A loop
that is late by tens of milliseconds explains slow responses better than any count of them. The gateway has the metrics
of the cluster as a whole (transactions, partitions).
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from oncelog.process.host_header import AllowedHosts
from oncelog.process.metrics_token import MetricsToken
from oncelog.process.probe_server import Answer, ProbeServer, as_json
from oncelog.process.role_metrics import PROCESS, PROCESS_LABELS, RoleMetric

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LAG_INTERVAL_S: Final = 1.0
ROLE_METRICS_TIMEOUT_S: Final = 2.0
"""Seconds to wait for a busy event loop. After them the page is served without the role's metrics."""

_STUCK: Final = as_json(503, "status", "the event loop of the process does not answer")

ReadMetrics = Callable[[], Iterable[RoleMetric]]


class ProcessMetrics:
    """The collector of the role's metrics in this process. It has none before the role has started."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._read: ReadMetrics | None = None
        self._is_ready: Callable[[], bool] = _is_not
        self.say_node: Callable[[int], None] = lambda node_id: None
        """Replaces the node id in the metrics. If the controller gives the id, the process starts with 0."""

    @contextmanager
    def showing(self, read: ReadMetrics, is_ready: Callable[[], bool]) -> Iterator[None]:
        """Serve a role's metrics and readiness while the block runs. Its event loop calls `read` for each scrape, and
        `is_ready` for each look at `/ready`."""
        self._read, self._is_ready = read, is_ready
        try:
            yield
        finally:
            self._read, self._is_ready = None, _is_not

    def describe(self) -> Iterable["Metric"]:
        """Return no metrics: otherwise the registry would collect once just to learn their names."""
        return ()

    def collect(self) -> Iterable["Metric"]:
        """Return the role's metrics. The thread that serves `/metrics` calls this."""
        future = asyncio.run_coroutine_threadsafe(self._metrics(), self._loop)
        try:
            metrics = future.result(ROLE_METRICS_TIMEOUT_S)
        except TimeoutError:
            future.cancel()
            return ()
        from oncelog.process.exposition import metric_of

        return [metric_of(metric) for metric in metrics]

    async def health_page(self, _accept: str) -> Answer:
        """Return the page `/health`: does the event loop of the process run? It is awaited on another loop, that of the
        HTTP server."""
        return _STUCK if await self._ready_on_loop() is None else as_json(200, "status", "alive")

    async def ready_page(self, _accept: str) -> Answer:
        """Return the page `/ready`: may the process be given work? Its gRPC health service says the same."""
        is_ready = await self._ready_on_loop()
        if is_ready is None:
            return _STUCK
        return as_json(200, "status", "ready") if is_ready else as_json(503, "status", "not ready")

    async def _ready_on_loop(self) -> bool | None:
        """Ask the event loop of the process if it is ready. None: the loop does not answer in time."""
        future = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._turn(), self._loop))
        try:
            return await asyncio.wait_for(future, ROLE_METRICS_TIMEOUT_S)
        except TimeoutError:
            return None

    async def _turn(self) -> bool:
        return self._is_ready()

    async def _metrics(self) -> list[RoleMetric]:
        return [] if self._read is None else list(self._read())


@contextmanager
def served_metrics(
    host: str,
    port: int | None,
    allowed_hosts: str,
    module: str,
    node_id: int,
    token_file: Path | None = None,
) -> Iterator[ProcessMetrics]:
    """Serve `/metrics`, `/health` and `/ready` from a thread of their own while the block runs; without a port nothing
    is served.

    Raises OncelogError when the port cannot be had, or the file holds no token.
    """
    metrics = ProcessMetrics()
    if port is None:
        yield metrics
        return
    logins = {} if token_file is None else {"/metrics": MetricsToken(token_file).admits}
    from prometheus_client import REGISTRY, Gauge, Histogram

    started = Gauge(PROCESS, "1", PROCESS_LABELS)

    def say_node(node_id: int) -> None:
        started.clear()
        role = module.removeprefix("oncelog_")
        started.labels(module, role, str(node_id), version("oncelog")).set(1)

    say_node(node_id)
    metrics.say_node = say_node
    lag = Histogram(
        "oncelog_event_loop_lag_seconds",
        "How much later than asked a timer of the event loop runs",
        buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0),
    )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise OncelogError(
            f"the metrics port {port} on {host} cannot be had: {error.strerror}; "
            "choose another with --process-metrics-port"
        ) from error
    pages = {
        "/health": metrics.health_page,
        "/metrics": _metrics_page,
        "/ready": metrics.ready_page,
    }
    server = ProbeServer(listening, AllowedHosts(host, allowed_hosts), pages, logins)
    server.start()
    measuring = asyncio.create_task(_measure_lag(lag.observe), name="event loop lag")
    REGISTRY.register(metrics)
    try:
        yield metrics
    finally:
        REGISTRY.unregister(metrics)
        measuring.cancel()
        server.stop()


def _is_not() -> bool:
    """Return False: the readiness of a process before its role has started, and after its end."""
    return False


async def _metrics_page(accept: str) -> Answer:
    from prometheus_client import REGISTRY

    from oncelog.process.exposition import exposed

    # The page is made in a thread: the metrics wait for the loop of the process, and `/health` must not wait for them.
    content, content_type = await asyncio.to_thread(exposed, REGISTRY, accept)
    return Answer(200, content_type, content)


async def _measure_lag(observe: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LAG_INTERVAL_S
        await asyncio.sleep(LAG_INTERVAL_S)
        observe(max(loop.time() - due, 0.0))
