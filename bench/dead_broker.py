"""The workload `dead-broker`: the memory of a producer whose broker is gone and which never stops sending.

It is a process of its own: `python -m bench.dead_broker HOST:PORT` prints "ready" and waits for a line while its
broker is killed. Then it prints by how many bytes its memory grew until `buffer.memory` was full.
"""

import subprocess
import sys
import time
from typing import Final

import psutil

from bench.brokers import create_topic, oncelog
from bench.client_workloads import RECORD_BYTES_SMALL
from bench.results import Measurement
from bench.runner import ShowStep
from oncelog.client.blocking import Producer
from oncelog.client.errors import BufferExhaustedError

TOPIC: Final = "dead-broker"
BAR_MB: Final = 60
STOP_AFTER_S: Final = 120.0
MB: Final = 1_000_000
VALUE: Final = b"x" * RECORD_BYTES_SMALL


def dead_broker(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Measure the producer's growth above `buffer.memory`, in MB."""
    del is_quick
    with oncelog() as server:
        create_topic(server.bootstrap, TOPIC, 4)
        command = [sys.executable, "-m", "bench.dead_broker", server.bootstrap]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            assert program.stdout.readline().strip() == "ready"
            show_step("the broker is dead, the producer sends")
            server.kill()
            program.stdin.write("dead\n")
            program.stdin.close()
            grown_bytes, buffer_bytes = map(int, program.stdout.readline().split())
    above_mb = (grown_bytes - buffer_bytes) / MB
    what = "our producer above buffer.memory"
    return [Measurement("dead-broker", what, "MB", above_mb, is_lower_better=True, bar=BAR_MB)]


def _never_stops(bootstrap: str) -> None:
    process = psutil.Process()
    with Producer(bootstrap, max_block_ms=5_000, delivery_timeout_ms=600_000) as producer:
        for _ in range(1_000):
            producer.send(TOPIC, VALUE)
        producer.flush()
        before = peak = process.memory_info().rss
        print("ready", flush=True)
        sys.stdin.readline()
        started, sent = time.monotonic(), 0
        while time.monotonic() - started < STOP_AFTER_S:
            try:
                producer.send(TOPIC, VALUE)
            except BufferExhaustedError:
                peak = max(peak, process.memory_info().rss)
                break
            sent += 1
            if sent % 10_000 == 0:
                peak = max(peak, process.memory_info().rss)
        print(peak - before, producer.settings.buffer_memory, flush=True)
        process.kill()  # Nothing of it can be delivered.


if __name__ == "__main__":
    _never_stops(sys.argv[1])
