"""A batch that Spark runs again has the same checksum while its rows are the same, and another one when one differs."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.spark.row_checksum import RowChecksum

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROW = {
    "key": b"k",
    "value": b"value",
    "topic": "orders",
    "partition": 3,
    "timestamp": NOON,
    "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}],
}
blobs = st.none() | st.binary(max_size=40) | st.binary(min_size=300, max_size=400)
rows = st.fixed_dictionaries(
    {
        "key": blobs,
        "value": blobs,
        "topic": st.sampled_from(["orders", "totals"]),
        "partition": st.none() | st.integers(0, 3),
        "timestamp": st.none() | st.just(NOON),
        "headers": st.none()
        | st.lists(
            st.fixed_dictionaries({"key": st.sampled_from(["a", "b"]), "value": blobs}), max_size=3
        ),
    }
)


def batch(of, schema=SCHEMA):
    return pa.RecordBatch.from_pylist(of, schema=schema)


def checksum(*batches):
    found = RowChecksum()
    for one in batches:
        found.add(one)
    return found.row_count, found.value


@given(st.lists(rows, max_size=12), st.randoms(), st.integers(0, 12))
def test_order_and_division_of_the_rows_do_not_matter(given_rows, random, cut):
    shuffled = list(given_rows)
    random.shuffle(shuffled)
    whole = checksum(batch(given_rows))
    assert checksum(batch(shuffled[:cut]), batch(shuffled[cut:])) == whole
    padded = batch([ROW, *shuffled, ROW])
    assert checksum(padded.slice(1, len(shuffled))) == whole


@given(st.lists(rows, min_size=1, max_size=6), st.data())
def test_one_other_row_is_another_checksum(given_rows, data):
    index = data.draw(st.integers(0, len(given_rows) - 1))
    other = data.draw(rows)
    changed = [*given_rows[:index], other, *given_rows[index + 1 :]]
    same = checksum(batch(given_rows)) == checksum(batch(changed))
    assert same is (other == given_rows[index])


@pytest.mark.parametrize(
    "change",
    [
        {"key": None},
        {"key": b""},
        {"key": b"k\0"},
        {"value": None},
        {"value": b""},
        {"value": b"value\0"},
        {"value": b"valuf"},
        {"value": b"k", "key": b"value"},
        {"topic": "order"},
        {"partition": None},
        {"partition": 0},
        {"partition": 4},
        {"timestamp": None},
        {"timestamp": NOON + timedelta(milliseconds=1)},
        {"headers": None},
        {"headers": list(reversed(ROW["headers"]))},
        {"headers": ROW["headers"][:1]},
        {"headers": [ROW["headers"][0], {"key": "b", "value": None}]},
        {"headers": [ROW["headers"][0], {"key": "b2", "value": b""}]},
    ],
)
def test_every_field_counts(change):
    assert checksum(batch([ROW])) != checksum(batch([ROW | change]))


def test_null_and_empty_differ_and_an_absent_column_is_null():
    narrow = pa.schema([("value", pa.binary())])
    assert checksum(batch([{"value": b"v"}], narrow)) == checksum(batch([{"value": b"v"}]))
    assert checksum(batch([{"value": None}], narrow)) != checksum(batch([{"value": b""}], narrow))
    assert checksum(batch([{"value": b""}] * 2, narrow)) != checksum(batch([], narrow))


def test_text_is_hashed_as_its_bytes():
    values = ["", "é", "value", "x" * 1000]
    text = pa.RecordBatch.from_pydict({"value": values})
    blob = pa.RecordBatch.from_pydict({"value": [value.encode() for value in values]})
    assert checksum(text) == checksum(blob)


def test_microseconds_that_a_record_cannot_hold_do_not_count():
    finer = ROW | {"timestamp": NOON + timedelta(microseconds=7)}
    assert checksum(batch([finer])) == checksum(batch([ROW]))


def test_one_long_row_among_short_ones_is_hashed_as_it_is_alone():
    values = [b"x" * (10**index) for index in range(7)] + [b"short"] * 100
    alone = checksum(*(pa.RecordBatch.from_pydict({"value": [value]}) for value in values))
    assert checksum(pa.RecordBatch.from_pydict({"value": values})) == alone


def test_stored_checksums_stay_comparable():
    """The coordinator keeps them: another hash would make every committed batch look different."""
    assert checksum(batch([ROW])) == (1, 4_704_146_668_039_850_298)
    long = pa.RecordBatch.from_pydict({"value": [bytes(range(256)) * 4, b"", None, b"abc"]})
    assert checksum(long) == (4, 3_521_673_430_858_737_495)
