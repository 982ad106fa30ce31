"""Spark's example of docs/testing-with-oncelog.md passes as it stands there."""

from tests.spark.session import JVM
from tests.testing_page import run_example

WAIT_S = 280


def test_the_example_of_a_killed_coordinator_passes(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", JVM)
    assert "1 passed" in run_example("Spark", tmp_path, WAIT_S)
