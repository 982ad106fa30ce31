"""Consumer groups over REST."""

import struct

from tests.integration.gateway.gateway_cluster import gateway_cluster

from oncelog.errors import ErrorCode


def assignment(topic, *partitions):
    name = topic.encode()
    head = struct.pack(f">hih{len(name)}si", 1, 1, len(name), name, len(partitions))
    return head + struct.pack(f">{len(partitions)}i", *partitions) + b"\xff\xff\xff\xff"


async def test_groups_are_listed_in_order_and_filtered(cluster):
    cluster.groups.put("b")
    cluster.groups.put("a", state="Stable", members=[("m-1", b"")])
    page = (await cluster.get("/v1/groups")).json
    assert [one["group_id"] for one in page["groups"]] == ["a", "b"]
    page = (await cluster.get("/v1/groups?state=Stable")).json
    assert page["groups"] == [
        {
            "group_id": "a",
            "state": "Stable",
            "protocol_type": "consumer",
            "group_type": "classic",
        }
    ]
    first = (await cluster.get("/v1/groups?limit=1")).json
    page = (await cluster.get(f"/v1/groups?limit=1&cursor={first['next_cursor']}")).json
    assert ([one["group_id"] for one in page["groups"]], page["total"]) == (["b"], 2)
    assert (await cluster.get("/v1/groups?state=Sleeping")).status == 422
    cluster.groups.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (await cluster.get("/v1/groups")).status == 503


async def test_a_group_is_described_with_what_its_members_read(cluster):
    members = [
        ("m-1", assignment("orders", 2, 0)),
        ("m-2", b"in Connect's words"),
        ("m-3", b""),
    ]
    cluster.groups.put("team/billing", state="Stable", members=members)
    found = (await cluster.get("/v1/groups/team/billing")).json
    assert (found["state"], found["protocol_name"], found["coordinator"]) == (
        "Stable",
        "range",
        1,
    )
    assert [one["assignments"] for one in found["members"]] == [
        [{"topic": "orders", "partitions": [0, 2]}],
        None,
        [],
    ]
    answer = await cluster.get("/v1/groups/nobody")
    assert (answer.status, answer.json["kafka_error_name"]) == (404, "GROUP_ID_NOT_FOUND")


async def test_offsets_are_shown_with_their_lag(cluster):
    await cluster.create_topic("orders", 2)
    cluster.groups.put("billing")
    cluster.groups.offsets["billing"] = {
        ("orders", 1): 100,
        ("orders", 0): 40,
        ("deleted", 0): 7,
    }
    found = (await cluster.get("/v1/groups/billing/offsets")).json
    rows = [(one["topic"], one["partition"], one["offset"], one["lag"]) for one in found["offsets"]]
    assert rows == [("deleted", 0, 7, None), ("orders", 0, 40, 60), ("orders", 1, 100, 0)]
    assert found["total_lag"] == 60
    assert (await cluster.get("/v1/groups/nobody/offsets")).status == 404


async def test_the_transaction_behind_an_unstable_offset_is_named(tmp_path):
    async with gateway_cluster(tmp_path, call_timeout_ms=1_000) as cluster:
        await cluster.create_topic("orders", 2)
        cluster.coordinator.put("pay", producer_id=4, partitions=[("__consumer_offsets", 3)])
        cluster.groups.put("billing")
        cluster.groups.offsets["billing"] = {("orders", 0): 10, ("orders", 1): -1}
        cluster.groups.pending = {("orders", 0): [4], ("orders", 1): [4, 5]}
        found = (await cluster.get("/v1/groups/billing/offsets")).json
        first, second = found["offsets"]
        assert first["unstable_by"][0].pop("age_ms") > 0
        pay = {"transactional_id": "pay", "producer_id": 4, "coordinator_state": "Ongoing"}
        assert (first["offset"], first["unstable_by"]) == (10, [pay])
        assert second["offset"] is None
        assert [one["transactional_id"] for one in second["unstable_by"]] == ["pay", None]
        cluster.coordinator.is_silent = True
        found = (await cluster.get("/v1/groups/billing/offsets")).json
        assert found["offsets"][0]["unstable_by"][0]["transactional_id"] is None
        assert found["incomplete"][0]["kafka_error_name"] == "REQUEST_TIMED_OUT"


async def test_the_console_shows_groups(cluster):
    assert b"No group has read anything yet" in (await cluster.get("/groups")).body
    cluster.groups.put("a<b")
    page = (await cluster.get("/groups")).body
    assert b"a&lt;b" in page
    assert b"/group?id=a%3Cb" in page
    cluster.groups.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert b"its groups are not shown" in (await cluster.get("/groups")).body
    assert b"whether a group is blocked is not known" in (await cluster.get("/")).body


async def test_a_group_is_deleted_once_it_is_empty(cluster):
    cluster.groups.put("busy", state="Stable", members=[("m-1", b"")])
    cluster.groups.put("old")
    assert (await cluster.request("DELETE", "/v1/groups/busy")).status == 409
    assert (await cluster.request("DELETE", "/v1/groups/old")).status == 204
    assert (await cluster.request("DELETE", "/v1/groups/old")).status == 404
