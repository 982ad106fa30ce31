"""`oncelog.record.walk`: what it finds sound is sound, and its two forms are one function."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.record_walks import COMPILED, from_source

from oncelog.errors import KafkaError
from oncelog.record.batch import HEADER_BYTES, read_header
from oncelog.record.check import CheckRules, _read
from oncelog.record.records import Record, encode_batch

SOURCE = from_source()
TEXTS = st.text(max_size=5)
BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(TEXTS, BYTES), max_size=3).map(tuple)


def lists_of(timestamps):
    return st.lists(
        st.builds(Record, BYTES, BYTES, timestamps, headers=HEADERS), min_size=1, max_size=20
    )


RECORDS = st.one_of(
    lists_of(st.integers(-1, 2**41)),
    # Each width of a difference is as likely as another.
    lists_of(st.builds(lambda bits, more: 2**bits + more, st.integers(0, 41), st.integers(-1, 1))),
    # One of these alone needs a closer look.
    lists_of(st.integers(-1, 2**41) | st.sampled_from([2**61, 2**62])),
)
RULES = st.sampled_from(
    [CheckRules(), CheckRules(is_compacted=True), CheckRules(timestamp_min=0, timestamp_max=2**40)]
)


def walked(form, batch, rules):
    header = read_header(batch)
    bounds = rules.timestamp_min, rules.timestamp_max, rules.is_compacted
    counted = header.record_count, header.base_timestamp
    return form.largest_timestamp(batch, HEADER_BYTES, len(batch), *counted, *bounds)


def read(batch, rules):
    try:
        return _read(batch, read_header(batch), rules, None)
    except KafkaError:
        return None


@given(RECORDS, RULES)
def test_it_finds_what_the_reader_finds(records, rules):
    batch = bytes(encode_batch(records))
    found = walked(SOURCE, batch, rules)
    if found != SOURCE.LOOK_CLOSER:
        assert found == read(batch, rules)
    elif all(0 <= one.timestamp < 2**40 and one.key is not None for one in records):
        raise AssertionError("a batch like every other needs no closer look")


@given(RECORDS, RULES, st.data())
def test_no_batch_with_a_changed_byte_is_sound_to_it_alone(records, rules, data):
    batch = bytearray(encode_batch(records))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    found = walked(SOURCE, bytes(batch), rules)
    if found != SOURCE.LOOK_CLOSER:
        assert found == read(bytes(batch), rules)


@pytest.mark.parametrize("compiled", [COMPILED])
@given(body=st.binary(max_size=60), count=st.integers(0, 4), base=st.integers(-(2**63), 2**63 - 1))
@example(body=b"\x0e\0\0\0\1\1\0", count=1, base=2**60)
@example(body=b"\x0e\0\0\0\1\1\0" * 2, count=1, base=0)
@example(body=b"\x80" * 20, count=1, base=0)
@example(body=b"", count=1, base=0)
def test_both_forms_answer_alike(compiled, body, count, base):
    asked = (body, 0, len(body), count, base, -(2**63), 2**63 - 1, False)
    assert compiled.largest_timestamp(*asked) == SOURCE.largest_timestamp(*asked)


@pytest.mark.parametrize("compiled", [COMPILED])
@given(RECORDS, RULES, st.data())
def test_both_forms_answer_alike_for_batches(compiled, records, rules, data):
    batch = bytearray(encode_batch(records))
    if data.draw(st.booleans()):
        at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    assert walked(compiled, bytes(batch), rules) == walked(SOURCE, bytes(batch), rules)
