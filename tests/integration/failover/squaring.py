"""An application in two instances that squares numbers exactly once, and the judge of what it wrote.

Each instance is a member of one group and a transactional producer, unmodified confluent-kafka with default settings:
it reads numbers, writes their squares and commits its offsets in one transaction. A feeder goes on writing numbers.
Errors are kept; whatever happens, each number's square must stand in the output once.
"""

import threading
import time
import uuid
from collections import Counter

import confluent_kafka
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.conformance.group_members import ConfluentConsumer
from tests.integration.failover.traffic import CALL_TIMEOUT_S, QUIET, committed_reader

PARTITIONS = 4
INSTANCES = 2
TRY_TIMEOUT_S = 3.0
SESSION_MS = 30_000
FEED_PAUSE_S = 0.01


class Instance:
    def __init__(self, squaring, number):
        self._squaring = squaring
        self._number = number
        self._is_ending = False
        self.step = "starting"
        """Where it is, for the message of a wait that timed out."""
        self.assignments = [frozenset()]
        self.errors = []
        self.commits = 0
        self.thread = threading.Thread(target=self._run, name=f"instance {number}")

    def end(self):
        self._is_ending = True
        self.thread.join()

    def _run(self):
        squaring = self._squaring
        consumer = ConfluentConsumer(
            squaring.bootstrap, squaring.group, squaring.numbers, session_timeout_ms=SESSION_MS
        )
        producer = Producer(
            {
                "bootstrap.servers": squaring.bootstrap,
                "transactional.id": f"{squaring.group}-{self._number}",
                **QUIET,
            }
        )
        try:
            producer.init_transactions(CALL_TIMEOUT_S)
            while not self._is_ending:
                self._one_transaction(consumer, producer)
        except KafkaException as error:
            self.errors.append(error)
        finally:
            consumer.close()

    def _one_transaction(self, consumer, producer):
        self.step = "poll"
        records = consumer.poll()
        found = consumer.assignment()
        if found != self.assignments[-1]:
            self.assignments.append(found)
        if not records:
            return
        try:
            producer.begin_transaction()
            for _, _, value in records:
                producer.produce(self._squaring.squares, b"%d" % int(value) ** 2)
            offsets, metadata = consumer.transaction_arguments()
            self.step = "send_offsets_to_transaction"
            _send_offsets(producer, offsets, metadata)
            self.step = "commit_transaction"
            producer.commit_transaction(CALL_TIMEOUT_S)
        except KafkaException as error:
            self.errors.append(error)
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(CALL_TIMEOUT_S)
            consumer.rewind()
        else:
            self.commits += 1


def _send_offsets(producer, offsets, metadata):
    """Asked for again when it times out, as librdkafka wants it: one call tries the coordinator it knows only once."""
    deadline = time.monotonic() + CALL_TIMEOUT_S
    while True:
        try:
            producer.send_offsets_to_transaction(offsets, metadata, TRY_TIMEOUT_S)
        except KafkaException as error:
            is_late = error.args[0].code() == confluent_kafka.KafkaError._TIMED_OUT
            if not is_late or time.monotonic() > deadline:
                raise
        else:
            return


class Squaring:
    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        name = uuid.uuid4().hex[:8]
        self.numbers, self.squares, self.group = f"numbers-{name}", f"squares-{name}", f"app-{name}"
        self.instances = [Instance(self, number) for number in range(INSTANCES)]
        self.fed = 0
        self._is_ending = False
        self._feeder = threading.Thread(target=self._feed, name="feeder")

    def __enter__(self):
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        topics = [NewTopic(self.numbers, PARTITIONS), NewTopic(self.squares, 1)]
        for created in admin.create_topics(topics).values():
            created.result(CALL_TIMEOUT_S)
        for one in self.instances:
            one.thread.start()
        _await(lambda: all(len(one.assignments[-1]) == 2 for one in self.instances))
        self._feeder.start()
        self.await_progress()
        return self

    def __exit__(self, *_):
        self._is_ending = True
        self._feeder.join()
        for one in self.instances:
            one.end()

    @property
    def errors(self):
        return [error for one in self.instances for error in one.errors]

    @property
    def rebalances(self):
        """How often any instance's partitions changed since the two had shared them."""
        return sum(len(one.assignments) for one in self.instances)

    def await_progress(self):
        """Until every instance has committed something more that began after now."""
        before = [one.commits for one in self.instances]

        def all_went_on():
            assert all(one.thread.is_alive() for one in self.instances), self.told()
            return all(
                one.commits >= count + 2 for one, count in zip(self.instances, before, strict=True)
            )

        _await(all_went_on, self.told)

    def told(self):
        return [(one.step, one.assignments[-1], one.errors) for one in self.instances]

    def finish(self):
        """Feed nothing more, and wait until everything is squared; returns how often each square was seen."""
        self._is_ending = True
        self._feeder.join()
        wanted = {number**2 for number in range(self.fed)}
        consumer = committed_reader(self.bootstrap, self.squares, [0])
        seen = Counter()
        try:
            deadline = time.monotonic() + CALL_TIMEOUT_S
            while wanted - seen.keys() and time.monotonic() < deadline:
                seen.update(
                    int(one.value()) for one in consumer.consume(1_000, 0.2) if not one.error()
                )
        finally:
            consumer.close()
        return seen

    def check(self):
        seen = self.finish()
        assert sorted(seen) == [number**2 for number in range(self.fed)], "lost or never written"
        assert set(seen.values()) == {1}, [one for one, count in seen.items() if count > 1]

    def _feed(self):
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, **QUIET}
        )
        while not self._is_ending:
            producer.produce(self.numbers, b"%d" % self.fed, partition=self.fed % PARTITIONS)
            self.fed += 1
            producer.poll(FEED_PAUSE_S)
        assert producer.flush(CALL_TIMEOUT_S) == 0


def _await(condition, report=lambda: "no progress"):
    deadline = time.monotonic() + CALL_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, report()
        time.sleep(0.02)
