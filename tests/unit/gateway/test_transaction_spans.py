"""A timeline gathered by transaction, and the bars that are drawn of it."""

import pytest
from tests.unit.gateway.spans_of_transactions import NOW, change, event, transaction

from oncelog_gateway.console_bars import BARS_MAX, WIDTH, bars_page
from oncelog_gateway.core.transaction_spans import Between, Span, gather, slow_from_ms


def only(events):
    (span,) = gather(events)
    assert isinstance(span, Span)
    return span


def test_a_transaction_has_its_phases_and_its_partitions():
    span = only(transaction(100))
    assert (span.outcome, span.reason, span.began_ms, span.ended_ms) == ("committed", "", 100, 136)
    assert (span.producer_id, span.producer_epoch) == (7, 3)
    assert span.phases(NOW) == [
        ("adding", 100, 105),
        ("producing", 105, 130),
        ("marking", 130, 136),
    ]
    assert list(span.partitions) == ["orders-0"]
    assert span.marked == {"orders-0": 134}


def test_each_transaction_is_one_of_its_own():
    found = gather([*transaction(100), *transaction(200, commit=False), *transaction(300)[:2]])
    assert [one.outcome for one in found] == ["committed", "aborted", "open"]
    assert found[2].phases(now_ms=390) == [("adding", 300, 305), ("producing", 305, 390)]


def test_a_marker_that_is_told_late_belongs_to_its_transaction():
    late = event(201, "marker", "storage", topic="orders", partition=1, error_code=0)
    first, second = gather([*transaction(100), transaction(200)[0], late])
    assert first.marked == {"orders-0": 134, "orders-1": 201}
    assert second.marked == {}


def test_a_marker_that_was_refused_marks_nothing():
    events = transaction(100)[:3]
    events.append(event(131, "marker", "storage", topic="orders", partition=0, error_code=47))
    assert only(events).marked == {}


def test_who_ended_it_is_said_unless_its_producer_did():
    reasons = {
        request: only(transaction(100, commit=False, request=request)).reason
        for request in ("EndTxn", "TxnTimedOut", "ForceTerminate", "InitProducerId")
    }
    assert reasons == {
        "EndTxn": "",
        "TxnTimedOut": "timed out",
        "ForceTerminate": "ended by an operator",
        "InitProducerId": "ended by InitProducerId",
    }


def test_what_belongs_to_no_transaction_stands_between():
    began = change(90, "Empty", "InitProducerId", "initialised", producer_id=7)
    again = change(150, "Empty", "InitProducerId", "initialised", producer_id=7)
    nothing = change(160, "PrepareAbort", "EndTxn", "empty_abort")
    found = gather([began, *transaction(100), again, nothing, *transaction(200)])
    assert [type(one) for one in found] == [Between, Span, Between, Span]
    assert found[2].events == (again, nothing)


def test_a_refusal_of_an_open_transaction_is_counted_in_it():
    refused = event(110, "refused", request="EndTxn", error="PRODUCER_FENCED", count=3)
    events = transaction(100)
    assert only([*events[:2], refused, *events[2:]]).refusals == 3


def test_a_transaction_whose_begin_is_forgotten_says_so():
    decided = change(
        500, "PrepareAbort", "TxnTimedOut", start_time_ms=100, previous_producer_epoch=3
    )
    span = only([decided, change(510, "CompleteAbort", "MarkersDelivered")])
    assert (span.is_begin_known, span.began_ms, span.duration_ms(NOW)) == (False, 100, 410)
    assert span.producer_epoch == 3


def test_a_completion_alone_makes_no_transaction():
    (found,) = gather([change(500, "CompleteCommit", "MarkersDelivered")])
    assert isinstance(found, Between)


def test_clocks_that_disagree_make_no_negative_phase():
    events = sorted(transaction(100, wrote=-20), key=lambda one: one.time_ms)
    spans = [one for one in gather(events) if isinstance(one, Span)]
    late_leader = only(transaction(100, wrote=33, decided=30, marked=35, ended=36))
    for span in (*spans, late_leader):
        for _, begin, end in span.phases(NOW):
            assert span.began_ms <= begin <= end <= span.ended_ms


def page_of(events, number=1, now_ms=NOW):
    return bars_page("pay", gather(events), number, now_ms)


def test_the_longest_ordinary_one_fills_its_row():
    shorter, longer = transaction(100, decided=10, marked=12, ended=18), transaction(200)
    newest, oldest = page_of([*shorter, *longer])["rows"]
    assert sum(part.width for part in newest.parts) == WIDTH
    assert sum(part.width for part in oldest.parts) == WIDTH // 2
    assert [part.x for part in newest.parts] == [0, 138, 833]
    assert newest.ticks[0].x == WIDTH * 34 // 36
    assert (newest.took, newest.has_own_scale, newest.look) == ("36 ms", False, "good")


