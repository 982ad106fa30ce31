"""Consumers that ask for much and read nothing, and what a process holds in memory meanwhile."""

import socket
import time
from contextlib import ExitStack, contextmanager

import psutil
from confluent_kafka import Producer
from tests.worlds.listener.listener_requests import fetch_request

from oncelog.protocol.frames import framed, write_request_head
from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import APIS

FETCH, VERSION = 1, 11
TOPIC = "orders"
RECORD_BYTES = 50_000
ASKED_BYTES = 4 * 2**20
"""By each consumer; much more than the sockets' buffers take."""
WAIT_S = 60


def fill(bootstrap, size_bytes=3 * ASKED_BYTES):
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 100_000, "log_level": 0})
    for _ in range(size_bytes // RECORD_BYTES):
        producer.produce(TOPIC, bytes(RECORD_BYTES), partition=0)
    assert producer.flush(WAIT_S) == 0


@contextmanager
def silent_consumers(bootstrap, count):
    """So many that have asked for no less than ASKED_BYTES, and do not read."""
    host, port = bootstrap.split(",")[0].split(":")
    sizes = dict.fromkeys(("max_bytes", "partition_max_bytes", "min_bytes"), ASKED_BYTES)
    request = fetch_request(VERSION, **sizes)
    head = write_request_head(FETCH, VERSION, 1, "silent", APIS[FETCH].is_flexible(VERSION))
    frame = framed([head, *schema_of(FETCH, VERSION).write_request(request)])
    with ExitStack() as stack:
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            # Small, so that the answer stays with its sender.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect((host, int(port)))
            one.sendall(frame)
        yield


def memory_mb(pid):
    return psutil.Process(pid).memory_info().rss / 2**20


def peaks_mb(pids, stable_s=2.0):
    """The most that each had until nothing grew for a while."""
    peaks = {pid: memory_mb(pid) for pid in pids}
    changed_at = time.monotonic()
    while time.monotonic() < changed_at + stable_s:
        for pid, before in peaks.items():
            now = memory_mb(pid)
            if now > before + 1:
                peaks[pid], changed_at = now, time.monotonic()
        time.sleep(0.02)
    return peaks
