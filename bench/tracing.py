"""The cost of traces for a commit: `oncelog up` without traces, with a tenth of them and with
all, in turns of one run.

    python -m bench.tracing               two servers of each kind side by side, one working at a time
    python -m bench.tracing --rounds 30 --partitions 4

Servers of the same code differ by some percent, so there are two of each kind. A receiver of OTLP in its own
process takes the spans. For each kind this prints the p50 of a commit, and the median over the rounds of its
ratio to a server without traces. It also prints the server's processor time for a commit, which other work on
the machine affects less.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import confluent_kafka
import psutil
from confluent_kafka.admin import AdminClient, NewTopic

import oncelog

from .abuse import percentile

_KINDS: Final = {"off": None, "10 %": "0.1", "all": "1.0"}
_COMMITS: Final = 100
_SERVERS: Final = 2
"""The number of servers of each kind."""
_MS: Final = 1000.0


def _receiver(stack: ExitStack, folder: Path) -> str:
    command = [sys.executable, "-m", "oncelog_server.tracing.receiver", "--port", "0"]
    process = subprocess.Popen(
        [*command, str(folder / "spans.jsonl")], stdout=subprocess.PIPE, text=True
    )
    stack.callback(process.terminate)
    assert process.stdout is not None
    return f"http://{process.stdout.readline().split()[-1]}"


@dataclass
class _Server:
    process: psutil.Process
    producer: confluent_kafka.Producer
    partitions: int
    times: list[list[float]] = field(default_factory=list)
    cpu_s: float = 0.0
    """The processor time of the server in all rounds, in seconds: the kernel counts hundredths of a second,
    too coarse for one round."""

    def commit(self) -> None:
        """Commit one round of transactions, and note their times."""
        cpu = self._cpu_s()
        times = []
        for _ in range(_COMMITS):
            since = time.perf_counter()
            self.producer.begin_transaction()
            for partition in range(self.partitions):
                self.producer.produce("commits", b"v", partition=partition)
            self.producer.commit_transaction(60)
            times.append(time.perf_counter() - since)
        self.times.append(times)
        self.cpu_s += self._cpu_s() - cpu

    def _cpu_s(self) -> float:
        times = self.process.cpu_times()
        return times.user + times.system


def _server(stack: ExitStack, endpoint: str, ratio: str | None, partitions: int) -> _Server:
    environment = {}
    if ratio is not None:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_TRACES_SAMPLER": "traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": ratio,
        }
    before = {one.pid for one in psutil.Process().children()}
    log = stack.enter_context(oncelog.running(environment=environment))
    (process,) = (one for one in psutil.Process().children() if one.pid not in before)
    address = {"bootstrap.servers": log.bootstrap_servers, "log_level": 0}
    admin = AdminClient(address)
    admin.create_topics([NewTopic("commits", partitions)])["commits"].result(30)
    producer = confluent_kafka.Producer({**address, "transactional.id": "bench", "linger.ms": 0})
    producer.init_transactions(30)
    return _Server(process, producer, partitions)


def _rounds(servers: list[_Server]) -> list[list[float]]:
    """Return the times of each round, of these servers together."""
    return [
        [one for times in of_round for one in times]
        for of_round in zip(*(server.times for server in servers), strict=True)
    ]


def _show(name: str, servers: list[_Server], off: list[_Server]) -> None:
    rounds = _rounds(servers)
    pairs = zip(rounds, _rounds(off), strict=True)
    ratio = median(percentile(one, 0.5) / percentile(other, 0.5) for one, other in pairs)
    times = [one for of_round in rounds for one in of_round]
    cpu_s, off_cpu_s = (sum(one.cpu_s for one in kind) for kind in (servers, off))
    print(
        f"{name:5} p50 {percentile(times, 0.5) * _MS:6.2f} ms  {ratio:5.3f} of off   "
        f"CPU {cpu_s / len(times) * _MS:6.2f} ms  {cpu_s / off_cpu_s:5.3f} of off   {len(times)} commits"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tracing")
    parser.add_argument("--rounds", type=int, default=20, help=f"of {_COMMITS} commits with each")
    parser.add_argument("--partitions", type=int, default=1, help="of a transaction")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-bench-")))
        endpoint = _receiver(stack, folder)
        servers = [
            (name, _server(stack, endpoint, ratio, options.partitions))
            for name, ratio in _KINDS.items()
            for _ in range(_SERVERS)
        ]
        for _, server in servers:
            server.commit()  # Warms it up.
            server.times.clear()
            server.cpu_s = 0.0
        for done in range(options.rounds):
            # Another server begins each round, so that none always follows the same one.
            first = done % len(servers)
            for _, server in servers[first:] + servers[:first]:
                server.commit()
        of_kind = {name: [one for kind, one in servers if kind == name] for name in _KINDS}
        for name, kind in of_kind.items():
            _show(name, kind, of_kind["off"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
