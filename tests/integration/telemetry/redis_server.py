"""A real Redis, as a cluster starts it, that is killed and started again where it was.

Nothing it holds survives a kill.
"""

import signal
import socket
import time

from oncelog_server.cluster.databases import (
    redis_command,
    redis_socket,
    redis_url,
    start_redis_server,
)

READY_S = 90


class RedisServer:
    def __init__(self, folder):
        self.url = redis_url(folder)
        self._folder = folder
        self._process = None

    def start(self):
        self._process = start_redis_server(
            redis_command(), self._folder, self._folder / "redis.log"
        )
        deadline = time.monotonic() + READY_S
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as tried:
                    tried.connect(str(redis_socket(self._folder)))
                return
            except OSError:
                assert time.monotonic() < deadline, "redis did not start"
                time.sleep(0.01)

    @property
    def pid(self):
        return self._process.pid

    def kill(self):
        if self._process is not None:
            self._process.signal(signal.SIGKILL)
            self._process.wait(READY_S)
            self._process = None
