"""The audit of real logs agrees with find-hanging, on a running log and in files, and with the checkers on damage."""

import json
import os
import shutil
import subprocess
import sys

import confluent_kafka
import pytest
from oncelog_robustness.log_files import read_all_states, read_logs
from tests.incidents.scenes import (
    consumer,
    eventually,
    new_topic,
    producer,
    raw,
    raw_produce,
    write,
)
from tests.integration.log_audit.beside_checkers import accused, accused_by_checkers
from tests.spark.oncelog_process import OncelogProcess
from tests.spark.topic_tools import ROOT

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.core.encode import BatchAccumulator, ProducerIdentity
from oncelog.client.produce_pipeline import ProducePipeline
from oncelog.ids import Partition
from oncelog.record.batch import iter_headers, stamp
from oncelog.spark.attempt import (
    AttemptName,
    TaskIdentity,
    join_attempt,
    new_nonce,
    open_attempt,
)
from oncelog_server.cli.rest import Rest

HANGING_PRODUCER = 999_999
PLAIN_BATCHES = 6
NO_VERIFICATION = {"ONCELOG_STORAGE_TRANSACTION_PARTITION_VERIFICATION_ENABLE": "false"}
"""As old clients have it on Apache Kafka before 3.6: data of an unknown transaction gets in."""


class Scene:
    """A log with transactions of every kind, and what `find-hanging` says of it."""

    def __init__(self, folder):
        self.folder = folder
        self.server = OncelogProcess(folder, environment=NO_VERIFICATION)
        self.server.start()
        self.bootstrap = str(self.server.address)
        self._open = []

    def fill(self):
        for topic, partitions in (("orders", 2), ("branches", 1), ("quiet", 1)):
            new_topic(self.bootstrap, topic, partitions)
        for number in range(6):
            writer = producer(self.bootstrap, f"writer-{number % 2}")
            write(writer, "orders", b"a", b"b")
            getattr(writer, "abort_transaction" if number % 3 == 1 else "commit_transaction")()
        plain = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 0}
        )
        for number in range(PLAIN_BATCHES):
            plain.produce("orders", b"%d" % number, partition=1)
            assert plain.flush(60) == 0
        holder = producer(self.bootstrap, "slow", timeout_ms=600_000)
        write(holder, "orders", b"held")
        group = producer(self.bootstrap, "in-a-group", timeout_ms=600_000)
        group.begin_transaction()
        member = consumer(self.bootstrap, "readers")
        places = [confluent_kafka.TopicPartition("orders", 0, 1)]
        group.send_offsets_to_transaction(places, member.consumer_group_metadata())
        self._open += [holder, group]
        quick = producer(self.bootstrap, "quick")
        write(quick, "orders", b"behind")
        quick.commit_transaction()
        told = raw(
            self.bootstrap,
            lambda client: raw_produce(client, "quiet", "nobody", HANGING_PRODUCER, 3),
        )
        assert told == 0
        self._open_branch()

    def _open_branch(self):
        """A Spark task that has written, and whose driver has not decided."""
        with Cluster([self.server.address], ClientSettings(call_timeout_ms=30_000)) as cluster:
            attempt = AttemptName("sink", new_nonce())
            open_attempt(cluster, attempt, 600_000)
            branch = join_attempt(cluster, attempt, TaskIdentity("q", "r", 0, 0, 0), False)
            identity = ProducerIdentity(branch.producer_id, branch.producer_epoch)
            accumulator = BatchAccumulator(identity)
            pipeline = ProducePipeline(cluster, branch.transactional_id)
            rows = [(1_700_000_000_000, b"k", b"v", [])]
            for batch in [
                *accumulator.add(Partition("branches", 0), rows),
                *accumulator.close_all(),
            ]:
                pipeline.send(batch)
            pipeline.flush()
            pipeline.close()

    @property
    def gateway(self):
        return json.loads((self.folder / "ready.json").read_text())["gateway"]

    def found_hanging(self):
        found = Rest(self.gateway).get("/v1/hanging-transactions", {"limit": 1000})
        return {
            (one["topic"], one["partition"], one["producer_id"], one["start_offset"])
            for one in found["hanging"]
        }

    @property
    def data(self):
        return self.folder / "data"

    def close(self):
        self.server.kill()


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    scene = Scene(tmp_path_factory.mktemp("audited"))
    try:
        scene.fill()
        yield scene
    finally:
        scene.close()


def hanging_in(audit):
    rows = audit.findings.where("kind = 'hanging-transaction'").collect()
    return {(one.topic, one.partition, one.producer_id, one.offset) for one in rows}


def opened_in(audit):
    rows = audit.findings.where("kind = 'open-transaction'").collect()
    return {(one.topic, one.transactional_id) for one in rows}


def check_scene(audit, expected_hanging, is_running):
    assert hanging_in(audit) == expected_hanging == {("quiet", 0, HANGING_PRODUCER, 0)}
    assert opened_in(audit) == {
        ("orders", "slow"),
        ("__consumer_offsets", "in-a-group"),
        ("branches", "__oncelog/branch/0/0/sink"),
    }
    assert audit.findings.where("is_fault").count() == 1
    outcomes = audit.transactions.where("topic = 'orders'").groupBy("outcome").count().collect()
    assert {one["outcome"]: one["count"] for one in outcomes} == {"commit": 5, "abort": 2}
    held = audit.standstills.where("topic = 'orders' AND outcome = 'open'").collect()
    assert [(one.transactional_id, one.end_offset - one.offset) for one in held] == [("slow", 3)]
    last_ms = max(one.last_ms for one in audit.logs.collect())
    assert held[0].to_ms > last_ms if is_running else held[0].to_ms == last_ms
    assert audit.logs.where("topic = 'orders'").select("is_whole").first().is_whole


