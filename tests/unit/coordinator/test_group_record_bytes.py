"""The bytes of `__consumer_offsets` (facts 5.2; KIP-848), written and read."""

import pytest
from tests.worlds.coordinator.stored_groups import GROUP, OFFSET, OFFSET_OF_TOPIC

from oncelog.ids import Partition
from oncelog_coordinator.core.consumer_group import (
    ClassicMember,
    Current,
    GroupEpoch,
    MemberAssigned,
    MemberState,
    MemberSubscribed,
    PatternResolved,
    PatternTopics,
    Subscription,
    TargetAssigned,
    TargetEpoch,
)
from oncelog_coordinator.core.group_records import (
    GroupChanged,
    GroupTombstone,
    MalformedGroupRecord,
    OffsetTombstone,
    decode_group_record,
    encode_group_record,
)

OFFSET_KEY = "00010001670001740000000" + "7"
OFFSET_VALUE = "0003000000000000002a00000003" + "00016d" + "0000018bcfe56800"
OFFSET_OF_TOPIC_VALUE = (
    "0004000000000000002a00000003" + "026d" + "0000018bcfe56800" + "010010" + "74" * 16
)
GROUP_VALUE = (
    "0003" + "0008636f6e73756d6572" + "00000005" + "000572616e6765" + "00016d" + "0000018bcfe56800"
    "00000001" + "00016d" + "ffff" + "000163" + "00022f68" + "00000014" + "0000000a"
    "0000000173" + "0000000161"
)


SLOTS = frozenset({(b"t" * 16, 1), (b"t" * 16, 2)})
SLOT_BYTES = "02" + "74" * 16 + "03" + "00000001" + "00000002" + "00"
RECORDS = [
    (OFFSET, OFFSET_KEY, OFFSET_VALUE),
    (OFFSET_OF_TOPIC, OFFSET_KEY, OFFSET_OF_TOPIC_VALUE),
    (GroupChanged(GROUP), "0002000167", GROUP_VALUE),
    (GroupEpoch("g", 7, 9), "0003000167", "0000" + "00000007" + "0100080000000000000009"),
    (
        MemberSubscribed("g", "m", Subscription(None, "r", "c", "/h", ("t",), 5, "range")),
        "0005000167" + "00016d",
        "0000"
        + "00"
        + "0272"
        + "0263"
        + "032f68"
        + "020274"
        + "00"
        + "00000005"
        + "0672616e6765"
        + "00",
    ),
    (TargetEpoch("g", 7), "0006000167", "0000" + "00000007" + "00"),
    (TargetAssigned("g", "m", SLOTS), "0007000167" + "00016d", "0000" + SLOT_BYTES + "00"),
    (
        MemberAssigned(
            "g", "m", Current(7, 6, MemberState.UNREVOKED_PARTITIONS, frozenset(), SLOTS)
        ),
        "0008000167" + "00016d",
        "0000" + "00000007" + "00000006" + "01" + "01" + SLOT_BYTES + "00",
    ),
    (
        MemberSubscribed("g", "m", Subscription(None, None, "c", "/h", (), 5, None, "t.*")),
        "0005000167" + "00016d",
        "0000" + "0000" + "0263" + "032f68" + "01" + "04742e2a" + "00000005" + "00" + "00",
    ),
    (
        PatternResolved("g", "t.*", PatternTopics(("t1", "t2"), 7, 1_000)),
        "0010000167" + "0003742e2a",
        "0000" + "03" + "037431" + "037432" + "0000000000000007" + "00000000000003e8" + "00",
    ),
]
GONE = [
    OffsetTombstone("g", Partition("t", 7)),
    GroupTombstone("g"),
    GroupEpoch("g", None),
    MemberSubscribed("g", "m", None),
    TargetEpoch("g", None),
    TargetAssigned("g", "m", None),
    MemberAssigned("g", "m", None),
    PatternResolved("g", "t.*", None),
]


@pytest.mark.parametrize(("record", "key", "value"), RECORDS, ids=lambda each: type(each).__name__)
def test_records_are_written_as_kafka_writes_them(record, key, value):
    written = encode_group_record(record)
    assert (written[0].hex(), written[1].hex()) == (key, value)
    assert decode_group_record(*written) == record


@pytest.mark.parametrize("record", GONE, ids=lambda each: type(each).__name__)
def test_tombstones_are_read_again(record):
    written = encode_group_record(record)
    assert written[1] is None
    assert decode_group_record(*written) == record


@pytest.mark.parametrize(("record", "key", "value"), RECORDS, ids=lambda each: type(each).__name__)
def test_a_cut_or_overlong_record_is_damage(record, key, value):
    data = bytes.fromhex(value)
    for damaged in (*(data[:cut] for cut in range(2, len(data))), data + b"\0"):
        with pytest.raises(MalformedGroupRecord):
            decode_group_record(bytes.fromhex(key), damaged)


def test_assignment_epochs_that_kafka_writes_are_skipped():
    tagged = SLOT_BYTES[:-2] + "01" + "00" + "09" + "03" + "00000001" + "00000002"
    value = "0000" + "00000007" + "00000006" + "00" + tagged + "01" + "00"
    read = decode_group_record(bytes.fromhex("0008000167" + "00016d"), bytes.fromhex(value))
    assert read.current.assigned == SLOTS


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


def test_the_bytes_of_a_classic_member():
    """As Kafka's ConsumerGroupMemberMetadataValue has it: tag 0, a nullable structure."""
    said = Subscription(
        client_id="c",
        client_host="/h",
        topics=("t",),
        rebalance_timeout_ms=300_000,
        classic=ClassicMember(45_000, (("range", b"\1\2"),)),
    )
    key, value = encode_group_record(MemberSubscribed("g", "m", said))
    assert key.hex() == "0005" + "000167" + "00016d"
    classic = "01" + "0000afc8" + "02" + "06" + b"range".hex() + "03" + "0102" + "00" + "00"
    head = "0000" + "00" + "00" + "0263" + "032f68" + "02" + "0274" + "00" + "000493e0" + "00"
    assert value.hex() == head + "01" + "00" + f"{len(classic) // 2:02x}" + classic
    assert decode_group_record(key, value) == MemberSubscribed("g", "m", said)
    null = bytes.fromhex(head + "01" + "00" + "01" + "00")
    assert decode_group_record(key, null).subscription.classic is None
