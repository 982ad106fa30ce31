"""The deep check of a producer's batch (facts 3, 4): what is inside must be what the header says."""

import struct

import pytest
from crc32c import crc32c

from oncelog.errors import ErrorCode, KafkaError, RecordsRefused
from oncelog.record.batch import HEADER_BYTES, Codec, read_single_batch
from oncelog.record.check import CheckRules, check_producer_batch
from oncelog.record.records import Record, encode_batch


def checked(batch, **rules):
    """The error of this batch, None if it is accepted. Its CRC is made right first, as a broken client would."""
    batch = bytearray(batch)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    batch = bytes(batch)
    try:
        check_producer_batch(batch, read_single_batch(batch, 1 << 24), CheckRules(**rules))
    except KafkaError as error:
        return error.error_code
    return None


def records(count=3, key=b"k", value=b"v", timestamp=1000, headers=()):
    return [Record(key, value, timestamp + index, headers=headers) for index in range(count)]


def patched(batch, position, layout, value):
    struct.pack_into(layout, batch, position, value)
    return batch


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("count", [1, 3, 2000])
def test_sound_batches_pass_in_every_codec(codec, count):
    assert checked(encode_batch(records(count), codec=codec)) is None
    assert (
        checked(encode_batch(records(count, headers=(("h", b"\xff"), ("n", None))), codec=codec))
        is None
    )
    assert checked(encode_batch(records(count, key=None, value=None), codec=codec)) is None


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compacted_topic_needs_keys_in_every_codec(codec):
    batch = encode_batch(records(20, key=None), codec=codec)
    assert checked(batch, is_compacted=True) is ErrorCode.INVALID_RECORD


def test_timestamps_are_bounded_on_both_sides():
    batch = encode_batch(records(3, timestamp=1000))
    assert checked(batch, timestamp_min=1000, timestamp_max=1002) is None
    assert checked(batch, timestamp_min=1001) is ErrorCode.INVALID_TIMESTAMP
    assert checked(batch, timestamp_max=1001) is ErrorCode.INVALID_TIMESTAMP
    assert checked(encode_batch([Record(b"k", b"v", -1)]), timestamp_min=5) is None, "-1 means none"


HEADERS = [
    ("count too small", 57, ">i", 2, ErrorCode.INVALID_RECORD),
    ("count too large", 57, ">i", 4, ErrorCode.INVALID_RECORD),
    ("count absurd", 57, ">i", 2**31 - 1, ErrorCode.INVALID_RECORD),
    ("count negative", 57, ">i", -1, ErrorCode.INVALID_RECORD),
    ("last delta", 23, ">i", 5, ErrorCode.INVALID_RECORD),
    ("control", 21, ">h", 0x20, ErrorCode.INVALID_RECORD),
    ("log append time", 21, ">h", 0x08, ErrorCode.INVALID_TIMESTAMP),
    ("transactional without a producer", 21, ">h", 0x10, ErrorCode.INVALID_RECORD),
    ("producer without epoch and sequence", 43, ">q", 7, ErrorCode.INVALID_RECORD),
    ("codec that nobody knows", 21, ">h", 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ("gzip that is none", 21, ">h", 1, ErrorCode.CORRUPT_MESSAGE),
    ("first record's length", HEADER_BYTES, ">B", 0x7E, ErrorCode.CORRUPT_MESSAGE),
    ("first record's offset delta", HEADER_BYTES + 3, ">B", 4, ErrorCode.INVALID_RECORD),
    ("key length beyond the end", HEADER_BYTES + 4, ">B", 0x7E, ErrorCode.CORRUPT_MESSAGE),
    ("attributes of two bytes", HEADER_BYTES + 1, ">B", 0x80, ErrorCode.INVALID_RECORD),
    ("varint that never ends", HEADER_BYTES + 2, ">Q", 2**64 - 1, ErrorCode.CORRUPT_MESSAGE),
]


@pytest.mark.parametrize(
    ("position", "layout", "value", "code"),
    [row[1:] for row in HEADERS],
    ids=[row[0] for row in HEADERS],
)
def test_a_lie_is_found(position, layout, value, code):
    assert checked(patched(encode_batch(records(3)), position, layout, value)) is code


def test_bytes_behind_the_last_record_are_found():
    batch = encode_batch(records(3)) + b"\0"
    assert checked(patched(batch, 8, ">i", len(batch) - 12)) is ErrorCode.CORRUPT_MESSAGE


def test_a_count_that_also_lies_in_the_last_delta_is_found():
    batch = encode_batch(records(9))
    for count in (8, 10):
        patched(batch, 57, ">i", count)
        patched(batch, 23, ">i", count - 1)
        assert checked(batch) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


def test_a_small_frame_that_grows_huge_is_refused():
    batch = encode_batch([Record(b"k", b"\0" * (130 << 20), 0)], codec=Codec.ZSTD)
    assert len(batch) < 1 << 20
    assert checked(batch) is ErrorCode.MESSAGE_TOO_LARGE


def refusal(batch, **rules):
    batch = bytes(batch)
    with pytest.raises(RecordsRefused) as info:
        check_producer_batch(batch, read_single_batch(batch, 1 << 24), CheckRules(**rules))
    return info.value


def test_each_bad_record_is_named_with_its_index():
    """KIP-467. A bad timestamp decides the batch's code; a missing key comes first for its own record."""
    batch = encode_batch(
        [
            Record(b"k", b"v", 1000),
            Record(None, b"v", 1000),
            Record(b"k", b"v", 1000),
            Record(None, b"v", 9000),
        ]
    )
    error = refusal(batch, is_compacted=True)
    assert error.error_code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert all("has no key" in message for _, message in error.record_errors)
    assert error.message.startswith("2 of 4 records are refused")
    error = refusal(batch, timestamp_max=5000)
    assert error.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [3]
    mixed = encode_batch([Record(None, b"v", 1000), Record(b"k", b"v", 9000)])
    error = refusal(mixed, is_compacted=True, timestamp_max=5000)
    assert error.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [0, 1]


def test_an_answer_names_a_bounded_number_of_records():
    error = refusal(encode_batch(records(1500, key=None)), is_compacted=True)
    assert len(error.record_errors) == 1000
    assert error.message.startswith("1500 of 1500 records are refused")
