"""Storage nodes join and leave while clients write: nothing is lost, nothing doubled, no transaction fails."""

import signal
import subprocess
import sys
from contextlib import ExitStack
from itertools import pairwise

import pytest
from tests.integration.failover.traffic import Traffic
from tests.integration.processes.deadlines import WAIT_S, eventually
from tests.targets import asked_security, cluster_folder

from oncelog_server.cli import run
from oncelog_server.cli.rest import Rest
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import STORAGE

PRODUCERS = 2
JOINING = [14, 15]


@pytest.fixture
def cluster():
    with cluster_folder() as folder, Cluster(folder, **asked_security()) as running:
        yield running


def nodes(cluster):
    listed = Rest(cluster.gateway).get("/v1/nodes")["nodes"]
    return {one["node_id"]: one for one in listed if "storage" in one["roles"]}


def spread(cluster, count):
    values = [one[count] for one in nodes(cluster).values()]
    return max(values) - min(values)


def ran(cluster, *arguments):
    return run(["nodes", *map(str, arguments), "--gateway", cluster.gateway])


def interrupted(cluster, *arguments):
    """The command, cut off by Ctrl-C when it has begun to move something; its exit code."""
    command = [sys.executable, "-m", "oncelog_server", "nodes", *map(str, arguments)]
    process = subprocess.Popen([*command, "--gateway", cluster.gateway])
    rest = Rest(cluster.gateway)
    eventually(lambda: rest.get("/v1/reassignments")["total"] > 0)
    process.send_signal(signal.SIGINT)
    return process.wait(WAIT_S)


def longest_pause_s(traffic):
    ends = [one.acknowledged_at for one in traffic.commits]
    return max(after - before for before, after in pairwise(ends))


@pytest.mark.slow
def test_storage_nodes_join_and_leave_under_transactions(cluster, capsys):
    assert ran(cluster, "evacuate", "--role", "storage", "--from-id", JOINING[0]) == 0
    assert "no storage node has an id of 14 or more; nothing to do" in capsys.readouterr().out
    with ExitStack() as stack:
        traffics = [stack.enter_context(Traffic(cluster.bootstrap)) for _ in range(PRODUCERS)]
        cluster.grow(STORAGE, len(JOINING))
        eventually(
            lambda: (
                [n for n in nodes(cluster) if not nodes(cluster)[n]["fenced"]]
                == [11, 12, 13, *JOINING]
            )
        )
        assert all(nodes(cluster)[one]["replica_count"] == 0 for one in JOINING)
        assert ran(cluster, "balance", "--dry-run") == 0
        assert all(nodes(cluster)[one]["replica_count"] == 0 for one in JOINING)
        assert ran(cluster, "balance") == 0
        assert spread(cluster, "replica_count") <= 1
        eventually(lambda: spread(cluster, "leader_count") <= 1)
        assert ran(cluster, "balance") == 0

        assert ran(cluster, "evacuate", 11, 12, 13) == 1, "two nodes cannot take three replicas"
        assert not any(one["draining"] for one in nodes(cluster).values())

        evacuation = ("evacuate", "--role", "storage", "--from-id", JOINING[0], "--in-motion", 5)
        assert interrupted(cluster, *evacuation) == 130
        assert any(one["replica_count"] for one in nodes(cluster).values() if one["draining"])
        assert ran(cluster, *evacuation) == 0
        left = nodes(cluster)
        assert [left[one]["replica_count"] for one in JOINING] == [0, 0]
        assert all(left[one]["draining"] for one in JOINING)
        assert ran(cluster, "remove", *JOINING, "--yes") == 1, "they run"
        for name in ("storage-4", "storage-5"):
            cluster.shrink(name)
        for _ in range(2):
            removal = ("remove", "--role", "storage", "--from-id", JOINING[0], "--yes")
            assert ran(cluster, *removal) == 0
        assert sorted(nodes(cluster)) == [11, 12, 13]
    shown = capsys.readouterr()
    for said in (
        "balancing: done in",
        "balancing: nothing was to be moved",
        "evacuating nodes 14, 15: done in",
        "node 15 is forgotten",
    ):
        assert said in shown.out
    for traffic in traffics:
        traffic.check()
        assert len(traffic.commits) > 10
    with capsys.disabled():
        for traffic in traffics:
            pause_s = longest_pause_s(traffic)
            print(f"{len(traffic.commits)} commits, longest pause {pause_s:.2f} s")
