"""confluent-kafka, which is librdkafka."""

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException
from tests.conformance.clients.face import (
    CALL_TIMEOUT_S,
    ClientFailed,
    Fenced,
    MustAbort,
    Record,
    polled,
)


class ConfluentProducer:
    def __init__(self, bootstrap, transactional_id=None, timeout_ms=60_000, **options):
        config = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
            "reconnect.backoff.max.ms": 300,
            "topic.metadata.propagation.max.ms": 1500,
            # Its re-bootstrap drops the broker that send_offsets_to_transaction goes on waiting for (known limits):
            # once in some thousand kills the call hung for ten minutes, whatever its timeout.
            "metadata.recovery.strategy": "none",
            "compression.type": options.get("compression", "none"),
        }
        if transactional_id is not None:
            config |= {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        self._producer = confluent_kafka.Producer(config)

    def init(self):
        self._call(self._producer.init_transactions, CALL_TIMEOUT_S)

    def begin(self):
        self._call(self._producer.begin_transaction)

    def send(self, topic, value, *, key=None, partition=0, headers=None, timestamp_ms=None):
        outcome = []
        extra = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        self._call(
            self._producer.produce,
            topic,
            value,
            key,
            partition,
            lambda error, message: outcome.append((error, message)),
            headers=headers,
            **extra,
        )
        self._call(self._producer.flush, CALL_TIMEOUT_S)
        if not outcome:
            raise ClientFailed("no delivery report in time")
        error, message = outcome[0]
        if error is not None:
            raise _confluent_error(error)
        return message.offset()

    def send_offsets(self, offsets, group_metadata):
        self._call(
            self._producer.send_offsets_to_transaction, offsets, group_metadata, CALL_TIMEOUT_S
        )

    def commit(self):
        self._call(self._producer.commit_transaction, CALL_TIMEOUT_S)

    def abort(self):
        self._call(self._producer.abort_transaction, CALL_TIMEOUT_S)

    def close(self):
        del self._producer

    def _call(self, function, *arguments, **options):
        try:
            return function(*arguments, **options)
        except KafkaException as error:
            raise _confluent_error(error.args[0]) from error


def _confluent_error(error):
    fenced = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    if error.code() in fenced or (error.fatal() and "fenced" in error.str()):
        return Fenced(error.str(), error.code())
    if error.txn_requires_abort():
        return MustAbort(error.str(), error.code())
    return ClientFailed(error.str(), error.code())


class Confluent:
    name = "confluent-kafka"
    codecs = ("gzip", "snappy", "lz4", "zstd")
    producer = ConfluentProducer

    def read(self, bootstrap, topic, *, isolation="read_committed", until, partition=0, offset=0):
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "conformance",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
        records = []
        try:
            for message in polled(
                lambda left: consumer.consume(1000, timeout=left), records, until
            ):
                if message.error() is not None:
                    raise _confluent_error(message.error())
                records.append(
                    Record(
                        message.value(),
                        message.key(),
                        message.headers() or [],
                        message.timestamp()[1],
                        message.partition(),
                        message.offset(),
                    )
                )
        finally:
            consumer.close()
        return records

    def offset_for_time(self, bootstrap, topic, timestamp_ms):
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "conformance"}
        )
        try:
            wanted = confluent_kafka.TopicPartition(topic, 0, timestamp_ms)
            return consumer.offsets_for_times([wanted], CALL_TIMEOUT_S)[0].offset
        finally:
            consumer.close()