def test_a_running_log_is_judged_as_find_hanging_judges(spark, scene):
    from oncelog_server.log_audit.job import audit_cluster

    options = {"bootstrap.servers": scene.bootstrap}
    audit = audit_cluster(spark, options | {"maxRecordsPerPartition": "4"})
    check_scene(audit, scene.found_hanging(), True)
    # What was found goes into a topic, once a day however often the job runs.
    new_topic(scene.bootstrap, "audits")
    here = {"bootstrap.servers": scene.bootstrap}
    faults = audit.findings.where("is_fault").selectExpr("to_json(struct(*)) AS value")
    for _ in range(2):
        written = faults.write.format("oncelog").mode("append").options(**here, topic="audits")
        written.options(transactionalId="audit", jobId="2026-11-29").save()
    kept = [one for one in eventually(lambda: decided(spark, here)) if one.outcome == "committed"]
    assert [json.loads(one.value)["kind"] for one in kept] == ["hanging-transaction"]


def decided(spark, here):
    """All records of the topic with their outcomes. None while a marker is on its way."""
    everything = {"isolation.level": "read_uncommitted", "includeOutcome": "true"}
    source = spark.read.format("oncelog").options(**here, **everything, subscribe="audits")
    found = source.load().collect()
    return found if all(one.outcome != "undecided" for one in found) else None


def test_files_of_a_killed_log_are_judged_alike(spark, scene, tmp_path):
    from oncelog_server.log_audit.job import audit_folders
    from oncelog_server.log_audit.report import report_of

    expected = scene.found_hanging()
    scene.server.kill()
    try:
        audit = audit_folders(spark, [scene.data])
        check_scene(audit, expected, False)
        audit.save(str(tmp_path / "kept"))
        kept = spark.read.parquet(str(tmp_path / "kept" / "findings"))
        assert kept.count() == audit.findings.count()
        report = report_of(audit)
        assert (report["fault_count"], report["transactions"]["abort"]) == (1, 2)
        assert report["first_findings"][0]["kind"] == "hanging-transaction"
    finally:
        scene.server.start()
        scene.bootstrap = str(scene.server.address)


def test_damage_is_found_as_by_the_checkers(spark, scene, tmp_path):
    from oncelog_server.log_audit.job import audit_folders

    scene.server.kill()
    try:
        logs_folder = shutil.copytree(scene.data, tmp_path / "copy") / "logs"
    finally:
        scene.server.start()
        scene.bootstrap = str(scene.server.address)
    damage(logs_folder / "orders-1")
    audit = audit_folders(spark, [logs_folder])
    logs = read_logs(logs_folder, 1, 0)
    states = read_all_states((logs_folder, log) for log in logs)
    expected = set()
    for log in logs:
        expected |= accused_by_checkers(log, states)
    found = {told for one in audit.findings.collect() if (told := accused(one))}
    assert found == expected
    assert {family for family, *_ in found} == {"sequence", "hole", "open"}
    kinds = {one.kind for one in audit.findings.where("topic = 'orders'").collect()}
    assert kinds == {"duplicate", "sequence-gap", "damaged", "hole", "open-transaction"}


def test_of_two_replicas_the_undamaged_one_tells(spark, scene, tmp_path):
    from oncelog_server.log_audit.job import audit_folders

    expected = scene.found_hanging()
    scene.server.kill()
    try:
        whole = shutil.copytree(scene.data, tmp_path / "a") / "logs"
        damaged = shutil.copytree(scene.data, tmp_path / "b") / "logs"
    finally:
        scene.server.start()
        scene.bootstrap = str(scene.server.address)
    damage(damaged / "orders-1")
    audit = audit_folders(spark, [damaged, whole])
    assert hanging_in(audit) == expected
    faults = audit.findings.where("is_fault AND topic = 'orders'").collect()
    assert {one.replica for one in faults} == {str(damaged)}
    judged = audit.logs.where("is_judged AND topic = 'orders' AND partition = 1").collect()
    assert [one.replica for one in judged] == [str(whole)]
    assert audit.logs.where("is_judged AND topic = 'orders'").count() == 2
    assert audit.transactions.where("topic = 'orders'").count() == 7


def damage(folder):
    """One batch is gone from the middle, one has a flipped bit, and one stands at the end once more."""
    (path,) = sorted(folder.glob("*.log"))
    data = path.read_bytes()
    batches = [
        (header, bytearray(data[at : at + header.size_bytes])) for at, header in iter_headers(data)
    ]
    assert len(batches) == PLAIN_BATCHES
    again = bytearray(batches[3][1])
    stamp(again, batches[-1][0].next_offset, 0)
    batches[4][1][-3] ^= 1
    kept = [one for number, (_, one) in enumerate(batches) if number != 1]
    path.write_bytes(b"".join([*kept, again]))


@pytest.mark.slow
def test_the_command_tells_what_is_wrong_and_fails(scene):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "oncelog",
            "transactions",
            "audit",
            "--master",
            "local[2]",
            "--bootstrap",
            scene.bootstrap,
            "-o",
            "json",
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
        cwd=ROOT,
        env=os.environ,
    )
    assert done.returncode == 1, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["findings"]["hanging-transaction"] == 1
    assert report["standstills"][0]["transactional_id"] in (
        "slow",
        None,
        "__oncelog/branch/0/0/sink",
    )
