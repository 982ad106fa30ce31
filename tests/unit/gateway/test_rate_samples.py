"""Rates from two samples: none before the second, and never one that the counts do not say."""

import pytest

from oncelog.ids import Partition
from oncelog_gateway.core.rate_samples import (
    AGE_MAX_MS,
    PARTITIONS_MAX,
    WINDOW_MS,
    Rate,
    RateSamples,
    Sample,
)

ONE, TWO = Partition("orders", 0), Partition("orders", 1)


def rates(*samples, of=ONE):
    found = RateSamples()
    for sample in samples:
        found.add(of, sample)
    return found


def test_one_sample_is_no_rate():
    assert rates().rate([ONE]) is None
    assert rates(Sample(5_000, 1, 0, 100, 1_000)).rate([ONE]) is None
    too_near = rates(Sample(5_000, 1, 0, 100, 1_000), Sample(5_900, 1, 0, 200, 2_000))
    assert too_near.rate([ONE]) is None


def test_two_samples_say_how_fast_and_over_which_time():
    found = rates(Sample(5_000, 1, 0, 100, 1_000), Sample(9_000, 1, 0, 300, 3_000))
    assert found.rate([ONE]) == Rate(50.0, 500.0, 4_000, 1)


def test_partitions_are_summed_and_the_unknown_left_out():
    found = rates(Sample(0, 1, 0, 0, 0), Sample(10_000, 1, 0, 10, 100))
    found.add(TWO, Sample(0, 1, 0, 0, 0))
    assert found.rate([ONE, TWO]) == Rate(1.0, 10.0, 10_000, 1)
    found.add(TWO, Sample(5_000, 1, 0, 10, 100))
    assert found.rate([ONE, TWO]) == Rate(3.0, 30.0, 10_000, 2)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (Sample(10_000, 2, 0, 50, 500), None),  # a new leader
        (Sample(10_000, 1, 0, 20, 500), None),  # its log was cut at the end
        (Sample(10_000, 1, 30, 50, 300), Rate(1.0, None, 10_000, 1)),  # retention
        (Sample(10_000, 1, 0, 50, 300), Rate(1.0, None, 10_000, 1)),  # compaction
    ],
)
def test_what_the_counts_do_not_say_is_not_told(later, expected):
    assert rates(Sample(0, 1, 0, 40, 400), later).rate([ONE]) == expected


def test_a_rate_is_of_the_last_minute():
    samples = [Sample(at, 1, 0, max(at - WINDOW_MS, 0), 0) for at in range(0, 2 * WINDOW_MS, 500)]
    found = rates(*samples).rate([ONE])
    assert found.records == pytest.approx(1_000, rel=0.1)
    assert WINDOW_MS <= found.span_ms <= WINDOW_MS + 6_000
    late = Sample(2 * WINDOW_MS + AGE_MAX_MS, 1, 0, 10**6, 0)
    assert rates(Sample(0, 1, 0, 0, 0), late).rate([ONE]) is None


def test_samples_are_bounded():
    found = RateSamples()
    for number in range(PARTITIONS_MAX + 10):
        for at in range(0, 20_000, 2_000):
            found.add(Partition("many", number), Sample(at, 1, 0, at, at))
    every = [Partition("many", number) for number in range(PARTITIONS_MAX + 10)]
    assert found.rate(every).partition_count == PARTITIONS_MAX
