"""The workload `secure`, the cost of security: clients over TLS that log in beside plain ones, and mutual TLS
between processes beside none.

Turns alternate, so that a busy moment of the machine affects both.
"""

import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.client_workloads import CALL_TIMEOUT_S
from bench.results import Measurement, percentile
from bench.runner import ShowStep
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import ClusterShape
from oncelog_server.cluster.security import keep_doors_plain

COMMIT_BAR: Final = 1.3
THROUGHPUT_BAR: Final = 0.6
BETWEEN_BAR: Final = 1.2
RECORD: Final = b"x" * 100
TOPIC: Final = "secure"
SHAPE: Final = ClusterShape(
    controllers=1, storage=1, coordinators=1, marker_senders=1, listeners=1, gateways=0
)
ALL_OF_IT, BETWEEN_ONLY, PLAIN = "TLS and login", "mTLS between processes", "plain"


def secure(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Measure three clusters of one process a role side by side, one working at a time."""
    rounds, commits, seconds = (2, 50, 1.0) if is_quick else (12, 50, 1.0)
    latencies: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncelog-bench-")))
        clients = {}
        for number, name in enumerate((PLAIN, BETWEEN_ONLY, ALL_OF_IT)):
            show_step(f"starting: {name}")
            cluster = Cluster(
                folder / str(number),
                SHAPE,
                is_secure=name != PLAIN,
                on_plan=keep_doors_plain if name == BETWEEN_ONLY else None,
            )
            stack.enter_context(cluster)
            clients[name] = _settings(cluster, has_login=name == ALL_OF_IT)
            _make_topic(clients[name])
        writers = {name: _transactional(settings) for name, settings in clients.items()}
        for writer in writers.values():
            _commits(writer, commits)
        for turn in range(rounds):
            for name, settings in clients.items():
                show_step(f"{name}, round {turn + 1} of {rounds}")
                latencies.setdefault(name, []).extend(_commits(writers[name], commits))
                rates.setdefault(name, []).append(_rate(settings, seconds))
    p50 = {name: percentile(found, 0.5) for name, found in latencies.items()}
    rate = {name: percentile(found, 0.5) for name, found in rates.items()}
    rows = [Measurement("secure", f"p50 of a commit, {name}", "ms", p50[name]) for name in p50]
    rows += [Measurement("secure", f"throughput, {name}", "records/s", rate[name]) for name in rate]
    return [
        *rows,
        _ratio("p50 of a commit, mTLS by plain", p50[BETWEEN_ONLY] / p50[PLAIN], BETWEEN_BAR),
        _ratio("p50 of a commit, TLS by mTLS", p50[ALL_OF_IT] / p50[BETWEEN_ONLY], COMMIT_BAR),
        Measurement(
            "secure",
            "throughput, TLS by mTLS",
            "×",
            rate[ALL_OF_IT] / rate[BETWEEN_ONLY],
            bar=THROUGHPUT_BAR,
        ),
    ]


def _ratio(what: str, value: float, bar: float) -> Measurement:
    return Measurement("secure", what, "×", value, is_lower_better=True, bar=bar)


def _settings(cluster: Cluster, *, has_login: bool) -> dict[str, str | int]:
    settings: dict[str, str | int] = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    if has_login and cluster.security is not None:
        from oncelog_robustness.clients.login import librdkafka_settings

        from oncelog_server.cli.client_config import read_client_config

        login = read_client_config(str(cluster.security.client_properties)).login
        assert login is not None, "the file of a secured cluster says how to log in"
        settings |= librdkafka_settings(login)
    return settings


def _make_topic(settings: Mapping[str, str | int]) -> None:
    admin = AdminClient(dict(settings))
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(CALL_TIMEOUT_S)


def _transactional(settings: Mapping[str, str | int]) -> Producer:
    producer = Producer({**settings, "transactional.id": "bench", "linger.ms": 0})
    producer.init_transactions(CALL_TIMEOUT_S)
    return producer


def _commits(producer: Producer, count: int) -> list[float]:
    """Return how long each commit took, in ms."""
    times = []
    for _ in range(count):
        since = time.perf_counter()
        producer.begin_transaction()
        producer.produce(TOPIC, RECORD)
        producer.commit_transaction(CALL_TIMEOUT_S)
        times.append((time.perf_counter() - since) * 1_000)
    return times


def _rate(settings: Mapping[str, str | int], seconds: float) -> float:
    """Return the acknowledged records a second of an idempotent producer."""
    producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 5})
    producer.produce(TOPIC, RECORD)
    producer.flush(CALL_TIMEOUT_S)
    sent, since = 0, time.perf_counter()
    while time.perf_counter() - since < seconds:
        try:
            for _ in range(1_000):
                producer.produce(TOPIC, RECORD)
                sent += 1
        except BufferError:
            producer.poll(0.01)
    producer.flush(CALL_TIMEOUT_S)
    return sent / (time.perf_counter() - since)
