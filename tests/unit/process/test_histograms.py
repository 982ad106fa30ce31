"""Latencies as counted by roles and as Prometheus takes them."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from oncelog.process.exposition import CONTENT_TYPE, OPENMETRICS_CONTENT_TYPE, exposed, metric_of
from oncelog.process.latency_bounds import LATENCY_BOUNDS_S
from oncelog.process.role_metrics import Histogram, gauges_by, histograms_by


class _Shown(Collector):
    def __init__(self, *metrics):
        self._metrics = metrics

    def collect(self):
        return map(metric_of, self._metrics)


PROMETHEUS_ASKS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def _registry(*metrics):
    registry = CollectorRegistry()
    registry.register(_Shown(*metrics))
    return registry


def _text(*metrics):
    return generate_latest(_registry(*metrics)).decode().splitlines()


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


def test_a_bucket_has_the_newest_trace_for_openmetrics():
    histogram = Histogram()
    for seconds, trace_id in ((0.3, 1), (0.4, 0xAB), (0.45, 0), (0.0001, 0)):
        histogram.observe(seconds, trace_id)
    registry = _registry(histograms_by("a_seconds", "how long", "api", {"Fetch": histogram}))
    content, content_type = exposed(registry, PROMETHEUS_ASKS)
    assert content_type == OPENMETRICS_CONTENT_TYPE
    (family,) = text_string_to_metric_families(content.decode())
    found = {one.labels["le"]: one.exemplar for one in family.samples if one.exemplar}
    assert list(found) == ["0.5"]
    assert found["0.5"].labels == {"trace_id": f"{0xAB:032x}"}
    assert found["0.5"].value == 0.4
    assert float(found["0.5"].timestamp) > 1.7e9


def test_others_get_prometheus_text_without_traces():
    histogram = Histogram()
    histogram.observe(0.3, 1)
    registry = _registry(histograms_by("a_seconds", "how long", "api", {"Fetch": histogram}))
    for accept in ("", "*/*", "text/plain;version=0.0.4", "text/html,application/xhtml+xml"):
        content, content_type = exposed(registry, accept)
        assert content_type == CONTENT_TYPE
        assert b"trace_id" not in content
