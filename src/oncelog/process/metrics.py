"""`/metrics` of one process: what the operating system and Python say of it, how late its event loop is, its role's
figures.

A loop that is late by tens of milliseconds explains slow answers better than any count of them. What the cluster as a
whole is doing (transactions, partitions) is the gateway's to tell.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from oncelog.process.figures import Figure

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LAG_INTERVAL_S: Final = 0.5
FIGURES_TIMEOUT_S: Final = 2.0
"""For a loop that does not come to it: then the rest is served, and tells why."""

ReadFigures = Callable[[], Iterable[Figure]]


class ProcessMetrics:
    """What is served besides the process's own: the figures of a role, once it has started."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._read: ReadFigures | None = None

    @contextmanager
    def showing(self, read: ReadFigures) -> Iterator[None]:
        """`read` is called on the loop, for each scrape, while the block runs."""
        self._read = read
        try:
            yield
        finally:
            self._read = None

    def describe(self) -> Iterable["Metric"]:
        """Nothing: or the registry would collect to find out what there is."""
        return ()

    def collect(self) -> Iterable["Metric"]:
        """Called by the thread that serves."""
        asked = asyncio.run_coroutine_threadsafe(self._figures(), self._loop)
        try:
            figures = asked.result(FIGURES_TIMEOUT_S)
        except TimeoutError:
            asked.cancel()
            return ()
        from oncelog.process.exposition import metric_of

        return [metric_of(figure) for figure in figures]

    async def _figures(self) -> list[Figure]:
        return [] if self._read is None else list(self._read())


@contextmanager
def served_metrics(
    host: str, port: int | None, module: str, node_id: int
) -> Iterator[ProcessMetrics]:
    """Serve them from a thread of their own while the block runs; None serves nothing.

    Raises OncelogError when the port cannot be had.
    """
    metrics = ProcessMetrics()
    if port is None:
        yield metrics
        return
    from prometheus_client import REGISTRY, Gauge, Histogram, start_http_server

    started = Gauge("oncelog_process", "1", ["module", "node_id", "version"])
    started.labels(module, str(node_id), version("oncelog")).set(1)
    lag = Histogram(
        "oncelog_event_loop_lag_seconds",
        "How much later than asked a timer of the event loop runs",
        buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0),
    )
    try:
        server, thread = start_http_server(port, addr=host)
    except OSError as error:
        raise OncelogError(
            f"the metrics port {port} on {host} cannot be had: {error.strerror}; "
            "choose another with --process-metrics-port"
        ) from error
    measuring = asyncio.create_task(_measure_lag(lag.observe), name="event loop lag")
    REGISTRY.register(metrics)
    try:
        yield metrics
    finally:
        REGISTRY.unregister(metrics)
        measuring.cancel()
        server.shutdown()
        server.server_close()
        thread.join()


async def _measure_lag(observe: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LAG_INTERVAL_S
        await asyncio.sleep(LAG_INTERVAL_S)
        observe(max(loop.time() - due, 0.0))
