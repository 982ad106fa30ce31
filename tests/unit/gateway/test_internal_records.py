"""Kafka's internal records by name, as our coordinator writes them."""

import json

import pytest
from tests.stored_records import stored

from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Partition
from oncelog.record.records import Record
from oncelog_coordinator.core.group_records import OffsetCommitted, OffsetTombstone
from oncelog_coordinator.core.group_records import encode_group_record as encoded
from oncelog_coordinator.core.txn_records import encode_key, encode_value
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState
from oncelog_gateway.core.internal_records import decoded


def transaction(state, partitions=()):
    return TxnMetadata("pay", 7, 3, state, 60_000, partitions, 11, 12)


@pytest.mark.parametrize("version", [0, 1])
def test_a_transaction_is_read_with_its_state(version):
    partitions = (Partition("orders", 0), Partition("orders", 2), Partition("paid", 1))
    value = encode_value(transaction(TxnState.ONGOING, partitions), version)
    found = decoded(TRANSACTION_STATE_TOPIC, Record(encode_key("pay"), value))
    assert found is not None
    assert (found["type"], found["transactional_id"], found["version"]) == (
        "transaction",
        "pay",
        version,
    )
    assert (found["state"], found["producer_id"], found["producer_epoch"]) == ("Ongoing", 7, 3)
    assert found["partitions"] == ["orders-0", "orders-2", "paid-1"]
    assert (found["start_ms"], found["last_update_ms"]) == (11, 12)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("state", list(TxnState))
def test_every_state_has_kafkas_name(version, state):
    value = encode_value(transaction(state), version)
    found = decoded(TRANSACTION_STATE_TOPIC, Record(encode_key("pay"), value))
    assert found is not None
    assert found["state"] == state.kafka_name
    assert found["partitions"] == []


def test_a_committed_offset_is_read():
    for topic_id in (b"", bytes(range(16))):
        written = OffsetCommitted("g", Partition("orders", 4), 99, 2, "note", 5, topic_id=topic_id)
        found = decoded(CONSUMER_OFFSETS_TOPIC, Record(*encoded(written)))
        assert found is not None
        assert (found["type"], found["group"], found["topic"]) == ("offset", "g", "orders")
        assert (found["partition"], found["offset"], found["metadata"]) == (4, 99, "note")
        if topic_id:
            assert found["topic_id"] == topic_id.hex()


def test_a_null_value_is_a_removal():
    tombstone = OffsetTombstone("g", Partition("orders", 4))
    found = decoded(CONSUMER_OFFSETS_TOPIC, Record(*encoded(tombstone)))
    assert found is not None
    assert found["removed"] is True
    removed = decoded(TRANSACTION_STATE_TOPIC, Record(encode_key("pay"), None))
    assert removed == {"type": "transaction", "transactional_id": "pay", "removed": True}


@pytest.mark.parametrize(
    ("topic", "key", "value", "expected"),
    [
        ("orders", encode_key("pay"), b"", None),
        (TRANSACTION_STATE_TOPIC, None, b"", None),
        (TRANSACTION_STATE_TOPIC, b"\0", b"", None),
        (TRANSACTION_STATE_TOPIC, encode_key("pay"), b"\0\0\1", None),
        (TRANSACTION_STATE_TOPIC, b"\0\x65", b"", {"type": "type 101"}),
        (
            TRANSACTION_STATE_TOPIC,
            encode_key("pay"),
            b"\0\x09",
            {"type": "transaction", "transactional_id": "pay"},
        ),
    ],
)
def test_what_is_not_understood_is_left_as_it_is(topic, key, value, expected):
    assert decoded(topic, Record(key, value)) == expected


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [one for one in stored() if one[0] in ("group", "transaction")],
)
def test_every_type_that_we_write_has_a_name(kind, name, key, value):
    topic = CONSUMER_OFFSETS_TOPIC if kind == "group" else TRANSACTION_STATE_TOPIC
    found = decoded(topic, Record(key, value))
    assert found is not None, name
    assert not found["type"].startswith("type ")
    assert ("group" in found) == (kind == "group")
    assert found.get("removed", False) == (value is None)
    json.dumps(found)
