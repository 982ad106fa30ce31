"""Frames that cost much, sent to `oncelog up` while a neighbour commits transactions.

    python -m bench.abuse                 all frames, one after the other

For each kind of frame this prints the server's processor time per frame, and the neighbour's p50 and p99 of a commit
before and meanwhile. It also prints the server's longest pause (an ApiVersions that is answered at once, on its own
connection), and its resident memory. Nothing else may run on the machine: the neighbour's times are wall time.
"""

import multiprocessing
import os
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from oncelog.protocol.frames import LENGTH_BYTES, framed, write_request_head
from oncelog.protocol.shape import ELEMENTS_MAX
from oncelog.protocol.writing import write_uvarint
from oncelog.record.batch import Codec
from oncelog.record.records import Record, encode_batch
from oncelog_server.demo.processes import OncelogServer

_PRODUCE: Final = 0
_FETCH: Final = 1
_METADATA: Final = 3
_FIND_COORDINATOR: Final = 10
_API_VERSIONS: Final = 18
_QUIET_S: Final = 5.0
_ABUSE_S: Final = 10.0
_ABUSERS: Final = 4
_COUNT: Final = ELEMENTS_MAX - 10
_TOPIC: Final = "abuse"
_MS: Final = 1000.0


class Kind(NamedTuple):
    name: str
    frame: bytes


def kinds() -> Iterator[Kind]:
    head = write_request_head(_FIND_COORDINATOR, 4, 1, "abuse", True)
    yield Kind(
        f"FindCoordinator, {_COUNT} keys",
        framed([head, b"\0", write_uvarint(_COUNT + 1), _names(_COUNT, b""), b"\0"]),
    )
    head = write_request_head(_METADATA, 9, 1, "abuse", True)
    yield Kind(
        f"Metadata, {_COUNT} topics",
        framed([head, write_uvarint(_COUNT + 1), _names(_COUNT, b"\0"), bytes(4)]),
    )
    yield Kind(f"Fetch, {_COUNT} partitions", _fetch(range(_COUNT)))
    yield Kind(f"Fetch, one partition {_COUNT} times", _fetch([0] * _COUNT))
    yield Kind("Produce, gzip of 90 MB", _produce([Record(b"k", bytes(90_000_000), _now_ms())]))
    tiny = [Record(None, None, _now_ms())] * 150_000
    yield Kind("Produce, gzip of 150,000 empty records", _produce(tiny))


def _names(count: int, end: bytes) -> bytes:
    return b"".join(b"\x07%06d" % number + end for number in range(count))


def _fetch(partitions: "range | list[int]") -> bytes:
    head = write_request_head(_FETCH, 11, 1, "abuse", False)
    fixed = struct.pack(">iiiibii", -1, 100, 1, 1 << 20, 0, 0, -1)
    topic = struct.pack(">ih", 1, len(_TOPIC)) + _TOPIC.encode()
    named = b"".join(struct.pack(">iiqqi", one, -1, 0, -1, 1 << 20) for one in partitions)
    count = struct.pack(">i", len(partitions))
    return framed([head, fixed, topic, count, named, struct.pack(">ih", 0, 0)])


def _produce(records: list[Record]) -> bytes:
    batch = bytes(encode_batch(records, codec=Codec.GZIP))
    head = write_request_head(_PRODUCE, 7, 1, "abuse", False)
    fixed = struct.pack(">hhii", -1, 1, 10_000, 1)
    topic = struct.pack(">h", len(_TOPIC)) + _TOPIC.encode()
    return framed([head, fixed, topic, struct.pack(">iii", 1, 0, len(batch)), batch])


def _now_ms() -> int:
    return int(time.time() * 1000)


