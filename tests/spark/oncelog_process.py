"""An `oncelog up` in a process of its own, which can be killed and started again on the same data."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from oncelog.client.core.addresses import Address, parse_addresses

START_S = 60


class OncelogProcess:
    def __init__(
        self,
        folder: Path,
        advertised_port: int | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._environment = os.environ | (environment or {})
        self._advertised_port = advertised_port
        self._process: subprocess.Popen | None = None
        self.address = Address("127.0.0.1", 1)
        """Where it really listens, whatever it advertises."""

    def start(self) -> None:
        ready = self._folder / "ready.json"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "oncelog_server", "up"]
        command += ["--port", "0", "--gateway-port", "0", "--data", str(self._folder / "data")]
        command += ["--ready-file", str(ready)]
        if self._advertised_port:
            command += ["--advertised-host", "127.0.0.1"]
            command += ["--advertised-port", str(self._advertised_port)]
        with (self._folder / "oncelog.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)
        deadline = time.monotonic() + START_S
        while not (ready.exists() and ready.read_text().strip()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "oncelog.log").read_text())
            time.sleep(0.02)
        (self.address,) = self._listening(json.loads(ready.read_text()))

    def _listening(self, ready: dict) -> tuple[Address, ...]:
        if self._advertised_port is None:
            return parse_addresses(ready["bootstrap"])
        return (Address("127.0.0.1", _listening_port(ready["pid"], ready)),)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is said."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()


def _listening_port(pid: int, ready: dict) -> int:
    """The Kafka port of the process: the one it listens on that is not the gateway's."""
    gateway = int(ready["gateway"].rsplit(":", 1)[1])
    found = psutil.Process(pid).net_connections("tcp")
    (port,) = {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN} - {gateway}
    return port