def test_what_is_far_longer_is_slow_and_has_its_own_scale():
    events = [one for at in range(5) for one in transaction(100 * (at + 1))]
    page = page_of([*events, *transaction(1_000)[:2]], now_ms=61_000)
    hanging = page["rows"][0]
    assert page["scale"] == "36 ms"
    assert (hanging.took, hanging.has_own_scale, hanging.notes) == ("1 min", True, ("slow",))
    assert hanging.look == "warn"
    assert all(part.x + part.width <= WIDTH for part in hanging.parts)


def test_a_longer_bar_shows_all_of_its_phases():
    quick = [one for at in range(5) for one in transaction(100 * (at + 1))]
    slow = transaction(1_000, wrote=600, decided=740, marked=744, ended=746)
    parts = page_of([*quick, *slow])["rows"][0].parts
    assert [(one.look, one.x) for one in parts] == [
        ("adding", 0),
        ("producing", 804),
        ("marking good", 991),
    ]


DAY_MS = 86_400_000


def test_a_bar_has_its_date_where_that_is_not_todays():
    events = transaction(100)
    assert page_of(events)["rows"][0].clock == "00:00:00.100"
    assert page_of(events, now_ms=DAY_MS + 200)["rows"][0].clock == "01 Jan 00:00:00.100"
    alone = [change(500, "CompleteCommit", "MarkersDelivered")]
    assert page_of(alone, now_ms=DAY_MS)["rows"][0].clock == "01 Jan 00:00:00.500"


def test_the_strip_says_the_time_that_it_holds():
    strip = page_of([*transaction(100), *transaction(120_100)])["strip"]
    assert "began within 2 min, from 00:00:00.100 UTC on" in strip.says


@pytest.mark.parametrize("span_ms", [7, 61, 999, 5_300, 61_000, 1_234_567])
def test_a_narrow_strip_has_room_for_every_other_label(span_ms):
    strip = page_of([*transaction(100), *transaction(100 + span_ms)], now_ms=NOW * 3)["strip"]
    assert len(strip.times[::2]) <= 3


def test_slow_is_ten_times_the_median():
    quick = [one for one in gather(transaction(100)) if isinstance(one, Span)]
    assert slow_from_ms(quick, NOW) == 360
    assert slow_from_ms([], NOW) == 100


def test_a_thousand_are_paged_and_each_is_a_dot():
    events = [one for at in range(1_000) for one in transaction(100 * at)]
    first, last = page_of(events), page_of(events, number=40)
    assert len(first["rows"]) == len(last["rows"]) == BARS_MAX
    assert (first["steps"].before, last["steps"].after) == (None, None)
    dots = first["strip"].dots
    assert len(dots) == 1_000
    assert (dots[-1].page, dots[-1].key) == (1, first["rows"][0].key)
    assert (dots[0].page, dots[0].key) == (40, last["rows"][-1].key)


def test_the_strip_has_times_and_durations_at_its_axes():
    events = [*transaction(100), *transaction(60_000, ended=5_000, marked=4_000)]
    strip = page_of(events)["strip"]
    assert [one.text for one in strip.values] == ["1 ms", "10 ms", "100 ms", "1 s"]
    assert [one.y for one in strip.values] == sorted((one.y for one in strip.values), reverse=True)
    assert len({one.shape for one in strip.times}) == 1
    assert [one.time_ms % 10_000 for one in strip.times] == [0] * len(strip.times)
    assert strip.dots[1].y < strip.dots[0].y, "the longer one is higher"


def test_a_page_behind_the_last_one_is_the_last_one():
    events = [one for at in range(30) for one in transaction(100 * at)]
    assert page_of(events, number=99)["rows"] == page_of(events, number=2)["rows"] != []
    assert page_of([], number=99)["rows"] == []


def test_one_transaction_makes_no_strip():
    assert page_of(transaction(100))["strip"] is None


def test_a_bar_knows_the_trace_of_its_own_transaction():
    first, second = transaction(100), transaction(200)
    for events, trace in ((first, "a" * 32), (second, "b" * 32)):
        for at in (2, 5):
            events[at].fields["trace_id"] = trace
    rows = bars_page("id", gather([*first, *second, *transaction(300)]), 1, NOW)["rows"]
    assert [one.trace_id for one in rows] == ["", "b" * 32, "a" * 32]


def test_a_link_to_a_transaction_finds_its_page():
    found = gather([one for at in range(100) for one in transaction(100 + at * 50)])
    page = bars_page("id", found, 1, NOW, found[3].key)
    assert found[3].key in [one.key for one in page["rows"]]
    assert page["steps"].first > BARS_MAX
