"""`oncelog sinks` against a running `oncelog up` that Spark's own code wrote through."""

import json
import re

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.core.addresses import parse_addresses
from oncelog.ids import branch_transactional_id, job_sink_name
from oncelog.spark.attempt import (
    AttemptName,
    BranchOutcome,
    TaskIdentity,
    abort_attempts,
    commit_batch,
    join_attempt,
    new_nonce,
    open_attempt,
    seal_branch,
)

JOB = job_sink_name("audit/daily", "2026-11-21")


def committed(cluster, sink, batch_id, row_count=7):
    """A batch of one task that wrote nothing to any partition, decided; the attempt."""
    attempt = AttemptName(sink, new_nonce())
    open_attempt(cluster, attempt, 60_000)
    task = TaskIdentity("query", "run", batch_id, 0, 0)
    branch = join_attempt(cluster, attempt, task, False)
    seal_branch(cluster, attempt, branch, {}, row_count, 0, 0xABC)
    outcome = BranchOutcome(
        attempt, "query", 0, branch.producer_id, branch.producer_epoch, row_count
    )
    commit_batch(cluster, sink, batch_id, [outcome])


def test_sinks_are_listed_described_and_deleted(server, oncelog):
    assert "No sinks yet" in oncelog("sinks", "list")
    with Cluster(
        parse_addresses(server.bootstrap), ClientSettings(call_timeout_ms=30_000)
    ) as cluster:
        committed(cluster, "etl", 0)
        committed(cluster, "etl", 1)
        committed(cluster, JOB, 0)
        shown = oncelog("sinks", "list")
        assert max(map(len, shown.splitlines())) <= 80
        rows = json.loads(oncelog("sinks", "list", "-o", "json"))
        assert [(one["sink"], one["kind"]) for one in rows] == [(JOB, "job"), ("etl", "stream")]
        assert [one["last_committed_batch_id"] for one in rows] == [0, 1]

        described = oncelog("sinks", "describe", "etl")
        assert "0000000000000abc" in described
        assert "no attempt is open" in described
        found = json.loads(oncelog("sinks", "describe", JOB, "-o", "json"))
        assert [(one["batch_id"], one["row_count"]) for one in found["decisions"]] == [(0, 7)]

        attempt = AttemptName("etl", new_nonce())
        open_attempt(cluster, attempt, 60_000)
        assert "writing" in oncelog("sinks", "list")
        opened = oncelog("sinks", "describe", "etl")
        assert re.search(r"Open .* in (\d+ s|1 min)", opened), opened
        refused = oncelog("sinks", "delete", "etl", "--yes", code=1)
        assert "stop its query" in refused
        abort_attempts(cluster, "etl", [attempt.nonce])

        assert "is deleted" in oncelog("sinks", "delete", "etl", JOB, "--yes")
        assert "No sinks yet" in oncelog("sinks", "list")
        gone = oncelog("sinks", "describe", "etl", code=1)
        assert "`oncelog sinks list` lists all" in gone
        assert "oncelog sinks list" in oncelog("sinks", "delete", "nobody", "--yes", code=1)
        # A job whose sink was deleted is written again; so is a stream's batch.
        committed(cluster, JOB, 0)


@pytest.mark.parametrize("name", [branch_transactional_id("etl", 3, 0), JOB])
def test_client_may_not_use_a_name_that_oncelog_gives(server, name):
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": name})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(3)  # librdkafka asks again until then
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST


def test_client_may_use_a_name_that_ends_in_two_numbers(server, oncelog):
    oncelog("topics", "create", "orders")
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": "etl/1/2"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"value")
    producer.commit_transaction(30)
    listed = json.loads(oncelog("transactions", "list", "-o", "json"))
    assert "etl/1/2" in [one["transactional_id"] for one in listed]
