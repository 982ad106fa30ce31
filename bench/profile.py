"""A profile of an embedded log's time: `python -m bench.profile commit`, or commit-10, produce, read.

The row runs against `oncelog up` while py-spy looks at that process some hundred times a second. Then it runs
again while memray counts in it what is allocated. Both come with `make profile`.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from bench.brokers import MOCK_PARTITIONS, Broker, create_topic, oncelog
from bench.client_workloads import (
    CALL_TIMEOUT_S,
    RECORD_BYTES_LARGE,
    WARM_UP,
    one_transaction,
    read_many,
    send_many,
    transactional_producer,
)
from oncelog_server.demo.processes import OncelogServer

SAMPLES_A_SECOND: Final = 250
EVENT_LOOP: Final = "event loop, system calls"
FUNCTIONS_SHOWN: Final = 15
_OURS: Final = re.compile(r"(?:^|/)(oncelog(?:_[a-z]+)*)/(.+)\.py$")
_LIBRARIES: Final = re.compile(r"(?:^|/)(asyncio|uvloop|kio|google|grpc|sqlalchemy)/")
_FRAME: Final = re.compile(r"^(.*) \((.*):\d+\)$")
_WAITING: Final = re.compile(r"^_worker \(concurrent/futures/thread\.py:\d+\)$")
"""The frame in which a thread of a pool waits for work; py-spy does not always see that it sleeps."""
_LOOP: Final = re.compile(r"(?:^|/)(asyncio/runners\.py|uvloop/__init__\.py)$")

Act = Callable[[], None]


class Row(NamedTuple):
    """A row to profile: `prepare` makes what one step of the load needs, and returns the step; a
    step is so many `units`."""

    prepare: Callable[[str], Act]
    unit: str
    units: int
    traced_steps: int


def _prepare_commits(partitions: int) -> Callable[[str], Act]:
    def prepare(bootstrap: str) -> Act:
        for number in range(-(-partitions // MOCK_PARTITIONS)):
            create_topic(bootstrap, f"profile-{number}", MOCK_PARTITIONS)
        producer = transactional_producer(bootstrap, "profile")
        for _ in range(WARM_UP):
            one_transaction(producer, "profile", partitions)
        return lambda: one_transaction(producer, "profile", partitions)

    return prepare


def _prepare_produce(bootstrap: str) -> Act:
    create_topic(bootstrap, "profile", 1)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "log_level": 0,
        }
    )
    value = b"x" * RECORD_BYTES_LARGE

    def ten_megabytes() -> None:
        for _ in range(10_000):
            producer.produce("profile", value, partition=0)
        assert producer.flush(CALL_TIMEOUT_S) == 0

    ten_megabytes()
    return ten_megabytes


def _prepare_read(bootstrap: str) -> Act:
    create_topic(bootstrap, "profile", 1)
    send_many(bootstrap, "profile", RECORD_BYTES_LARGE, 50_000)

    def fifty_megabytes() -> None:
        read_many(bootstrap, "profile", 50_000)

    fifty_megabytes()
    return fifty_megabytes


ROWS: Final = {
    "commit": Row(_prepare_commits(1), "commit", 1, 200),
    "commit-10": Row(_prepare_commits(10), "commit", 1, 100),
    "produce": Row(_prepare_produce, "megabyte", 10, 3),
    "read": Row(_prepare_read, "megabyte", 50, 1),
}


class Place(NamedTuple):
    """The place of a sample: the layer whose code ran, and the role for which it ran."""

    role: str
    """The service for which the work was done; "" where it cannot be told."""
    layer: str


def place_of(stack: Iterable[str]) -> Place:
    """Return the place of `stack`, py-spy's frames `function (file:line)`, the outermost first.

    A library that is not named counts as its caller. Work that the loop does for no role in
    particular counts as the loop's.
    """
    role, layer = "", EVENT_LOOP
    for frame in stack:
        found = _FRAME.match(frame)
        path = found[2] if found else ""
        if _LOOP.search(path):
            role, layer = "", EVENT_LOOP  # What is outside of the loop only started it.
        elif ours := _OURS.search(path):
            package, inside = ours.groups()
            folder = inside.partition("/")[0] if "/" in inside or package == "oncelog" else ""
            layer = f"{package}.{folder}" if folder else package
            role = role if package == "oncelog" else package
        elif library := _LIBRARIES.search(path):
            layer = library[1]
    return Place(role, layer)


def samples_of(text: str) -> Iterator[tuple[list[str], int]]:
    """Yield each stack in py-spy's raw format that is not waiting, and how often it was seen."""
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        stack = frames.split(";")
        if not _WAITING.match(stack[-1]):
            yield stack, int(count)


