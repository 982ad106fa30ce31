"""Records as JSON, and a journal that a newer controller wrote: after a rollback, and while a cluster is upgraded."""

import json

import pytest
from tests.worlds.controller.metadata_cases import Bench

from oncelog.errors import OncelogError
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.records import (
    NodeFenced,
    NodeRegistered,
    TopicCreated,
    decode_record,
    encode_record,
)

FENCED = NodeFenced(node_id=11, node_epoch=4)


def with_field(record, name, value):
    kind, body = encode_record(record)
    return kind, json.dumps({**json.loads(body), name: value})


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
def test_a_new_field_that_says_nothing_is_left_out(value):
    assert decode_record(*with_field(FENCED, "reason", value)) == FENCED


@pytest.mark.parametrize("value", [True, 7, "power", ["a"], {"a": 1}])
def test_a_new_field_that_says_something_is_refused_by_name(value):
    with pytest.raises(OncelogError, match=r"NodeFenced\.reason=.*newer oncelog"):
        decode_record(*with_field(FENCED, "reason", value))


def snapshot_of(bench, **changes):
    """As a newer controller would write it: `changes` by where they stand."""
    state = json.loads(json.dumps(bench.image.to_state()))
    for place, added in changes.items():
        where = {
            "image": state,
            "node": state["nodes"][0],
            "topic": state["topics"][0],
            "partition": state["topics"][0]["partitions"][0],
            "shard": state["shards"][0],
        }[place]
        where.update(added)
    return decode_record("Snapshot", json.dumps({"state": state}))


@pytest.fixture
def bench():
    bench = Bench()
    bench.register()
    bench.create("orders", (1,))
    return bench


PLACES = ["image", "node", "topic", "partition", "shard"]


@pytest.mark.parametrize("place", PLACES)
def test_a_snapshot_with_new_fields_that_say_nothing_is_restored(bench, place):
    image = ClusterImage()
    image.apply(bench.image.metadata_offset, snapshot_of(bench, **{place: {"mood": ""}}))
    assert image.to_state() == bench.image.to_state()


@pytest.mark.parametrize("place", PLACES)
def test_a_snapshot_with_meaningful_new_fields_is_refused(bench, place):
    with pytest.raises(OncelogError, match=r"mood='merry'.*newer oncelog"):
        ClusterImage().apply(1, snapshot_of(bench, **{place: {"mood": "merry"}}))


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
        ("ClusterCreated", "{}"),
        ("ClusterCreated", "not json"),
        ("ClusterCreated", "[1]"),
    ],
)
def test_unknown_or_damaged_records_are_refused_in_one_line(record_type, body):
    with pytest.raises(OncelogError, match=rf"{record_type}.*newer oncelog") as caught:
        decode_record(record_type, body)
    assert "\n" not in str(caught.value)
