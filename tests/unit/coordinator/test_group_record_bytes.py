"""The bytes of `__consumer_offsets` (facts 5.2), written and read."""

import pytest

from oncelog.ids import Partition
from oncelog_coordinator.core.group_records import (
    GroupChanged,
    GroupTombstone,
    MalformedGroupRecord,
    OffsetCommitted,
    OffsetTombstone,
    decode_group_record,
    encode_group_record,
)
from oncelog_coordinator.core.group_state import Group, GroupState, Member

OFFSET = OffsetCommitted("g", Partition("t", 7), 42, 3, "m", 1_700_000_000_000)
OFFSET_KEY = "00010001670001740000000" + "7"
OFFSET_VALUE = "0003000000000000002a00000003" + "00016d" + "0000018bcfe56800"
GROUP = Group(
    "g",
    GroupState.STABLE,
    5,
    "consumer",
    "range",
    "m",
    1_700_000_000_000,
    {"m": Member("m", None, "c", "/h", 10, 20, (("range", b"s"),), b"a")},
)
GROUP_VALUE = (
    "0003" + "0008636f6e73756d6572" + "00000005" + "000572616e6765" + "00016d" + "0000018bcfe56800"
    "00000001" + "00016d" + "ffff" + "000163" + "00022f68" + "00000014" + "0000000a"
    "0000000173" + "0000000161"
)


def test_an_offset_is_written_as_kafka_writes_version_3():
    key, value = encode_group_record(OFFSET)
    assert (key.hex(), value.hex()) == (OFFSET_KEY, OFFSET_VALUE)
    assert decode_group_record(key, value) == OFFSET


def test_a_group_is_written_as_kafka_writes_version_3():
    key, value = encode_group_record(GroupChanged(GROUP))
    assert (key.hex(), value.hex()) == ("0002000167", GROUP_VALUE)
    assert decode_group_record(key, value) == GroupChanged(GROUP)


@pytest.mark.parametrize("record", [OffsetTombstone("g", Partition("t", 7)), GroupTombstone("g")])
def test_tombstones_have_a_key_only(record):
    key, value = encode_group_record(record)
    assert value is None
    assert decode_group_record(key, None) == record


@pytest.mark.parametrize(
    ("value", "leader_epoch", "expires"),
    [
        ("0000000000000000002a" + "00016d" + "0000018bcfe56800", -1, -1),
        ("0001000000000000002a" + "00016d" + "0000018bcfe56800" + "0000000000000009", -1, 9),
        ("0002000000000000002a" + "00016d" + "0000018bcfe56800", -1, -1),
        ("0004000000000000002a00000003" + "026d" + "0000018bcfe56800" + "00", 3, -1),
    ],
)
def test_offsets_of_other_versions_are_read(value, leader_epoch, expires):
    read = decode_group_record(bytes.fromhex(OFFSET_KEY), bytes.fromhex(value))
    assert (read.offset, read.metadata, read.commit_timestamp) == (42, "m", 1_700_000_000_000)
    assert (read.leader_epoch, read.expire_timestamp) == (leader_epoch, expires)


def test_keys_and_values_of_the_future_are_skipped():
    assert decode_group_record(bytes.fromhex("0009" + "000167"), b"\0\0") is None
    assert decode_group_record(bytes.fromhex("0003" + "000167"), b"\0\1") is None
    assert decode_group_record(bytes.fromhex(OFFSET_KEY), b"\0\x09") is None
    assert decode_group_record(bytes.fromhex("0002000167"), b"\0\x09") is None


@pytest.mark.parametrize("cut", range(2, len(GROUP_VALUE) // 2))
def test_a_cut_group_is_damage(cut):
    with pytest.raises(MalformedGroupRecord):
        decode_group_record(bytes.fromhex("0002000167"), bytes.fromhex(GROUP_VALUE)[:cut])
