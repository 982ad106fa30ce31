"""The bytes of the five record types: golden, so that a change of layout is a change of version."""

from dataclasses import replace

import pytest

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog_coordinator.core.sink_records import (
    UNKNOWN,
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

NONCE = bytes(range(16))
NONCE_HEX = NONCE.hex()

HEADER = SinkHeader("pay", 7, 1, "q2", "r3", ("r1", "r2"), ("q1",), 1_700_000_000_000)
ATTEMPT = AttemptOpen("pay", NONCE, 7, 1_700_000_000_000, 900_000)
BRANCH = Branch(
    sink="pay",
    nonce=NONCE,
    producer_id=4000,
    producer_epoch=0,
    query_generation=1,
    batch_id=12,
    task_partition=3,
    task_attempt_id=45,
    joined_time_ms=1_700_000_000_000,
    sealed_time_ms=-1,
    row_count=10,
    crc32c=0xDEADBEEF,
    partitions=(Partition("a", 0), Partition("a", 2), Partition("b", 1)),
    row_checksum=0x7EDCBA9876543210,
)
DECIDE = Decide(
    sink="pay",
    nonce=NONCE,
    outcome=Outcome.COMMIT,
    reason="committed",
    sink_epoch=7,
    query_generation=1,
    batch_id=12,
    row_count=10,
    crc32c=0xDEADBEEF,
    decided_time_ms=1_700_000_000_000,
    winners=(4000, 4001),
    row_checksum=0x7EDCBA9876543210,
)
BATCH = CommittedBatch(12, NONCE, 2, 10, 0xDEADBEEF, 1_700_000_000_000, 0x7EDCBA9876543210)
COMPLETE = Complete("pay", 1, (BATCH,))

GOLDEN = [
    (
        HEADER,
        "00640003706179",
        "0001" "0000000000000007" "00000001" "00027132" "00027233"
        "00000002" "00027231" "00027232" "00000001" "00027131" "0000018bcfe56800",
    ),
    (
        ATTEMPT,
        "00650003706179" + NONCE_HEX,
        "0000" "0000000000000007" "0000018bcfe56800" "00000000000dbba0",
    ),
    (
        BRANCH,
        "00660003706179" + NONCE_HEX + "0000000000000fa0",
        "0001" "0000" "00000001" "000000000000000c" "00000003" "000000000000002d"
        "0000018bcfe56800" "ffffffffffffffff" "000000000000000a" "deadbeef"
        "00000002" "000161" "00000002" "00000000" "00000002" "000162" "00000001" "00000001"
        "7edcba9876543210",
    ),
    (
        DECIDE,
        "00670003706179" + NONCE_HEX,
        "0001" "0001" "0009636f6d6d6974746564" "0000000000000007" "00000001"
        "000000000000000c" "000000000000000a" "deadbeef" "0000018bcfe56800"
        "00000002" "0000000000000fa0" "0000000000000fa1" "7edcba9876543210",
    ),
    (
        COMPLETE,
        "00680003706179",
        "0001" "00000001" "00000001" "000000000000000c" + NONCE_HEX + "00000002"
        "000000000000000a" "deadbeef" "0000018bcfe56800" "7edcba9876543210",
    ),
    (Tombstone(SinkRecordType.SINK, "pay"), "00640003706179", None),
    (Tombstone(SinkRecordType.DECIDE, "pay", NONCE), "00670003706179" + NONCE_HEX, None),
    (
        Tombstone(SinkRecordType.BRANCH, "pay", NONCE, 4000),
        "00660003706179" + NONCE_HEX + "0000000000000fa0",
        None,
    ),
]  # fmt: skip
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
