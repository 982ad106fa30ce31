"""Backup and restore of a cluster, and every mixture of older and newer parts of it (ADR 0027)."""

import json
import shutil
import subprocess
from urllib.request import urlopen

import pytest
from tests import kept_data
from tests.integration.processes.deadlines import eventually
from tests.targets import cluster_folder

from oncelog.errors import OncelogError
from oncelog_server.backup import back_up, restore
from oncelog_server.cli.rest import Rest
from oncelog_server.cluster.cluster import Cluster, ClusterFailed
from oncelog_server.cluster.plan import ClusterShape

SHAPE = ClusterShape(1, 3, 1, 1, 1, 1)
REFUSED_S = 15
"""Long enough for every process to say what it waits for."""


@pytest.fixture(scope="module")
def stopped():
    """A folder with `older`, a cluster that was stopped; `newer`, the same after more work; `backup`, of the older."""
    with cluster_folder() as folder:
        folder.chmod(0o755)
        with Cluster(folder / "newer", SHAPE) as cluster:
            kept = kept_data.write(cluster.bootstrap, replicas=3)
        back_up(folder / "newer", folder / "backup.tar.gz")
        copy(folder / "newer", folder / "older")
        with Cluster(folder / "newer", SHAPE) as cluster:
            later = kept_data.transactional(cluster.bootstrap, "later")
            kept_data.commit(later, "later")
            (folder / "producer-id").write_text(str(producer_id(cluster, "later")))
        del kept
        yield folder


def copy(source, target):
    """With owners: under root Postgres runs as another user."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def mixed(stopped, name, *older):
    """The newer cluster with some parts of the older."""
    folder = stopped / name
    copy(stopped / "newer", folder)
    for part in older:
        shutil.rmtree(folder / part)
        copy(stopped / "older" / part, folder / part)
    return folder


def producer_id(cluster, transactional_id):
    with urlopen(f"{cluster.gateway}/v1/transactions/{transactional_id}") as answer:
        return json.load(answer)["producer_id"]


def test_a_restored_cluster_has_all_once_and_repeats_no_id(stopped):
    folder = stopped / "restored"
    restore(stopped / "backup.tar.gz", folder)
    with Cluster(folder, SHAPE) as cluster:
        with pytest.raises(OncelogError, match="a backup is of a stopped one"):
            back_up(folder, stopped / "another.tar.gz")
        kept_data.check(cluster.bootstrap)
        kept_data.commit(kept_data.transactional(cluster.bootstrap, "new"), "new")
        given = int((stopped / "producer-id").read_text())
        assert producer_id(cluster, "new") > given + 1_000_000


@pytest.mark.slow
def test_an_older_postgres_beside_newer_logs_is_refused(stopped):
    folder = mixed(stopped, "older-postgres", "postgres")
    with pytest.raises(ClusterFailed, match="the metadata is older than the folder of node 1"):
        Cluster(folder, SHAPE).start(REFUSED_S)


@pytest.mark.slow
def test_an_older_folder_copies_what_it_lacks_and_never_leads(stopped):
    folder = mixed(stopped, "older-node", "data/storage-2")
    with Cluster(folder, SHAPE) as cluster:
        rest = Rest(cluster.gateway)
        kept_data.check(cluster.bootstrap, more=["later"])

        def is_in_sync():
            return 12 in rest.get(f"/v1/topics/{kept_data.TOPIC}")["partitions"][0]["isr"]

        eventually(is_in_sync)
        cluster.kill("storage-1")
        cluster.kill("storage-3")
        values = kept_data.read(cluster.bootstrap)
        assert "later" in values


@pytest.mark.slow
def test_older_folders_beside_a_newer_postgres_are_refused(stopped):
    folder = mixed(stopped, "older-logs", *(f"data/storage-{one}" for one in (1, 2, 3)))
    with pytest.raises(ClusterFailed, match="is older than the metadata: it may lack acknowledged"):
        Cluster(folder, SHAPE).start(REFUSED_S)
