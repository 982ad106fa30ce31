"""The workload `find-hanging` on a whole cluster: ten thousand partitions, a hundred thousand transactional ids, and
many open transactions, each of which is compared with its coordinator."""

import json
import time
import urllib.request

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.client_workloads import CALL_TIMEOUT_S, transactional_producer
from bench.cluster_workloads import a_cluster
from bench.many_transactions import SETTLE_S, Wanted, make_transactions
from bench.results import Measurement, percentile
from bench.runner import ShowStep
from oncelog.wording import counted

FIND_HANGING_BAR_S = 2.0
PARTITIONS_MAX_VARIABLE = "ONCELOG_CONTROLLER_PARTITIONS_MAX"
TOPICS = 10
PRODUCERS = 10
PARTITIONS_OF_A_PRODUCER = 100
REPEATS = 5


def find_hanging(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Measure the seconds of a whole GET /v1/hanging-transactions."""
    partitions, names = (100, 1_000) if is_quick else (1_000, 100_000)
    with a_cluster({PARTITIONS_MAX_VARIABLE: "20000"}) as running:
        _create_topics(running.bootstrap, partitions, show_step)
        show_step(counted(names, "transactional id"))
        make_transactions(running.bootstrap, Wanted(names))
        show_step("open transactions")
        producers = _open_transactions(running.bootstrap)
        seconds = []
        for number in range(REPEATS):
            show_step(f"find-hanging, {number + 1} of {REPEATS}")
            started_at = time.perf_counter()
            found = _get(f"{running.gateway}/v1/hanging-transactions")
            seconds.append(time.perf_counter() - started_at)
        assert not found["incomplete"], found["incomplete"]
        assert found["hanging"] == []
        assert found["open_transactions"] >= PRODUCERS * PARTITIONS_OF_A_PRODUCER
        for producer in producers:
            producer.abort_transaction(CALL_TIMEOUT_S)
    what = f"{found['checked_partitions']} partitions, {names} ids"
    return [
        Measurement(
            "find-hanging",
            f"{what}, {found['open_transactions']} open, {label}",
            "s",
            percentile(seconds, share),
            is_lower_better=True,
            bar=FIND_HANGING_BAR_S,
        )
        for label, share in (("median", 0.5), ("slowest", 1.0))
    ]


def _get(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=CALL_TIMEOUT_S) as answer:
        return json.load(answer)


def _create_topics(bootstrap: str, partitions: int, show_step: ShowStep) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(TOPICS):
        show_step(f"topic {number + 1} of {TOPICS}")
        topic = NewTopic(f"many-{number}", partitions, replication_factor=3)
        for future in admin.create_topics([topic], request_timeout=SETTLE_S).values():
            future.result(SETTLE_S)


def _open_transactions(bootstrap: str) -> list[Producer]:
    producers = []
    for number in range(PRODUCERS):
        producer = transactional_producer(bootstrap, f"open-{number}")
        producer.begin_transaction()
        for partition in range(PARTITIONS_OF_A_PRODUCER):
            producer.produce(f"many-{number % TOPICS}", b"x", partition=partition)
        assert producer.flush(CALL_TIMEOUT_S) == 0
        producers.append(producer)
    return producers
