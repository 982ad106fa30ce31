"""`/metrics` in Prometheus' text format, or in OpenMetrics.

There are two kinds of series. Requests are counted as they happen. The cluster's state is read once for each scrape, so
an idle gateway asks nobody anything. Each gateway has a registry of its own, so that several in one process do not
share series.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oncelog.process.exposition import exposed, metric_of
from oncelog.process.role_metrics import RoleMetric
from oncelog_gateway.core.held_back import HELD_BACK
from oncelog_gateway.group_reading import Standing, holder_of
from oncelog_gateway.groups import GroupLags
from oncelog_gateway.resources import LsoHolder, PartitionStatus, Transaction

ReadMetrics = Callable[[], Iterable[RoleMetric]]
"""Reads the metrics of other roles in the same process. Other processes have their own `/metrics`."""

_PARTITION_LABELS: Final = ["topic", "partition"]
_MAY_COUNT_AS_LATE_MS: Final = 300_000
"""Age in milliseconds from which a partition leader may count a two-phase transaction as late. A leader does not know
that it has no timeout, and waits for at least this long beyond the longest one.
"""
_LATENCY_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the cluster in one scrape, as the roles answered it at that moment."""

    transactions: list[Transaction] = field(default_factory=list)
    partitions: list[PartitionStatus] = field(default_factory=list)
    partitions_not_shown: int = 0
    group_lags: GroupLags = field(default_factory=GroupLags)
    coordinators_silent: int = 0
    metadata_offset: int = -1
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Nodes in service, by role."""


class _ClusterCollector(Collector):
    def __init__(self, read_metrics: ReadMetrics) -> None:
        self.snapshot = Snapshot()
        self._read_metrics = read_metrics

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        yield from _of_transactions(self.snapshot)
        yield from _of_partitions(self.snapshot.partitions)
        yield from _of_groups(self.snapshot.group_lags)
        nodes = GaugeMetricFamily("oncelog_nodes", "Nodes in service", labels=["role"])
        for role, count in sorted(self.snapshot.nodes.items()):
            nodes.add_metric([role], count)
        yield nodes
        yield from map(metric_of, self._read_metrics())
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
    """The gateway's own metrics registry: counts requests, and writes the page of a scrape."""

    def __init__(self, read_metrics: ReadMetrics = lambda: ()) -> None:
        self._registry = CollectorRegistry()
        self._cluster = _ClusterCollector(read_metrics)
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
        """Count a request in the metrics. `route` is the route's template, not the path: otherwise each path that a
        scanner tries would become a series.
        """
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def page(self, snapshot: Snapshot, accept: str = "") -> tuple[bytes, str]:
        """Return the page of metrics and its content type. `accept` is the scraper's Accept header, which chooses the
        format.
        """
        self._cluster.snapshot = snapshot
        return exposed(self._registry, accept)


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
    undecided = [one for one in snapshot.transactions if one.prepared is not None]
    yield GaugeMetricFamily(
        "oncelog_oldest_two_phase_transaction_age_seconds",
        "Age of the oldest open transaction that no time-out ends (KIP-939); 0 when none is open",
        value=max((one.age_ms or 0 for one in undecided), default=0) / 1000,
    )
    yield GaugeMetricFamily(
        "oncelog_old_two_phase_transaction_partitions",
        "Partitions of two-phase transactions open for longer than five minutes, which their leaders may count as late",
        value=sum(
            one.partition_count for one in undecided if (one.age_ms or 0) > _MAY_COUNT_AS_LATE_MS
        ),
    )
    yield GaugeMetricFamily(
        "oncelog_coordinators_silent",
        "Coordinators that did not answer this scrape",
        value=snapshot.coordinators_silent,
    )


def _of_groups(found: GroupLags) -> Iterable[Metric]:
    for name, text, read in (
        (
            "lag",
            "Records of a topic that a consumer group has not read yet, open and aborted ones included",
            lambda one: one.lag,
        ),
        (
            "readable_records",
            "Of its lag, what read_committed can pass now: up to the last stable offset",
            lambda one: one.readable,
        ),
        (
            "held_back_records",
            f"Of its lag, {HELD_BACK}",
            lambda one: one.held_back,
        ),
        (
            "blocked_seconds",
            "How long the transaction is open that the group waits for, with no record left before it; 0: none is",
            _blocked_seconds,
        ),
    ):
        family = GaugeMetricFamily(f"oncelog_group_{name}", text, labels=["group", "topic"])
        for key, standing in sorted(found.standings.items()):
            family.add_metric(key, read(standing))
        yield family
    yield GaugeMetricFamily(
        "oncelog_groups_not_shown",
        "Groups without series because there are too many (ONCELOG_GATEWAY_METRICS_GROUPS_MAX)",
        value=found.not_shown,
    )


def _blocked_seconds(one: Standing) -> float:
    return 0.0 if one.holder is None else (one.holder.held_for_ms or 0) / 1000


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
        (
            "oldest_open_transaction_age_seconds",
            "Since the transaction began that holds the LSO; of a hanging one since its last record; 0: none does",
            lambda row: _seconds(row, lambda one: holder_of(one).held_for_ms),
        ),
        (
            "oldest_open_transaction_idle_seconds",
            "Since the last sign of life of that transaction: its last record here (KIP-664); 0: none does",
            lambda row: _seconds(row, lambda one: one.idle_ms),
        ),
    ):
        family = GaugeMetricFamily(f"oncelog_partition_{name}", text, labels=_PARTITION_LABELS)
        for row in partitions:
            value = read(row)
            if value is not None:
                family.add_metric([row.topic, str(row.partition)], value)
        yield family


def _seconds(row: PartitionStatus, read: Callable[[LsoHolder], int | None]) -> float | None:
    """Return, in seconds, the time that `read` finds in the transaction at a partition's last stable offset; 0 if there
    is no transaction. None: the leader did not answer, or the time is not known.
    """
    if row.failure is not None:
        return None
    milliseconds = 0 if row.lso_holder is None else read(row.lso_holder)
    return None if milliseconds is None else milliseconds / 1000


def _is_hanging(row: PartitionStatus) -> int | None:
    if row.failure is not None:
        return None
    return int(row.lso_holder is not None and row.lso_holder.hanging is True)