class Wire:
    """One connection, on which a request is sent and then its response is read."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, frame: bytes) -> int:
        """Send a frame, read the response, and return its size in bytes."""
        self._socket.sendall(frame)
        size = int.from_bytes(self._receive(LENGTH_BYTES), "big")
        left = size
        while left:
            left -= len(self._receive(min(left, 1 << 20)))
        return size

    def _receive(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            piece = self._socket.recv(count - len(found))
            if not piece:
                raise ConnectionError("the server closed the connection")
            found += piece
        return found


def commit_until_stopped(bootstrap: str, commands: Connection, login: Mapping[str, str]) -> None:
    """Commit one transaction after the other: the neighbour, in a process of its own.
    Each command is answered with the times since the last."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "neighbour", "linger.ms": 0, **login}
    )
    producer.init_transactions(30)
    times: list[float] = []
    while True:
        if commands.poll():
            if commands.recv() == "end":
                return
            commands.send(times)
            times = []
        since = time.perf_counter()
        producer.begin_transaction()
        producer.produce("neighbour", b"v")
        producer.commit_transaction(60)
        times.append(time.perf_counter() - since)


class Pauses:
    """A measurement of pauses: how long the server takes for a request that costs nothing."""

    def __init__(self, bootstrap: str) -> None:
        self._wire = Wire(bootstrap)
        self._frame = framed([write_request_head(_API_VERSIONS, 0, 1, "probe", False)])
        self._ends = threading.Event()
        self.longest_s = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.wait(0.002):
            since = time.perf_counter()
            self._wire.exchange(self._frame)
            self.longest_s = max(self.longest_s, time.perf_counter() - since)

    def take(self) -> float:
        found, self.longest_s = self.longest_s, 0.0
        return found

    def end(self) -> None:
        self._ends.set()
        self._thread.join()


def abuse(bootstrap: str, frame: bytes, seconds: float, sent: "multiprocessing.Queue[int]") -> None:
    wire, count = Wire(bootstrap), 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        wire.exchange(frame)
        count += 1
    sent.put(count)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int, key: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1000
    raise KeyError(key)


def percentile(times: list[float], share: float) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


@contextmanager
def neighbour(
    bootstrap: str, login: Mapping[str, str] | None = None
) -> Iterator[Callable[[], list[float]]]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(
        target=commit_until_stopped, args=(bootstrap, there, login or {})
    )
    process.start()

    def take() -> list[float]:
        here.send("times")
        times: list[float] = here.recv()
        return times

    try:
        yield take
    finally:
        here.send("end")
        process.join()


def measure(server: OncelogServer, kind: Kind, take: Callable[[], list[float]]) -> None:
    pauses = Pauses(server.bootstrap)
    take()
    time.sleep(_QUIET_S)
    quiet, quiet_pause_s = take(), pauses.take()
    cpu_before = _cpu_s(server.pid)
    sent: multiprocessing.Queue[int] = multiprocessing.Queue()
    abusers = [
        multiprocessing.Process(target=abuse, args=(server.bootstrap, kind.frame, _ABUSE_S, sent))
        for _ in range(_ABUSERS)
    ]
    for one in abusers:
        one.start()
    count = sum(sent.get() for _ in abusers)
    for one in abusers:
        one.join()
    cpu_s, meanwhile, pause_s = _cpu_s(server.pid) - cpu_before, take(), pauses.take()
    pauses.end()
    print(
        f"{kind.name:42} {len(kind.frame) / 1000:7.0f} kB  {count:5} frames"
        f"  {cpu_s * _MS / max(count, 1):6.0f} ms cpu each"
        f"  commit p50 {percentile(quiet, 0.5) * _MS:5.1f} -> {percentile(meanwhile, 0.5) * _MS:6.1f}"
        f"  p99 {percentile(quiet, 0.99) * _MS:5.1f} -> {percentile(meanwhile, 0.99) * _MS:6.1f} ms"
        f"  pause {quiet_pause_s * _MS:4.0f} -> {pause_s * _MS:5.0f} ms"
        f"  rss {memory_mb(server.pid, 'VmRSS'):4.0f}, at most {memory_mb(server.pid, 'VmHWM'):4.0f} MB",
        flush=True,
    )


def main() -> int:
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-abuse-") as folder,
        OncelogServer(Path(folder) / "data") as server,
        neighbour(server.bootstrap) as take,
    ):
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        admin.create_topics([NewTopic(_TOPIC, 1)])[_TOPIC].result(30)
        for kind in kinds():
            measure(server, kind, take)
    return 0


if __name__ == "__main__":
    sys.exit(main())
