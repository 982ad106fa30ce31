"""What traces cost a commit: `oncelog up` without them, with a tenth of them and with all, in turns of one run.

    python -m bench.tracing               three servers side by side, one working at a time
    python -m bench.tracing --rounds 30 --partitions 4

A receiver of OTLP in its own process takes the spans. Printed for each: p50 of a commit, the median over the rounds of
its ratio to none, and the server's processor time for a commit, which other work on the machine moves less.
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
    """Of the server in all rounds: the kernel counts hundredths of a second, a tenth of a round."""

    def commit(self) -> None:
        """One round."""
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


def _show(name: str, server: _Server, off: _Server) -> None:
    pairs = zip(server.times, off.times, strict=True)
    ratio = median(percentile(one, 0.5) / percentile(other, 0.5) for one, other in pairs)
    p50 = percentile([one for times in server.times for one in times], 0.5)
    cpu_ms = server.cpu_s / (len(server.times) * _COMMITS) * _MS
    print(
        f"{name:5} p50 {p50 * _MS:6.2f} ms  {ratio:5.3f} of off   "
        f"CPU {cpu_ms:6.2f} ms  {server.cpu_s / off.cpu_s:5.3f} of off   {len(server.times) * _COMMITS} commits"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tracing")
    parser.add_argument("--rounds", type=int, default=20, help=f"of {_COMMITS} commits with each")
    parser.add_argument("--partitions", type=int, default=1, help="of a transaction")
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-bench-")))
        endpoint = _receiver(stack, folder)
        servers = {
            name: _server(stack, endpoint, ratio, asked.partitions)
            for name, ratio in _KINDS.items()
        }
        for server in servers.values():
            server.commit()  # Warms it up.
            server.times.clear()
            server.cpu_s = 0.0
        names = list(servers)
        for done in range(asked.rounds):
            # Another one begins each round: none always follows the same one.
            first = done % len(names)
            for name in names[first:] + names[:first]:
                servers[name].commit()
        for name, server in servers.items():
            _show(name, server, servers["off"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
