"""A journal that a newer controller wrote, read by this one: after a rollback, and while a cluster is upgraded."""

import json

import pytest
from tests.unit.controller.metadata_cases import Bench

from oncelog.errors import OncelogError
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.records import NodeFenced, decode_record, encode_record

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


def test_a_new_kind_of_record_is_refused():
    with pytest.raises(OncelogError, match="newer oncelog"):
        decode_record("NodePraised", "{}")


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
