"""A client of a cluster that commits in transactions, and reads back what is committed: that waits for the markers."""

import uuid
from contextlib import closing

from confluent_kafka import Consumer, Producer, TopicPartition

WAIT_S = 60


class Payments:
    """On a topic of its own. `config` says where the cluster is and how to log in."""

    def __init__(self, config):
        self.topic = self.transactional_id = f"payments-{uuid.uuid4().hex[:8]}"
        self._config = {"log_level": 0, **config}
        self.producer = Producer({**self._config, "transactional.id": self.transactional_id})
        self.producer.init_transactions(WAIT_S)
        self.committed = []

    def commit(self, value=None):
        value = value or f"payment {len(self.committed)}".encode()
        self.producer.begin_transaction()
        self.producer.produce(self.topic, value)
        self.producer.commit_transaction(WAIT_S)
        self.committed.append(value)

    def abort(self):
        self.producer.begin_transaction()
        self.producer.produce(self.topic, b"aborted")
        self.producer.flush(WAIT_S)
        self.producer.abort_transaction(WAIT_S)

    def check(self):
        group = {"group.id": uuid.uuid4().hex, "isolation.level": "read_committed"}
        with closing(Consumer({**self._config, **group})) as consumer:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            found = consumer.consume(len(self.committed), WAIT_S)
            consumer.commit(asynchronous=False)
        assert [message.value() for message in found] == self.committed
