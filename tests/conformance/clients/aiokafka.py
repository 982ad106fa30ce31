"""aiokafka: asyncio inside, calls outside."""

import asyncio
import contextlib
import time

import aiokafka
import aiokafka.errors
import aiokafka.structs
from tests.conformance.clients.face import (
    CALL_TIMEOUT_S,
    ClientFailed,
    Fenced,
    is_done,
    reading_deadline,
    record_of,
)


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

    def read(self, bootstrap, topic, *, isolation="read_committed", until, partition=0, offset=0):
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
                deadline = reading_deadline()
                while time.monotonic() < deadline and not is_done(records, until):
                    got = await consumer.getmany(timeout_ms=100)
                    records.extend(
                        record_of(message) for messages in got.values() for message in messages
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
