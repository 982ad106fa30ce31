"""Marks of axes stand at round times and values."""

import pytest

from oncelog_gateway.console_values import axis_time
from oncelog_gateway.core.axes import round_values, time_marks

NOON = 1_800_014_400_000
MINUTE, HOUR = 60_000, 3_600_000


@pytest.mark.parametrize(
    ("span_ms", "texts"),
    [
        (15 * MINUTE, ["12:00", "12:05", "12:10", "12:15"]),
        (HOUR, ["12:00", "12:10", "12:20", "12:30", "12:40", "12:50", "13:00"]),
        (6 * HOUR, ["12:00", "13:00", "14:00", "15:00", "16:00", "17:00", "18:00"]),
        (24 * HOUR, ["12:00", "18:00", "00:00", "06:00", "12:00"]),
        (7 * 24 * HOUR, ["16 Jan", "18 Jan", "20 Jan", "22 Jan"]),
        (
            60_000,
            ["12:00:00", "12:00:10", "12:00:20", "12:00:30", "12:00:40", "12:00:50", "12:01:00"],
        ),
    ],
)
def test_marks_of_time_are_round(span_ms, texts):
    assert [axis_time(one.time_ms, one.shape) for one in time_marks(NOON, NOON + span_ms)] == texts


def test_a_span_that_begins_anywhere_has_its_marks_inside():
    marks = time_marks(NOON + 61_000, NOON + 61_000 + 15 * MINUTE)
    assert [axis_time(one.time_ms, one.shape) for one in marks] == ["12:05", "12:10", "12:15"]
    assert all(0 <= one.percent <= 100 for one in marks)


@pytest.mark.parametrize(
    ("largest", "values"),
    [
        (0, [0, 1]),
        (0.9, [0, 0.5, 1.0]),
        (4, [0, 1, 2, 3, 4]),
        (13, [0, 5, 10, 15]),
        (99, [0, 50, 100]),
        (100, [0, 50, 100]),
        (1_234, [0, 500, 1_000, 1_500]),
    ],
)
def test_values_are_round_and_reach_the_largest(largest, values):
    assert round_values(largest) == pytest.approx(values)


def test_bytes_are_round_in_their_own_units():
    assert round_values(3 * 1024**2, is_binary=True) == [0, 1024**2, 2 * 1024**2, 3 * 1024**2]
    assert round_values(900, is_binary=True) == [0, 500, 1_000]
