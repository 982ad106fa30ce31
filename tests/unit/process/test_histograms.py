"""Latencies as counted by roles and as Prometheus takes them."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from oncelog.process.exposition import metric_of
from oncelog.process.figures import LATENCY_BOUNDS_S, Histogram, gauges_by, histograms_by


class _Shown(Collector):
    def __init__(self, *figures):
        self._figures = figures

    def collect(self):
        return map(metric_of, self._figures)


def _text(*figures):
    registry = CollectorRegistry()
    registry.register(_Shown(*figures))
    return generate_latest(registry).decode().splitlines()


def test_an_observation_is_in_every_bucket_from_its_bound_on():
    histogram = Histogram()
    for seconds in (0.0005, 0.001, 0.0011, 0.3, 1_000):
        histogram.observe(seconds)
    lines = _text(histograms_by("a_seconds", "how long", "api", {"Fetch": histogram}))
    for bound, count in (("0.001", 2), ("0.002", 3), ("0.2", 3), ("0.5", 4), ("60.0", 4)):
        assert f'a_seconds_bucket{{api="Fetch",le="{bound}"}} {count}.0' in lines
    assert 'a_seconds_bucket{api="Fetch",le="+Inf"} 5.0' in lines
    assert 'a_seconds_count{api="Fetch"} 5.0' in lines
    assert 'a_seconds_sum{api="Fetch"} 1000.3026' in lines
    assert histogram.count == 5


def test_bounds_ascend_and_a_gauge_by_label_is_sorted():
    assert list(LATENCY_BOUNDS_S) == sorted(set(LATENCY_BOUNDS_S))
    lines = _text(gauges_by("a_depth", "how deep", "node", {"2": 1.0, "1": 3.0}))
    assert lines[-2:] == ['a_depth{node="1"} 3.0', 'a_depth{node="2"} 1.0']
