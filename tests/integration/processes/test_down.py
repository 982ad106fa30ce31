"""The whole of `oncelog cluster` from outside: up in a process that ends, down in another, and nothing left behind."""

import socket
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest
from tests.free_ports import free_block
from tests.targets import cluster_folder

from oncelog.errors import OncelogError
from oncelog_server.cluster import plan
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import (
    POSTGRES,
    REDIS,
    ClusterShape,
    FreePorts,
    plan_members,
    ports_of,
    replan_ports,
)
from oncelog_server.cluster.probe import is_serving

WAIT_S = 90


@pytest.fixture
def folder():
    with cluster_folder() as made:
        yield made


def oncelog_cluster(command, folder, *arguments):
    return subprocess.run(
        [
            *(sys.executable, "-m", "oncelog_server", "cluster", command),
            *("--folder", str(folder), *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def processes_in(folder):
    """Whatever still runs and names the folder, by its command line or its working folder."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd", "status"]):
        words = [*(process.info["cmdline"] or []), process.info["cwd"] or ""]
        is_there = process.info["status"] != psutil.STATUS_ZOMBIE
        if is_there and any(str(folder) in word for word in words):
            found.append(process.info)
    return found


def test_a_cluster_outlives_its_command_and_down_ends_it_all(folder):
    ports = ["--port", str(FreePorts().next_port()), "--gateway-port", "0"]
    up = oncelog_cluster("up", folder, *ports)
    try:
        assert up.returncode == 0, up.stderr
        assert f"127.0.0.1:{ports[1]}" in up.stdout
        cluster = Cluster.open(folder)
        for member in cluster.members:
            assert f"{member.name} ready" in up.stderr
            assert is_serving(member.rpc_address)
        names = [*(member.name for member in cluster.members), POSTGRES, REDIS]
        processes = [cluster.process(name) for name in names]
        again = oncelog_cluster("up", folder)
        assert again.returncode == 1
        assert "runs already" in again.stderr
        down = oncelog_cluster("down", folder)
        assert (down.returncode, down.stdout) == (0, "the cluster is down\n")
        assert not any(process.is_alive for process in processes)
    finally:
        Cluster.open(folder).stop()
    assert processes_in(folder) == []


def test_a_failed_start_shows_its_log_and_leaves_nothing(folder):
    wrong = {"ONCELOG_MARKER_SENDER_RETRY_BACKOFF_MS": "soon"}
    cluster = Cluster(folder, ClusterShape(1, 1, 0, 1, 0, 0), environment=wrong)
    with pytest.raises(OncelogError, match=r"marker-sender-1 ended while it started") as failed:
        cluster.start()
    assert "ONCELOG_MARKER_SENDER_RETRY_BACKOFF_MS='soon'" in str(failed.value)
    assert processes_in(folder) == []


def test_a_port_in_use_is_refused_before_anything_starts():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OncelogError, match=f"port {port}, meant for a listener, is in use"):
            plan_members(ClusterShape(), FreePorts(), port=port, gateway_port=0)
        with pytest.raises(OncelogError, match="--gateway-port"):
            plan_members(ClusterShape(), FreePorts(), port=0, gateway_port=port)


def free_neighbours():
    """The lower of two ports that are both free."""
    ports = FreePorts()
    while ports.again((lower := ports.next_port()) + 1) != lower + 1:
        pass
    return lower


def test_another_start_keeps_free_ports_and_takes_given_ones():
    first = plan_members(ClusterShape(), FreePorts(), port=0, gateway_port=0)
    assert replan_ports(first, FreePorts(), port=0, gateway_port=0) == first
    with socket.create_server(("127.0.0.1", first[0].rpc_port)):
        again = replan_ports(first, FreePorts(), port=0, gateway_port=0)
    assert again[0].rpc_port != first[0].rpc_port
    assert again[1:] == first[1:]
    wanted = free_neighbours()
    moved = replan_ports(first, FreePorts(), port=wanted, gateway_port=0)
    listeners = [member.port for member in moved if member.role == "listener"]
    assert listeners == [wanted, wanted + 1]


class Planned(Exception):
    """Ends a start as soon as its plan is known."""


def planned_at(folder, **ports):
    """What `oncelog cluster up` would start; it is remembered, as if it had."""
    found = []

    def see(state):
        found.append(state)
        state.write(folder)
        raise Planned

    with pytest.raises(Planned):
        Cluster(folder, on_plan=see, **ports).start()
    return found[0]


def test_no_port_is_planned_for_two_purposes(tmp_path, monkeypatch):
    """There are just as many as are needed, so a process that takes another one's port is found out."""
    count = len(ports_of(plan_members(ClusterShape(), FreePorts(), port=0, gateway_port=0)))
    block = free_block(count)
    monkeypatch.setattr(plan, "FREE_PORTS", block)
    given = {"port": block[5], "gateway_port": block[-1]}
    state = planned_at(tmp_path, **given)
    assert sorted(ports_of(state.members)) == list(block)
    assert planned_at(tmp_path, **given) == state
    # A cluster that was planned before there were ports of metrics.
    rpc_ports = [member.rpc_port for member in state.members]
    state.members = tuple(replace(member, metrics_port=0) for member in state.members)
    state.write(tmp_path)
    found = planned_at(tmp_path, **given)
    assert [member.rpc_port for member in found.members] == rpc_ports
    assert sorted(ports_of(found.members)) == list(block)
