"""A whole cluster as an operator and a client see it: transactions, REST, status, signals."""

import json
import signal
import uuid
from urllib.request import urlopen

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.integration.failover.victims import image_of
from tests.integration.processes.deadlines import eventually
from tests.integration.processes.payments import Payments
from tests.targets import cluster_folder

from oncelog.errors import OncelogError
from oncelog_server.cli import run
from oncelog_server.cli.rest import Rest
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.environments import environment_of
from oncelog_server.cluster.plan import (
    CONTROLLER,
    COORDINATOR,
    LISTENER,
    MARKER_SENDER,
    STORAGE,
    FreePorts,
)
from oncelog_server.cluster.probe import is_serving
from oncelog_server.cluster.status import cluster_status
from oncelog_server.cluster.tail import tail_of

WAIT_S = 60


@pytest.fixture(scope="module")
def cluster():
    """One for all tests: its start costs more than any of them."""
    with cluster_folder() as folder, Cluster(folder) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(cluster):
    """Whatever a test broke is whole again before the next."""
    yield
    cluster.start_dead()


@pytest.fixture
def payments(cluster):
    return Payments({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def topic():
    return f"orders-{uuid.uuid4().hex[:8]}"


def test_a_transaction_commits_and_is_read_and_described(cluster, payments):
    payments.commit()
    payments.abort()
    payments.commit()
    payments.check()
    rest, transactional_id = Rest(cluster.gateway), payments.transactional_id
    listed = rest.get("/v1/transactions")["transactions"]
    assert transactional_id in [one["transactional_id"] for one in listed]
    described = rest.get(f"/v1/transactions/{transactional_id}")
    assert described["transactional_id"] == transactional_id


def test_the_gateway_shows_nodes_with_what_they_lead_and_own(cluster):
    shown = Rest(cluster.gateway).get("/v1/cluster")
    nodes = {node["node_id"]: node for node in shown["nodes"]}
    assert not any(node["fenced"] for node in nodes.values())
    assert shown["leaderless_partition_count"] == shown["unowned_shard_count"] == 0
    for member in cluster.of_role(STORAGE):
        assert nodes[member.node_id]["leader_count"] > 0
    owned = [nodes[member.node_id] for member in cluster.of_role(COORDINATOR)]
    assert (
        sum(node["transaction_shard_count"] for node in owned) == shown["transaction_shard_count"]
    )
    assert sum(node["group_shard_count"] for node in owned) == shown["group_shard_count"]


def test_status_shows_each_process_in_eighty_columns(cluster, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["cluster", "status", "--folder", str(cluster.folder)]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    for member in cluster.members:
        assert member.name in shown
        assert member.address in shown
    assert run(["cluster", "status", "--folder", str(cluster.folder), "--output", "json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {row["state"] for row in rows.values()} == {"ready"}
    duties = [rows[f"controller-{number}"]["duty"] for number in (1, 2)]
    assert sorted(duty.split(",")[0] for duty in duties) == ["active", "standby"]


def test_every_process_tells_its_health_and_its_services(cluster):
    for member in cluster.members:
        assert is_serving(member.rpc_address), member.name
    with grpc.insecure_channel(cluster.members[0].rpc_address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = iter([reflection_pb2.ServerReflectionRequest(list_services="*")])
        (answer,) = stub.ServerReflectionInfo(request, timeout=WAIT_S)
    names = {service.name for service in answer.list_services_response.service}
    assert {"oncelog.api.v1.Controller", "grpc.health.v1.Health"} <= names


def test_a_coordinator_drains_on_sigterm_and_its_shards_move(cluster, payments):
    leaving, staying = cluster.of_role(COORDINATOR)
    payments.commit()
    assert cluster.terminate(leaving.name), "it had to be killed"
    assert 'msg="stopped"' in tail_of(cluster.log_of(leaving.name))
    payments.commit()
    nodes = {node["node_id"]: node for node in Rest(cluster.gateway).get("/v1/cluster")["nodes"]}
    assert nodes[leaving.node_id]["transaction_shard_count"] == 0
    assert nodes[staying.node_id]["transaction_shard_count"] > 0
    payments.check()


def test_a_drained_storage_node_leads_nothing_when_it_ends(cluster):
    leaving = cluster.of_role(STORAGE)[0]
    assert cluster.terminate(leaving.name), "it had to be killed"
    node = next(
        node
        for node in Rest(cluster.gateway).get("/v1/cluster")["nodes"]
        if node["node_id"] == leaving.node_id
    )
    assert node["leader_count"] == 0


def test_the_command_line_drains_nodes_and_moves_partitions(cluster, topic, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("ONCELOG_GATEWAY", cluster.gateway)

    def oncelog(*arguments):
        assert run(arguments) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    rest = Rest(cluster.gateway)
    leaving, *staying = [member.node_id for member in cluster.of_role(STORAGE)]
    body = {"name": topic, "partition_count": 1, "replication_factor": 2}
    rest.post("/v1/topics", body)
    try:
        assert "leads nothing and owns no shard" in oncelog("nodes", "drain", str(leaving))
        assert rest.get(f"/v1/nodes/{leaving}")["leader_count"] == 0
        shown = oncelog("nodes", "list")
        assert "drained" in shown
        assert max(map(len, shown.splitlines())) <= 80
    finally:
        oncelog("nodes", "undrain", str(leaving))
    wanted = f"{leaving},{staying[0]}"
    assert f"{topic}-0" in oncelog("partitions", "reassign", f"{topic}-0", "--replicas", wanted)
    eventually(lambda: not rest.get("/v1/reassignments")["total"])
    (moved,) = rest.get(f"/v1/topics/{topic}")["partitions"]
    assert (moved["replicas"], sorted(moved["isr"])) == (
        [leaving, staying[0]],
        sorted([leaving, staying[0]]),
    )
    eventually(lambda: rest.get(f"/v1/nodes/{leaving}")["leader_count"] > 0)
    assert "No reassignment is under way" in oncelog("partitions", "reassignments")
    coordinator = cluster.of_role(COORDINATOR)[0].node_id
    oncelog("nodes", "drain", str(coordinator))
    oncelog("nodes", "undrain", str(coordinator))
    assert rest.get(f"/v1/nodes/{coordinator}")["transaction_shard_count"] > 0


def test_a_storage_node_is_ready_when_it_is_in_sync(cluster, payments):
    member = cluster.of_role(STORAGE)[1]
    payments.commit()
    cluster.kill(member.name)
    payments.commit()
    cluster.start_one(member.name)
    missing = [
        f"{topic.name}-{found.partition}"
        for topic in image_of(cluster).topics.values()
        for found in topic.partitions
        if member.node_id in found.replicas and member.node_id not in found.isr
    ]
    assert missing == []
    payments.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_ready_process_ends_with_code_zero_on_either_signal(cluster, run_program, number):
    member = cluster.of_role(MARKER_SENDER)[1]
    cluster.terminate(member.name)
    environment = environment_of(member, cluster.state, cluster.folder)
    metrics_port = FreePorts().next_port()
    process = run_program(member.module, "--process-metrics-port", str(metrics_port), **environment)
    while "has started" not in (line := process.stderr.readline()):
        assert line, "it ended"
    with urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=WAIT_S) as answer:
        shown = answer.read().decode()
    assert f'oncelog_process{{module="{member.module}",node_id="{member.node_id}"' in shown
    assert "oncelog_event_loop_lag_seconds_bucket" in shown
    process.send_signal(number)
    process.stderr.read()
    assert process.wait(WAIT_S) == 0


@pytest.mark.parametrize(
    ("role", "series"),
    [
        (CONTROLLER, ["oncelog_controller_active", "oncelog_controller_decisions_total"]),
        (STORAGE, ["oncelog_storage_under_replicated_partitions", "oncelog_storage_leaders"]),
        (COORDINATOR, ["oncelog_coordinator_transaction_decisions_total"]),
        (LISTENER, ["oncelog_listener_connections_open", "oncelog_listener_bytes_sent_total"]),
    ],
)
def test_a_process_serves_the_metrics_of_its_role(cluster, capsys, monkeypatch, role, series):
    member = cluster.of_role(role)[1]
    with urlopen(member.metrics_url, timeout=WAIT_S) as answer:
        shown = answer.read().decode()
    for name in series:
        assert f"# TYPE {name}" in shown, shown
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["cluster", "status", "--metrics", "--folder", str(cluster.folder)]) == 0
    assert f"{member.name} {member.metrics_url}" in " ".join(capsys.readouterr().out.split())


def test_a_second_signal_ends_a_process_at_once(cluster):
    name = cluster.of_role(LISTENER)[1].name
    process = cluster.process(name)
    # Paused, it receives both when it goes on: there is no time to end in between.
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        process.signal(number)
    assert process.wait(WAIT_S)
    assert "second signal" in tail_of(cluster.log_of(name))


def test_a_killed_process_is_shown_as_dead_and_can_be_restarted(cluster, capsys):
    name = cluster.of_role(LISTENER)[0].name
    folder = str(cluster.folder)
    assert run(["cluster", "kill", name, "--folder", folder]) == 0
    assert {row.name: row.state for row in cluster_status(cluster)}[name] == "dead"
    assert run(["cluster", "restart", name, "--folder", folder]) == 0
    found = Cluster.open(cluster.folder)
    assert found.state_of(name) == "running"
    assert is_serving(found.member(name).rpc_address)
    cluster.reload()
    assert run(["cluster", "logs", name, "--folder", folder, "-n", "5"]) == 0
    assert "is ready" in capsys.readouterr().out


def test_a_paused_process_is_shown_as_paused(cluster):
    name = cluster.of_role(LISTENER)[1].name
    cluster.pause(name)
    try:
        eventually(lambda: cluster.state_of(name) == "paused")
    finally:
        cluster.resume(name)
    eventually(lambda: cluster.state_of(name) == "running")


def test_a_second_cluster_in_the_same_folder_is_refused(cluster, capsys):
    assert run(["cluster", "up", "--folder", str(cluster.folder)]) == 1
    assert "runs already" in capsys.readouterr().err
    with pytest.raises(OncelogError, match="has no postman"):
        cluster.member("postman")
