"""Counters, gauges and histograms of a role as plain numbers, for `/metrics` of its process. So no role knows
Prometheus."""

import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from oncelog.process.latency_bounds import LATENCY_BOUNDS_S

T = TypeVar("T")

PROCESS: Final = "oncelog_process"
PROCESS_LABELS: Final = ("module", "role", "node_id", "version")
"""The labels of the gauge that is 1 for each role of a process that is scraped."""


class Exemplar(NamedTuple):
    """One observed value of a histogram, with the id of the trace in which it was observed."""

    trace_id: int
    seconds: float
    unix_s: float


class Histogram:
    """A histogram in plain numbers: counts of values up to each bound, their sum, and an example trace of each
    bucket."""

    __slots__ = ("_counts", "_exemplars", "sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(LATENCY_BOUNDS_S) + 1)
        self._exemplars: dict[int, Exemplar] = {}
        self.sum_s = 0.0

    def observe(self, seconds: float, trace_id: int = 0) -> None:
        """Count one value. `trace_id`: the trace in which it was observed, if that is exported; 0: there is none."""
        bucket = bisect_left(LATENCY_BOUNDS_S, seconds)
        self._counts[bucket] += 1
        self.sum_s += seconds
        if trace_id:
            self._exemplars[bucket] = Exemplar(trace_id, seconds, time.time())

    @property
    def counts(self) -> Sequence[int]:
        """The number of values in each bucket: above the bound before it, up to its own. The last bucket has no
        bound."""
        return self._counts

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """Return each bound with the number of observations up to it, `+Inf` last, as Prometheus reads them."""
        total = 0
        buckets = []
        for bound, count in zip((*LATENCY_BOUNDS_S, None), self._counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound is None else repr(bound), float(total)))
        return buckets

    def exemplars(self) -> list[Exemplar | None]:
        """Return the newest traced value of each bucket of `cumulative`; None: the bucket has none."""
        return [self._exemplars.get(bucket) for bucket in range(len(self._counts))]


@dataclass(frozen=True, slots=True)
class RoleMetric:
    """One metric of a role with its samples, keyed by label values. Without labels its one sample has the empty tuple
    as key."""

    name: str
    text: str
    samples: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    is_counter: bool = False
    histograms: Mapping[tuple[str, ...], Histogram] | None = None
    """Histograms in place of `samples`, for a metric of durations."""


def gauge(name: str, text: str, value: float) -> RoleMetric:
    return RoleMetric(name, text, {(): value})


def gauges_by(name: str, text: str, label: str, values: Mapping[str, float]) -> RoleMetric:
    """Return a metric with one gauge for each value of a label. `text` is its help text."""
    return RoleMetric(name, text, _by_key(values), (label,))


def counter(name: str, text: str, value: float) -> RoleMetric:
    return RoleMetric(name, text, {(): value}, is_counter=True)


def counters_by(name: str, text: str, label: str, values: Mapping[str, float]) -> RoleMetric:
    """Return a metric with one counter for each value of a label. `text` is its help text."""
    return RoleMetric(name, text, _by_key(values), (label,), is_counter=True)


def histograms_by(name: str, text: str, label: str, values: Mapping[str, Histogram]) -> RoleMetric:
    """Return a metric with one histogram for each value of a label. `text` is its help text."""
    return RoleMetric(name, text, labels=(label,), histograms=_by_key(values))


def _by_key(values: Mapping[str, T]) -> dict[tuple[str, ...], T]:
    return {(key,): values[key] for key in sorted(values)}
