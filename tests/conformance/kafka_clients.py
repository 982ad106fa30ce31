"""Four real Kafka clients behind one small face, so that one test says the same thing to each of them.

The face is synchronous: `send` returns when the broker has acknowledged. Every client's own exceptions become one of
three: `Fenced` (this instance is finished for good), `MustAbort` (this transaction is), `ClientFailed` (anything else).
"""

import asyncio
import contextlib
import json
import subprocess
import time
import uuid
from dataclasses import dataclass, field

import aiokafka
import aiokafka.errors
import aiokafka.structs
import confluent_kafka
import kafka
import kafka.errors
from confluent_kafka import KafkaError, KafkaException

CALL_TIMEOUT_S = 30.0
QUIET_S = 0.7


class ClientFailed(Exception):
    """A client gave up. `code` is Kafka's error code where the client tells it."""

    def __init__(self, text, code=None):
        super().__init__(text)
        self.code = code


class Fenced(ClientFailed):
    """Another instance with the same transactional.id has taken over."""


class MustAbort(ClientFailed):
    """The transaction cannot be committed; the producer can go on after an abort."""


@dataclass(frozen=True)
class Record:
    """A record as a consumer saw it."""

    value: bytes | None
    key: bytes | None = None
    headers: list = field(default_factory=list)
    timestamp_ms: int = -1
    partition: int = 0
    offset: int = -1


# ------------------------------------------------------------------------------------------- confluent-kafka


class ConfluentProducer:
    def __init__(self, bootstrap, transactional_id=None, timeout_ms=60_000, **options):
        config = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
            "reconnect.backoff.max.ms": 300,
            "topic.metadata.propagation.max.ms": 1500,
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

    def read(
        self, bootstrap, topic, *, isolation="read_committed", partition=0, offset=0, until=None
    ):
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
            for message in _polled(
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


# ------------------------------------------------------------------------------------------- aiokafka


class AiokafkaProducer:
    def __init__(self, bootstrap, transactional_id=None, timeout_ms=60_000, **options):
        self._runner = asyncio.Runner()

        async def build():
            return aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                enable_idempotence=True,
                compression_type=options.get("compression"),
                request_timeout_ms=int(CALL_TIMEOUT_S * 1000),
                max_request_size=options.get("max_request_size", 1_048_576),
            )

        self._producer = self._runner.run(build())
        if transactional_id is None:
            self._call(self._producer.start())

    def init(self):
        self._call(self._producer.start())

    def begin(self):
        self._call(self._producer.begin_transaction())

    def send(self, topic, value, *, key=None, partition=0, headers=None, timestamp_ms=None):
        metadata = self._call(
            self._producer.send_and_wait(
                topic,
                value,
                key=key,
                partition=partition,
                headers=headers or [],
                timestamp_ms=timestamp_ms,
            )
        )
        return metadata.offset

    def send_offsets(self, offsets, group):
        self._call(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self):
        self._call(self._producer.commit_transaction())

    def abort(self):
        self._call(self._producer.abort_transaction())

    def close(self):
        with contextlib.suppress(aiokafka.errors.KafkaError, TimeoutError):
            self._runner.run(asyncio.wait_for(self._producer.stop(), CALL_TIMEOUT_S))
        self._runner.close()

    def _call(self, coroutine):
        try:
            return self._runner.run(asyncio.wait_for(coroutine, CALL_TIMEOUT_S))
        except (aiokafka.errors.ProducerFenced, aiokafka.errors.InvalidProducerEpoch) as error:
            raise Fenced(str(error), 47) from error
        except aiokafka.errors.KafkaError as error:
            raise ClientFailed(
                f"{type(error).__name__}: {error}", getattr(error, "errno", None)
            ) from error
        except TimeoutError as error:
            raise ClientFailed("no answer in time") from error


class Aiokafka:
    name = "aiokafka"
    codecs = ("gzip", "snappy", "lz4", "zstd")
    producer = AiokafkaProducer

    def read(
        self, bootstrap, topic, *, isolation="read_committed", partition=0, offset=0, until=None
    ):
        async def scenario():
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap, isolation_level=isolation, enable_auto_commit=False
            )
            await consumer.start()
            records = []
            try:
                wanted = aiokafka.structs.TopicPartition(topic, partition)
                consumer.assign([wanted])
                consumer.seek(wanted, offset)
                deadline = _deadline(until)
                while time.monotonic() < deadline and not _is_done(records, until):
                    got = await consumer.getmany(timeout_ms=100)
                    records.extend(
                        _record(message) for messages in got.values() for message in messages
                    )
            finally:
                await consumer.stop()
            return records

        return asyncio.run(scenario())

    def offset_for_time(self, bootstrap, topic, timestamp_ms):
        async def scenario():
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap)
            await consumer.start()
            try:
                wanted = aiokafka.structs.TopicPartition(topic, 0)
                return (await consumer.offsets_for_times({wanted: timestamp_ms}))[wanted].offset
            finally:
                await consumer.stop()

        return asyncio.run(scenario())


