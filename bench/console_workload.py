"""The workload `console`: pages of the console with ten thousand transactional ids, two thousand
partitions and two hundred groups.

A thousand of the ids have a transaction open.
"""

import tempfile
import time
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.client_workloads import CALL_TIMEOUT_S
from bench.cluster_workloads import a_cluster
from bench.many_transactions import Wanted, make_transactions
from bench.results import Measurement, percentile
from bench.runner import ShowStep
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.demo.processes import OncelogServer

PAGE_BAR_MS = 300
TOPIC = "many"
PARTITIONS = 20
WIDE_TOPICS = 99
"""The number of wide topics, each with PARTITIONS partitions."""
GROUPS = 200
REPEATS = 10
PATHS = (
    "/",
    "/transactions",
    "/transactions?state=Ongoing",
    "/slowest",
    "/transaction?id=id-0",
    "/transaction?id=id-9999",
    "/producers",
    f"/producers?topic={TOPIC}-0",
    "/producers?producer_id=1000",
    "/partitions",
    f"/partition?topic={TOPIC}&partition=0",
    "/topics",
    f"/topic?name={TOPIC}",
    f"/records?topic={TOPIC}",
    f"/record?topic={TOPIC}&partition=0&offset=0",
    "/groups",
    "/rates",
    "/group?id=group-7",
    "/sinks",
    "/nodes",
    f"/explain?subject={TOPIC}-0",
    "/audit",
    "/docs",
)


def wanted_of(is_quick: bool) -> Wanted:
    scale = 10 if is_quick else 1
    return Wanted(10_000 // scale, 1_000 // scale, 4_000 // scale, TOPIC, PARTITIONS)


def fill(bootstrap: str, wanted: Wanted, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    share = wanted.ids / 10_000
    names = [TOPIC, *(f"wide-{number}" for number in range(round(WIDE_TOPICS * share)))]
    topics = [NewTopic(name, PARTITIONS, replication_factor=replicas) for name in names]
    for future in admin.create_topics(topics).values():
        future.result(CALL_TIMEOUT_S)
    make_transactions(bootstrap, wanted)
    _commit_offsets(bootstrap, round(GROUPS * share))


def _commit_offsets(bootstrap: str, count: int) -> None:
    """Commit offset 0 in each group, so that it has read nothing of the topic, and open transactions block it."""
    offsets = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
    for number in range(count):
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": f"group-{number}", "log_level": 0}
        )
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()


def console(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Measure the milliseconds from request to the whole page, on `oncelog up`, then on a cluster."""
    rows = []
    for target, replicas in (("oncelog up", 1), ("cluster", 3)):
        with _running(target) as running:
            wanted = wanted_of(is_quick)
            show_step(f"{target}: {wanted.ids} transactional ids")
            fill(running.bootstrap, wanted, replicas)
            for path in PATHS:
                show_step(f"{target}: {path}")
                rows += _measured(running.gateway, path, f"{target}, {wanted.ids} ids, {path}")
    return rows


def _running(target: str) -> "AbstractContextManager[OncelogServer | Cluster]":
    if target == "cluster":
        return a_cluster()
    return OncelogServer(Path(tempfile.mkdtemp(prefix="oncelog-bench-")) / "data")


def _measured(gateway: str, path: str, what: str) -> list[Measurement]:
    taken_ms = []
    for _ in range(REPEATS):
        started_at = time.perf_counter()
        with urllib.request.urlopen(gateway + path, timeout=CALL_TIMEOUT_S) as answer:
            answer.read()
        taken_ms.append((time.perf_counter() - started_at) * 1000)
    return [
        Measurement(
            "console",
            f"{what}, {label}",
            "ms",
            percentile(taken_ms, share),
            is_lower_better=True,
            bar=PAGE_BAR_MS,
        )
        for label, share in (("median", 0.5), ("slowest", 1.0))
    ]
