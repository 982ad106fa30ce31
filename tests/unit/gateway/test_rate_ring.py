"""What a gateway remembers of rates: gaps are gaps, restarts are no jumps, and a day fits in a few megabytes."""

import math

import pytest

from oncelog_gateway.core.counter_growth import CounterGrowth, Told
from oncelog_gateway.core.rate_families import GROUPS, NAMES_OF_GROUPS_MAX
from oncelog_gateway.core.rate_ring import OTHERS, TIERS, Group, RateRing, TierSpec

NOW = 1_800_000_000_000
"""At the begin of a minute."""
BYTES = {"topic": Group(("bytes",), is_growth=True, names_max=2)}
LEVELS = {"held": Group(("lag",), is_growth=False, names_max=2, absent=0.0)}


def grown(ring, *steps):
    """Each is (seconds, amounts by name), one after the other."""
    at = NOW
    for seconds, amounts in steps:
        until = at + seconds * 1000
        ring.cover(at, until)
        ring.add_reading("topic", at, until, {name: (amount,) for name, amount in amounts.items()})
        at = until
    return ring


def values(ring, family="bytes", name="a", step_ms=5_000, count=12, first_ms=NOW):
    (found,) = [one for one in ring.lines(family, first_ms, step_ms, count) if one.name == name]
    return found.values


def test_growth_is_a_rate_a_second_in_each_step():
    ring = grown(RateRing(BYTES), (5, {"a": 50}), (5, {"a": 0}), (10, {"a": 200}))
    assert values(ring, count=5) == [10, 0, 20, 20, None]
    assert values(ring, step_ms=10_000, count=2) == [5, 20]


def test_the_step_that_runs_is_rated_by_what_was_seen_of_it():
    ring = grown(RateRing(BYTES), (2, {"a": 20}))
    assert values(ring, count=1) == [10]
    assert values(ring, step_ms=60_000, count=1) == [10]


def test_a_gap_is_no_zero():
    ring = grown(RateRing(BYTES), (5, {"a": 50}))
    ring.cover(NOW + 15_000, NOW + 20_000)
    ring.add_reading("topic", NOW + 15_000, NOW + 20_000, {"a": (5,)})
    assert values(ring, count=4) == [10, None, None, 1]


def test_who_is_silent_in_a_time_that_was_seen_leaves_a_gap():
    ring = grown(RateRing(BYTES), (5, {"a": 50, "b": 5}), (5, {"b": 5}))
    assert values(ring, count=2) == [10, None]
    assert values(ring, name="b", count=2) == [1, 1]


def test_a_level_keeps_its_largest_value():
    ring = RateRing(LEVELS)
    for at, lag in ((0, 3), (1, 9), (2, 4)):
        ring.cover(NOW + at * 1000, NOW + at * 1000 + 1000)
        ring.add_reading("held", NOW + at * 1000, NOW + at * 1000 + 1000, {"orders-0": (lag,)})
    assert values(ring, "lag", "orders-0", count=1) == [9]


def levels_of(*readings):
    """Each is (seconds since the one before, level)."""
    ring, at = RateRing(LEVELS), NOW
    for seconds, lag in readings:
        until = at + seconds * 1000
        ring.cover(at, until)
        ring.add_reading("held", at, until, {"orders-0": (lag,)})
        at = until
    return ring


def test_a_level_says_nothing_of_the_pause_before_it():
    ring = levels_of((5, 3), (60, 9))
    wanted = [3, *[None] * 11, 9]
    assert values(ring, "lag", "orders-0", count=13) == wanted


def test_a_place_that_readings_just_missed_has_the_level_before():
    ring = levels_of((5, 3), (10, 9))
    assert values(ring, "lag", "orders-0", count=3) == [3, 3, 9]


def test_a_reading_of_a_long_time_makes_its_steps_coarse():
    ring = grown(RateRing(BYTES), (5, {"a": 5}), (60, {"a": 60}), (5, {"a": 5}))
    assert ring.coarse(NOW, 5_000, 14) == [False, *[True] * 12, False]
    assert ring.coarse(NOW, 10_000, 7) == [True] * 7
    assert ring.coarse(NOW, 60_000, 2) == [False, False]


def test_a_partition_that_is_told_no_more_is_at_zero():
    ring = RateRing(LEVELS)
    ring.cover(NOW, NOW + 10_000)
    ring.add_reading("held", NOW, NOW + 5_000, {"orders-0": (3,)})
    ring.add_reading("held", NOW + 5_000, NOW + 10_000, {})
    assert values(ring, "lag", "orders-0", count=2) == [3, 0]


def test_old_steps_make_room_for_new_ones():
    ring = RateRing(BYTES, [TierSpec(5_000, 2)])
    grown(ring, (5, {"a": 5}), (5, {"a": 10}), (5, {"a": 15}))
    assert values(ring, count=3) == [None, 2, 3]


