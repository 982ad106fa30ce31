"""Figures as Prometheus takes them."""

from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from oncelog.process.figures import Figure

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def metric_of(figure: Figure) -> Metric:
    if figure.histograms is not None:
        histograms = HistogramMetricFamily(figure.name, figure.text, labels=figure.labels)
        for values, one in figure.histograms.items():
            histograms.add_metric(values, one.cumulative(), one.sum_s)
        return histograms
    kind = CounterMetricFamily if figure.is_counter else GaugeMetricFamily
    family = kind(figure.name, figure.text, labels=figure.labels)
    for values, sample in figure.samples.items():
        family.add_metric(values, sample)
    return family
