"""A standalone cluster of Spark on this machine: a master, and two workers with addresses of their own."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pyspark
from tests.spark.session import JVM

HOSTS = ("127.0.0.2", "127.0.0.3")
"""Spark runs a speculative copy of a task on another host only: by its name, so two names of one machine do."""
START_S = 120
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
EXECUTOR = "CoarseGrainedExecutorBackend"


class StandaloneCluster:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen] = {}
        self.url = ""

    def __enter__(self) -> "StandaloneCluster":
        master = ["Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self.url = self._start("master", master, MASTER)[1]
        for host in HOSTS:
            self.start_worker(host)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.executors():
            process.send_signal(signal.SIGCONT)
        for process in self._running.values():
            process.kill()
            process.wait()

    def start_worker(self, host: str) -> None:
        """A worker with one core. It registers before this returns."""
        work = str(self._folder / f"work-{host}")
        worker = ["Worker", "--host", host, "--port", "0", "--webui-port", "0", "--work-dir", work]
        worker += ["--cores", "1", "--memory", "1g", self.url]
        self._start(host, worker, re.compile("Successfully registered with master"))

    def kill_worker(self, host: str) -> None:
        """SIGKILL to a worker and to its executors, as when its machine is gone."""
        process = psutil.Process(self._running[host].pid)
        for one in [*process.children(recursive=True), process]:
            one.kill()
        self._running.pop(host).wait()

    def executors(self) -> list[psutil.Process]:
        """The executors' JVMs that run now, the older first."""
        found = [
            child
            for process in self._running.values()
            for child in psutil.Process(process.pid).children(recursive=True)
            if _is_executor(child)
        ]
        return sorted(found, key=lambda one: one.create_time())

    def _start(self, name: str, arguments: list[str], ready: re.Pattern[str]) -> re.Match[str]:
        home = Path(pyspark.__file__).parent
        kind, *rest = arguments
        command = [str(home / "bin" / "spark-class")]
        command += [f"org.apache.spark.deploy.{kind.lower()}.{kind}", *rest]
        path = self._folder / f"{name}.log"
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JVM,
            "SPARK_NO_DAEMONIZE": "1",
        }
        with path.open("wb") as log:
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + START_S
        while (found := ready.search(path.read_text())) is None:
            assert self._running[name].poll() is None, path.read_text()
            assert time.monotonic() < deadline, path.read_text()
            time.sleep(0.1)
        return found


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any(EXECUTOR in word for word in process.cmdline()[:-1]) and process.name() == "java"
    except psutil.NoSuchProcess:
        return False
