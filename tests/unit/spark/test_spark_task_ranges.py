"""How ranges of offsets become tasks, and when a trigger waits."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.spark.offsets import OffsetRange
from oncelog.spark.task_ranges import TASKS_MAX, TriggerDelay, task_ranges

A, B, C = Partition("a", 0), Partition("a", 1), Partition("b", 0)


def spans(found):
    return [(one.partition, one.start, one.end) for one in found]


def sizes(found):
    return [one.end - one.start for one in found]


@pytest.mark.parametrize(
    ("tasks_min", "offsets_max", "expected"),
    [
        (None, None, [100, 50]),
        (2, None, [100, 50]),
        (3, None, [50, 50, 50]),
        (6, None, [25, 25, 25, 25, 25, 25]),
        (None, 40, [33, 33, 34, 25, 25]),
        (2, 40, [33, 33, 34, 25, 25]),
        (6, 40, [25, 25, 25, 25, 25, 25]),
        (None, 1000, [100, 50]),
    ],
)
def test_ranges_are_cut_as_the_options_say(tasks_min, offsets_max, expected):
    ranges = [OffsetRange(A, 10, 110), OffsetRange(B, 0, 50)]
    assert sizes(task_ranges(ranges, tasks_min, offsets_max)) == expected


def test_a_short_partition_stays_whole_beside_a_long_one():
    ranges = [OffsetRange(A, 0, 1_000_000), OffsetRange(B, 0, 5), OffsetRange(C, 7, 9)]
    found = task_ranges(ranges, 10, None)
    assert sizes(found)[-2:] == [5, 2]
    assert len(found) == 10


def test_more_tasks_than_a_driver_can_hold_are_refused():
    with pytest.raises(OncelogError, match=r"is 1, which makes 3000000 tasks: give at least 30"):
        task_ranges([OffsetRange(A, 0, 3_000_000)], None, 1)
    assert len(task_ranges([OffsetRange(A, 0, 3_000_000)], None, 30)) == TASKS_MAX


def test_fewer_offsets_than_tasks_are_a_task_each():
    assert spans(task_ranges([OffsetRange(A, 3, 5)], 10, None)) == [(A, 3, 4), (A, 4, 5)]
    assert task_ranges([], 10, 5) == []


ranges_of_partitions = st.lists(
    st.tuples(st.integers(0, 2**62), st.integers(1, 5_000)), max_size=6
).map(
    lambda found: [
        OffsetRange(Partition("t", number), start, start + size)
        for number, (start, size) in enumerate(found)
    ]
)


@given(
    ranges_of_partitions,
    st.none() | st.integers(1, 300),
    st.none() | st.integers(1, 6_000),
)
def test_every_offset_is_read_once_and_the_bounds_hold(ranges, tasks_min, offsets_max):
    found = task_ranges(ranges, tasks_min, offsets_max)
    for partition, grouped in itertools.groupby(found, key=lambda one: one.partition):
        pieces = list(grouped)
        whole = next(one for one in ranges if one.partition == partition)
        assert (pieces[0].start, pieces[-1].end) == (whole.start, whole.end)
        assert all(one.end == other.start for one, other in itertools.pairwise(pieces))
        assert max(sizes(pieces)) - min(sizes(pieces)) <= 1
    assert {one.partition for one in found} == {one.partition for one in ranges}
    assert all(0 < size <= (offsets_max or size) for size in sizes(found))
    total = sum(sizes(ranges))
    assert len(found) >= min(tasks_min or 0, total)
    assert found == task_ranges(ranges, tasks_min, offsets_max)
    if offsets_max is None:
        assert len(found) == max(len(ranges), min(tasks_min or 0, total))


def test_a_trigger_waits_for_enough_records_or_long_enough():
    delay = TriggerDelay(offsets_min=100, delay_max_ms=1_000)
    assert not delay.waits(1, 0), "the first of a run never waits"
    assert delay.waits(99, 10)
    assert not delay.waits(100, 20)
    assert delay.waits(99, 1_019)
    assert not delay.waits(0, 1_020)
    assert delay.waits(5, 1_021)
