"""Rates over time by REST, of `oncelog up` and of a cluster of processes with a node that falls silent."""

import json
import time
import urllib.error
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer
from tests.targets import cluster_folder

from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import ClusterShape
from oncelog_server.demo.processes import OncelogServer

DEADLINE_S = 60
RECORDS = 50


def asked(gateway, query=""):
    with urllib.request.urlopen(f"{gateway}/v1/rates{query}", timeout=10) as answer:
        return json.load(answer)


def until(gateway, is_so, query=""):
    deadline = time.monotonic() + DEADLINE_S
    while not is_so(found := asked(gateway, query)):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)  # Another process reads its counters every five seconds.
    return found


def lines(found, series):
    return {one["name"]: one["values"] for one in found["lines"] if one["series"] == series}


def seen(values):
    return sum(value is not None for value in values)


def total(found, series, name):
    return sum(value or 0 for value in lines(found, series).get(name, ())) * found["step_ms"] / 1000


def work(bootstrap):
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "pay"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(RECORDS):
        producer.produce("orders", b"x" * 100)
    producer.commit_transaction(30)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    got, deadline = 0, time.monotonic() + DEADLINE_S
    while got < RECORDS:
        assert time.monotonic() < deadline, got
        got += len(consumer.consume(RECORDS, 1))
    consumer.commit(asynchronous=False)
    consumer.close()


def check_work(bootstrap, gateway):
    """What was written, read and committed is in the lines, once."""
    # The first step of a gateway's memory is seen in part, and its rate is of that part alone.
    until(gateway, lambda found: any(seen(one) >= 3 for one in lines(found, "cpu").values()))
    work(bootstrap)

    def is_told(found):
        """A step that still runs is rated by what was seen of it, so its sum is too large for a moment."""
        return (
            any(lines(found, "commit_latency")["p99"])
            and "billing" in lines(found, "group_readable")
            and total(found, "consumed_records", "orders") > RECORDS * 0.9
            and total(found, "produced_records", "orders") == pytest.approx(RECORDS, rel=0.1)
        )

    found = until(gateway, is_told)
    assert total(found, "produced_bytes", "orders") > RECORDS * 100
    assert total(found, "transactions", "commit") > 0
    every = [value for one in found["lines"] for value in one["values"] if value is not None]
    assert min(every) >= 0
    assert found["source"] == "gateway"
    assert found["since_ms"] <= found["times_ms"][-1] + found["step_ms"]
    return found


def test_rates_of_an_embedded_log(tmp_path):
    with OncelogServer(tmp_path / "data") as log:
        found = check_work(log.bootstrap, log.gateway)
        assert list(lines(found, "memory")) == ["node 1"]
        with urllib.request.urlopen(f"{log.gateway}/v1/topics", timeout=10) as answer:
            topics = {one["name"]: one["rates"] for one in json.load(answer)["topics"]}
        assert topics["orders"]["records_out"] > 0
        for query, wanted in (
            ("?minutes=5", "query.minutes"),
            ("?series=produced_bites", "query.series.0: Input should be 'produced_bytes'"),
            ("?minuts=15", "did you mean minutes?"),
        ):
            with pytest.raises(urllib.error.HTTPError) as refused:
                asked(log.gateway, query)
            assert refused.value.code == 422
            assert wanted in json.load(refused.value)["detail"]
        day = asked(log.gateway, "?minutes=1440&series=produced_records&name=orders")
        assert len(day["times_ms"]) == 144
        assert [one["name"] for one in day["lines"]] == ["orders"]


def test_rates_of_a_cluster_and_of_a_silent_node():
    shape = ClusterShape(1, 1, 1, 1, 1, 1)
    # The gateway asks each five seconds, and a node that is fenced is not asked.
    settings = {"ONCELOG_CONTROLLER_SESSION_TIMEOUT_MS": "30000"}
    with cluster_folder() as folder, Cluster(folder, shape, environment=settings) as cluster:
        found = check_work(cluster.bootstrap, cluster.gateway)
        roles = {name.rpartition(" ")[0] for name in lines(found, "memory")}
        assert roles == {
            *("controller", "storage", "coordinator", "marker sender", "listener", "gateway")
        }
        cluster.pause("marker-sender-1")
        found = until(cluster.gateway, lambda found: found["silent"])
        cluster.resume("marker-sender-1")
        (silent,) = found["silent"]
        assert silent["process"].startswith("marker sender ")
        assert silent["reason"] == "did not answer within 2 s"
        until(cluster.gateway, lambda found: not found["silent"])
        cluster.kill("storage-1")
        cluster.start_one("storage-1")
        work(cluster.bootstrap)
        found = until(
            cluster.gateway,
            lambda found: total(found, "produced_records", "orders") > RECORDS * 0.9,
        )
        assert total(found, "produced_records", "orders") <= 2.5 * RECORDS
