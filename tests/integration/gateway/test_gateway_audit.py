"""Who changed what, by REST and at the command line."""

import json

import pytest
from tests.integration.gateway.gateway_cluster import gateway_cluster


async def test_acts_are_listed_newest_first_with_their_outcome(cluster):
    assert (await cluster.get("/v1/audit")).json["acts"] == []
    await cluster.create_topic("orders")
    why = {"Oncelog-Reason": "nobody%20reads%20it"}
    await cluster.request("DELETE", "/v1/topics/orders", None, why)
    await cluster.request("DELETE", "/v1/topics/orders")
    refused, deleted, made = (await cluster.get("/v1/audit")).json["acts"]
    assert [one["action"] for one in (refused, deleted, made)] == [
        "delete_topic",
        "delete_topic",
        "create_topic",
    ]
    assert [one["outcome"] for one in (refused, deleted, made)] == ["refused", "done", "done"]
    assert (deleted["reason"], deleted["target"]) == ("nobody reads it", {"name": "orders"})
    assert (deleted["caller"], deleted["remote_address"]) == ("anonymous", "127.0.0.1")
    assert deleted["ended_time_ms"] >= deleted["time_ms"]
    page = (await cluster.get("/v1/audit?limit=1&outcome=done")).json
    assert (page["total"], page["acts"]) == (2, [deleted])
    more = (await cluster.get(f"/v1/audit?outcome=done&cursor={page['next_cursor']}")).json
    assert more["acts"] == [made]
    assert (await cluster.get("/v1/audit?outcome=fine")).status == 422


LIKE_AN_ACT = (
    b'{"audit_id": "x", "event": "attempted", "time_ms": "soon", "action": 7, "target": []}'
)


@pytest.mark.parametrize(
    "torn",
    [
        b'{"audit_id": "x", "eve',
        b"\xff\xfe",
        b"[]",
        b"17",
        b'{"audit_id": "x", "event": "attempted"}',
        LIKE_AN_ACT,
    ],
)
async def test_a_torn_line_hides_no_other_act(cluster, torn):
    await cluster.create_topic("orders")
    with cluster.audit_path.open("ab") as file:
        file.write(torn + b"\n")
        file.write(json.dumps({"audit_id": "y", "event": "ended"}).encode() + b"\n")
    (made,) = (await cluster.get("/v1/audit")).json["acts"]
    assert made["action"] == "create_topic"
    assert (await cluster.get("/audit")).status == 200


async def test_a_transaction_links_to_its_trace(tmp_path):
    url = "https://traces.example.com/trace/{trace_id}"
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    async with gateway_cluster(tmp_path, trace_url=url) as cluster:
        cluster.coordinator.put("payments", producer_id=4, trace_id=trace_id)
        cluster.coordinator.put("untraced", producer_id=5)
        found = (await cluster.get("/v1/transactions/payments")).json
        assert found["trace_id"] == trace_id
        assert found["trace_url"] == f"https://traces.example.com/trace/{trace_id}"
        found = (await cluster.get("/v1/transactions/untraced")).json
        assert (found["trace_id"], found["trace_url"]) == (None, None)
        page = (await cluster.get("/transaction?id=payments")).body.decode()
        assert f'href="https://traces.example.com/trace/{trace_id}"' in page
