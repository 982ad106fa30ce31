"""Offset vectors: JSON, limits, ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.spark.offsets import (
    check_covers,
    from_json,
    limited,
    ranges_between,
    to_json,
)

P = [Partition("a", 0), Partition("a", 1), Partition("b", 0)]

vectors = st.dictionaries(
    st.builds(Partition, st.sampled_from("abc"), st.integers(0, 12)), st.integers(0, 10_000)
)


@given(vectors)
def test_json_round_trips_in_one_order(vector):
    assert from_json(to_json(vector)) == vector
    shuffled = dict(reversed(list(vector.items())))
    assert str(to_json(shuffled)) == str(to_json(vector))


@given(vectors, vectors, st.integers(1, 20_000))
def test_limit_is_kept_used_up_and_moves_forward(start, end, limit):
    lags = {key: max(0, offset - start.get(key, 0)) for key, offset in end.items()}
    capped = limited(start, end, limit)
    assert capped.keys() == end.keys()
    taken = {key: capped[key] - start.get(key, 0) if lags[key] else 0 for key in end}
    assert all(0 <= taken[key] <= lags[key] for key in end)
    assert sum(taken.values()) == min(limit, sum(lags.values()))


def test_limit_is_shared_out_evenly():
    start = dict.fromkeys(P, 0)
    assert limited(start, {P[0]: 1_000, P[1]: 1_000, P[2]: 10}, 110) == {
        P[0]: 50,
        P[1]: 50,
        P[2]: 10,
    }


def test_limit_below_the_partitions_serves_the_furthest_behind():
    assert limited({}, {P[0]: 5, P[1]: 900, P[2]: 7}, 1) == {P[0]: 0, P[1]: 1, P[2]: 0}


def test_partition_behind_its_start_is_left_where_it_is():
    assert limited({P[0]: 10}, {P[0]: 4}, 100) == {P[0]: 4}


def test_ranges_begin_new_partitions_at_their_first_offset():
    ranges = ranges_between({P[0]: 5, P[1]: 7}, {P[1]: 7, P[0]: 6, P[2]: 3})
    assert ranges == [(P[0], 5, 6), (P[2], 0, 3)]


def test_offsets_must_name_every_partition_and_no_other():
    with pytest.raises(
        OncelogError, match=r"startingOffsets does not name a-1 and names b-0, which"
    ):
        check_covers("startingOffsets", {P[0]: 1, P[2]: 1}, P[:2])
    check_covers("startingOffsets", dict.fromkeys(P, 1), P)
