"""What OpenTelemetry's variables mean here, and what is logged while a collector is away."""

import logging

import pytest

from oncelog.errors import OncelogError
from oncelog.telemetry.tracing import TOLD_EVERY_S, SeldomTold, head_ratio, is_wanted

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"}


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4317"}, True),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_an_endpoint_turns_it_on(environment, wanted):
    assert is_wanted(environment) is wanted


@pytest.mark.parametrize(
    ("sampler", "argument", "ratio"),
    [
        ("", "", 1.0),
        ("always_on", "", 1.0),
        ("parentbased_always_off", "", 0.0),
        ("traceidratio", "0.25", 0.25),
        ("ParentBased_TraceIdRatio", " 1 ", 1.0),
        ("traceidratio", "", 1.0),
    ],
)
def test_the_sampler_is_a_ratio(sampler, argument, ratio):
    environment = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert head_ratio(environment) == ratio


@pytest.mark.parametrize("argument", ["2", "-0.1", "nan", "ten"])
def test_a_ratio_that_is_none_is_refused_by_name(argument):
    environment = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": argument}
    with pytest.raises(OncelogError, match=f"OTEL_TRACES_SAMPLER_ARG is {argument!r}"):
        head_ratio(environment)


def test_a_collector_that_is_away_is_told_of_once_a_minute():
    now = [0.0]
    seldom = SeldomTold(lambda: now[0])

    def line():
        return logging.makeLogRecord({"msg": "away"})

    assert seldom.filter(line())
    assert not seldom.filter(line())
    now[0] = TOLD_EVERY_S - 1
    assert not seldom.filter(line())
    now[0] = TOLD_EVERY_S
    later = line()
    assert seldom.filter(later)
    assert later.getMessage() == "away (and 2 lines like it since the last one)"
