"""Which transactions took longest, over all transactional ids."""

from tests.unit.gateway.spans_of_transactions import NOW, transaction

from oncelog.telemetry.events import Event
from oncelog_gateway.core.slow_transactions import slowest


def of(name, at_ms, **more):
    return [
        Event(
            one.id,
            one.time_ms,
            one.role,
            one.node,
            one.kind,
            {**one.fields, "transactional_id": name},
        )
        for one in transaction(at_ms, **more)
    ]


def test_the_longest_is_first_with_its_two_parts():
    events = [
        *of("quick", 100),
        *of("markers", 200, decided=10, marked=900, ended=1_000),
        *of("producer", 300, decided=500, marked=504, ended=510),
    ]
    found = slowest(sorted(events, key=lambda one: one.time_ms), 2, NOW)
    assert [
        (one.transactional_id, one.took_ms, one.until_decision_ms, one.markers_ms)
        for one in found.rows
    ] == [("markers", 1_000, 10, 990), ("producer", 510, 500, 10)]
    assert (found.remembered, found.since_ms) == (3, 100)


def test_an_open_one_counts_with_its_time_so_far():
    found = slowest([*of("quick", 100), *of("open", 200)[:2]], 5, NOW)
    first = found.rows[0]
    assert (first.transactional_id, first.took_ms) == ("open", NOW - 200)
    assert (first.until_decision_ms, first.markers_ms) == (NOW - 200, 0)


def test_one_whose_begin_is_forgotten_is_left_out():
    assert slowest(of("old", 100)[1:], 5, NOW) == ([], 0, None)
