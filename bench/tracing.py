"""What traces cost a commit: `oncelog up` without them, with a tenth of them and with all, in turns of one run.

    python -m bench.tracing               three servers side by side, one working at a time
    python -m bench.tracing --rounds 30

A receiver of OTLP in its own process takes the spans. Printed: p50 of a commit with each, and its ratio to none.
Nothing else may run.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import confluent_kafka

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


def _commits(producer: confluent_kafka.Producer, count: int) -> list[float]:
    times = []
    for _ in range(count):
        since = time.perf_counter()
        producer.begin_transaction()
        producer.produce("commits", b"v")
        producer.commit_transaction(60)
        times.append(time.perf_counter() - since)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tracing")
    parser.add_argument("--rounds", type=int, default=20, help=f"of {_COMMITS} commits with each")
    rounds = parser.parse_args().rounds
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-bench-")))
        endpoint = _receiver(stack, folder)
        producers = {}
        for name, ratio in _KINDS.items():
            environment = {}
            if ratio is not None:
                environment = {
                    "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
                    "OTEL_TRACES_SAMPLER": "traceidratio",
                    "OTEL_TRACES_SAMPLER_ARG": ratio,
                }
            log = stack.enter_context(oncelog.running(environment=environment))
            producer = confluent_kafka.Producer(
                {
                    "bootstrap.servers": log.bootstrap_servers,
                    "transactional.id": "bench",
                    "linger.ms": 0,
                }
            )
            producer.init_transactions(30)
            _commits(producer, _COMMITS)
            producers[name] = producer
        times: dict[str, list[float]] = {name: [] for name in producers}
        for _ in range(rounds):
            for name, producer in producers.items():
                times[name] += _commits(producer, _COMMITS)
        off = percentile(times["off"], 0.5)
        for name, found in times.items():
            p50 = percentile(found, 0.5)
            print(
                f"{name:6} p50 {p50 * _MS:6.2f} ms   {p50 / off:5.3f} of off   {len(found)} commits"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
