"""The audit of an Apache Kafka broker, while it runs and from its files: the same words for the same things."""

import pytest
from tests.conformance.kafka_broker import KafkaBroker
from tests.free_ports import free_block
from tests.incidents.scenes import new_topic, producer, raw, raw_produce, write

HANGING_PRODUCER = 999_999
NO_VERIFICATION = "transaction.partition.verification.enable=false\n"

pytestmark = pytest.mark.slow


def told(audit):
    rows = audit.findings.where("kind IN ('hanging-transaction', 'open-transaction')").collect()
    found = {(one.kind, one.topic, one.producer_id, one.transactional_id) for one in rows}
    return {
        (kind, topic, name if name else producer_id) for kind, topic, producer_id, name in found
    }


def test_a_kafka_broker_is_judged_while_it_runs_and_by_its_files(spark, tmp_path):
    from oncelog_server.log_audit.job import audit_cluster, audit_folders

    broker, controller = free_block(2)
    with KafkaBroker(
        tmp_path / "kafka", broker=broker, controller=controller, more=NO_VERIFICATION
    ) as kafka:
        new_topic(kafka.bootstrap, "orders")
        new_topic(kafka.bootstrap, "quiet")
        for end in ("commit", "abort", "commit"):
            writer = producer(kafka.bootstrap, "writer")
            write(writer, "orders", b"a", b"b")
            getattr(writer, f"{end}_transaction")()
        holder = producer(kafka.bootstrap, "slow", timeout_ms=600_000)
        write(holder, "orders", b"held")
        code = raw(
            kafka.bootstrap, lambda one: raw_produce(one, "quiet", "nobody", HANGING_PRODUCER, 3)
        )
        assert code == 0
        options = {"bootstrap.servers": kafka.bootstrap, "subscribe": "orders,quiet"}
        running = audit_cluster(spark, options)
        check(running)
    check(audit_folders(spark, [tmp_path / "kafka" / "data"]))


def check(audit):
    assert told(audit) == {
        ("hanging-transaction", "quiet", HANGING_PRODUCER),
        ("open-transaction", "orders", "slow"),
    }
    assert audit.findings.where("is_fault").count() == 1
    outcomes = audit.transactions.where("topic = 'orders'").groupBy("outcome").count().collect()
    assert {one["outcome"]: one["count"] for one in outcomes} == {"commit": 2, "abort": 1}
