"""The deep check of a producer's batch (facts 3, 4): what is inside must be what the header says."""

import struct

import pytest
from crc32c import crc32c
from tests.record_walks import FORMS, use

from oncelog.errors import ErrorCode, KafkaError, RecordsRefused
from oncelog.record.batch import HEADER_BYTES, LOG_APPEND_TIME, Codec, read_single_batch
from oncelog.record.bulk import records_of, uncompressed
from oncelog.record.check import CheckRules, check_producer_batch
from oncelog.record.codecs import compress
from oncelog.record.records import (
    Record,
    append_record,
    decode_batch,
    encode_batch,
    write_varint,
)


@pytest.fixture(params=FORMS, autouse=True)
def walk(request, monkeypatch):
    use(monkeypatch, request.param)
    return request.param


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
    struct.pack_into(layout, batch, position, *(value if isinstance(value, tuple) else (value,)))
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
    ("base offset", 0, ">q", 5, ErrorCode.INVALID_RECORD),
    ("base offset below 0", 0, ">q", -1, ErrorCode.INVALID_RECORD),
    ("transactional without a producer", 21, ">h", 0x10, ErrorCode.INVALID_RECORD),
    ("producer without sequence", 43, ">q", 7, ErrorCode.INVALID_RECORD),
    ("epoch below none", 43, ">qhi", (7, -2, 0), ErrorCode.INVALID_PRODUCER_EPOCH),
    ("codec that nobody knows", 21, ">h", 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ("gzip that is none", 21, ">h", 1, ErrorCode.INVALID_RECORD),
    ("first record's length", HEADER_BYTES, ">B", 0x7E, ErrorCode.INVALID_RECORD),
    ("first record's offset delta", HEADER_BYTES + 3, ">B", 4, ErrorCode.INVALID_RECORD),
    ("key length beyond the end", HEADER_BYTES + 4, ">B", 0x7E, ErrorCode.INVALID_RECORD),
    ("attributes of two bytes", HEADER_BYTES + 1, ">B", 0x80, ErrorCode.INVALID_RECORD),
    ("varint that never ends", HEADER_BYTES + 2, ">Q", 2**64 - 1, ErrorCode.INVALID_RECORD),
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
    assert checked(patched(batch, 8, ">i", len(batch) - 12)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", list(Codec))
def test_a_count_that_also_lies_in_the_last_delta_is_found(codec):
    """Not retriable: clients would send the same batch until their delivery time-out."""
    batch = encode_batch(records(9), codec=codec)
    for count in (8, 10):
        patched(batch, 57, ">i", count)
        patched(batch, 23, ">i", count - 1)
        assert checked(batch) is ErrorCode.INVALID_RECORD


def test_a_producer_may_have_no_epoch():
    batch = encode_batch(records(3), producer_id=7, producer_epoch=-1, base_sequence=0)
    assert checked(batch) is None


NUMBERS = ["length", "offset delta", "key", "value", "headers", "header's key", "header's value"]


def lengthened(number, size_bytes):
    """A batch of one record, one of whose numbers takes more bytes than it needs."""

    def varint(name, value):
        out = bytearray()
        write_varint(out, value)
        while name == number and len(out) < size_bytes:
            out[-1] |= 0x80
            out.append(0)
        return bytes(out)

    body = b"\0" + varint("timestamp delta", 0) + varint("offset delta", 0)
    body += varint("key", 1) + b"k" + varint("value", 1) + b"v" + varint("headers", 1)
    body += varint("header's key", 1) + b"h" + varint("header's value", -1)
    batch = encode_batch([Record(b"k", b"v", 1000)])[:HEADER_BYTES]
    batch += varint("length", len(body)) + body
    return patched(batch, 8, ">i", len(batch) - 12)


def test_a_null_is_any_number_below_0_of_five_bytes(walk):
    """As Kafka reads it. Who looks closely also finds that it is too long."""
    for null, code in ((-2, None), (-(2**31), None), (-(2**40), ErrorCode.INVALID_RECORD)):
        body = bytearray(b"\0\0\0")
        write_varint(body, null)
        batch = encode_batch([Record(b"k", b"v", 1000)])[:HEADER_BYTES]
        body += b"\2v\0"
        write_varint(batch, len(body))
        batch = patched(batch + body, 8, ">i", len(batch) + len(body) - 12)
        if walk is not None:
            assert checked(batch) is code


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_of_32_bits_takes_five_bytes_at_most(number):
    """Kafka's readers stop at a longer one, and never get past the batch."""
    assert checked(lengthened(number, 5)) is None
    for size_bytes in (6, 8, 9, 10):
        assert checked(lengthened(number, size_bytes)) is ErrorCode.INVALID_RECORD


def test_a_difference_of_timestamps_takes_ten_bytes_at_most():
    for size_bytes in (5, 6, 8, 9, 10):
        assert checked(lengthened("timestamp delta", size_bytes)) is None
    assert checked(lengthened("timestamp delta", 11)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", list(Codec))
def test_a_value_may_look_like_a_long_number(codec):
    batch = encode_batch(records(3, value=b"\xff" * 40, headers=(("h", b"\xff" * 9),)), codec=codec)
    assert checked(batch) is None


def test_others_run_while_megabytes_are_checked():
    """What is compiled keeps the interpreter's lock: a batch of 128 MB would stop all else for most of a second."""
    batch = bytes(encode_batch([Record(b"k", b"v" * (9 << 20), 1000)]))
    pauses = []
    header = read_single_batch(batch, 1 << 24)
    check_producer_batch(batch, header, CheckRules(), lambda: pauses.append(1))
    assert pauses


# Timestamps.

MAX_TIMESTAMP_AT = 35


def kept(batch, **rules):
    """(the batch as the log keeps it, the one that was sent)."""
    batch = bytearray(batch)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    sent = bytes(batch)
    return check_producer_batch(sent, read_single_batch(sent, 1 << 24), CheckRules(**rules)), sent


@pytest.mark.parametrize(
    "apart", [1, -1, 2**30, -(2**30), 2**31, 2**32, 2**34, 2**40, 2**48, 2**55]
)
def test_records_may_lie_far_apart_in_time(apart):
    """By weeks and more: the difference takes five bytes, and does not fit 32 bits."""
    first = 2**56
    batch = encode_batch([Record(b"k", b"v", first), Record(b"k", b"v", first + apart)])
    found, sent = kept(batch)
    assert found is sent
    late, early = max(first, first + apart), min(first, first + apart)
    assert checked(batch, timestamp_max=late - 1) is ErrorCode.INVALID_TIMESTAMP
    assert checked(batch, timestamp_min=early + 1) is ErrorCode.INVALID_TIMESTAMP
    assert checked(batch, timestamp_min=early, timestamp_max=late) is None


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("lie", [0, -1, -7, 999, 1001, 2**62])
def test_the_largest_timestamp_is_the_records(codec, lie):
    """KafkaJS sorts timestamps as text, and sarama before 1.44 leaves -1. Retention deletes by it."""
    truth = encode_batch([Record(b"k", b"v", at) for at in (1000, 998, 1002)], codec=codec)
    found, _ = kept(patched(bytearray(truth), MAX_TIMESTAMP_AT, ">q", lie))
    assert found == bytes(truth)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_true_header_is_kept_as_it_is(codec):
    found, sent = kept(encode_batch(records(3), codec=codec))
    assert found is sent


def test_records_without_timestamps_have_no_largest():
    batch = encode_batch([Record(b"k", b"v", -1), Record(b"k", b"v", -1)])
    found, _ = kept(patched(bytearray(batch), MAX_TIMESTAMP_AT, ">q", 5))
    assert found == bytes(batch)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_base_above_every_record_is_made_the_first_ones(codec):
    """A log's older batches are judged by their base, too."""
    batch = encode_batch(records(3), codec=codec, producer_id=7, producer_epoch=1, base_sequence=4)
    body = bytearray()
    for index, record in enumerate(records(3)):
        append_record(body, record, index, record.timestamp - 5000)
    moved = bytearray(batch[:HEADER_BYTES]) + compress(codec, body)
    patched(moved, 8, ">i", len(moved) - 12)
    found, _ = kept(patched(moved, 27, ">qq", (5000, 5000)))
    assert found == bytes(batch)


def test_a_batch_that_says_append_time_is_read_by_its_records():
    """Kafka takes it on a topic with CreateTime, and clears the bit."""
    truth = encode_batch(records(3))
    claims = patched(bytearray(truth), 21, ">h", LOG_APPEND_TIME)
    assert kept(claims)[0] == bytes(truth)
    assert kept(patched(claims, MAX_TIMESTAMP_AT, ">q", 5))[0] == bytes(truth)
    assert checked(claims, is_log_append_time=True) is ErrorCode.INVALID_TIMESTAMP
    assert checked(patched(claims, MAX_TIMESTAMP_AT, ">q", -1)) is ErrorCode.INVALID_TIMESTAMP


# Keys of headers.


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("name", [b"\xff\xfe", b"\xed\xa0\x80", b"caf\xe9", b"", b"\0"])
def test_the_key_of_a_header_may_be_any_bytes(codec, name):
    headers = (("sound", b"x"), (name.decode(errors="surrogateescape"), b"\xff"))
    made = [Record(b"k", b"v", 1000 + at, at, headers=headers[: at % 3]) for at in range(600)]
    batch = encode_batch(made, codec=codec)
    assert checked(batch) is None
    assert checked(patched(batch, MAX_TIMESTAMP_AT, ">q", 5)) is None
    assert list(decode_batch(batch)) == made
    read = [(one.offset, one.key, one.value) for one in records_of(uncompressed(batch))]
    assert read == [(one.offset, one.key, one.value) for one in made]
    assert checked(batch, timestamp_max=1500) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("count", [-1, 2, 1 << 20])
def test_a_wrong_count_of_headers_is_found(count):
    name = b"\xff".decode(errors="surrogateescape")
    body = bytearray()
    append_record(body, Record(b"k", b"v", 1000, headers=((name, b"x"),)), 0, 0)
    at = body.index(b"\x02\x02\xff")
    packed = bytearray()
    write_varint(packed, count)
    body[at : at + 1] = packed
    body[0] = (len(body) - 1) << 1
    batch = bytearray(encode_batch(records(1)))[:HEADER_BYTES] + body
    assert checked(patched(batch, 8, ">i", len(batch) - 12)) is ErrorCode.INVALID_RECORD


# What comes behind the batch.

WHOLE = bytes(encode_batch(records(1)))


def behind(size=0, length=0, magic=0):
    return (bytes(8) + struct.pack(">i", length) + bytes(4) + bytes([magic])).ljust(size, b"\0")


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (b"\0", None),
        (bytes(11), None),
        (behind(length=100)[:12], None),
        (behind(length=14)[:16], None),
        (behind(length=14), None),
        (behind(length=100, magic=2), None),
        (WHOLE[:-1], None),
        (bytes(12), ErrorCode.CORRUPT_MESSAGE),
        (b"\xff" * 17, ErrorCode.CORRUPT_MESSAGE),
        (behind(length=100, magic=3), ErrorCode.CORRUPT_MESSAGE),
        (behind(26, length=14), ErrorCode.INVALID_RECORD),
        (WHOLE, ErrorCode.INVALID_RECORD),
    ],
)
def test_bytes_behind_a_batch_are_none_of_it(more, code):
    """What Kafka 4.4 answered; where it takes the batch, it writes the batch alone."""
    if code is None:
        assert read_single_batch(WHOLE + more, 1 << 20) == read_single_batch(WHOLE, 1 << 20)
        return
    with pytest.raises(KafkaError) as refused:
        read_single_batch(WHOLE + more, 1 << 20)
    assert refused.value.error_code is code


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (WHOLE[:10], ErrorCode.INVALID_RECORD),
        (WHOLE[:16], ErrorCode.INVALID_RECORD),
        (WHOLE[:30], ErrorCode.INVALID_RECORD),
        (WHOLE[:-1], ErrorCode.INVALID_RECORD),
        (WHOLE[:8] + struct.pack(">i", 48) + WHOLE[12:60], ErrorCode.CORRUPT_MESSAGE),
        (WHOLE[:16] + b"\0" + WHOLE[17:], ErrorCode.INVALID_RECORD),
        (WHOLE[:16] + b"\1" + WHOLE[17:], ErrorCode.INVALID_RECORD),
        (WHOLE[:16] + b"\3" + WHOLE[17:], ErrorCode.CORRUPT_MESSAGE),
        (WHOLE[:16] + b"\xff" + WHOLE[17:], ErrorCode.CORRUPT_MESSAGE),
        (WHOLE[:17] + bytes(4) + WHOLE[21:], ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_what_is_no_batch_has_kafkas_code(sent, code):
    with pytest.raises(KafkaError) as refused:
        read_single_batch(sent, 1 << 20)
    assert refused.value.error_code is code


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
