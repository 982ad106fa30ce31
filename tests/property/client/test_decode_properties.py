"""Arrow decoding and bulk encoding against the plain codec of oncelog.record, and visibility against a naive model."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.client.core.decode import decode_batches
from oncelog.client.core.encode import BatchAccumulator, ProducerIdentity
from oncelog.client.core.partitioner import murmur2
from oncelog.client.core.visibility import AbortedTransaction, sight_batches
from oncelog.errors import KafkaError
from oncelog.ids import Partition, ProducerEpoch, ProducerId
from oncelog.record.batch import DELETE_HORIZON, LOG_APPEND_TIME, Codec, crc_is_valid, iter_headers
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.record.records import Record, decode_batch, encode_batch

payloads = st.none() | st.binary(max_size=300)
timestamps = st.integers(-1, 2**45)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
records = st.builds(Record, payloads, payloads, timestamps, headers=headers.map(tuple))
# Kafka's own clients refuse a time before 1970; what is read may still hold one.
written_records = records.filter(lambda record: record.timestamp >= 0)
batches = st.lists(
    st.tuples(
        st.lists(records, min_size=1, max_size=80),
        st.sampled_from(list(Codec)),
        st.sampled_from([0, LOG_APPEND_TIME, DELETE_HORIZON]),
        st.integers(0, 1_000),
    ),
    min_size=1,
    max_size=5,
)


def log_of(batches):
    log, offset = bytearray(), 0
    for content, codec, attributes, gap in batches:
        offset += gap
        log += encode_batch(content, base_offset=offset, codec=codec, extra_attributes=attributes)
        offset += len(content)
    return bytes(log), offset


@settings(deadline=None)
@given(batches, st.data())
def test_arrow_decoding_agrees_with_the_plain_codec(content, draw):
    log, last = log_of(content)
    start = draw.draw(st.integers(0, last))
    end = draw.draw(st.integers(start, last + 5))
    found = list(decode_batches(log, iter_headers(log), start=start, end=end, with_headers=True))
    rows = [
        row
        for columns in found
        for row in zip(
            columns.keys.to_pylist(),
            columns.values.to_pylist(),
            columns.timestamps_ms.tolist(),
            columns.offsets.tolist(),
            columns.headers.to_pylist(),
            columns.timestamp_types.tolist(),
            strict=True,
        )
    ]
    expected = []
    for position, header in iter_headers(log):
        kind = 1 if header.attributes & LOG_APPEND_TIME else 0
        for record in decode_batch(log, position):
            names = [{"key": name, "value": value} for name, value in record.headers] or None
            row = (record.key, record.value, record.timestamp, record.offset, names, kind)
            if start <= record.offset < end:
                expected.append(row)
    assert rows == expected


@settings(deadline=None)
@given(st.lists(records, min_size=1, max_size=20), st.data())
def test_damaged_records_are_refused_or_decoded_but_never_crash(content, draw):
    """A wrong byte with a right CRC: what a broken producer could send."""
    from crc32c import crc32c

    batch = bytearray(encode_batch(content))
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(57, len(batch) - 1))
        batch[at] = draw.draw(st.integers(0, 255))
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    try:
        for columns in decode_batches(
            bytes(batch), iter_headers(batch), start=0, end=1 << 40, with_headers=True
        ):
            columns.keys.validate(full=True)
            columns.values.validate(full=True)
    except KafkaError:
        pass


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), written_records), max_size=60))
def test_accumulated_batches_keep_order_with_gapless_sequences(rows):
    accumulator = BatchAccumulator(ProducerIdentity(ProducerId(9), ProducerEpoch(3)))
    closed = []
    for number, record in rows:
        row = (record.timestamp, record.key, record.value, list(record.headers))
        closed += accumulator.add(Partition("t", number), [row])
    closed += accumulator.close_all()
    assert accumulator.close_all() == []
    for number in range(3):
        sequence, found = 0, []
        for batch in closed:
            if batch.partition.partition != number:
                continue
            ((_, header),) = iter_headers(batch.records)
            assert crc_is_valid(batch.records, header)
            assert header.is_transactional
            assert (header.producer_id, header.producer_epoch) == (9, 3)
            assert header.base_sequence == batch.base_sequence == sequence
            assert header.record_count == batch.record_count
            assert header.last_sequence == batch.last_sequence
            sequence += batch.record_count
            found += [(r.key, r.value, r.timestamp, r.headers) for r in decode_batch(batch.records)]
        assert found == [
            (r.key, r.value, r.timestamp, r.headers) for where, r in rows if where == number
        ]


@settings(deadline=None)
@given(st.lists(st.none() | st.binary(max_size=40), max_size=30), st.integers(0, 5))
def test_murmur2_of_a_column_agrees_with_one_key_at_a_time(keys, skipped):
    column = pa.array(keys, pa.binary())[skipped:]
    for key, value in zip(column.to_pylist(), murmur2(column).tolist(), strict=True):
        if key is not None:
            assert value == plain_murmur2(key)


def plain_murmur2(data):
    """The hash as one reads it in a book, for comparison."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    value = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        block = int.from_bytes(data[at : at + 4], "little") * m & mask
        block = (block ^ block >> 24) * m & mask
        value = value * m & mask ^ block
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * m & mask
    value = (value ^ value >> 13) * m & mask
    value ^= value >> 15
    return value - 2**32 if value & 2**31 else value


