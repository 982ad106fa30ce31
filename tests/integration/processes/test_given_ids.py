"""Processes to which the controller gives their node ids: they come and go, and leave nothing behind."""

import os
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from tests.integration.processes.deadlines import eventually
from tests.integration.processes.payments import Payments
from tests.targets import cluster_folder

from oncelog.api.v1 import controller_pb2 as pb
from oncelog_server.cli import run
from oncelog_server.cli.rest import Rest
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import CONTROLLER, HOST, ClusterShape, FreePorts
from oncelog_server.cluster.view import read_image

WAIT_S = 60
SHAPE = ClusterShape(
    controllers=1, storage=1, coordinators=1, marker_senders=0, listeners=1, gateways=0
)
SETTINGS = {"ONCELOG_CONTROLLER_SESSION_TIMEOUT_MS": "1500"}


@pytest.fixture(scope="module")
def cluster():
    """Without a marker sender and a gateway: the tests start those."""
    with cluster_folder() as folder, Cluster(folder, SHAPE, environment=SETTINGS) as running:
        yield running


class GivenProcess:
    """A process with node id 0, or with one that is set by hand."""

    def __init__(self, cluster, role, log, node_id=0):
        self.port, self.metrics_port = cluster.ports.next_port(), cluster.ports.next_port()
        self.log = log
        (controller,) = cluster.of_role(CONTROLLER)
        environment = {
            "ONCELOG_NODE_NODE_ID": str(node_id),
            "ONCELOG_NODE_PORT": "0",
            "ONCELOG_NODE_CONTROLLERS": controller.rpc_address,
            "ONCELOG_PROCESS_METRICS_PORT": str(self.metrics_port),
        }
        if role == "gateway":
            environment["ONCELOG_GATEWAY_PORT"] = str(self.port)
            environment["ONCELOG_GATEWAY_AUDIT_PATH"] = str(log.with_suffix(".audit"))
        with log.open("w") as written:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"oncelog_{role}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=written,
                env={**os.environ, **environment},
            )

    @property
    def url(self):
        return f"http://{HOST}:{self.port}"

    @property
    def node_id(self):
        """That it serves with; None before."""
        lines = [one for one in self.lines() if " has started: node " in one]
        return int(lines[0].partition(" has started: node ")[2].split()[0]) if lines else None

    def lines(self):
        return self.log.read_text().splitlines()

    def tell(self, number):
        self.process.send_signal(number)

    def end(self, number):
        self.tell(number)
        return self.process.wait(WAIT_S)


@pytest.fixture
def start(cluster, tmp_path):
    """Start a process and return it once it serves; all end with the test. Those with a given id leave nothing."""
    started = []
    cluster.ports = FreePorts()

    def start_one(role, node_id=0):
        one = GivenProcess(cluster, role, tmp_path / f"{role}-{len(started)}.log", node_id)
        started.append(one)
        eventually(lambda: one.node_id is not None and serves(cluster, one.node_id))
        return one

    yield start_one
    for one in started:
        if one.process.poll() is None:
            one.end(signal.SIGKILL)
    eventually(lambda: not given(cluster))


def image_of(cluster):
    return read_image([one.rpc_address for one in cluster.of_role(CONTROLLER)])


def given(cluster):
    return {n: one for n, one in image_of(cluster).nodes.items() if one.given}


def serves(cluster, node_id):
    nodes = image_of(cluster).nodes
    return node_id in nodes and not nodes[node_id].fenced


def live(cluster):
    return sorted(n for n, one in given(cluster).items() if not one.fenced)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_come_and_go_and_markers_arrive(cluster, start, number):
    running = [start("gateway"), start("gateway"), start("marker_sender")]
    seen = {one.node_id for one in running}
    assert len(seen) == 3
    assert min(seen) > 1000
    payments = Payments({"bootstrap.servers": cluster.bootstrap})
    payments.commit()
    payments.check()
    for _ in range(2):
        for one in running:
            assert one.end(number) == (-number if number == signal.SIGKILL else 0), one.lines()
        payments.commit()  # Its markers wait for the next marker sender.
        running = [start("gateway"), start("gateway"), start("marker_sender")]
        eventually(lambda: len(given(cluster)) == 3)
        node_ids = {one.node_id for one in running}
        assert sorted(node_ids) == live(cluster)
        assert not node_ids & seen
        seen |= node_ids
        payments.commit()
        payments.check()


