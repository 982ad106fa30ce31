"""Consume, transform, produce, exactly once, while the processes under the group are killed.

One unmodified confluent-kafka consumer in a group and one transactional producer move numbers from one topic to
another; the offsets travel in the transactions. Whatever is killed, in the end each number stands there once. An
application may have to abort and begin again: that is what the protocol asks of it, and what this one does.
"""

import threading
import time
import uuid
from collections import Counter

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.targets import asked_security

from oncelog.ids import CONSUMER_OFFSETS_TOPIC, shard_of
from oncelog.rpc.metadata import GROUP
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import CONTROLLER, MARKER_SENDER
from oncelog_server.cluster.view import read_image

PARTITIONS = 4
WAIT_S = 40.0
RESTARTS_MAX = 20
QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), **asked_security()) as running:
        yield running


class Pipeline:
    def __init__(self, bootstrap):
        self._bootstrap = bootstrap
        name = uuid.uuid4().hex[:8]
        self.source, self.target, self.group = f"in-{name}", f"out-{name}", f"readers-{name}"
        self.moved = 0
        self.written = 0
        self.restarts = 0
        self.errors = []
        self.failures = []
        self._is_ending = False
        self._threads = [
            threading.Thread(target=self._watched, args=(work,), name=work.__name__)
            for work in (self._feed, self._move)
        ]

    def __enter__(self):
        admin = AdminClient({"bootstrap.servers": self._bootstrap, **QUIET})
        topics = [NewTopic(topic, PARTITIONS, 3) for topic in (self.source, self.target)]
        for created in admin.create_topics(topics).values():
            created.result(WAIT_S)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._is_ending = True
        for thread in self._threads:
            thread.join(WAIT_S)

    def await_moved(self, more):
        """Until the pipeline has committed `more` numbers from now on."""
        wanted, deadline = self.moved + more, time.monotonic() + WAIT_S
        while self.moved < wanted:
            assert not self.failures, self.failures
            where = f"stands still at {self.moved} of {self.written}; errors: {self.errors}"
            assert time.monotonic() < deadline, where
            time.sleep(0.05)

    def _watched(self, work):
        try:
            work()
        except Exception as error:
            self.failures.append(repr(error))
            raise

    def _feed(self):
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, **QUIET}
        )
        while not self._is_ending:
            partition = self.written % PARTITIONS
            producer.produce(
                self.source,
                str(self.written).encode(),
                partition=partition,
                on_delivery=self._delivered,
            )
            self.written += 1
            producer.poll(0.01)
        assert producer.flush(WAIT_S) == 0

    def _delivered(self, error, message):
        if error is not None:
            self.failures.append(f"{message.value()}: {error}")

    def _move(self):
        while not self._is_ending or self.moved < self.written:
            try:
                self._move_until_broken()
            except KafkaException as error:
                # A new life of the application: the group's offsets say where the last committed one ended.
                self.restarts += 1
                if self.restarts > RESTARTS_MAX:
                    raise
                self.errors.append(str(error))

    def _move_until_broken(self):
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 10_000,
                **QUIET,
            }
        )
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": self.group, **QUIET}
        )
        try:
            producer.init_transactions(WAIT_S)
            consumer.subscribe([self.source])
            while not self._is_ending or self.moved < self.written:
                messages = [m for m in consumer.consume(50, timeout=0.5) if m.error() is None]
                if messages:
                    self._one_transaction(consumer, producer, messages)
        finally:
            consumer.close()

    def _one_transaction(self, consumer, producer, messages):
        producer.begin_transaction()
        try:
            for message in messages:
                producer.produce(self.target, message.value(), partition=message.partition())
            position = consumer.position(consumer.assignment())
            told = [each for each in position if each.offset >= 0]
            producer.send_offsets_to_transaction(told, consumer.consumer_group_metadata(), WAIT_S)
            producer.commit_transaction(WAIT_S)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                producer.abort_transaction(WAIT_S)
            raise
        self.moved += len(messages)

    def check(self):
        """Each number once, in a transaction that was committed."""
        assert not self.failures
        everything = Counter(range(self.written))
        assert self._read(self.source) == everything, "the source itself"
        moved = self._read(self.target)
        assert not moved - everything, "moved twice"
        assert not everything - moved, "lost on the way"

    def _read(self, topic):
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                **QUIET,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        values, ended, deadline = Counter(), set(), time.monotonic() + WAIT_S
        try:
            while len(ended) < PARTITIONS:
                assert time.monotonic() < deadline, ended
                for message in consumer.consume(1_000, timeout=0.5):
                    if message.error() is None:
                        values[int(message.value())] += 1
                    else:
                        ended.add(message.partition())
        finally:
            consumer.close()
        return values


def image_of(cluster):
    return read_image([one.rpc_address for one in cluster.of_role(CONTROLLER)], cluster.tls)


def group_coordinator(cluster, pipeline):
    image = image_of(cluster)
    number = shard_of(pipeline.group, image.shard_count(GROUP))
    return _name_of(cluster, image.shards[GROUP, number].coordinator)


def shard_leader(cluster, pipeline):
    image = image_of(cluster)
    number = shard_of(pipeline.group, image.shard_count(GROUP))
    return _name_of(cluster, image.topics[CONSUMER_OFFSETS_TOPIC].partitions[number].leader)


def marker_sender(cluster, pipeline):
    return cluster.of_role(MARKER_SENDER)[0].name


def _name_of(cluster, node_id):
    return next(one.name for one in cluster.members if one.node_id == node_id)


def test_a_pipeline_moves_everything_once_whoever_is_killed(cluster):
    with Pipeline(cluster.bootstrap) as pipeline:
        pipeline.await_moved(100)
        for victim in (group_coordinator, shard_leader, marker_sender, group_coordinator):
            cluster.kill(victim(cluster, pipeline))
            pipeline.await_moved(100)
            cluster.start_dead()
            pipeline.await_moved(50)
    print(
        f"{pipeline.moved} numbers, the application began again {pipeline.restarts} times: {pipeline.errors}"
    )
    pipeline.check()
