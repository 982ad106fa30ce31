"""Several `oncelog cluster` commands at a time: each sees what the others did, and no process is lost."""

import subprocess
import sys
import threading
import time
from collections import Counter

import psutil
import pytest
from tests.targets import cluster_folder

from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import ClusterShape
from oncelog_server.cluster.status import cluster_status

WAIT_S = 120
SHAPE = ClusterShape(1, 1, 1, 2, 0, 0)


@pytest.fixture(scope="module")
def running():
    with cluster_folder() as folder, Cluster(folder, SHAPE) as cluster:
        yield cluster


def command(folder, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "oncelog_server", "cluster", *words, "--folder", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_by_module(folder):
    """Counted by the operating system, whatever the state file says."""
    found = Counter()
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        words = process.info["cmdline"] or []
        is_member = process.info["cwd"] == str(folder) and "-m" in words
        if is_member and process.info["status"] != psutil.STATUS_ZOMBIE:
            found[words[words.index("-m") + 1]] += 1
    return found


def test_restarts_at_once_lose_no_process(running):
    seen_before = Cluster.open(running.folder)
    before = processes_by_module(running.folder)
    names = ["marker-sender-1", "marker-sender-2", "marker-sender-1", "coordinator-1"]
    started = [command(running.folder, "restart", name) for name in names]
    done = threading.Event()
    lies = []

    def watch():
        while not done.is_set():
            view = Cluster.open(running.folder)
            for row in cluster_status(view):
                process = view.process(row.name)
                if row.state == "dead" and process is not None and process.is_alive:
                    lies.append(row)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        ended = [process.communicate(timeout=WAIT_S) for process in started]
    finally:
        done.set()
        watching.join(WAIT_S)
    assert [process.returncode for process in started] == [0] * len(names), ended
    assert lies == []
    assert processes_by_module(running.folder) == before
    for view in (seen_before, Cluster.open(running.folder)):
        assert {row.state for row in cluster_status(view)} <= {"ready", "absent"}
        for member in view.members:
            process = psutil.Process(view.process(member.name).pid)
            assert process.environ()["ONCELOG_NODE_NODE_ID"] == str(member.node_id)


def test_down_waits_for_a_restart_and_ends_what_it_started(running):
    restart = command(running.folder, "restart", "marker-sender-2")
    down = command(running.folder, "down")
    restarted, ended = [process.communicate(timeout=WAIT_S) for process in (restart, down)]
    assert down.returncode == 0, ended
    # The restart may come second: nothing of the cluster is there to serve with.
    assert restart.returncode == 0 or "is down" in restarted[1], restarted
    assert not processes_by_module(running.folder)
    assert not Cluster.open(running.folder).is_running


def test_a_process_of_a_cluster_that_is_down_is_not_started(running):
    """It would wait for its controllers until it is given up, and a cluster that is down would run."""
    running.stop()
    began = time.monotonic()
    restart = command(running.folder, "restart", "marker-sender-2")
    _, said = restart.communicate(timeout=WAIT_S)
    assert restart.returncode == 1
    assert (
        f"is down, and marker-sender-2 alone cannot serve: `oncelog cluster up --folder {running.folder}`"
        in " ".join(said.split())
    )
    assert time.monotonic() - began < 30
    assert not processes_by_module(running.folder)