def test_the_real_id_is_in_logs_metrics_and_lists(start, capsys):
    gateway = start("gateway")
    node_id = gateway.node_id
    nodes = {one["node_id"]: one for one in Rest(gateway.url).get("/v1/nodes")["nodes"]}
    assert nodes[node_id]["given"]
    assert nodes[node_id]["roles"] == ["gateway"]
    assert not nodes[11]["given"]
    page = urlopen(f"http://{HOST}:{gateway.metrics_port}/metrics").read().decode()
    assert f'oncelog_process{{module="oncelog_gateway",node_id="{node_id}"' in page
    assert 'node_id="0"' not in page
    first, *_, last = gateway.lines()
    assert " node=0 " in first
    assert f" node={node_id} " in last
    assert run(["health", "--gateway", gateway.url]) in (0, 1)
    assert "fenced" not in capsys.readouterr().out


def test_a_selection_of_nodes_by_id_leaves_given_ids_out(start, capsys):
    gateway = start("gateway")
    removal = ("nodes", "remove", "--role", "gateway", "--from-id", "52", "--yes")
    assert run([*removal, "--gateway", gateway.url]) == 0
    assert "no gateway node has an id of 52 or more; nothing to do" in capsys.readouterr().out


def test_a_listener_with_a_given_id_serves_clients(cluster, start, tmp_path):
    port = FreePorts().next_port()
    environment = os.environ
    before = environment.get("ONCELOG_LISTENER_PORT")
    environment["ONCELOG_LISTENER_PORT"] = str(port)
    try:
        listener = start("listener")
    finally:
        environment.pop("ONCELOG_LISTENER_PORT")
        if before is not None:
            environment["ONCELOG_LISTENER_PORT"] = before
    there = Producer({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
    assert listener.node_id in there.list_topics(timeout=WAIT_S).brokers
    listener.end(signal.SIGTERM)
    eventually(lambda: listener.node_id not in image_of(cluster).nodes)
    named = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    assert 41 in named.list_topics(timeout=WAIT_S).brokers


def test_a_frozen_process_takes_its_id_back_when_it_wakes(cluster, start):
    sender = start("marker_sender")
    node_id = sender.node_id
    node_epoch = image_of(cluster).nodes[node_id].node_epoch
    payments = Payments({"bootstrap.servers": cluster.bootstrap})
    sender.tell(signal.SIGSTOP)
    eventually(lambda: not given(cluster))
    payments.commit()
    other = start("marker_sender")
    sender.tell(signal.SIGCONT)
    eventually(lambda: live(cluster) == sorted([node_id, other.node_id]))
    assert image_of(cluster).nodes[node_id].node_epoch > node_epoch
    payments.check()
    assert sender.process.poll() is None
    assert sender.end(signal.SIGTERM) == 0


def test_a_frozen_process_ends_when_another_has_its_id(cluster, start):
    frozen = start("marker_sender")
    frozen.tell(signal.SIGSTOP)
    eventually(lambda: not given(cluster))
    node_id = frozen.node_id
    assert start("marker_sender", node_id).node_id == node_id  # by hand: nobody is given it so soon
    payments = Payments({"bootstrap.servers": cluster.bootstrap})
    payments.commit()
    assert frozen.end(signal.SIGCONT) == 1
    assert f"a newer process has taken node id {node_id}; this one must end" in frozen.lines()[-1]
    assert "its next start gets another id" in frozen.lines()[-1]
    payments.commit()
    payments.check()
    (left,) = [node for node in image_of(cluster).nodes.values() if node.node_id > 1000]
    assert (left.node_id, left.roles) == (node_id, [pb.ROLE_MARKER_SENDER])


@pytest.mark.parametrize("role", ["controller", "storage", "coordinator"])
@pytest.mark.parametrize("how", ["flag", "variable"])
def test_a_process_with_state_refuses_id_zero(role, how):
    flag = ["--node-id", "0"] if how == "flag" else []
    variable = {} if flag else {"ONCELOG_NODE_NODE_ID": "0"}
    ended = subprocess.run(
        [sys.executable, "-m", f"oncelog_{role}", *flag],
        env={**os.environ, **variable},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert ("--node-id='0'" if flag else "ONCELOG_NODE_NODE_ID='0'") in line
    assert "set one from 1 to 1000" in line
