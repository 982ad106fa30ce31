"""The metrics of a listener on `/metrics`: connections and requests."""

from collections.abc import Iterator

from oncelog.process.role_metrics import RoleMetric, counter, counters_by, gauge, histograms_by
from oncelog_listener.counters import ListenerCounters


def listener_metrics(counters: ListenerCounters) -> Iterator[RoleMetric]:
    yield gauge(
        "oncelog_listener_connections_open",
        "Kafka clients connected now",
        counters.connections_open,
    )
    for name, text, value in (
        ("connections_accepted", "Connections accepted", counters.connections_accepted),
        ("connections_refused", "Connections closed at once: full", counters.connections_refused),
        ("throttles", "Answers after which a client above its quota was held", counters.throttles),
        ("bytes_received", "Bytes received", counters.bytes_received),
        ("bytes_sent", "Bytes sent", counters.bytes_sent),
    ):
        yield counter(f"oncelog_listener_{name}", text, value)
    yield counters_by(
        "oncelog_listener_requests",
        "Requests answered, by Kafka's name of the API",
        "api",
        {name: latency.count for name, latency in counters.latencies.items()},
    )
    yield counters_by(
        "oncelog_listener_request_failures",
        "Requests that closed the connection, by Kafka's name of the API",
        "api",
        counters.request_failures,
    )
    yield histograms_by(
        "oncelog_listener_request_seconds",
        "From a whole request to its response; a Fetch that waits for records waits here",
        "api",
        counters.latencies,
    )
