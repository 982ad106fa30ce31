"""Records of sinks, each with its bytes as they are kept."""

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