def test_a_long_silence_leaves_nothing_of_before():
    ring = grown(RateRing(BYTES), (5, {"a": 50}))
    later = NOW + TIERS[1].span_ms + 5_000
    ring.cover(later, later + 5_000)
    ring.add_reading("topic", later, later + 5_000, {"a": (5,)})
    assert (
        values(ring, count=1_440, step_ms=60_000, first_ms=later - TIERS[1].span_ms + 60_000)[:-1]
        == [None] * 1_439
    )


def test_names_without_a_place_share_a_line():
    ring = grown(RateRing(BYTES), (5, {"a": 50, "b": 40, "c": 5, "d": 5}))
    assert ring.names("bytes") == ["a", "b", OTHERS]
    assert values(ring, name=OTHERS, count=1) == [2]


def test_a_busier_name_takes_the_place_of_an_idle_one():
    ring = grown(
        RateRing(BYTES), (5, {"a": 50, "b": 40}), (5, {"a": 50, "b": 0, "c": 500}), (5, {"a": 50})
    )
    assert ring.names("bytes") == ["a", "c", OTHERS]
    assert values(ring, name="c", count=2) == [None, 100]
    assert values(ring, name=OTHERS, count=2) == [8, 0], "its history goes on in the others'"


def test_names_that_are_as_busy_do_not_take_turns():
    ring = grown(RateRing(BYTES), (5, {"a": 50, "b": 50}), *[(5, {"a": 50, "b": 50, "c": 60})] * 5)
    assert ring.names("bytes") == ["a", "b", OTHERS]


def test_a_full_ring_is_a_few_megabytes():
    """Of 2,000 partitions, 200 consumer groups and more topics and nodes than there are places."""
    ring = RateRing(GROUPS)
    for group_name, group in GROUPS.items():
        rows = {f"name-{number}": [1.0] * len(group.families) for number in range(2_000)}
        ring.cover(NOW, NOW + 5_000)
        ring.add_reading(group_name, NOW, NOW + 5_000, rows)
    lines = sum((group.names_max + 1) * len(group.families) for group in GROUPS.values())
    assert ring.size_bytes() <= (lines + 1) * 4 * sum(one.steps for one in TIERS)
    assert ring.size_bytes() < 5_000_000
    assert NAMES_OF_GROUPS_MAX >= 60


# What counters grew.


def told(started_ms=1, **counters):
    return Told(started_ms, {name: (value,) for name, value in counters.items()})


def taken(*readings, expected=("s",), longest_ms=10_000):
    """What grew at the last of the readings, each (milliseconds, told by process)."""
    growth, found = CounterGrowth(), None
    for at, by_process in readings:
        found = growth.taken(at, by_process, set(expected), longest_ms)
    return found


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (told(a=5), told(a=7), {"a": [2]}),
        (told(), told(a=7), {"a": [7]}),
        (told(a=5), told(), {}),
        (told(a=5), told(started_ms=2, a=3), {"a": [3]}),
        (told(a=5), told(a=3), {"a": [0]}),
    ],
    ids=["grown", "new", "gone", "restarted", "begun anew inside"],
)
def test_what_a_counter_grew(before, now, expected):
    found = taken((1_000, {"s": before}), (6_000, {"s": now}))
    assert (found.since_ms, found.by) == (1_000, expected)


def test_a_process_seen_first_brings_no_jump():
    found = taken(
        (1_000, {"s": told(a=5)}), (6_000, {"s": told(a=6), "new": told(a=10**9)}), expected=("s",)
    )
    assert found.by == {"a": [1]}


def test_one_silent_process_leaves_all_unknown_for_a_while():
    first, whole = {"s": told(a=5), "t": told(a=5)}, {"s": told(a=8), "t": told(a=9)}
    both = ("s", "t")
    assert taken((1_000, first), (3_000, {"s": told(a=7)}), expected=both) is None
    found = taken((1_000, first), (3_000, {"s": told(a=7)}), (6_000, whole), expected=both)
    assert (found.since_ms, found.by) == (1_000, {"a": [7]})


def test_what_grew_in_a_long_silence_is_not_spread():
    readings = (1_000, {"s": told(a=5)}), (30_000, {"s": told(a=50)})
    assert taken(*readings) is None
    assert taken(*readings, (35_000, {"s": told(a=51)})).by == {"a": [1]}


def test_a_clock_that_goes_back_leaves_a_gap():
    assert taken((5_000, {"s": told(a=5)}), (4_000, {"s": told(a=6)})) is None


def test_rates_are_never_negative_nor_not_a_number():
    ring = grown(RateRing(BYTES), (5, {"a": 0}), (5, {"a": 1e9}))
    assert all(value is None or (value >= 0 and not math.isnan(value)) for value in values(ring))
