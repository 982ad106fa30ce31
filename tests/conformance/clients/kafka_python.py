"""kafka-python, whose producer sends from a thread of its own."""

import time

import kafka
import kafka.errors
from tests.conformance.clients.face import (
    CALL_TIMEOUT_S,
    ClientFailed,
    Fenced,
    is_done,
    reading_deadline,
    record_of,
)


class KafkaPythonProducer:
    def __init__(self, bootstrap, transactional_id=None, timeout_ms=60_000, **options):
        extra = {}
        if transactional_id is not None:
            extra = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            compression_type=options.get("compression"),
            max_block_ms=int(CALL_TIMEOUT_S * 1000),
            reconnect_backoff_max_ms=300,
            **extra,
        )

    def init(self):
        self._call(self._producer.init_transactions)

    def begin(self):
        self._call(self._producer.begin_transaction)

    def send(self, topic, value, *, key=None, partition=0, headers=None, timestamp_ms=None):
        future = self._call(
            self._producer.send,
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
        try:
            return self._call(future.get, CALL_TIMEOUT_S).offset
        except ClientFailed:
            self._wait_for_bump()
            raise

    def _wait_for_bump(self):
        """A fenced instance asks for the next epoch by itself, in the background. Such an InitProducerId names the id
        that its successor has as well. So Kafka, and we, abort what the successor has open, if it comes then."""
        manager = self._producer._transaction_manager
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while manager is not None and manager.is_bumping_epoch() and time.monotonic() < deadline:
            time.sleep(0.01)

    def send_offsets(self, offsets, group_metadata):
        self._call(self._producer.send_offsets_to_transaction, offsets, group_metadata)

    def commit(self):
        self._call(self._producer.commit_transaction)

    def abort(self):
        self._call(self._producer.abort_transaction)

    def close(self):
        self._producer.close(timeout=0)

    def _call(self, function, *arguments, **options):
        try:
            return function(*arguments, **options)
        except (kafka.errors.ProducerFencedError, kafka.errors.InvalidProducerEpochError) as error:
            raise Fenced(str(error), 47) from error
        except kafka.errors.KafkaError as error:
            raise ClientFailed(
                f"{type(error).__name__}: {error}", getattr(error, "errno", None)
            ) from error


class KafkaPython:
    name = "kafka-python"
    codecs = ("gzip",)
    producer = KafkaPythonProducer

    def read(self, bootstrap, topic, *, isolation="read_committed", until, partition=0, offset=0):
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=isolation,
            enable_auto_commit=False,
            group_id=None,
        )
        records = []
        try:
            wanted = kafka.TopicPartition(topic, partition)
            consumer.assign([wanted])
            consumer.seek(wanted, offset)
            deadline = reading_deadline()
            while time.monotonic() < deadline and not is_done(records, until):
                got = consumer.poll(timeout_ms=100)
                records.extend(
                    record_of(message) for messages in got.values() for message in messages
                )
        finally:
            consumer.close()
        return records

    def offset_for_time(self, bootstrap, topic, timestamp_ms):
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
        try:
            wanted = kafka.TopicPartition(topic, 0)
            return consumer.offsets_for_times({wanted: timestamp_ms})[wanted].offset
        finally:
            consumer.close()
