"""A standalone cluster of two workers: each row comes once, whatever happens to tasks, executors and workers."""

import signal
import subprocess
import sys
import time
import uuid

import pytest
from tests.spark.standalone import HOSTS, StandaloneCluster
from tests.spark.topic_tools import ROOT, Lab

from oncelog.errors import ErrorCode, KafkaError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = [f"row-{number:04}" for number in range(400)]
LIMIT = 40
"""Offsets a batch: ten batches."""
DRIVER_S = 600
TASK_S = 1
"""What each task waits between its read and its write, so that faults meet it there."""
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


def start_slowly(lab, cluster, *settings):
    """A driver whose tasks wait, so that faults meet them."""
    options = [word for setting in settings for word in ("--conf", setting)]
    return start(lab, cluster, "--task-s", str(TASK_S), *options)


def log_of(lab):
    return "".join(path.read_text() for path in sorted(lab.folder.glob("driver*.log")))


def newest_batch(lab):
    """The number of the newest committed batch, or -1."""
    try:
        return lab.describe().last_committed_batch_id
    except KafkaError as error:
        if error.error_code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        return -1


def wait_for_batch(lab, driver, number):
    """Until so many batches are committed."""
    deadline = time.monotonic() + DRIVER_S
    while newest_batch(lab) < number:
        assert driver.poll() is None, log_of(lab)
        assert time.monotonic() < deadline, log_of(lab)
        time.sleep(0.1)


def assert_copied(lab, driver):
    assert driver.wait(DRIVER_S) == 0, log_of(lab)
    assert lab.visible_settled() == ROWS


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The archive that docs/spark.md describes, without Spark: the executors bring their own."""
    folder = tmp_path_factory.mktemp("packed")
    python = str(folder / "environment" / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", str(folder / "environment")],
        [
            python,
            "-m",
            "pip",
            "install",
            "-q",
            str(ROOT),
            "pandas<3",
            "pyarrow",
            "venv-pack",
            "setuptools",
        ],
        [
            python,
            "-m",
            "venv_pack",
            "-q",
            "-p",
            str(folder / "environment"),
            "-o",
            str(folder / "oncelog.tar.gz"),
        ],
    ):
        subprocess.run(command, check=True, timeout=600)
    return folder / "oncelog.tar.gz"


def test_executors_with_a_packed_environment(lab, cluster, packed):
    archive = f"spark.archives={packed}#oncelog"
    assert_copied(lab, start(lab, cluster, "--python", "./oncelog/bin/python", "--conf", archive))


def test_a_worker_dies_and_another_comes(lab, cluster):
    driver = start_slowly(lab, cluster)
    wait_for_batch(lab, driver, 1)
    cluster.kill_worker(HOSTS[0])
    wait_for_batch(lab, driver, 3)
    cluster.start_worker(HOSTS[0])
    assert_copied(lab, driver)


def test_executors_die_one_after_the_other(lab, cluster):
    driver = start_slowly(lab, cluster)
    for number in range(1, 4):
        wait_for_batch(lab, driver, number)
        cluster.executors()[0].kill()
    assert_copied(lab, driver)


def test_a_frozen_executor_wakes_too_late(lab, cluster):
    driver = start_slowly(
        lab,
        cluster,
        "spark.speculation=true",
        "spark.speculation.interval=100ms",
        "spark.speculation.multiplier=1.5",
        "spark.speculation.quantile=0.5",
    )
    wait_for_batch(lab, driver, 1)
    frozen = cluster.executors()[0]
    for process in (frozen, *frozen.children(recursive=True)):
        process.send_signal(signal.SIGSTOP)
    wait_for_batch(lab, driver, 5)
    for process in (frozen, *frozen.children(recursive=True)):
        process.send_signal(signal.SIGCONT)
    assert_copied(lab, driver)


def test_executors_come_and_go_with_the_work(lab, cluster):
    driver = start_slowly(
        lab,
        cluster,
        "spark.dynamicAllocation.enabled=true",
        "spark.dynamicAllocation.shuffleTracking.enabled=true",
        "spark.dynamicAllocation.initialExecutors=1",
        "spark.dynamicAllocation.maxExecutors=2",
        "spark.dynamicAllocation.executorIdleTimeout=1s",
        "spark.dynamicAllocation.schedulerBacklogTimeout=1s",
    )
    seen = set()
    while driver.poll() is None:
        seen |= {one.pid for one in cluster.executors()}
        time.sleep(0.1)
    assert_copied(lab, driver)
    assert len(seen) > 1
