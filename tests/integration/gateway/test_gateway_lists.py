"""One way of paging, parameters that are known, the same names and types in and out; changes of topics and groups."""

import asyncio

import pytest

from oncelog.api.v1 import storage_pb2
from oncelog.api.v1.types_pb2 import TopicPartition


async def _filled(cluster):
    for name in ("orders", "payments", "refunds"):
        await cluster.create_topic(name, 3)
        cluster.groups.put(f"g-{name}")
        cluster.coordinator.put(f"t-{name}", producer_id=len(name), partitions=[(name, 0)])
        for partition in range(3):
            cluster.storage.open_transaction(
                name, partition, producer_id=100 + partition, start_offset=10
            )
            cluster.storage.open_transaction(
                name, 0, producer_id=200 + partition, start_offset=20 + partition
            )
    cluster.groups.offsets["g-orders"] = {("orders", partition): 7 for partition in range(3)}


async def _pages(cluster, path, rows):
    """Every row of a list, two at a time."""
    found, cursor = [], ""
    while True:
        page = (await cluster.get(f"{path}{'&' if '?' in path else '?'}limit=2{cursor}")).json
        assert len(page[rows]) <= 2
        found += page[rows]
        if page["next_cursor"] is None:
            return found, page
        cursor = f"&cursor={page['next_cursor']}"


def _lasting(row):
    """Without the ages, which grow between two answers."""
    return {
        name: row[name]
        for name in row
        if name not in ("age_ms", "idle_ms", "lso_holder", "held_by")
    }


@pytest.mark.parametrize(
    ("path", "rows"),
    [
        ("/v1/topics", "topics"),
        ("/v1/topics?internal=false", "topics"),
        ("/v1/topics/orders/partitions", "partitions"),
        ("/v1/topics/orders/configs", "configs"),
        ("/v1/partitions?topic=s", "partitions"),
        ("/v1/partitions/orders/0/producers", "producers"),
        ("/v1/hanging-transactions", "hanging"),
        ("/v1/transactions", "transactions"),
        ("/v1/groups", "groups"),
        ("/v1/groups/g-orders/offsets", "offsets"),
        ("/v1/nodes", "nodes"),
        ("/v1/reassignments", "reassignments"),
        ("/v1/marker-queues", "marker_queues"),
        ("/v1/sinks", "sinks"),
    ],
)
async def test_every_list_is_read_page_by_page_in_the_same_way(cluster, path, rows):
    await _filled(cluster)
    whole = (await cluster.get(path)).json
    found, last = await _pages(cluster, path, rows)
    assert [_lasting(row) for row in found] == [_lasting(row) for row in whole[rows]]
    assert whole["total"] == len(found)
    assert last["incomplete"] == []
    refused = await cluster.get(f"{path}{'&' if '?' in path else '?'}offset=1")
    assert refused.status == 422
    assert "query.offset: unknown parameter" in refused.json["detail"]
    if found:
        wrong = await cluster.get(f"{path}{'&' if '?' in path else '?'}cursor=WzFd,")
        assert (wrong.status, wrong.json["kafka_error_name"]) == (404, "RESOURCE_NOT_FOUND")


async def test_a_misspelt_parameter_is_told_the_one_that_was_meant(cluster):
    for path, message in (
        ("/v1/transactions?sate=Ongoing", "did you mean state?"),
        ("/v1/transactions?min_duration=5", "did you mean min_duration_ms?"),
        ("/v1/topics?curser=x", "did you mean cursor?"),
        ("/v1/cluster?verbose=1", "takes none"),
    ):
        refused = await cluster.get(path)
        assert refused.status == 422
        assert message in refused.json["errors"][0]["message"]
    assert (await cluster.get("/health?x=1")).status == 200


async def test_a_config_has_the_same_name_and_type_in_and_out(cluster):
    configs = {
        "cleanup.policy": ["compact", "delete"],
        "retention.ms": 1000,
        "min.cleanable.dirty.ratio": 0.25,
    }
    body = {"name": "orders", "partition_count": 2, "configs": configs}
    made = await cluster.post("/v1/topics", body)
    assert {name: made.json[name] for name in body} == body
    shown = (await cluster.get("/v1/topics/orders")).json
    assert {name: shown[name] for name in body} == body
    again = await cluster.post("/v1/topics", {**body, "name": "copy", "configs": shown["configs"]})
    assert again.status == 201
    of_name = {one["name"]: one for one in shown["all_configs"]}
    assert of_name["retention.ms"]["value"] == 1000
    assert of_name["unclean.leader.election.enable"]["value"] is False


async def test_configs_change_one_by_one_and_are_audited(cluster):
    await cluster.create_topic("orders")
    path = "/v1/topics/orders/configs"
    first = await cluster.request("PATCH", path, {"configs": {"retention.ms": 1000}})
    assert (first.status, first.json["configs"]) == (200, {"retention.ms": 1000})
    change = {"retention.ms": None, "cleanup.policy": ["compact"]}
    tried = await cluster.request("PATCH", path, {"configs": change, "dry_run": True})
    assert tried.json["configs"] == {"cleanup.policy": ["compact"]}
    assert tried.json["audit_id"] is None
    assert (await cluster.get("/v1/topics/orders")).json["configs"] == {"retention.ms": 1000}
    await cluster.request("PATCH", path, {"configs": change})
    assert (await cluster.get("/v1/topics/orders")).json["configs"] == tried.json["configs"]
    for wrong, message in (
        ({"retention.mss": 1}, "did you mean retention.ms"),
        ({"retention.ms": "1000"}, "must be an integer"),
        ({"segment.bytes": 0}, "segment.bytes"),
        ({}, "at least 1"),
    ):
        refused = await cluster.request("PATCH", path, {"configs": wrong})
        assert refused.status == 422
        assert message in refused.json["detail"]
    missing = await cluster.request("PATCH", "/v1/topics/none/configs", {"configs": change})
    assert missing.status == 404
    assert [line["action"] for line in cluster.audit()[::2]] == ["alter_topic_configs"] * 3


