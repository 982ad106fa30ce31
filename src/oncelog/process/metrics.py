"""`/metrics` of one process: what the operating system and Python say of it, and how late its event loop is.

A loop that is late by tens of milliseconds explains slow answers better than any count of them. What the cluster as a
whole is doing (transactions, partitions) is the gateway's to tell.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final

from oncelog.errors import OncelogError

LAG_INTERVAL_S: Final = 0.5


@contextmanager
def served_metrics(host: str, port: int | None, module: str, node_id: int) -> Iterator[None]:
    """Serve them from a thread of their own while the block runs; None serves nothing.

    Raises OncelogError when the port cannot be had.
    """
    if port is None:
        yield
        return
    from prometheus_client import Gauge, Histogram, start_http_server

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
    try:
        yield
    finally:
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
