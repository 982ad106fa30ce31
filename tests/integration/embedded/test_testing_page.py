"""The examples of docs/testing-with-oncelog.md pass as they stand there; Spark's is in tests/spark."""

import pytest
from tests.testing_page import EXAMPLES, PAGE, run_example

from oncelog.faults import Faults

WAIT_S = 280
SPARK = "Spark"


def test_the_page_has_an_example_for_each_client():
    assert list(EXAMPLES) == ["confluent-kafka", "aiokafka", "FastStream", SPARK, "oncelog.client"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("library", [library for library in EXAMPLES if library != SPARK])
def test_an_example_passes(library, tmp_path):
    assert "1 passed" in run_example(library, tmp_path, WAIT_S)


def test_the_page_names_every_fault():
    text = PAGE.read_text()
    for name in vars(Faults):
        assert name.startswith("_") or f"faults.{name}(" in text, name
