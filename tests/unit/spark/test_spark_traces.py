"""Spark's side of tracing: off without an endpoint, and never a reason for a batch to fail."""

import os
import subprocess
import sys

import pytest

from oncelog.trace import attempt_trace

PROGRAM = """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
if {missing}:
    sys.modules["opentelemetry.sdk"] = None
from oncelog.spark.attempt import AttemptName
from oncelog.spark.traces import ending_span, opened, opening_span
from oncelog.telemetry import spans
attempt = AttemptName("pay", bytes(16), is_traced=True)
with opening_span(attempt) as span:
    opened(span, attempt)
with ending_span("commit", attempt, 7) as ending:
    ending.set(rows=1)
assert span is ending is spans.NOTHING and spans.recorder is None
print([name for name in sys.modules if name.startswith("opentelemetry.sdk.")])
"""


def run(missing=False, **environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(missing=missing)],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        | environment,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


def test_without_an_endpoint_nothing_is_loaded():
    assert run() == ["[]"]


@pytest.mark.parametrize(
    ("missing", "more", "message"),
    [
        (True, {}, "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-grpc"),
        (False, {"OTEL_TRACES_EXPORTER": "console"}, "oncelog exports traces by otlp"),
        (False, {"OTEL_TRACES_SAMPLER": "sometimes"}, "write one of always_on"),
    ],
)
def test_what_tracing_cannot_do_is_one_warning(missing, more, message):
    lines = run(missing, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", **more)
    assert len(lines) == 2
    assert lines[0].startswith("the sink writes no traces in this process: ")
    assert message in lines[0]


def test_a_trace_follows_from_the_nonce_and_does_not_tell_it():
    one, other = attempt_trace(b"a" * 16), attempt_trace(b"b" * 16)
    assert one == attempt_trace(b"a" * 16)
    assert one.trace_id != other.trace_id
    assert one.root_id != other.root_id
    assert f"{one.trace_id:032x}" != (b"a" * 16).hex()
