"""kafka-transactions against a log that lost a marker, and kafka-dump-log on the files of a log that has stopped."""

import json
import time
import urllib.request
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.face import Fenced, commit, values
from tests.conformance.clients.java import JavaProcess
from tests.conformance.group_members import eventually
from tests.targets import TargetKind, open_target, target_kind

from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, shard_of
from oncelog.record.batch import iter_headers
from oncelog.record.records import Record, encode_batch
from oncelog_coordinator.core.shard_machine import encode_shard_record
from oncelog_coordinator.core.sink_records import SinkHeader

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DUMP = "kafka.tools.DumpLogSegments"
HOUR_MS = 3_600_000
TOPIC = "orders"
GROUP = "readers"
SHARDS = 50


@dataclass
class Scene:
    """A log with a transaction that hangs since two hours and one whose producer is at work."""

    server: object
    driver: JavaProcess
    began_ms: int

    def tool(self, words, *, code=0):
        answer = self.driver.ask(
            "tool", TRANSACTIONS, "--bootstrap-server", self.server.bootstrap, *words.split()
        )
        assert answer["exit"] == code, answer["printed"]
        return answer["printed"]

    def rows(self, words):
        """Rows of the table that a command prints, by the names of its columns."""
        header, *rows = [
            [cell.strip() for cell in line.split("\t")[:-1]]
            for line in self.tool(words).splitlines()
            if "\t" in line
        ]
        return [dict(zip(header, row, strict=True)) for row in rows]

    def file(self, partition, pattern):
        """The newest of them."""
        (folder,) = self.server.data.rglob(partition)
        return max(folder.glob(pattern))


@pytest.fixture(scope="module")
def scene(driver, tmp_path_factory):
    if target_kind() is not TargetKind.EMBEDDED:
        pytest.skip("a marker is taken out of the files of a log that this test owns")
    with open_target(tmp_path_factory.mktemp("oncelog")) as server:
        began_ms = time.time_ns() // 1_000_000 - 2 * HOUR_MS
        admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic(TOPIC, 2)]).values():
            future.result(20)
        lost = Confluent().producer(server.bootstrap, "lost")
        lost.init()
        for value in (b"kept", b"hanging"):
            lost.begin()
            lost.send(TOPIC, value, timestamp_ms=began_ms)
            lost.commit()
        lost.close()
        found = Scene(server, driver, began_ms)
        lost_state = "describe --transactional-id lost"
        eventually(lambda: found.rows(lost_state)[0]["TransactionState"] == "CompleteCommit")
        server.kill()
        _cut_last_batch(found.file(f"{TOPIC}-0", "*.log"))
        server.start()
        works = Confluent().producer(server.bootstrap, "works")
        works.init()
        works.begin()
        works.send(TOPIC, b"one", partition=1)
        works.abort()
        works.begin()
        works.send(TOPIC, b"two", partition=1)
        yield found
        works.close()


def _cut_last_batch(log):
    """What a power cut takes of a file that was not synced yet."""
    content = log.read_bytes()
    position, header = list(iter_headers(content))[-1]
    assert header.is_control
    log.write_bytes(content[:position])


def test_list_shows_every_transactional_id(scene):
    rows = {row["TransactionalId"]: row for row in scene.rows("list")}
    assert rows["lost"]["TransactionState"] == "CompleteCommit"
    assert rows["works"]["TransactionState"] == "Ongoing"
    assert rows["works"]["Coordinator"] == "1"
    assert scene.rows(f"list --duration-filter {HOUR_MS}") == []
    (row,) = scene.rows("list --transactional-id-pattern wor.*")
    assert row == rows["works"]


def test_describe_shows_the_open_transaction(scene):
    (row,) = scene.rows("describe --transactional-id works")
    assert row["TopicPartitions"] == f"{TOPIC}-1"
    assert row["TransactionTimeoutMs"] == "60000"
    assert int(row["TransactionDurationMs"]) < HOUR_MS
    assert "could not be found" in scene.tool("describe --transactional-id nobody", code=1)


def test_describe_producers_shows_where_each_transaction_began(scene):
    (row,) = scene.rows(f"describe-producers --topic {TOPIC} --partition 1")
    assert (row["ProducerEpoch"], row["LastSequence"]) == ("0", "1")
    assert row["CurrentTransactionStartOffset"] == "2"
    (same,) = scene.rows(f"describe-producers --topic {TOPIC} --partition 1 --broker-id 1")
    assert same == row


