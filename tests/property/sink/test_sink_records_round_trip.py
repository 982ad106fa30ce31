"""Whatever a record holds, its bytes say it; and a compacted log says what the full log says."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog_coordinator.core.sink_records import (
    AttemptOpen,
    Branch,
    CommittedBatch,
    Complete,
    Decide,
    Outcome,
    SinkHeader,
    SinkRecordType,
    Tombstone,
    decode_sink_record,
    encode_sink_record,
)

names = st.text(st.characters(codec="utf-8"), max_size=20)
nonces = st.binary(min_size=16, max_size=16)
int32s = st.integers(0, 2**31 - 1)
int64s = st.integers(0, 2**63 - 1)
times = st.integers(-1, 2**63 - 1)
crcs = st.integers(0, 2**32 - 1)
partitions = st.lists(st.builds(Partition, names, int32s), unique=True, max_size=6).map(
    lambda listed: tuple(sorted(listed))
)
batches = st.builds(CommittedBatch, int64s, nonces, int32s, int64s, crcs, times, times)

records = st.one_of(
    st.builds(
        SinkHeader,
        names,
        int64s,
        int32s,
        names,
        names,
        st.lists(names, max_size=4).map(tuple),
        st.lists(names, max_size=4).map(tuple),
        times,
    ),
    st.builds(AttemptOpen, names, nonces, int64s, times, int64s),
    st.builds(
        Branch,
        sink=names,
        nonce=nonces,
        producer_id=int64s,
        producer_epoch=st.integers(0, 32767),
        query_generation=int32s,
        batch_id=int64s,
        task_partition=int32s,
        task_attempt_id=int64s,
        joined_time_ms=times,
        sealed_time_ms=times,
        row_count=int64s,
        crc32c=crcs,
        partitions=partitions,
        row_checksum=times,
    ),
    st.builds(
        Decide,
        sink=names,
        nonce=nonces,
        outcome=st.sampled_from(Outcome),
        reason=names,
        sink_epoch=int64s,
        query_generation=int32s,
        batch_id=st.integers(-1, 2**63 - 1),
        row_count=int64s,
        crc32c=crcs,
        decided_time_ms=times,
        winners=st.lists(int64s, max_size=6).map(tuple),
        row_checksum=times,
    ),
    st.builds(Complete, names, int32s, st.lists(batches, max_size=4).map(tuple)),
    st.builds(Tombstone, st.sampled_from([SinkRecordType.SINK, SinkRecordType.COMPLETE]), names),
    st.builds(
        Tombstone,
        st.sampled_from([SinkRecordType.ATTEMPT_OPEN, SinkRecordType.DECIDE]),
        names,
        nonces,
    ),
    st.builds(Tombstone, st.just(SinkRecordType.BRANCH), names, nonces, int64s),
)


@given(records)
def test_records_round_trip(record):
    assert decode_sink_record(*encode_sink_record(record)) == record


@given(records, records)
def test_keys_are_equal_only_for_the_same_thing(one, other):
    def named(record):
        (key, _) = encode_sink_record(record)
        return (
            int.from_bytes(key[:2], "big"),
            record.sink,
            getattr(record, "nonce", b""),
            getattr(record, "producer_id", -1),
        )

    same_key = encode_sink_record(one)[0] == encode_sink_record(other)[0]
    assert same_key is (named(one) == named(other))


@given(st.binary(max_size=80), st.none() | st.binary(max_size=120))
def test_any_bytes_decode_to_a_record_nothing_or_a_named_error(key, value):
    try:
        record = decode_sink_record(key, value)
    except OncelogError:
        return
    assert record is None or encode_sink_record(record)[0] == key


@given(records, st.data())
def test_damaged_records_never_crash_the_decoder(record, data):
    key, value = encode_sink_record(record)
    damaged = bytearray(value or b"")
    for _ in range(data.draw(st.integers(1, 3))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        decode_sink_record(key, bytes(damaged))
    except OncelogError as error:
        found = str(error)
    else:
        found = "damaged"
    assert "damaged" in found
