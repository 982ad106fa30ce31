"""Nodes and reassignments over REST, on a real controller."""

import asyncio

from tests.integration.gateway.gateway_cluster import gateway_cluster

from oncelog.api.v1 import controller_pb2 as pb


async def add_node(cluster, node_id, *, rpc_address="", incarnation_id="first"):
    """With an address it is fenced until its first heartbeat; without one it lives."""
    node = pb.Node(
        node_id=node_id,
        roles=[pb.ROLE_STORAGE, pb.ROLE_COORDINATOR],
        rpc_address=rpc_address,
    )
    request = pb.RegisterNodeRequest(node=node, incarnation_id=incarnation_id)
    answer = await cluster.controller.RegisterNode(request)
    assert not answer.status.error_code, answer
    await cluster.metadata.wait_for(lambda image: node_id in image.nodes, 20)


async def node(cluster, node_id):
    return (await cluster.get(f"/v1/nodes/{node_id}")).json


async def test_nodes_are_listed_with_their_duties_and_the_controller(cluster):
    await cluster.create_topic("orders", 3)
    found = (await cluster.get("/v1/nodes")).json
    assert found["incomplete"] == []
    assert found["controller"]["rpc_address"] is None
    assert found["controller"]["controller_epoch"] == 1
    (only,) = found["nodes"]
    assert only["roles"] == ["storage", "coordinator", "listener", "marker_sender"]
    assert only["leader_count"] == only["replica_count"] > 3
    assert only["transaction_shard_count"] > 0
    assert not only["draining"]
    assert (await cluster.get("/v1/nodes/7")).status == 404


async def test_the_only_node_is_not_drained(cluster):
    answer = await cluster.post("/v1/nodes/1/drain")
    assert answer.status == 409
    assert "start another one first" in answer.json["detail"]
    assert not (await node(cluster, 1))["draining"]
    answer = await cluster.request("DELETE", "/v1/nodes/1/drain")
    assert (answer.status, answer.json["node"]["draining"]) == (200, False)
    assert [line["event"] for line in cluster.audit()] == ["attempted", "ended"] * 2
    assert [one["outcome"] for one in cluster.audit()[1::2]] == ["refused", "done"]


async def test_a_drain_moves_what_can_move_and_is_taken_back(cluster):
    await add_node(cluster, 2)
    before = await node(cluster, 1)
    assert before["transaction_shard_count"] > 0
    changed = (await cluster.post("/v1/nodes/1/drain")).json
    assert changed["node"]["draining"]
    assert changed["node"]["drained"], "it alone has its replicas, and its shards have moved"
    assert changed["node"]["transaction_shard_count"] == 0
    assert (await cluster.post("/v1/nodes/1/drain")).status == 200, "again"
    assert (await cluster.post("/v1/nodes/2/drain")).status == 409, "somebody must stay"
    back = await cluster.request("DELETE", "/v1/nodes/1/drain")
    assert not back.json["node"]["draining"]
    assert back.json["audit_id"] in {line["audit_id"] for line in cluster.audit()}
    assert (await cluster.post("/v1/nodes/9/drain")).status == 404


async def test_a_node_is_removed_once_it_is_stopped_and_empty(cluster):
    answer = await cluster.request("DELETE", "/v1/nodes/1")
    assert answer.status == 409
    assert "has replicas of" in answer.json["detail"]
    assert "no other storage node is there" in answer.json["detail"]
    await add_node(cluster, 2)
    answer = await cluster.request("DELETE", "/v1/nodes/1")
    assert "oncelog partitions reassign" in answer.json["detail"]
    assert answer.json["detail"].endswith("--replicas 2")
    assert "is running" in (await cluster.request("DELETE", "/v1/nodes/2")).json["detail"]
    await add_node(cluster, 3, rpc_address="127.0.0.1:1")
    assert (await cluster.request("DELETE", "/v1/nodes/3")).status == 204
    assert (await cluster.request("DELETE", "/v1/nodes/3")).status == 404
    assert [one["node_id"] for one in (await cluster.get("/v1/nodes")).json["nodes"]] == [1, 2]


async def test_a_reassignment_is_begun_listed_and_cancelled(cluster):
    await cluster.create_topic("orders", 2)
    await add_node(cluster, 2)
    body = {"topic": "orders", "replicas": [1, 2]}
    found = (await cluster.post("/v1/reassignments", body)).json
    assert [one["replicas"] for one in found["partitions"]] == [[1, 2], [2, 1]], "leaders spread"
    assert [one["adding_replicas"] for one in found["partitions"]] == [[2], [2]]
    listed = (await cluster.get("/v1/reassignments?limit=1")).json
    assert (listed["total"], len(listed["reassignments"])) == (2, 1)
    assert (await cluster.request("DELETE", "/v1/reassignments/orders?partition=1")).status == 200
    again = await cluster.request("DELETE", "/v1/reassignments/orders?partition=1")
    assert (again.status, again.json["kafka_error_name"]) == (
        404,
        "NO_REASSIGNMENT_IN_PROGRESS",
    )
    cancelled = (await cluster.request("DELETE", "/v1/reassignments/orders")).json
    assert [(one["partition"], one["replicas"]) for one in cancelled["partitions"]] == [(0, [1])]
    assert (await cluster.get("/v1/reassignments")).json["total"] == 0
    assert [line["outcome"] for line in cluster.audit()[1::2]] == [
        "done",
        "done",
        "refused",
        "done",
    ]


