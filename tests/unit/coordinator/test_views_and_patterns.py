"""DescribeTransactions and ListTransactions (facts 3)."""

import time

import pytest
from tests.unit.coordinator.txn_rows import (
    COMPLETE_COMMIT,
    EMPTY,
    NOW,
    ONGOING,
    PID,
    START,
    Step,
    machine_with,
    stored,
)

from oncelog.errors import KafkaError
from oncelog_coordinator.core.id_pattern import compile_id_pattern
from oncelog_coordinator.core.txn_events import DescribeTransaction, ListTransactions
from oncelog_coordinator.core.txn_state import TxnTombstone
from oncelog_coordinator.core.views import most_urgent, split_state_filters


def machine():
    return machine_with(
        stored(EMPTY, transactional_id="empty"),
        stored(ONGOING, transactional_id="ongoing", producer_id=8),
        stored(COMPLETE_COMMIT, transactional_id="done"),
    )


def names(**filters):
    return [
        t.transactional_id
        for t in Step(machine(), ListTransactions(1, **filters)).answer.transactions
    ]


def test_describe_gives_the_stored_values():
    step = Step(machine(), DescribeTransaction(1, "done"))
    assert step.answer.transaction.start_timestamp == START
    assert Step(machine(), DescribeTransaction(1, "nobody")).code == 105


def test_list_without_filters_gives_everything():
    assert names() == ["empty", "ongoing", "done"]


def test_unknown_state_names_are_told_back_and_match_nothing():
    assert split_state_filters([]) == (None, ())
    assert split_state_filters(["Ongoing", "Nonsense", "Dead"]) == ((ONGOING, 6), ("Nonsense",))
    assert names(states=split_state_filters(["Nonsense"])[0]) == []
    assert names(states=(ONGOING,)) == ["ongoing"]


def test_producer_ids_filter():
    assert names(producer_ids=(PID,)) == ["empty", "done"]


def test_a_producer_id_is_found_as_long_as_somebody_has_it():
    live = machine()
    for producer_id, name in ((9, "done"), (8, "empty")):
        moved = stored(EMPTY, transactional_id=name, producer_id=producer_id, producer_epoch=0)
        live.apply(10, moved)

    def found(*producer_ids):
        request = ListTransactions(1, producer_ids=producer_ids)
        assert list(live.candidates(request)) == list(Step(live, request).answer.transactions)
        return [t.transactional_id for t in live.candidates(request)]

    assert found(PID) == []
    assert found(9, 9) == ["done"]
    assert found(9, 8) == ["done", "ongoing", "empty"]
    live.apply(11, TxnTombstone("empty"))
    assert found(9, 8) == ["done", "ongoing"]


def test_the_duration_is_strict_and_an_empty_entry_always_passes():
    assert names(duration_ms=NOW - START) == ["empty"]
    assert names(duration_ms=NOW - START - 1) == ["empty", "ongoing", "done"]
    assert names(duration_ms=-1) == ["empty", "ongoing", "done"]


def test_the_pattern_must_match_the_whole_id():
    assert names(transactional_id_pattern="on") == []
    assert names(transactional_id_pattern="on.*") == ["ongoing"]
    assert names(transactional_id_pattern=".*o.*") == ["ongoing", "done"]


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "*a",
        "a{2,1}",
        r"(a)\1",
        "(?P<x>a)(?P=x)",
        "(?=a)a",
        "(?<!a)b",
        r"\q",
        "x" * 9_000,
    ],
)
def test_what_re2_does_not_know_is_refused(pattern):
    with pytest.raises(KafkaError) as refused:
        compile_id_pattern(pattern)
    assert refused.value.error_code == 128
    assert pattern[:1] in refused.value.message


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("orders-[0-9]+", "orders-17", "orders-x"),
        ("(orders|refunds)-.*", "refunds-1", "payments-1"),
        (r"a\(b\)+", "a(b))", "ab"),
        ("[*+|(]+", "*+", "a"),
        ("(?:app)?-x", "-x", "x"),
        ("a{2,3}", "aaa", "a"),
        (".*?-.*", "a-b", "ab"),
        (r"[\]a]+", "]a", "b"),
        (r"\pL+-[[:digit:]]", "äb-1", "1-1"),
        (r"\Qa.b\E", "a.b", "axb"),
        ("(?:(a|b)c)+", "acbc", "ab"),
        (".*-.*-.*-.*", "a-b-c-d", "a-b-c"),
        (r"[\s\S]*\ \-x", "a\nb -x", "x"),
        ("a.b", "axb", "a\nb"),
    ],
)
def test_patterns_mean_what_they_mean_in_re2(pattern, matching, other):
    matches = compile_id_pattern(pattern)
    assert matches(matching)
    assert not matches(other)


def test_no_pattern_is_no_filter():
    assert compile_id_pattern("") is None


def test_no_pattern_takes_long():
    matches = compile_id_pattern("(a+)+b")
    started = time.perf_counter()
    assert not matches("a" * 10_000)
    assert time.perf_counter() - started < 2


def test_the_most_urgent_are_open_ones_by_begin_then_the_newest():
    rows = [
        stored(COMPLETE_COMMIT, transactional_id="done", last_update_timestamp=NOW),
        stored(ONGOING, transactional_id="young", start_timestamp=START + 5),
        stored(EMPTY, transactional_id="empty", start_timestamp=-1, last_update_timestamp=NOW + 1),
        stored(ONGOING, transactional_id="old", start_timestamp=START),
        stored(COMPLETE_COMMIT, transactional_id="long ago", last_update_timestamp=1),
    ]
    named = [one.transactional_id for one in most_urgent(rows, 4, lambda one: one)]
    assert named == ["old", "young", "empty", "done"]
    assert list(most_urgent(rows, 0, lambda one: one)) == rows
