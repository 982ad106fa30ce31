"""The end of a cluster: every process is gone, databases included. On a small one, which ends with the test."""

import psutil
import pytest
from tests.targets import cluster_folder

from oncelog_server.cli import run
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.databases import POSTGRES, REDIS
from oncelog_server.cluster.plan import ClusterShape


def descendants_in(folder):
    """Whatever still runs and names the folder, by its command line or its working folder."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd", "status"]):
        words = [*(process.info["cmdline"] or []), process.info["cwd"] or ""]
        is_there = process.info["status"] != psutil.STATUS_ZOMBIE
        if is_there and any(str(folder) in word for word in words):
            found.append(process.info)
    return found


@pytest.fixture
def folder():
    with cluster_folder() as made:
        yield made


def test_down_leaves_no_process_behind_and_up_again_keeps_data_and_ports(folder, capsys):
    shape = ClusterShape(1, 1, 1, 1, 1, 0)
    cluster = Cluster(folder, shape)
    cluster.start()
    try:
        members = cluster.members
        everything = [*(member.name for member in members), POSTGRES, REDIS]
        processes = [cluster.process(name) for name in everything]
        assert all(process.is_alive for process in processes)
        assert run(["cluster", "down", "--folder", str(folder)]) == 0
        assert "is down" in capsys.readouterr().out
        assert not any(process.is_alive for process in processes)
        assert descendants_in(folder) == []
        with Cluster(folder) as again:
            assert again.members == members
    finally:
        Cluster.open(folder).stop()
    assert descendants_in(folder) == []