# ------------------------------------------------------------------------------------------- kafka-python


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
        return self._call(future.get, CALL_TIMEOUT_S).offset

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

    def read(
        self, bootstrap, topic, *, isolation="read_committed", partition=0, offset=0, until=None
    ):
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
            deadline = _deadline(until)
            while time.monotonic() < deadline and not _is_done(records, until):
                got = consumer.poll(timeout_ms=100)
                records.extend(
                    _record(message) for messages in got.values() for message in messages
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


# ------------------------------------------------------------------------------------------- the Java client


class JavaProcess:
    """TransactionDriver.java: one JSON command a line in, one JSON answer a line out."""

    def __init__(self, classpath):
        self._process = subprocess.Popen(
            [
                "java",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                classpath,
                "TransactionDriver",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, *words):
        self._process.stdin.write("\t".join(str(word) for word in words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ClientFailed("the Java client's process ended")
        answer = json.loads(line)
        if "error" in answer:
            kind = {"fenced": Fenced, "abortable": MustAbort}.get(answer["kind"], ClientFailed)
            raise kind(answer["error"], answer.get("code"))
        return answer

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


class JavaProducer:
    def __init__(self, process, bootstrap, transactional_id=None, timeout_ms=60_000, **options):
        self._process = process
        self._name = uuid.uuid4().hex
        codec = options.get("compression", "none")
        process.ask("open", self._name, bootstrap, transactional_id or "", timeout_ms, codec)

    def init(self):
        self._process.ask("init", self._name)

    def begin(self):
        self._process.ask("begin", self._name)

    def send(self, topic, value, *, key=None, partition=0, headers=None, timestamp_ms=None):
        words = [_hex(key), _hex(value), -1 if timestamp_ms is None else timestamp_ms]
        words += [f"{name}={_hex(content)}" for name, content in headers or []]
        return self._process.ask("send", self._name, topic, partition, *words)["offset"]

    def send_offset(self, group, topic, partition, offset):
        self._process.ask("offset", self._name, group, topic, partition, offset)

    def commit(self):
        self._process.ask("commit", self._name)

    def abort(self):
        self._process.ask("abort", self._name)

    def epoch(self):
        return self._process.ask("epoch", self._name)

    def close(self):
        self._process.ask("close", self._name)


class Java:
    name = "java"
    codecs = ("gzip", "snappy", "lz4", "zstd")

    def __init__(self, process):
        self._process = process

    def producer(self, bootstrap, transactional_id=None, timeout_ms=60_000, **options):
        return JavaProducer(self._process, bootstrap, transactional_id, timeout_ms, **options)

    def read(
        self, bootstrap, topic, *, isolation="read_committed", partition=0, offset=0, until=None
    ):
        patience_ms = int((QUIET_S if until is None else CALL_TIMEOUT_S) * 1000)
        answer = self._process.ask(
            "read", bootstrap, topic, partition, offset, isolation, patience_ms, _hex(until)
        )
        return [
            Record(
                _unhex(item["value"]),
                _unhex(item["key"]),
                [(name, _unhex(content)) for name, content in item["headers"]],
                item["timestamp"],
                partition,
                item["offset"],
            )
            for item in answer["records"]
        ]

    def subscribe(self, bootstrap, group, topic, count, protocol="classic"):
        """As a member of a group: the values of so many records, which are committed."""
        answer = self._process.ask("subscribe", bootstrap, group, topic, count, protocol)
        return [_unhex(item["value"]) for item in answer["records"]]

    def offset_for_time(self, bootstrap, topic, timestamp_ms):
        return self._process.ask("offset-for-time", bootstrap, topic, 0, timestamp_ms)["offset"]


def _hex(content):
    return "null" if content is None else content.hex()


def _unhex(text):
    return None if text is None else bytes.fromhex(text)


# ------------------------------------------------------------------------------------------- reading


def _record(message):
    return Record(
        message.value,
        message.key,
        list(message.headers or ()),
        message.timestamp,
        message.partition,
        message.offset,
    )


def _deadline(until):
    return time.monotonic() + (QUIET_S if until is None else CALL_TIMEOUT_S)


def _is_done(records, until):
    return until is not None and any(record.value == until for record in records)


def _polled(poll, records, until):
    """Messages until `until` has been seen among `records`; without `until`, whatever comes in QUIET_S."""
    deadline = _deadline(until)
    while not _is_done(records, until):
        left = deadline - time.monotonic()
        if left <= 0:
            return
        yield from poll(min(left, 0.1))
