"""What a role counts, for `/metrics` of its process: plain numbers, so that no role knows Prometheus."""

import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from oncelog.process.latency_bounds import LATENCY_BOUNDS_S

T = TypeVar("T")

PROCESS: Final = "oncelog_process"
PROCESS_LABELS: Final = ("module", "role", "node_id", "version")
"""Of the gauge that is 1 for each role of a process that is scraped."""


class Exemplar(NamedTuple):
    """One observation, and the trace in which it can be seen."""

    trace_id: int
    seconds: float
    unix_s: float


class Histogram:
    """How many observations were at most each bound, and their sum; of each bucket the newest one that was traced."""

    __slots__ = ("_counts", "_exemplars", "sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(LATENCY_BOUNDS_S) + 1)
        self._exemplars: dict[int, Exemplar] = {}
        self.sum_s = 0.0

    def observe(self, seconds: float, trace_id: int = 0) -> None:
        """`trace_id` of a trace that is kept; 0 for none."""
        bucket = bisect_left(LATENCY_BOUNDS_S, seconds)
        self._counts[bucket] += 1
        self.sum_s += seconds
        if trace_id:
            self._exemplars[bucket] = Exemplar(trace_id, seconds, time.time())

    @property
    def counts(self) -> Sequence[int]:
        """Of each bound, those above the one before; what is longer than all stands last."""
        return self._counts

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """As Prometheus takes them: each bound with the count of all at most it, `+Inf` last."""
        total = 0
        buckets = []
        for bound, count in zip((*LATENCY_BOUNDS_S, None), self._counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound is None else repr(bound), float(total)))
        return buckets

    def exemplars(self) -> list[Exemplar | None]:
        """One place for each bucket of `cumulative`."""
        return [self._exemplars.get(bucket) for bucket in range(len(self._counts))]


@dataclass(frozen=True, slots=True)
class RoleMetric:
    """One name with its samples; without labels there is one sample, under the empty tuple."""

    name: str
    text: str
    samples: Mapping[tuple[str, ...], float] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    is_counter: bool = False
    histograms: Mapping[tuple[str, ...], Histogram] | None = None
    """In place of `samples`, where what is counted is how long something took."""


def gauge(name: str, text: str, value: float) -> RoleMetric:
    return RoleMetric(name, text, {(): value})


def gauges_by(name: str, text: str, label: str, values: Mapping[str, float]) -> RoleMetric:
    """One gauge for each value of a label."""
    return RoleMetric(name, text, _by_key(values), (label,))


def counter(name: str, text: str, value: float) -> RoleMetric:
    return RoleMetric(name, text, {(): value}, is_counter=True)


def counters_by(name: str, text: str, label: str, values: Mapping[str, float]) -> RoleMetric:
    """One counter for each value of a label."""
    return RoleMetric(name, text, _by_key(values), (label,), is_counter=True)


def histograms_by(name: str, text: str, label: str, values: Mapping[str, Histogram]) -> RoleMetric:
    """One histogram for each value of a label."""
    return RoleMetric(name, text, labels=(label,), histograms=_by_key(values))


def _by_key(values: Mapping[str, T]) -> dict[tuple[str, ...], T]:
    return {(key,): values[key] for key in sorted(values)}
