"""What a listener tells on `/metrics`: connections and requests."""

from collections.abc import Iterator

from oncelog.process.figures import Figure, counter, counters_by, gauge
from oncelog_listener.counters import ListenerCounters


def listener_figures(counters: ListenerCounters) -> Iterator[Figure]:
    yield gauge(
        "oncelog_listener_connections_open",
        "Kafka clients connected now",
        counters.connections_open,
    )
    for name, text, value in (
        ("connections_accepted", "Connections accepted", counters.connections_accepted),
        ("connections_refused", "Connections closed at once: full", counters.connections_refused),
        ("bytes_received", "Bytes received", counters.bytes_received),
        ("bytes_sent", "Bytes sent", counters.bytes_sent),
    ):
        yield counter(f"oncelog_listener_{name}", text, value)
    for name, text, found in (
        ("requests", "Requests answered, by Kafka's API key", counters.requests),
        ("request_failures", "Requests that closed the connection", counters.request_failures),
    ):
        by_key = {str(api_key): count for api_key, count in found.items()}
        yield counters_by(f"oncelog_listener_{name}", text, "api_key", by_key)
