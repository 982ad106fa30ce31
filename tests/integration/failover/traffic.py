"""An application that runs while the cluster is being broken, and the judge of what its readers see.

One unmodified confluent-kafka producer with its default settings commits transaction after transaction, each with its
number in every partition, and aborts some. Its errors are kept: none is expected, because a cluster that loses a
process is slow for a moment and nothing else. Afterwards each number must stand in every partition once if its commit
was acknowledged, and in none if it was aborted. If its outcome is unknown, it must stand in every partition or in none.
"""

import threading
import time
import uuid
from collections import Counter
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 3
CALL_TIMEOUT_S = 60.0
ABORTED_EVERY = 4
"""A marker that ends the wrong transaction shows when it commits one that is aborted."""
QUIET = {"log_level": 0}


def committed_reader(bootstrap, topic, partitions):
    """A consumer of all that is committed in these partitions, from their beginning on."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    return consumer


class Commit(NamedTuple):
    number: int
    begun_at: float
    acknowledged_at: float


class Traffic:
    def __init__(self, bootstrap, **options):
        self._bootstrap = bootstrap
        self.topic = f"traffic-{uuid.uuid4().hex[:8]}"
        self.transactional_id = f"app-{uuid.uuid4().hex[:8]}"
        self._options = options
        self.commits = []
        self.aborted = set()
        self.errors = []
        self._tried = 0
        self._news = threading.Condition()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="traffic")

    def __enter__(self):
        self._create_topic()
        self._thread.start()
        self.await_commit_begun_after(0.0)
        return self

    def _create_topic(self):
        """A controller that has just lost Postgres or its lease says that the outcome is unknown: ask again."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap, **QUIET})
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while True:
            (created,) = admin.create_topics([NewTopic(self.topic, PARTITIONS, 3)]).values()
            try:
                created.result(CALL_TIMEOUT_S)
                return
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.TOPIC_ALREADY_EXISTS:
                    return
                if code != KafkaError.REQUEST_TIMED_OUT or time.monotonic() > deadline:
                    raise

    def __exit__(self, *_):
        self._is_ending = True
        self._thread.join()

    def await_commit_begun_after(self, instant, timeout_s=CALL_TIMEOUT_S):
        """The first transaction that began after the instant and was committed."""
        deadline = time.monotonic() + timeout_s
        with self._news:
            while not self.commits or self.commits[-1].begun_at <= instant:
                left_s = deadline - time.monotonic()
                assert left_s > 0, f"no commit for {timeout_s:.0f} s; errors: {self.errors}"
                assert self._thread.is_alive(), f"the producer gave up: {self.errors}"
                self._news.wait(min(left_s, 1.0))
            return next(commit for commit in self.commits if commit.begun_at > instant)

    def _producer(self, **options):
        who = {"bootstrap.servers": self._bootstrap, "transactional.id": self.transactional_id}
        return Producer({**who, **QUIET, **options})

    def _run(self):
        producer = self._producer(**self._options)
        try:
            producer.init_transactions(CALL_TIMEOUT_S)
            while not self._is_ending:
                self._one_transaction(producer)
        except KafkaException as error:
            self.errors.append(error)

    def _one_transaction(self, producer):
        number, self._tried = self._tried, self._tried + 1
        begun_at = time.monotonic()
        try:
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(
                    self.topic,
                    str(number).encode(),
                    partition=partition,
                    on_delivery=self._delivered,
                )
            if number % ABORTED_EVERY == ABORTED_EVERY - 1:
                producer.flush(CALL_TIMEOUT_S)
                producer.abort_transaction(CALL_TIMEOUT_S)
                self.aborted.add(number)
                return
            producer.commit_transaction(CALL_TIMEOUT_S)
        except KafkaException as error:
            self.errors.append(error)
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(CALL_TIMEOUT_S)
            self.aborted.add(number)
            return
        with self._news:
            self.commits.append(Commit(number, begun_at, time.monotonic()))
            self._news.notify_all()

    def _delivered(self, error, _):
        if error is not None:
            self.errors.append(error)

    # ------------------------------------------------------------------------------------------------ judging

    def check(self):
        """No client error, nothing acknowledged is lost, nothing stands twice, no half of a transaction is visible."""
        assert not self.errors, self.errors
        seen = self._read()
        acknowledged = {commit.number for commit in self.commits}
        for number in range(self._tried):
            counts = [partition[number] for partition in seen]
            if number in acknowledged:
                assert counts == [1] * PARTITIONS, (number, counts)
            elif number in self.aborted:
                assert counts == [0] * PARTITIONS, (number, counts)
            else:
                assert counts in ([0] * PARTITIONS, [1] * PARTITIONS), (number, counts)
        for partition in seen:
            assert not set(partition) - set(range(self._tried)), "values that nobody wrote"

    def _read(self):
        """For each partition how often each number is seen by a read_committed consumer, up to a sentinel."""
        self._write_sentinel()
        consumer = committed_reader(self._bootstrap, self.topic, range(PARTITIONS))
        seen = [Counter() for _ in range(PARTITIONS)]
        waiting = set(range(PARTITIONS))
        deadline = time.monotonic() + CALL_TIMEOUT_S
        try:
            while waiting:
                assert time.monotonic() < deadline, f"partitions {waiting} do not end"
                for message in consumer.consume(1_000, timeout=0.5):
                    assert message.error() is None, message.error()
                    if message.value() == b"end":
                        waiting.discard(message.partition())
                    else:
                        seen[message.partition()][int(message.value())] += 1
        finally:
            consumer.close()
        return seen

    def _write_sentinel(self):
        # The same id: what is still open of the one before it is ended, and readers may pass.
        producer = self._producer()
        producer.init_transactions(CALL_TIMEOUT_S)
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(self.topic, b"end", partition=partition)
        producer.commit_transaction(CALL_TIMEOUT_S)