def profile(name: str, seconds: float, console: Console) -> None:
    row = ROWS[name]
    with oncelog() as server:
        act = row.prepare(server.bootstrap)
        samples, cpu_ms = _sampled(row, act, server, seconds)
    total = sum(count for _, count in samples)
    console.print(f"{cpu_ms:.2f} ms of CPU a {row.unit}; {total:,} samples")
    by_place: Counter[Place] = Counter()
    by_function: Counter[str] = Counter()
    for stack, count in samples:
        by_place[place_of(stack)] += count
        by_function[re.sub(r":\d+\)$", ")", stack[-1])] += count
    table = Table("role", "layer", "share", f"ms a {row.unit}")
    roles = Counter[str]()
    for place, count in by_place.items():
        roles[place.role] += count
    for role, count in roles.most_common():
        table.add_row(role or "(no role)", "all", f"{count / total:.1%}", _ms(cpu_ms, count, total))
        for place, part in by_place.most_common():
            if place.role == role:
                table.add_row("", place.layer, f"{part / total:.1%}", _ms(cpu_ms, part, total))
    console.print(table)
    functions = Table("function", "share")
    for function, count in by_function.most_common(FUNCTIONS_SHOWN):
        functions.add_row(function, f"{count / total:.1%}")
    console.print(functions)


def _ms(cpu_ms: float, count: int, total: int) -> str:
    return f"{cpu_ms * count / total:.3f}"


def _sampled(
    row: Row, act: Act, server: OncelogServer, seconds: float
) -> tuple[list[tuple[list[str], int]], float]:
    """Return the samples, and the processor time of one unit in ms."""
    broker = Broker(server.bootstrap, (server.pid,))
    path = server.data.with_name("samples")
    command = ["py-spy", "record", "--pid", str(server.pid), "--format", "raw", "--output"]
    command += [str(path), "--rate", str(SAMPLES_A_SECOND), "--duration", f"{seconds:.0f}"]
    command[0] = str(Path(sys.executable).with_name("py-spy"))
    sampler = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    steps, taken_s = 0, broker.cpu_s()
    while sampler.poll() is None:
        act()
        steps += 1
    taken_s = broker.cpu_s() - taken_s
    if sampler.returncode != 0:
        said = sampler.stdout.read() if sampler.stdout else ""
        raise SystemExit(
            f"py-spy cannot look at another process here; run this as root, or set "
            f"kernel.yama.ptrace_scope to 0:\n{said}"
        )
    return list(samples_of(path.read_text())), taken_s * 1_000 / max(1, steps * row.units)


class _TracedServer(OncelogServer):
    """A server that writes each allocation to a file, also those of Python's own allocator."""

    @property
    def allocations(self) -> Path:
        return self.data.with_name("allocations.bin")

    def take_turn(self, name: str) -> None:
        """Begin or end the count of allocations, and wait until the server has done so."""
        os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while not self.allocations.with_suffix(name).exists():
            assert time.monotonic() < deadline, f"bench.traced_server has not {name}"
            time.sleep(0.01)

    def _command(self) -> list[str]:
        python, _, _, *words = super()._command()
        return [python, "-m", "bench.traced_server", str(self.allocations), *words]


def allocated(row: Row) -> tuple[float, float]:
    """Return the blocks and bytes that one unit allocates, those that were freed at once included."""
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder:
        server = _TracedServer(Path(folder) / "data")
        with server:
            act = row.prepare(server.bootstrap)
            server.take_turn(".begun")
            for _ in range(row.traced_steps):
                act()
            server.take_turn(".ended")
        report = Path(folder) / "stats.json"
        command = [sys.executable, "-m", "memray", "stats", "--json", "--output", str(report)]
        subprocess.run([*command, str(server.allocations)], check=True, stdout=subprocess.DEVNULL)
        found = json.loads(report.read_text())
    units = row.traced_steps * row.units
    return found["total_num_allocations"] / units, found["total_bytes_allocated"] / units


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("row", choices=list(ROWS))
    parser.add_argument("--seconds", type=float, default=15, help="of sampling")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    row = ROWS[arguments.row]
    began = time.monotonic()
    with console.status(f"sampling {arguments.row} for {arguments.seconds:.0f} s"):
        profile(arguments.row, arguments.seconds, console)
    with console.status("counting allocations"):
        blocks, size = allocated(row)
    console.print(f"a {row.unit}: {blocks:,.0f} allocations, {size / 1e3:,.0f} kB")
    console.print(f"done in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
