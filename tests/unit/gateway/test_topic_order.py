"""In which order the console lists topics."""

import pytest

from oncelog_gateway.console_topics import busiest_first
from oncelog_gateway.rate_recorder import TopicRate

RATES = {"b": TopicRate(9.0, 1.0, 0.0, 2.0), "c": TopicRate(1.0, 8.0, 0.0, 1.0)}


@pytest.mark.parametrize(
    ("column", "order"), [("records_in", "bca"), ("bytes_in", "cba"), ("records_out", "abc")]
)
def test_topics_are_sorted_by_any_rate(column, order):
    assert busiest_first(["a", "b", "c"], RATES, column) == list(order)
