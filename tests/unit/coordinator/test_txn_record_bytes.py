"""`__transaction_state` byte for byte (facts 5.1)."""

import pytest
from tests.worlds.coordinator.stored_transactions import EMPTY, ONGOING

from oncelog.ids import Partition
from oncelog_coordinator.core.txn_records import (
    MalformedRecord,
    decode_record,
    encode_key,
    encode_record,
    encode_value,
    value_bytes_estimate,
)
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState, TxnTombstone

EMPTY_V0 = "00000000000000000fa000030000ea6000ffffffff0000018bcfe56800ffffffffffffffff"
ONGOING_V1 = (
    "00010000000000000fa000030000ea6001020274030000000000000001000000018bcfe568000000018bcfe568"
    "000200080000000000000fa002020002"
)


def test_golden_key():
    assert encode_key("foo").hex() == "00000003666f6f"


def test_golden_values():
    assert encode_value(EMPTY, 0).hex() == EMPTY_V0
    assert encode_value(ONGOING, 1).hex() == ONGOING_V1


def test_golden_values_are_read_back():
    assert decode_record(encode_key("foo"), bytes.fromhex(EMPTY_V0)) == EMPTY
    assert decode_record(encode_key("foo"), bytes.fromhex(ONGOING_V1)) == ONGOING


def test_a_tombstone_is_a_null_value():
    assert encode_record(TxnTombstone("foo"), 1) == (encode_key("foo"), None)
    assert decode_record(encode_key("foo"), None) == TxnTombstone("foo")


def test_empty_has_null_partitions_and_other_states_an_array():
    completed = TxnMetadata("foo", 1, 0, TxnState.COMPLETE_COMMIT, 1, (), 1, 1)
    for version, null, empty in ((0, b"\xff\xff\xff\xff", b"\0\0\0\0"), (1, b"\0", b"\1")):
        assert encode_value(EMPTY, version)[17:][: len(null)] == null
        assert encode_value(completed, version)[17:][: len(empty)] == empty


def test_empty_with_partitions_is_our_bug():
    with pytest.raises(AssertionError):
        encode_value(TxnMetadata("a", 1, 0, TxnState.EMPTY, 1, (Partition("t", 0),), -1, 1), 1)


def test_the_last_epoch_is_kept_from_version_1_on():
    txn = TxnMetadata("a", 1, 5, TxnState.COMPLETE_COMMIT, 1, (), 1, 1, last_producer_epoch=4)
    assert encode_value(txn, 1).endswith(bytes.fromhex("0104020004"))
    assert [
        decode_record(*encode_record(txn, version)).last_producer_epoch for version in (0, 1)
    ] == [
        -1,
        4,
    ]


def test_version_0_forgets_the_tagged_fields():
    txn = TxnMetadata("a", 1, 5, TxnState.PREPARE_ABORT, 1, (), 1, 1, 1, 9, 2)
    read = decode_record(*encode_record(txn, 0))
    assert (read.previous_producer_id, read.next_producer_id, read.client_transaction_version) == (
        -1,
        -1,
        0,
    )


def test_unknown_tagged_fields_are_ignored():
    value = bytearray(bytes.fromhex(ONGOING_V1))
    tags_at = len(value) - 15
    assert value[tags_at] == 2
    value[tags_at] = 4
    value += bytes.fromhex("08020005") + bytes.fromhex("090474726163")
    assert decode_record(encode_key("foo"), bytes(value)) == ONGOING


def test_unknown_types_and_versions_are_skipped():
    assert decode_record(b"\x00\x01\x00\x01a", b"\x00\x00") is None
    assert decode_record(b"\x00\x64\x00\x01a", None) is None
    assert decode_record(encode_key("foo"), b"\x00\x02whatever") is None


@pytest.mark.parametrize("value", [EMPTY_V0, ONGOING_V1])
def test_a_cut_value_is_malformed_wherever_it_is_cut(value):
    whole = bytes.fromhex(value)
    for size in range(len(whole)):
        with pytest.raises(MalformedRecord):
            decode_record(encode_key("foo"), whole[:size])


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0\0\5ab", b"\0\0\xff\xff", b"\0\0\0\1\xff"])
def test_a_damaged_key_is_malformed(key):
    with pytest.raises(MalformedRecord):
        decode_record(key, None)


def test_the_estimate_is_an_upper_bound():
    topics = ["t", "orders", "größer", "x" * 249]
    for count in (0, 1, 300):
        partitions = tuple(Partition(topic, n) for topic in topics for n in range(count))
        txn = TxnMetadata("a", 1, 0, TxnState.ONGOING, 1, partitions, 1, 1, 1, 1, 2)
        for version in (0, 1):
            assert len(encode_value(txn, version)) <= value_bytes_estimate(partitions)