async def test_partitions_are_added_up_to_a_total(cluster):
    await cluster.create_topic("orders", 2)
    path = "/v1/topics/orders/partitions"
    tried = await cluster.post(path, {"partition_count": 5, "dry_run": True})
    assert (tried.status, tried.json["audit_id"]) == (200, None)
    assert (await cluster.get("/v1/topics/orders")).json["partition_count"] == 2
    done = await cluster.post(path, {"partition_count": 5})
    assert done.json["partition_count"] == 5
    assert (await cluster.get(path)).json["total"] == 5
    fewer = await cluster.post(path, {"partition_count": 4})
    assert (fewer.status, fewer.json["kafka_error_name"]) == (409, "INVALID_PARTITIONS")
    missing = await cluster.post("/v1/topics/none/partitions", {"partition_count": 4})
    assert missing.status == 404
    assert [line["outcome"] for line in cluster.audit()[1::2]] == ["done", "refused", "refused"]


async def test_offsets_of_an_empty_group_are_reset(cluster):
    await cluster.create_topic("orders", 2)
    cluster.groups.put("a/b")
    cluster.groups.offsets["a/b"] = {("orders", 0): 40}
    path = "/v1/groups/a/b/offsets"
    body = {"topic": "orders", "to": "earliest"}
    shown = (await cluster.request("PATCH", path, body)).json
    assert shown["dry_run"] is True
    assert [(one["offset_before"], one["offset"]) for one in shown["offsets"]] == [
        (40, 5),
        (None, 5),
    ]
    assert cluster.groups.offsets["a/b"] == {("orders", 0): 40}
    for target, offset in (
        ({"to": "latest"}, 100),
        ({"to": {"offset": 60}}, 60),
        ({"to": {"offset": 1}}, 5),
        ({"to": {"offset": 10_000}}, 100),
        ({"to": {"timestamp_ms": 33}}, 33),
        ({"to": {"timestamp_ms": 5_000}}, 100),
    ):
        wanted = {"topic": "orders", "partitions": [0], "dry_run": False, **target}
        moved = await cluster.request("PATCH", path, wanted)
        assert (moved.status, moved.json["offsets"][0]["offset"]) == (200, offset)
        assert cluster.groups.offsets["a/b"] == {("orders", 0): offset}
    assert cluster.audit()[-1]["outcome"] == "done"


async def test_an_impossible_offset_reset_is_refused_with_the_reason(cluster):
    await cluster.create_topic("orders", 2)
    cluster.groups.put("busy", state="Stable", members=[("m-1", b"")])
    cluster.groups.put("free")
    for group, body, status, message in (
        ("busy", {"to": "latest"}, 409, "has members"),
        ("none", {"to": "latest"}, 404, "there is no group 'none'"),
        ("free", {"to": "latest", "topic": "gone"}, 404, "there is no topic 'gone'"),
        ("free", {"to": "latest", "partitions": [1, 2]}, 404, "no partition 2"),
        ("free", {"to": {"offset": -1}}, 422, "greater than or equal to 0"),
        ("free", {"to": {"offset": 3, "timestamp_ms": 3}}, 422, "not permitted"),
        ("free", {"to": "end"}, 422, "earliest"),
    ):
        wanted = {"topic": "orders", "dry_run": False, **body}
        refused = await cluster.request("PATCH", f"/v1/groups/{group}/offsets", wanted)
        assert refused.status == status
        assert message in refused.json["detail"]
    assert cluster.groups.offsets == {}


async def test_markers_that_wait_are_shown_by_node_with_their_age(cluster):
    await cluster.create_topic("orders", 2)
    cluster.storage.is_silent = True
    marker = storage_pb2.TxnMarker(
        producer_id=1,
        commit=True,
        partitions=[TopicPartition(topic="orders", partition=one) for one in range(2)],
    )
    delivering = asyncio.create_task(cluster.marker_sender.deliver(0, [marker]))
    await asyncio.sleep(0)
    assert cluster.marker_sender.depths()
    (queue,) = (await cluster.get("/v1/marker-queues")).json["marker_queues"]
    assert (queue["marker_sender"], queue["node"], queue["marker_count"]) == (1, 1, 2)
    assert queue["oldest_age_ms"] >= 0
    cluster.storage.is_silent = False
    delivering.cancel()


async def test_explain_refuses_a_number_that_is_none(cluster):
    for kind, subject in (
        ("producer", "1" * 5_000),
        ("producer", "9" * 19),
        ("partition", "orders-" + "1" * 5_000),
        ("partition", "orders-4294967296"),
    ):
        refused = await cluster.get(f"/v1/explain?kind={kind}&subject={subject}")
        assert (refused.status, refused.json["kafka_error_code"]) == (422, 42)
