"""Another client that writes for the tests of ours: confluent-kafka, in transactions or without."""

import uuid

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_S = 60


def fresh(word):
    return f"{word}-{uuid.uuid4().hex[:12]}"


def new_topic(bootstrap, partitions=1, name=None, **configs):
    name = name or fresh("topic")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=configs)])[name].result(WAIT_S)
    return name


def write(bootstrap, topic, values, partition=0):
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(WAIT_S) == 0


class Writer:
    """A transactional producer. `write` flushes, so the records are in the log before the transaction ends."""

    def __init__(self, bootstrap, topic):
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": fresh("writer"), "linger.ms": 0}
        )
        self._producer.init_transactions(WAIT_S)

    def begin(self):
        self._producer.begin_transaction()

    def write(self, *values, partition=0):
        for value in values:
            self._producer.produce(self._topic, value, partition=partition)
        assert self._producer.flush(WAIT_S) == 0

    def end(self, is_commit):
        end = self._producer.commit_transaction if is_commit else self._producer.abort_transaction
        end(WAIT_S)

    def transaction(self, *values, is_commit=True):
        self.begin()
        self.write(*values)
        self.end(is_commit)
