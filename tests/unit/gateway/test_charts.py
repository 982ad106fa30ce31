"""What is drawn of lines over time: gaps, names that share a line, looks, quantiles, and what Prometheus answers."""

import pytest

from oncelog_gateway.core.charts import LINES_MAX, Span, chart_of, span_until
from oncelog_gateway.core.quantiles import quantile
from oncelog_gateway.core.rate_families import FAMILIES, FAMILY_OF
from oncelog_gateway.core.rate_queries import QUERIES, Query, line_of, text_of
from oncelog_gateway.core.rate_ring import OTHERS, Line

PRODUCED = FAMILY_OF["produced_bytes"]
SPAN = Span(1_800_000_000_000, 10_000, 5)


def chart(*lines, **more):
    return chart_of(PRODUCED, lines, SPAN, since_ms=None, **more)


def test_a_gap_breaks_a_line_and_one_step_is_a_dot():
    (line,) = chart(Line("orders", [1024.0, 2048.0, None, 512.0, None])).lines
    assert line.strokes == ("100.0,75.0 300.0,0.0",)
    assert line.dots == ((70.0, 112.5),)
    assert line.latest == "512 B/s"


def test_the_table_has_every_step_newest_first():
    found = chart(Line("orders", [1.0, None, 3.0, 4.0, 5.0]), Line("clicks", [0.0] * 5))
    assert [row.time_ms for row in found.rows] == [
        SPAN.first_ms + 10_000 * step for step in (4, 3, 2, 1, 0)
    ]
    assert found.rows[3].cells == ("–", "0 B/s")


def test_more_lines_than_can_be_told_apart_share_one():
    lines = [Line(f"t{number}", [float(number)] * 5) for number in range(LINES_MAX + 2)]
    found = chart(*lines, Line(OTHERS, [10.0] * 5)).lines
    assert [one.name for one in found] == [*(f"t{n}" for n in range(7, 1, -1)), "all others"]
    assert found[-1].latest == "11 B/s"
    assert len({one.look for one in found}) == LINES_MAX + 1


def test_a_name_looks_the_same_in_two_charts():
    looks = {}
    first = chart(Line("a", [1.0] * 5), Line("b", [1.0] * 5), looks=looks)
    second = chart(Line("b", [1.0] * 5), Line("c", [1.0] * 5), looks=looks)
    assert first.lines[1].look == second.lines[0].look
    assert second.lines[0].look != second.lines[1].look


def test_the_busiest_now_is_the_first_of_the_legend():
    found = chart(
        Line("a-idle", [9.0, 9.0, 9.0, 9.0, 0.0]),
        Line("z-busy", [1.0] * 5),
        Line(OTHERS, [5.0] * 5),
    )
    assert [one.name for one in found.lines] == ["z-busy", "a-idle", "all others"]


def test_a_look_stays_with_a_name_whatever_the_order():
    looks = {}
    before = chart(Line("a", [2.0] * 5), Line("b", [1.0] * 5), looks=looks)
    after = chart(Line("a", [0.0] * 5), Line("c", [9.0] * 5), Line("b", [1.0] * 5), looks=looks)
    looks_of = {one.name: one.look for one in after.lines}
    assert {one.name: one.look for one in before.lines}.items() <= looks_of.items()


def test_now_is_the_last_reading_and_no_mean_of_a_long_step():
    lines = [Line("orders", [1024.0] * 5), Line("clicks", [512.0] * 5)]
    newest = [Line("orders", [0.0, 2048.0, None]), Line("clicks", [0.0, None, None])]
    found = chart(*lines, newest=newest)
    assert [(one.name, one.latest) for one in found.lines] == [
        ("orders", "2.0 KiB/s"),
        ("clicks", "0 B/s"),
    ]
    assert "Now: orders 2.0 KiB/s" in found.says


@pytest.mark.parametrize(("value", "said"), [(1.0, "1"), (7.0, "7"), (1768.0, "1768")])
def test_counts_are_whole_numbers(value, said):
    lag = FAMILY_OF["lso_lag"]
    found = chart_of(lag, [Line("orders-0", [value] * 5)], SPAN, since_ms=None)
    assert found.lines[0].latest == found.rows[0].cells[0] == said
    assert found.unit == "offsets"
    marks = [one.text for one in found.values]
    assert "." not in "".join(marks)
    assert len(set(marks)) == len(marks)


def test_steps_that_nobody_looked_at_are_shaded():
    found = chart(Line("orders", [1.0] * 5), coarse=[False, True, True, False, True])
    assert found.bands == ((20.0, 40.0), (80.0, 20.0))


def test_nothing_known_is_no_chart():
    assert chart(Line("orders", [None] * 5)) is None
    assert chart() is None


def test_the_begin_of_the_memory_is_marked_inside_the_picture():
    lines = [Line("orders", [1.0] * 5)]
    middle = SPAN.first_ms + 25_000
    assert chart_of(PRODUCED, lines, SPAN, since_ms=middle).began_percent == 50
    assert chart_of(PRODUCED, lines, SPAN, since_ms=SPAN.first_ms - 1).began_percent is None


def test_the_last_step_is_the_one_that_runs():
    span = span_until(SPAN.first_ms + 3_000, 15, 10_000)
    assert (span.steps, span.end_ms) == (90, SPAN.first_ms + 10_000)


@pytest.mark.parametrize(
    ("wanted", "buckets", "expected"),
    [
        (0.5, [0, 0, 0], None),
        (0.5, [10, 0, 0], 0.5),
        (0.99, [0, 100, 0], 1.99),
        (0.5, [5, 5, 0], 1.0),
        (0.99, [0, 0, 3], 2.0),
    ],
)
def test_a_quantile_lies_evenly_in_its_bucket(wanted, buckets, expected):
    assert quantile(wanted, buckets, (1.0, 2.0)) == (expected and pytest.approx(expected))


def test_prometheus_is_asked_for_each_family():
    assert list(QUERIES) == [one.name for one in FAMILIES]
    (query,) = QUERIES["produced_bytes"]
    assert text_of(query, 10_000) == (
        "sum by (topic) (rate(oncelog_storage_topic_produced_bytes_total[60s]))"
    )
    assert "[7200s]" in text_of(QUERIES["cpu"][0], 7_200_000)


def test_an_answer_of_prometheus_is_a_line():
    points = [[100.0, "1.5"], [120.0, "NaN"], [130, "2"]]
    labels = {"topic": "orders", "partition": "3"}
    found = line_of(Query("", ("topic", "partition")), labels, points, 100.0, 10.0, 5)
    assert found == Line("orders-3", [1.5, None, None, 2.0, None])
    found = line_of(
        Query("", ("role", "node_id")), {"role": "marker_sender", "node_id": "4"}, [], 0, 1, 1
    )
    assert found.name == "marker sender 4"
    assert line_of(Query("", ("topic",)), {"topic": "(others)"}, [], 0, 1, 1).name == OTHERS
