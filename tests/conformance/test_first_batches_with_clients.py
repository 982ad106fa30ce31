"""Pipelined first batches to topics that are just being made: the leader does not know the topic yet at the first one,
and knows it at the second. No batch is lost, and none stands twice or out of order (KAFKA-15591)."""

import uuid

import confluent_kafka
import kafka
import pytest
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.face import CALL_TIMEOUT_S, values
from tests.conformance.cutting_proxy import PRODUCE, CuttingProxy, open_behind

TOPIC_COUNT = 3
NEW, UNKNOWN = b"new-", b"not-"
NAME_BYTES = 16
SENT = [str(number).encode() for number in range(50)]


def by_confluent(bootstrap, topic):
    """A batch for each record, five of them under way."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "topic.metadata.refresh.fast.interval.ms": 5,
            "retry.backoff.ms": 5,
            "log_level": 0,
        }
    )
    errors = []
    for content in SENT:
        producer.produce(topic, content, partition=0, on_delivery=lambda one, _: errors.append(one))
    assert producer.flush(CALL_TIMEOUT_S) == 0
    assert errors == [None] * len(SENT)


def by_kafka_python(bootstrap, topic):
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        batch_size=0,
        linger_ms=0,
        retry_backoff_ms=5,
        max_block_ms=int(CALL_TIMEOUT_S * 1000),
    )
    futures = [producer.send(topic, content, partition=0) for content in SENT]
    assert [future.get(CALL_TIMEOUT_S).offset for future in futures] == list(range(len(SENT)))
    producer.close()


class TooEarly(CuttingProxy):
    """The first Produce request to each topic arrives under a name that the leader does not know, and its reply leaves
    under the topic's own: the client reads what it would of a leader that hears of the topic later."""

    def __init__(self):
        self.refused = set()
        super().__init__()

    def request(self, frame):
        at = frame.find(NEW)
        topic = frame[at : at + NAME_BYTES]
        if frame[4:6] != PRODUCE.to_bytes(2) or at < 0 or topic in self.refused:
            return frame
        self.refused.add(topic)
        return frame.replace(NEW, UNKNOWN)

    def reply(self, frame):
        return frame.replace(UNKNOWN, NEW)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("write", [by_confluent, by_kafka_python])
def test_the_first_batches_of_a_new_topic_are_all_there(tmp_path, write):
    topics = [f"new-{uuid.uuid4().hex[:12]}" for _ in range(TOPIC_COUNT)]
    with TooEarly() as proxy, open_behind(proxy, tmp_path) as running:
        for topic in topics:
            write(f"127.0.0.1:{proxy.port}", topic)
        assert len(proxy.refused) == TOPIC_COUNT
        for topic in topics:
            assert values(Confluent().read(str(running.bootstrap), topic, until=SENT[-1])) == SENT
