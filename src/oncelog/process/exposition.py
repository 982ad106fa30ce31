"""The page of metrics in Prometheus's format, or in OpenMetrics for a scraper that asks for it: only there may buckets
have exemplars."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest, openmetrics
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.core import Exemplar as ExposedExemplar

from oncelog.process.role_metrics import Exemplar, RoleMetric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text"
OPENMETRICS_CONTENT_TYPE: Final = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"


def exposed(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return the page of metrics and its content type, for the Accept header of a scrape."""
    if OPENMETRICS in accept.lower():
        as_openmetrics: Callable[[CollectorRegistry], bytes] = (
            openmetrics.exposition.generate_latest
        )
        return as_openmetrics(registry), OPENMETRICS_CONTENT_TYPE
    return generate_latest(registry), CONTENT_TYPE


def metric_of(metric: RoleMetric) -> Metric:
    if metric.histograms is not None:
        histograms = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
        for values, one in metric.histograms.items():
            buckets = [
                bucket if exemplar is None else (*bucket, _exposed(exemplar))
                for bucket, exemplar in zip(one.cumulative(), one.exemplars(), strict=True)
            ]
            histograms.add_metric(values, buckets, one.sum_s)
        return histograms
    kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
    family = kind(metric.name, metric.text, labels=metric.labels)
    for values, sample in metric.samples.items():
        family.add_metric(values, sample)
    return family


def _exposed(exemplar: Exemplar) -> ExposedExemplar:
    trace = {"trace_id": f"{exemplar.trace_id:032x}"}
    return ExposedExemplar(trace, exemplar.seconds, exemplar.unix_s)
