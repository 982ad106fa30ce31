"""Records as JSON: round trips, and refusal of what only a newer version can have written."""

import json

import pytest

from oncelog.errors import OncelogError
from oncelog_controller.core.records import (
    NodeRegistered,
    TopicCreated,
    decode_record,
    encode_record,
)


def test_a_record_is_its_type_and_a_json_object_of_its_fields():
    record = TopicCreated("t", "ab" * 16, False, {"retention.ms": "1"}, ((1, 2), (2, 1)))
    record_type, body = encode_record(record)
    assert record_type == "TopicCreated"
    assert json.loads(body)["assignment"] == [[1, 2], [2, 1]]
    assert decode_record(record_type, body) == record


def test_a_field_added_with_a_default_is_read_from_old_records():
    body = '{"node_id":1,"node_epoch":2,"incarnation_id":"a","roles":["storage"]}'
    assert decode_record("NodeRegistered", body) == NodeRegistered(1, 2, "a", ("storage",))


@pytest.mark.parametrize(
    ("record_type", "body"),
    [
        ("NodeBlessed", "{}"),
        ("ClusterCreated", '{"cluster_id":"x","shape":"round"}'),
        ("ClusterCreated", "{}"),
        ("ClusterCreated", "not json"),
        ("ClusterCreated", "[1]"),
    ],
)
def test_unknown_or_damaged_records_are_refused_in_one_line(record_type, body):
    with pytest.raises(OncelogError, match=record_type) as caught:
        decode_record(record_type, body)
    assert "\n" not in str(caught.value)
