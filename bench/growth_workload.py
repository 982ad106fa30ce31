"""The workload `growth`: how cost grows with partitions, transactional ids, producers and bytes of a log,
over three decades of each.

A step is a size. At each step commits of one record go one after the other, and the server's resident memory is read.
A row has the cost of the last step as a ratio to the first.
"""

import itertools
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer

from bench.brokers import create_topic, resident_bytes
from bench.client_workloads import CALL_TIMEOUT_S, WARM_UP, transactional_producer
from bench.many_transactions import SETTLE_S, Wanted, make_transactions
from bench.results import Measurement, percentile
from bench.runner import ShowStep
from oncelog.wording import counted
from oncelog_server.demo.processes import OncelogServer

BAR: Final = 2.0
PARTITIONS: Final = (10, 100, 1_000, 10_000)
IDS: Final = (1_000, 10_000, 100_000, 1_000_000)
PRODUCERS: Final = (1, 4, 16, 64, 256)
GIGABYTES: Final = (0.05, 0.5, 5.0, 50.0)
QUICK_STEPS: Final = 2
TOPIC: Final = "grow"
TOPIC_PARTITIONS: Final = 10
"""The number of partitions of the topic that commits go to, which is made first."""
TOPIC_PARTITIONS_MAX: Final = 1_000
PARTITIONS_MAX: Final = {"ONCELOG_CONTROLLER_PARTITIONS_MAX": "20000"}
ZEROS: Final = bytes(1_000_000)
DIG_EVERY: Final = 1_000
"""The number of records of a megabyte that are written before their zeros are given back to the file system."""


class Step(NamedTuple):
    size: str
    p50_ms: float
    resident_mb: float
    recovery_s: float | None = None
    """The time from SIGKILL to ready, in seconds; None: it was not measured."""


def growth(is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    """Measure the growth by partitions, by ids, by producers and by bytes."""
    axes = {
        "partitions": _by_partitions,
        "transactional ids": _by_ids,
        "producers": _by_producers,
        "bytes of log": _by_bytes,
    }
    for axis, steps_of in axes.items():
        steps = []
        for step in steps_of(is_quick, show_step):
            steps.append(step)
            yield from step_rows(axis, step)
        yield from ratio_rows(axis, steps)


def step_rows(axis: str, step: Step) -> Iterator[Measurement]:
    what = f"{axis}: {step.size}"
    yield _row(f"{what}, begin to committed, p50", "ms", step.p50_ms)
    yield _row(f"{what}, resident", "MB", step.resident_mb)
    if step.recovery_s is not None:
        yield _row(f"{what}, SIGKILL to ready", "s", step.recovery_s)


def ratio_rows(axis: str, steps: Sequence[Step]) -> Iterator[Measurement]:
    """Yield rows with the last step's cost as a ratio to the first step's."""
    first, last = steps[0], steps[-1]
    what = f"{axis}: {last.size} by {first.size}"
    yield _row(f"{what}, begin to committed, p50", "×", last.p50_ms / first.p50_ms, BAR)
    yield _row(f"{what}, resident", "×", last.resident_mb / first.resident_mb, BAR)
    if first.recovery_s is not None and last.recovery_s is not None:
        yield _row(f"{what}, SIGKILL to ready", "×", last.recovery_s / first.recovery_s, BAR)


def _row(what: str, unit: str, value: float, bar: float | None = None) -> Measurement:
    return Measurement("growth", what, unit, value, is_lower_better=True, bar=bar)


@contextmanager
def _server(environment: Mapping[str, str] | None = None) -> Iterator[OncelogServer]:
    """Yield a running oncelog with the topic that commits go to."""
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder,
        OncelogServer(Path(folder) / "data", environment=environment) as server,
    ):
        create_topic(server.bootstrap, TOPIC, TOPIC_PARTITIONS)
        yield server


