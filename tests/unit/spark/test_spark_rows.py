"""Rows go to the partition that every Kafka client would choose, and keep their order there."""

import pyarrow as pa
import pytest

from oncelog.client.core.partitioner import murmur2
from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.spark.options import Partitioner
from oncelog.spark.rows import STICKY_ROWS, RowRouter, records_of

MURMUR2 = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
    "": 275646681,
}


def batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def router(topic="t", partitioner=Partitioner.MURMUR2, counts=None, seed=0):
    return RowRouter(topic, partitioner, counts or {"t": 4}, seed)


def routed(rows, **options):
    return {
        partition: part.column("value").to_pylist()
        for partition, part in router(**options).routed(rows)
    }


def test_murmur2_agrees_with_the_published_table():
    keys = pa.array([key.encode() for key in MURMUR2])
    assert murmur2(keys).tolist() == list(MURMUR2.values())


def test_keyed_rows_go_where_their_hash_says_in_order():
    keys = [key.encode() for key in MURMUR2] * 3
    values = list(range(len(keys)))
    expected = {}
    for key, value in zip(list(MURMUR2) * 3, values, strict=True):
        number = (MURMUR2[key] & 0x7FFFFFFF) % 4
        expected.setdefault(Partition("t", number), []).append(value)
    assert routed(batch(key=keys, value=values)) == expected


def test_rows_without_keys_stay_with_a_partition_for_a_while():
    rows = batch(value=list(range(2 * STICKY_ROWS)))
    found = routed(rows, seed=1)
    assert list(found) == [Partition("t", 1), Partition("t", 2)]
    assert [len(values) for values in found.values()] == [STICKY_ROWS, STICKY_ROWS]


def test_null_keys_are_spread_and_others_are_not():
    rows = batch(key=[b"abc", None, b"abc"], value=[1, 2, 3])
    found = routed(rows, seed=2)
    assert found[Partition("t", 479470107 % 4)] == [1, 3]
    assert found[Partition("t", 2)] == [2]


def test_round_robin_ignores_keys():
    rows = batch(key=[b"abc"] * 3, value=[1, 2, 3])
    assert routed(rows, partitioner=Partitioner.ROUND_ROBIN, seed=3) == {
        Partition("t", 3): [1, 2, 3]
    }


def test_given_partition_wins_and_null_leaves_it_to_the_key():
    rows = batch(key=[b"abc"] * 3, value=[1, 2, 3], partition=pa.array([0, None, 2], pa.int32()))
    assert routed(rows) == {
        Partition("t", 0): [1],
        Partition("t", 2): [3],
        Partition("t", 479470107 % 4): [2],
    }


@pytest.mark.parametrize("number", [-1, 4])
def test_partition_that_does_not_exist_is_named(number):
    rows = batch(value=[1], partition=pa.array([number], pa.int32()))
    with pytest.raises(
        OncelogError, match=rf"column partition holds {number}, but topic 't' has 4"
    ):
        routed(rows)


def test_topic_column_cuts_the_batch_by_topic():
    rows = batch(topic=["x", "y", "x"], value=[1, 2, 3])
    assert routed(rows, topic=None, counts={"x": 1, "y": 1}) == {
        Partition("x", 0): [1, 3],
        Partition("y", 0): [2],
    }


def test_null_topic_is_refused():
    rows = batch(topic=["x", None], value=[1, 2])
    with pytest.raises(OncelogError, match="a row's topic is null"):
        router(topic=None).missing_topics(rows)


def test_unknown_topics_are_asked_for_once():
    rows = batch(topic=["t", "u", "u"], value=[1, 2, 3])
    routing = router(topic=None)
    assert routing.missing_topics(rows) == ["u"]
    routing.learn({"u": 1})
    assert routing.missing_topics(rows) == []


def test_records_carry_time_key_value_and_headers():
    rows = pa.RecordBatch.from_pydict(
        {
            "key": ["k", None],
            "value": pa.array([b"v", None], pa.large_binary()),
            "timestamp": pa.array([1_700_000_000_123_456, 999], pa.timestamp("us", tz="UTC")),
            "headers": [[{"key": "h", "value": b"x"}], None],
        }
    )
    assert list(records_of(rows)) == [
        (1_700_000_000_123, b"k", b"v", [("h", b"x")]),
        (0, None, None, []),
    ]


def test_row_without_a_time_gets_the_present_one():
    ((timestamp, key, value, headers),) = records_of(batch(value=["v"]))
    assert timestamp > 1_700_000_000_000
    assert (key, value, headers) == (None, b"v", [])


def test_header_without_a_key_is_refused():
    rows = batch(value=["v"], headers=[[{"key": None, "value": b"x"}]])
    with pytest.raises(OncelogError, match="a header has no key"):
        list(records_of(rows))


def test_time_before_1970_is_refused_by_name():
    rows = batch(value=["v"], timestamp=pa.array([-1_000], pa.timestamp("us", tz="UTC")))
    with pytest.raises(OncelogError, match="-1 ms, before 1970"):
        list(records_of(rows))
