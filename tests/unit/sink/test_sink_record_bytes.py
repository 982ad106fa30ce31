"""The bytes of the five record types: golden, so that a change of layout is a change of version."""

from dataclasses import replace

import pytest
from tests.worlds.sink.stored_sinks import ATTEMPT, BATCH, BRANCH, COMPLETE, DECIDE, GOLDEN, HEADER

from oncelog.errors import OncelogError
from oncelog_coordinator.core.sink_records import (
    UNKNOWN,
    decode_sink_record,
    encode_sink_record,
)

IDS = [f"{type(record).__name__}-{key[:4]}" for record, key, _ in GOLDEN]


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN, ids=IDS)
def test_bytes_are_golden(record, key, value):
    wanted = (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert encode_sink_record(record) == wanted
    assert decode_sink_record(*wanted) == record


@pytest.mark.parametrize(
    ("record", "field"),
    [
        (HEADER, "opened_time_ms"),
        (BRANCH, "row_checksum"),
        (DECIDE, "row_checksum"),
        (COMPLETE, "batches"),
    ],
)
def test_version_0_is_read_and_says_what_it_does_not_know(record, field):
    key, value = encode_sink_record(record)
    old = replace(record, **{field: UNKNOWN})
    if record is COMPLETE:
        old = replace(record, batches=(replace(BATCH, row_checksum=UNKNOWN),))
    assert decode_sink_record(key, b"\x00\x00" + value[2:-8]) == old


@pytest.mark.parametrize("record", [HEADER, ATTEMPT, BRANCH, DECIDE, COMPLETE])
@pytest.mark.parametrize("version", [b"\x00\x02", b"\xff\xff"])
def test_unknown_version_is_skipped(record, version):
    key, value = encode_sink_record(record)
    assert decode_sink_record(key, version + value[2:]) is None
    assert decode_sink_record(key, version) is None


@pytest.mark.parametrize("key", ["", "00", "00000003706179", "00690003706179", "0063"])
def test_key_of_another_type_is_skipped(key):
    assert decode_sink_record(bytes.fromhex(key), b"anything") is None
    assert decode_sink_record(bytes.fromhex(key), None) is None


@pytest.mark.parametrize("record", [HEADER, ATTEMPT, BRANCH, DECIDE, COMPLETE])
def test_cut_or_overlong_bytes_are_an_error_with_a_name(record):
    key, value = encode_sink_record(record)
    for length in range(len(value)):
        with pytest.raises(OncelogError, match=r"record of __transaction_state is damaged"):
            decode_sink_record(key, value[:length])
    for length in range(2, len(key)):
        with pytest.raises(OncelogError):
            decode_sink_record(key[:length], value)
    with pytest.raises(OncelogError, match="too many"):
        decode_sink_record(key, value + b"\x00")


def test_absurd_array_length_is_an_error_and_not_a_long_loop():
    key, value = encode_sink_record(ATTEMPT)
    key = b"\x00\x68" + key[2:7]
    value = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x7f\xff\xff\xff"
    with pytest.raises(OncelogError, match="array of 2147483647 elements"):
        decode_sink_record(key, value)
