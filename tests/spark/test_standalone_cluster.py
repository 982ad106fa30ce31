"""A standalone cluster of two workers: each row comes once, whatever happens to tasks, executors and workers."""

import time
import uuid

import pytest
from tests.spark.standalone import HOSTS, StandaloneCluster
from tests.spark.topic_tools import Lab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = [f"row-{number:04}" for number in range(400)]
LIMIT = 40
"""Offsets a batch: ten batches."""
DRIVER_S = 600
EXECUTORS = ("--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with StandaloneCluster(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture
def lab(server, proxy, tmp_path):
    """The lab, without a session of Spark in this process."""
    proxy.reset()
    lab = Lab(None, proxy, tmp_path, f"t{uuid.uuid4().hex[:8]}")
    lab.fill(ROWS)
    yield lab
    proxy.reset()
    lab.close()


def start(lab, cluster, *options):
    return lab.start_driver(LIMIT, "--master", cluster.url, *EXECUTORS, *options)


def ended_well(lab, driver):
    assert driver.wait(DRIVER_S) == 0, "".join(
        path.read_text() for path in sorted(lab.folder.glob("driver*.log"))
    )
    return True


def test_rows_are_copied(lab, cluster):
    assert ended_well(lab, start(lab, cluster))
    assert lab.visible_settled() == ROWS
