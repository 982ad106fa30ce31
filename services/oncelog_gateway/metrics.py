"""`/metrics` in Prometheus' text format.

Two kinds of series: requests are counted as they happen; the cluster's state is read once for each scrape, so that an
idle gateway asks nobody anything. The registry is the gateway's own: several gateways in one process do not meet.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oncelog_gateway.resources import PartitionStatus, Transaction

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PARTITION_LABELS: Final = ["topic", "partition"]
_LATENCY_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at the moment of one scrape."""

    transactions: list[Transaction] = field(default_factory=list)
    partitions: list[PartitionStatus] = field(default_factory=list)
    partitions_not_shown: int = 0
    coordinators_silent: int = 0
    metadata_offset: int = -1


class ListenerCounters(Protocol):
    """What a listener of the same process counts."""

    @property
    def connections_open(self) -> int: ...
    @property
    def connections_accepted(self) -> int: ...
    @property
    def connections_refused(self) -> int: ...
    @property
    def bytes_received(self) -> int: ...
    @property
    def bytes_sent(self) -> int: ...
    @property
    def requests(self) -> Mapping[int, int]: ...
    @property
    def request_failures(self) -> Mapping[int, int]: ...


class _ClusterCollector(Collector):
    def __init__(self, listener: ListenerCounters | None) -> None:
        self.snapshot = Snapshot()
        self._listener = listener

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        yield from _of_transactions(self.snapshot)
        yield from _of_partitions(self.snapshot.partitions)
        if self._listener is not None:
            yield from _of_listener(self._listener)
        yield GaugeMetricFamily(
            "oncelog_partitions_not_shown",
            "Partitions without series because there are too many (ONCELOG_GATEWAY_METRICS_PARTITIONS_MAX)",
            value=self.snapshot.partitions_not_shown,
        )
        yield GaugeMetricFamily(
            "oncelog_metadata_offset",
            "How far this gateway's metadata image is",
            value=self.snapshot.metadata_offset,
        )


class Metrics:
    """The gateway's registry."""

    def __init__(self, listener: ListenerCounters | None = None) -> None:
        self._registry = CollectorRegistry()
        self._cluster = _ClusterCollector(listener)
        self._registry.register(self._cluster)
        self._requests = Counter(
            "oncelog_gateway_requests",
            "HTTP requests answered",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._latency = Histogram(
            "oncelog_gateway_request_seconds",
            "Time to answer, by route",
            ["route"],
            buckets=_LATENCY_BUCKETS_S,
            registry=self._registry,
        )

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """`route` is the path's template, never the path: a scanner must not create series."""
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def text(self, snapshot: Snapshot) -> bytes:
        self._cluster.snapshot = snapshot
        return generate_latest(self._registry)


def _of_transactions(snapshot: Snapshot) -> Iterable[Metric]:
    by_state = GaugeMetricFamily(
        "oncelog_transactions", "Transactions by state at their coordinator", labels=["state"]
    )
    for state, count in sorted(Tally(one.state for one in snapshot.transactions).items()):
        by_state.add_metric([state], count)
    yield by_state
    ages = [one.age_ms for one in snapshot.transactions if one.age_ms is not None]
    yield GaugeMetricFamily(
        "oncelog_oldest_open_transaction_age_seconds",
        "Age of the oldest open transaction; 0 when none is open",
        value=max(ages, default=0) / 1000,
    )
    yield GaugeMetricFamily(
        "oncelog_late_transactions",
        "Transactions open for longer than their timeout",
        value=sum(one.is_late for one in snapshot.transactions),
    )
    yield GaugeMetricFamily(
        "oncelog_coordinators_silent",
        "Coordinators that did not answer this scrape",
        value=snapshot.coordinators_silent,
    )


def _of_partitions(partitions: list[PartitionStatus]) -> Iterable[Metric]:
    for name, text, read in (
        ("high_watermark", "Below it, records survive", lambda row: row.high_watermark),
        (
            "last_stable_offset",
            "Below it, every transaction is decided",
            lambda row: row.last_stable_offset,
        ),
        ("log_end_offset", "The next offset to be written", lambda row: row.log_end_offset),
        ("lso_lag", "High watermark less last stable offset", lambda row: row.lso_lag),
        ("size_bytes", "Bytes of all segments", lambda row: row.size_bytes),
        ("open_transactions", "Transactions open here", lambda row: row.open_transaction_count),
        ("lso_held_by_hanging_transaction", "1: nobody will end what holds the LSO", _is_hanging),
    ):
        family = GaugeMetricFamily(f"oncelog_partition_{name}", text, labels=_PARTITION_LABELS)
        for row in partitions:
            value = read(row)
            if value is not None:
                family.add_metric([row.topic, str(row.partition)], value)
        yield family


def _of_listener(listener: ListenerCounters) -> Iterable[Metric]:
    yield GaugeMetricFamily(
        "oncelog_listener_connections_open",
        "Kafka clients connected now",
        value=listener.connections_open,
    )
    for name, text, value in (
        ("connections_accepted", "Connections accepted", listener.connections_accepted),
        ("connections_refused", "Connections closed at once: full", listener.connections_refused),
        ("bytes_received", "Bytes received", listener.bytes_received),
        ("bytes_sent", "Bytes sent", listener.bytes_sent),
    ):
        yield CounterMetricFamily(f"oncelog_listener_{name}", text, value=value)
    for name, text, by_api_key in (
        ("requests", "Requests answered, by Kafka's API key", listener.requests),
        ("request_failures", "Requests that closed the connection", listener.request_failures),
    ):
        family = CounterMetricFamily(f"oncelog_listener_{name}", text, labels=["api_key"])
        for api_key, count in sorted(by_api_key.items()):
            family.add_metric([str(api_key)], count)
        yield family


def _is_hanging(row: PartitionStatus) -> int | None:
    if row.failure is not None:
        return None
    return int(row.lso_holder is not None and row.lso_holder.hanging is True)