def _step(size: str, server: OncelogServer, producers: Sequence[Producer], count: int) -> Step:
    """Measure one step: commits go round the producers and the partitions, never two at once."""
    taken_ms = []
    turns = zip(itertools.cycle(producers), itertools.cycle(range(TOPIC_PARTITIONS)), strict=False)
    warm_up = max(WARM_UP, len(producers))
    for producer, partition in itertools.islice(turns, warm_up + count):
        began = time.perf_counter()
        producer.begin_transaction()
        producer.produce(TOPIC, b"x" * 100, partition=partition)
        producer.commit_transaction(CALL_TIMEOUT_S)
        taken_ms.append((time.perf_counter() - began) * 1_000)
    p50_ms = percentile(taken_ms[warm_up:], 0.5)
    return Step(size, p50_ms, resident_bytes(server.pid) / 1e6)


def _commits(is_quick: bool) -> int:
    return 50 if is_quick else 500


def _by_partitions(is_quick: bool, show_step: ShowStep) -> Iterator[Step]:
    with _server(PARTITIONS_MAX) as server:
        producer = transactional_producer(server.bootstrap, TOPIC)
        there = TOPIC_PARTITIONS
        for wanted in PARTITIONS[:QUICK_STEPS] if is_quick else PARTITIONS:
            while there < wanted:
                show_step(f"{there:,} of {wanted:,} partitions")
                more = min(TOPIC_PARTITIONS_MAX, wanted - there)
                name = f"{TOPIC}-{there}"
                create_topic(server.bootstrap, name, more, timeout_s=SETTLE_S)
                there += more
            yield _step(f"{wanted:,}", server, [producer], _commits(is_quick))


def _by_ids(is_quick: bool, show_step: ShowStep) -> Iterator[Step]:
    with _server() as server:
        producer = transactional_producer(server.bootstrap, TOPIC)
        there = 0
        for wanted in IDS[:QUICK_STEPS] if is_quick else IDS:
            show_step(f"{wanted:,} transactional ids")
            make_transactions(server.bootstrap, Wanted(wanted, first=there))
            there = wanted
            yield _step(f"{wanted:,}", server, [producer], _commits(is_quick))


def _by_producers(is_quick: bool, show_step: ShowStep) -> Iterator[Step]:
    with _server() as server:
        producers: list[Producer] = []
        for wanted in PRODUCERS[:QUICK_STEPS] if is_quick else PRODUCERS:
            show_step(counted(wanted, "producer"))
            producers += [
                transactional_producer(server.bootstrap, f"{TOPIC}-{number}")
                for number in range(len(producers), wanted)
            ]
            yield _step(f"{wanted:,}", server, producers, _commits(is_quick))


def _by_bytes(is_quick: bool, show_step: ShowStep) -> Iterator[Step]:
    """Yield steps of ever more bytes, which the partitions share.
    Every record is written by a producer and holds zeros.

    The file system may then keep a hole for the zeros: the log reads the same bytes, and the
    disk need not have the room.
    """
    with _server() as server:
        there = 0
        for gigabytes in GIGABYTES[:QUICK_STEPS] if is_quick else GIGABYTES:
            wanted = round(gigabytes * 1e9 / len(ZEROS))
            while there < wanted:
                show_step(f"{there / 1_000:.1f} of {gigabytes:g} GB")
                more = min(DIG_EVERY, wanted - there)
                _write_zeros(server.bootstrap, more)
                _dig_holes(server.data)
                there += more
            producer = transactional_producer(server.bootstrap, TOPIC)
            step = _step(f"{gigabytes:g} GB", server, [producer], _commits(is_quick))
            server.kill()
            began = time.perf_counter()
            server.start()
            yield step._replace(recovery_s=time.perf_counter() - began)


def _write_zeros(bootstrap: str, count: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "queue.buffering.max.kbytes": 32_000,
            "message.max.bytes": 2 * len(ZEROS),
            "log_level": 0,
        }
    )
    for number in range(count):
        while True:
            try:
                producer.produce(TOPIC, ZEROS, partition=number % TOPIC_PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(CALL_TIMEOUT_S * 5) == 0


def _dig_holes(data: Path) -> None:
    """Give the zeros of the log's files back to the file system, while nobody writes.
    `fallocate` belongs to util-linux."""
    for path in data.rglob("*.log"):
        subprocess.run(["fallocate", "--dig-holes", str(path)], check=True)
