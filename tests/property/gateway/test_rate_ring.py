"""Sums of rates over time are what was counted, in both tiers, whatever restarts, joins or gives its place away."""

import math

from hypothesis import given
from hypothesis import strategies as st

from oncelog_gateway.core.counter_growth import CounterGrowth, Told
from oncelog_gateway.core.rate_ring import Group, RateRing

NOW = 1_800_000_000_000
LONGEST_MS = 150_000
NAMES = ("a", "b", "c")
GROUPS = {"topic": Group(("bytes",), is_growth=True, names_max=2)}
AMOUNTS = st.integers(0, 10_000)
STEPS = st.lists(
    st.tuples(
        st.integers(1, 60_000),
        st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=2, max_size=2),
        st.sampled_from(["", "", "restart", "silent"]),
    ),
    min_size=1,
    max_size=14,
)
"""Each: how long after the last, what two processes count of each topic meanwhile, and what befalls the second."""


@given(STEPS)
def test_rates_times_time_are_the_growth(steps):
    ring, growth = RateRing(GROUPS), CounterGrowth()
    counters = {process: dict.fromkeys(NAMES, 0) for process in ("s", "t")}
    started = {"s": 1, "t": 1}
    at, counted = NOW, 0.0
    growth.taken(at, _told(counters, started), set(counters), LONGEST_MS)
    for elapsed_ms, amounts, befalls in steps:
        if befalls == "restart":
            counters["t"] = dict.fromkeys(NAMES, 0)
            started["t"] += 1
        for process, of_process in zip(("s", "t"), amounts, strict=True):
            for name, amount in zip(NAMES, of_process, strict=True):
                counters[process][name] += amount
        ring.cover(at, at + elapsed_ms)
        at += elapsed_ms
        told = _told(counters, started)
        if befalls == "silent":
            del told["t"]
        found = growth.taken(at, told, set(counters), LONGEST_MS)
        if found is not None:
            ring.add_reading("topic", found.since_ms, at, found.by)
            grown = sum(sum(values) for values in found.by.values())
            assert grown >= 0
            counted += grown
    for step_ms in (5_000, 60_000):
        first = NOW // step_ms * step_ms
        count = (at - first) // step_ms + 1
        if step_ms == 5_000 and count > 180:
            continue
        lines = ring.lines("bytes", first, step_ms, count)
        total = 0.0
        for line in lines:
            sums = ring.sums("bytes", line.name, first, step_ms, count)
            total += sum(amount or 0.0 for amount in sums)
            assert all(value is None or value >= 0 for value in line.values)
        assert math.isclose(total, counted, rel_tol=1e-4, abs_tol=1e-2)


def _told(counters, started):
    return {
        process: Told(started[process], {name: (value,) for name, value in values.items()})
        for process, values in counters.items()
    }
