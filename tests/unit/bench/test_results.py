"""What a run of the benchmarks says: statistics, bars, tables, and what is left of it."""

import pytest
from bench.coordinator_workloads import Load, kafka_loads
from bench.growth_workload import Step, ratio_rows, step_rows
from bench.profile import EVENT_LOOP, Place, place_of, samples_of
from bench.results import (
    Failure,
    Measurement,
    file_name,
    number,
    percentile,
    spread,
    table_lines,
    with_table,
)
from bench.runner import Workload, run_all, seconds_left
from rich.console import Console


def test_a_percentile_is_one_of_the_values():
    values = [float(one) for one in range(1_000)]
    assert percentile(values, 0.5) == 500
    assert percentile(values, 0.99) == 990
    assert percentile(values, 0.999) == 999
    assert percentile([7.0], 0.999) == 7


def test_a_spread_of_values_too_small_to_measure_is_none():
    assert spread([1.0, 2.0, 3.0]) == 1
    assert spread([0.0, 0.0, 0.01]) == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0, "0"), (0.1234, "0.123"), (1.234, "1.23"), (1234.5, "1,234")],
)
def test_a_number_has_the_digits_that_matter(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("kafka", "bar", "meets"),
    [(10.0, None, True), (5.0, None, False), (None, None, None), (None, 3.0, False)],
)
def test_a_bar_counts_where_there_is_its_number(kafka, bar, meets):
    row = Measurement(
        "w", "what", "ms", 4.0, is_lower_better=True, bar=bar, kafka=kafka, kafka_bar=0.5
    )
    assert row.meets_bar is meets


def test_a_table_ends_with_what_failed_and_why():
    rows = [Measurement("start", "idle", "MB", 80.0, is_lower_better=True, bar=90)]
    failure = Failure.of("cluster", AssertionError("no answer\n| at all"))
    *_, row, failed = table_lines(rows, [failure])
    assert row == "| start | idle | 80.00 MB |  |  |  |  | ≤ 90.00 MB | yes |"
    assert failed.startswith("| cluster | failed: AssertionError: no answer / at all |")
    assert row.count("|") == failed.count("|")


def test_a_table_is_replaced_as_a_whole():
    begin, end = "<!-- growth: written by `make bench` -->", "<!-- end of growth -->"
    text = f"before\n{begin}\nold\nold too\n{end}\nafter\n"
    assert with_table(text, "growth", ["new"]) == f"before\n{begin}\nnew\n{end}\nafter\n"


def test_a_run_replaces_no_file_of_another_kind_of_run():
    names = {
        file_name("2026-11-28", "abc", only, is_quick=is_quick)
        for only in ((), ("growth",), ("growth", "start"))
        for is_quick in (False, True)
    }
    assert len(names) == 6
    assert "2026-11-28-abc.json" in names


def test_a_page_without_the_place_of_a_table_is_refused():
    with pytest.raises(ValueError, match="growth"):
        with_table("before\n", "growth", ["new"])


def test_what_is_left_goes_by_the_pace_until_now():
    expected = [60.0, 30.0, 10.0]
    assert seconds_left(expected, [], 0) == 100
    assert seconds_left(expected, [120.0], 20.0) == 60
    assert seconds_left(expected, [60.0, 30.0], 50.0) == 0


def row(workload):
    return Measurement(workload, "what", "ms", 1.0)


def breaks_after_a_row(is_quick, show_step):
    yield row("breaks")
    show_step("then")
    raise OSError("no port is free")


def test_rows_survive_the_failure_of_another():
    workloads = {
        "breaks": Workload(breaks_after_a_row, 1),
        "works": Workload(lambda is_quick, show_step: [row("works")], 1),
    }
    console = Console(record=True, width=80)
    outcome = run_all(workloads, console, is_quick=True)
    assert [one.workload for one in outcome.measurements] == ["breaks", "works"]
    assert outcome.failures == [Failure("breaks", "OSError: no port is free")]
    assert outcome.exit_code == 1
    assert "1 of 2, breaks" in console.export_text()


def test_a_run_without_failure_or_missed_bar_ends_with_0():
    workloads = {"works": Workload(lambda is_quick, show_step: [row("works")], 1)}
    assert run_all(workloads, Console(quiet=True), is_quick=False).exit_code == 0


def test_growth_is_the_last_step_by_the_first():
    steps = [
        Step("10", 2.0, 80.0, 1.0),
        Step("100", 3.0, 90.0, 1.5),
        Step("1,000", 5.0, 120.0, 1.5),
    ]
    found = {one.what: one for one in ratio_rows("partitions", steps)}
    p50 = found["partitions: 1,000 by 10, begin to committed, p50"]
    assert (p50.oncelog, p50.meets_bar) == (2.5, False)
    memory = found["partitions: 1,000 by 10, resident"]
    assert (memory.oncelog, memory.meets_bar) == (1.5, True)
    assert found["partitions: 1,000 by 10, SIGKILL to ready"].oncelog == 1.5


def test_a_step_without_a_restart_has_no_row_of_one():
    assert [one.unit for one in step_rows("producers", Step("1", 2.0, 80.0))] == ["ms", "MB"]


def test_of_kafkas_loads_the_last_of_a_shard_counts():
    line = (
        "[transaction-log-manager-0] INFO kafka.coordinator.transaction.TransactionStateManager - "
        "[Transaction State Manager 1]: Finished loading {} transaction metadata from "
        "__transaction_state-{} in {} milliseconds, of which 7 milliseconds was spent in the scheduler."
    )
    stopped, loaded = line.format(0, 31, 208), line.format(2, 31, 28)
    log = "\n".join([stopped, "[other] INFO started", line.format(0, 4, 9), loaded])
    assert kafka_loads(log) == [Load(2, 28.0), Load(0, 9.0)]


LOOP = ["<module> (oncelog_server/__main__.py:9)", "run (asyncio/runners.py:118)"]


@pytest.mark.parametrize(
    ("inside", "place"),
    [
        ([], Place("", EVENT_LOOP)),
        (
            ["append (oncelog_storage/log.py:7)", "_write (oncelog_storage/core/segment.py:3)"],
            Place("oncelog_storage", "oncelog_storage.core"),
        ),
        (
            [
                "read (oncelog_listener/handlers/fetch.py:7)",
                "framed (oncelog/protocol/frames.py:3)",
            ],
            Place("oncelog_listener", "oncelog.protocol"),
        ),
        (
            ["end (oncelog_listener/routes.py:7)", "write (kio/serial/writers.py:3)"],
            Place("oncelog_listener", "kio"),
        ),
        (
            ["end (oncelog_listener/routes.py:7)", "end (oncelog_coordinator/servicer.py:3)"],
            Place("oncelog_coordinator", "oncelog_coordinator"),
        ),
        (
            ["end (oncelog_listener/routes.py:7)", "__init__ (<string>:3)"],
            Place("oncelog_listener", "oncelog_listener"),
        ),
        (
            ["serve (/home/me/src/oncelog/rpc/role.py:7)"],
            Place("", "oncelog.rpc"),
        ),
    ],
)
def test_a_sample_counts_for_its_innermost_role_and_layer(inside, place):
    assert place_of([*LOOP, *inside]) == place


def test_a_thread_that_waits_for_work_takes_no_time():
    text = "a (x.py:1);b (y.py:2) 3\na (x.py:1);_worker (concurrent/futures/thread.py:81) 9\n"
    assert list(samples_of(text)) == [(["a (x.py:1)", "b (y.py:2)"], 3)]
