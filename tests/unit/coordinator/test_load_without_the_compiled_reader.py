"""The first megabyte that a coordinator loads is read without aiokafka's compiled reader, and gives the same."""

from functools import cache

import pytest

from oncelog.record import bulk
from oncelog.record.batch import Codec
from oncelog.record.records import Record, encode_batch
from oncelog_coordinator.shard_replay import LiveRecords, MalformedShard


@pytest.fixture
def loads(monkeypatch):
    """The times that the compiled reader was loaded in a process that begins with this test."""
    found = []
    load = bulk._compiled_reader.__wrapped__

    @cache
    def counted():
        found.append(1)
        return load()

    monkeypatch.setattr(bulk, "_compiled_reader", counted)
    monkeypatch.setattr(bulk._ReadInPython, "size_bytes", 0)
    return found


def batches():
    sound = [
        [Record(b"a", b"1", 5), Record(b"b", None, 6)],
        [Record(b"a", b"2" * 500, 7, headers=(("h", b"v"),))],
        [Record(b"c", b"", -1)],
    ]
    return [
        encode_batch(records, base_offset=10 * number, codec=codec)
        for number, (records, codec) in enumerate(
            zip(sound, (Codec.NONE, Codec.GZIP, Codec.NONE), strict=True)
        )
    ]


def loaded(data):
    live = LiveRecords(recent_ms=1_000)
    live.add_batches(data, 0)
    return [tuple(record) for record in live.in_order()], [tuple(one) for one in live.recent()]


def test_few_records_load_no_reader_and_are_the_same(loads):
    data = b"".join(map(bytes, batches()))
    without = loaded(data)
    assert loads == []
    bulk.warm_up()
    assert loads == [1]
    assert loaded(data) == without


def test_many_records_are_worth_the_reader(loads):
    one = bytes(encode_batch([Record(b"k", bytes(60_000), 1)]))
    for _ in range(20):
        loaded(one)
    assert loads == [1]


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_malformed_batch_is_named_by_either_reader(loads, cut):
    batch = bytearray(bytes(batches()[0]))
    batch[61 : 61 + cut] = b"\xff" * cut
    with pytest.raises(MalformedShard, match="batch at offset 0"):
        loaded(bytes(batch))
    bulk.warm_up()
    with pytest.raises(MalformedShard, match="batch at offset 0"):
        loaded(bytes(batch))
