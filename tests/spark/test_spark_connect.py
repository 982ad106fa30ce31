"""A client of Spark Connect copies a topic: the source and the sink run on its server."""

import os
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pyspark
import pytest
from tests.spark.session import JVM
from tests.spark.topic_tools import Lab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
READY = re.compile(r"Spark Connect server started at: \S+:(\d+)")
START_S = 180
COPY_S = 300
ROWS = [f"row-{number:04}" for number in range(60)]


class ConnectServer:
    """Spark's own server in a process of its own, which can be killed and started again."""

    def __init__(self, folder):
        self._log = folder / "connect.log"
        self.address = ""

    def start(self):
        home = Path(pyspark.__file__).parent
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": JVM,
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
        }
        command = [str(home / "bin" / "spark-submit"), "--class", SERVER, "--master", "local[2,2]"]
        command += ["--driver-memory", "1g"]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        environment = os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + START_S
        while (found := READY.search(self._log.read_text())) is None:
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.1)
        self.address = f"sc://127.0.0.1:{found[1]}"

    def kill(self):
        self._process.kill()
        self._process.wait()


@pytest.fixture
def connect(tmp_path):
    connect = ConnectServer(tmp_path)
    connect.start()
    yield connect
    connect.kill()


@pytest.fixture
def lab(server, proxy, tmp_path):
    proxy.reset()
    lab = Lab(None, proxy, tmp_path, f"t{uuid.uuid4().hex[:8]}")
    yield lab
    proxy.reset()
    lab.close()


def copy(lab, connect):
    driver = lab.start_driver(20, "--remote", connect.address)
    log = lab.folder / "driver0.log"
    assert driver.wait(COPY_S) == 0, log.read_text()


def test_a_query_of_a_connect_client_copies_each_row_once(lab, connect):
    lab.fill(ROWS[:40])
    copy(lab, connect)
    assert lab.visible_settled() == ROWS[:40]
    # A client's query lives in the server: the next one goes on from the checkpoint.
    connect.kill()
    connect.start()
    lab.fill(ROWS[40:])
    copy(lab, connect)
    assert lab.visible_settled() == ROWS