def test_a_hanging_transaction_is_found_and_aborted(scene):
    search = f"find-hanging --topic {TOPIC} --max-transaction-timeout"
    (row,) = scene.rows(f"{search} 60")
    assert (row["Partition"], row["ProducerEpoch"], row["StartOffset"]) == ("0", "0", "2")
    assert row["LastTimestamp"] == str(scene.began_ms)
    assert 120 <= int(row["Duration(min)"]) < 130
    assert scene.rows(f"{search} 0") == [row]
    assert scene.rows("find-hanging --broker-id 1 --max-transaction-timeout 60") == [row]
    assert scene.rows(f"{search} 180") == []
    assert scene.rows(f"{search} 60 --partition 1") == []
    with urllib.request.urlopen(f"{scene.server.gateway}/v1/hanging-transactions") as answer:
        (ours,) = json.load(answer)["hanging"]
    same = {"Topic": "topic", "ProducerId": "producer_id", "CoordinatorEpoch": "coordinator_epoch"}
    assert {row[theirs] for theirs in same} == {str(ours[name]) for name in same.values()}
    abort = f"abort --topic {TOPIC} --partition 0 --start-offset"
    assert "any open transactions starting at offset 1" in scene.tool(f"{abort} 1", code=1)
    scene.tool(f"{abort} 2")
    assert scene.rows(f"{search} 0") == []
    assert "any open transactions starting at offset 2" in scene.tool(f"{abort} 2", code=1)
    producer = Confluent().producer(scene.server.bootstrap, "behind-it")
    try:
        producer.init()
        commit(producer, TOPIC, b"behind it")
    finally:
        producer.close()
    read = Confluent().read(scene.server.bootstrap, TOPIC, until=b"behind it")
    assert values(read) == [b"kept", b"behind it"]


def test_force_terminate_ends_a_transaction_and_its_producer(scene):
    producer = Confluent().producer(scene.server.bootstrap, "ended")
    try:
        producer.init()
        producer.begin()
        producer.send(TOPIC, b"x", partition=1)
        scene.tool("forceTerminateTransaction --transactionalId ended")
        (row,) = scene.rows("describe --transactional-id ended")
        assert (row["TransactionState"], row["TopicPartitions"]) == ("Empty", "")
        with pytest.raises(Fenced):
            producer.commit()
    finally:
        producer.close()


# ---------------------------------------------------------------------------------------------------- kafka-dump-log


@pytest.fixture(scope="module")
def dump(scene, java_classpath):
    """Of the files that a stop leaves behind. A JVM of its own: in the other, clients look for the log that stopped."""
    consumer = Consumer({"bootstrap.servers": scene.server.bootstrap, "group.id": GROUP})
    consumer.commit(offsets=[TopicPartition(TOPIC, 1, 2)], asynchronous=False)
    consumer.close()
    scene.server.stop()
    driver = JavaProcess(java_classpath, "AdminDriver")

    def printed(path, *options):
        answer = driver.ask("tool", DUMP, *options, "--files", path)
        assert answer["exit"] == 0, answer["printed"]
        assert "Exception" not in answer["printed"]
        return answer["printed"]

    yield printed
    driver.close()


def test_segments_are_kafkas(scene, dump):
    printed = dump(scene.file(f"{TOPIC}-1", "*.log"), "--print-data-log", "--deep-iteration")
    assert "isvalid: false" not in printed
    assert "payload: one" in printed
    assert "endTxnMarker: ABORT coordinatorEpoch: 1" in printed
    printed = dump(scene.file(f"{TOPIC}-0", "*.log"), "--print-data-log")
    assert "endTxnMarker: COMMIT coordinatorEpoch: 0" in printed


def test_indexes_and_producer_snapshots_are_kafkas(scene, dump):
    assert "Mismatches" not in dump(scene.file(f"{TOPIC}-1", "*.index"))
    assert "timestamp: " in dump(scene.file(f"{TOPIC}-1", "*.timeindex"))
    aborted = dump(scene.file(f"{TOPIC}-1", "*.txnindex"))
    assert "firstOffset: 0 lastOffset: 1 lastStableOffset: 2" in aborted
    producers = dump(scene.file(f"{TOPIC}-1", "*.snapshot"))
    assert "currentTxnFirstOffset: OptionalLong[2]" in producers


def test_transactions_are_read_by_kafkas_decoder(scene, dump):
    shard = f"{TRANSACTION_STATE_TOPIC}-{shard_of('works', SHARDS)}"
    printed = dump(scene.file(shard, "*.log"), "--transaction-log-decoder")
    assert '"transactionalId":"works"' in printed
    assert '"transactionPartitions":[{"topic":"orders","partitionIds":[1]}]' in printed


def test_offsets_are_read_by_kafkas_decoder(scene, dump):
    shard = f"{CONSUMER_OFFSETS_TOPIC}-{shard_of(GROUP, SHARDS)}"
    printed = dump(scene.file(shard, "*.log"), "--offsets-decoder")
    assert '{"group":"readers","topic":"orders","partition":1}' in printed
    assert '{"offset":2,' in printed


def test_kafkas_decoder_passes_over_the_state_of_a_spark_sink(dump, tmp_path):
    key, value = encode_shard_record(SinkHeader("lake", 1, 1, "query", "run", (), ()), 1)
    segment = tmp_path / f"{0:020}.log"
    segment.write_bytes(encode_batch([Record(key, value, timestamp=1_000)]))
    printed = dump(segment, "--transaction-log-decoder")
    assert "isvalid: true" in printed
    assert "Unknown record type 100 at offset 0, skipping" in printed