async def test_what_is_under_replicated_is_found_and_shown(cluster):
    await cluster.create_topic("orders", 2)
    assert (await cluster.get("/v1/partitions?troubled=true")).json["partitions"] == []
    await add_node(cluster, 2, rpc_address="nobody:1")
    body = {"topic": "orders", "partition": 1, "replicas": [1, 2]}
    assert (await cluster.post("/v1/reassignments", body)).status == 200
    found = (await cluster.get("/v1/partitions?troubled=true")).json["partitions"]
    assert [(one["partition"], one["under_replicated"]) for one in found] == [(1, True)]
    page = (await cluster.get("/")).body
    assert b"orders-1</a> has a replica out of sync, on node 2" in page
    assert b"is out of service" in page, "node 2 never sent a heartbeat"


async def test_a_reassignment_that_cannot_be_is_refused(cluster):
    await cluster.create_topic("orders")

    async def refused(**body):
        answer = await cluster.post("/v1/reassignments", {"topic": "orders", **body})
        return answer.status, answer.json["detail"]

    status, detail = await refused(replicas=[1, 7])
    assert status == 409
    assert "known are [1]" in detail
    status, detail = await refused(replicas=[1, 1])
    assert status == 422
    assert "a node is named twice" in detail
    assert (await refused(replicas=[]))[0] == 422
    assert (await refused(replicas=[1], partition=3))[0] == 404
    assert (await refused(replicas=[1], topic="nothing"))[0] == 404


async def test_without_a_controller_nodes_are_shown(tmp_path):
    class Silent:
        """Takes every request and answers none."""

        def __getattr__(self, name):
            async def call(request, context):
                await asyncio.Event().wait()

            return call

    async with gateway_cluster(tmp_path, call_timeout_ms=1_000) as cluster:
        await add_node(cluster, 2)
        cluster.controller.bind(Silent())
        found = (await cluster.get("/v1/nodes")).json
        assert [one["node_id"] for one in found["nodes"]] == [1, 2]
        assert found["controller"] is None
        assert [one["kafka_error_name"] for one in found["incomplete"]] == ["REQUEST_TIMED_OUT"]
        answer = await cluster.post("/v1/nodes/1/drain")
        assert answer.status == 504
        assert "whether it acted is not known" in answer.json["detail"]
        assert cluster.audit()[-1]["outcome"] == "unknown"


async def moves(cluster, verb, **body):
    answer = await cluster.post(f"/v1/storage/{verb}", body)
    assert answer.status == 200, answer.json
    return answer.json


def replicas_of(cluster, topic):
    return [list(one.replicas) for one in cluster.metadata.image.topics[topic].partitions]


async def test_an_evacuation_goes_step_by_step(cluster):
    await cluster.create_topic("orders", 3)
    await add_node(cluster, 2)
    count = (await node(cluster, 1))["replica_count"]
    shown = await moves(cluster, "evacuate", node_ids=[1])
    assert shown["dry_run"]
    assert shown["audit_id"] is None
    assert shown["move_count"] == shown["copy_count"] == shown["left_count"] == count
    assert [2] in [one["target_replicas"] for one in shown["moves"]]
    assert not (await node(cluster, 1))["draining"]
    assert cluster.audit() == []

    first = await moves(cluster, "evacuate", node_ids=[1], dry_run=False, in_motion_max=2)
    assert len(first["moves"]) == first["under_way_count"] == 2
    assert (first["move_count"], first["left_count"]) == (count, count)
    assert (await node(cluster, 1))["draining"]
    # Nobody copies in this cluster, so those two stay under way and there is room for no other.
    second = await moves(cluster, "evacuate", node_ids=[1], dry_run=False, in_motion_max=2)
    assert (second["moves"], second["move_count"]) == ([], count - 2)
    third = await moves(cluster, "evacuate", node_ids=[1], dry_run=False, in_motion_max=3)
    assert len(third["moves"]) == 1
    assert (await cluster.get("/v1/reassignments")).json["total"] == 3
    assert [line["action"] for line in cluster.audit()[::2]] == ["evacuate_nodes"] * 3
    assert cluster.audit()[1]["detail"] == f"began 2 of {count} moves"


async def test_an_impossible_evacuation_changes_nothing(cluster):
    await cluster.create_topic("orders", 1)
    body = {"node_ids": [1], "dry_run": False}
    answer = await cluster.post("/v1/storage/evacuate", body)
    assert (answer.status, answer.json["kafka_error_name"]) == (409, "POLICY_VIOLATION")
    assert "too few storage nodes live and are not draining (none)" in answer.json["detail"]
    assert not (await node(cluster, 1))["draining"]
    assert cluster.audit()[1]["outcome"] == "refused"
    answer = await cluster.post("/v1/storage/evacuate", {"node_ids": [7]})
    assert answer.status == 404
    assert "there is no storage node 7; the storage nodes are 1" in answer.json["detail"]
    for wrong in (
        {"node_ids": []},
        {"node_ids": [1, 1]},
        {"node_ids": [1], "in_motion_max": 0},
    ):
        assert (await cluster.post("/v1/storage/evacuate", wrong)).status == 422


async def test_a_balance_goes_step_by_step(cluster):
    await cluster.create_topic("orders", 4)
    assert (await moves(cluster, "balance"))["left_count"] == 0
    await add_node(cluster, 2)
    count = (await node(cluster, 1))["replica_count"]
    shown = await moves(cluster, "balance")
    assert shown["copy_count"] == count // 2
    first = await moves(cluster, "balance", dry_run=False, in_motion_max=4)
    assert len(first["moves"]) == 4
    assert first["left_count"] == shown["left_count"]
    # What is under way counts as if it had arrived.
    assert (await moves(cluster, "balance"))["copy_count"] == count // 2 - 4
    begun = {(one["topic"], one["partition"]) for one in first["moves"]}
    topic, partition = sorted(begun)[0]
    assert set(replicas_of(cluster, topic)[partition]) == {1, 2}
    assert [line["action"] for line in cluster.audit()[::2]] == ["balance_nodes"]