steps = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["data", "plain", "commit", "abort"])), max_size=40
)


@settings(deadline=None)
@given(steps, st.data())
def test_visibility_agrees_with_a_model_that_knows_the_whole_log(steps, draw):
    """The model asks, for each data batch, which marker ends its transaction; the code has the aborted list only."""
    log, offset = bytearray(), 0
    batches: list[tuple[int, int, str]] = []
    for pid, kind in steps:
        record = Record(None, b"v", 0)
        match kind:
            case "data":
                log += encode_batch(
                    [record],
                    base_offset=offset,
                    producer_id=pid,
                    producer_epoch=0,
                    base_sequence=0,
                    is_transactional=True,
                )
            case "plain":
                log += encode_batch([record], base_offset=offset, producer_id=-1)
            case _:
                outcome = MarkerType.COMMIT if kind == "commit" else MarkerType.ABORT
                log += encode_marker(
                    Marker(outcome, 0),
                    producer_id=pid,
                    producer_epoch=0,
                    timestamp=0,
                    base_offset=offset,
                )
        batches.append((offset, pid, kind))
        offset += 1
    outcomes, aborted = decided(batches)
    stable = min((o for o in outcomes if outcomes[o] == "open"), default=offset)
    start = draw.draw(st.integers(0, stable))
    seen = bytes(log)
    listed = [
        AbortedTransaction(pid, first)
        for pid, first, last in aborted
        if last >= start and first < stable
    ]
    positions = {header.base_offset: position for position, header in iter_headers(seen)}
    part = seen[positions[start] : positions.get(stable, len(seen))] if start in positions else b""
    visible = [s.header.base_offset for s in sight_batches(part, listed) if s.is_visible]
    assert visible == [
        at
        for at, _, kind in batches
        if start <= at < stable and (kind == "plain" or outcomes.get(at) == "commit")
    ]


def decided(batches):
    """(data offset → commit, abort or open; the aborted transactions as (pid, first, marker offset))."""
    outcomes: dict[int, str] = {}
    open_offsets: dict[int, list[int]] = {}
    aborted = []
    for offset, pid, kind in batches:
        if kind == "data":
            outcomes[offset] = "open"
            open_offsets.setdefault(pid, []).append(offset)
        elif kind in ("commit", "abort"):
            offsets = open_offsets.pop(pid, [])
            outcomes.update(dict.fromkeys(offsets, kind))
            if offsets and kind == "abort":
                aborted.append((pid, offsets[0], offset))
    return outcomes, aborted
