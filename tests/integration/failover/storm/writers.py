"""Unmodified clients that write transactions of unique values, abort some, abandon some, and live with every error."""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer
from tests.integration.failover.storm.ledger import ABORTED, COMMITTED, Attempt, Ledger, Place

TRANSACTION_TIMEOUT_MS = 15_000
REQUEST_TIMEOUT_MS = 10_000
CALL_TIMEOUT_S = 40.0
ABORTS, ABANDONS = 0.15, 0.03
PAUSE_S = 0.05
STUCK_S = 60.0
"""Without an end of a transaction; longer than every timeout that a client was given."""


class Writer(threading.Thread):
    """One application. Subclasses know one client."""

    def __init__(
        self, name: str, ledger: Ledger, bootstrap: str, places: list[Place], seed: int
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.ledger = ledger
        self.bootstrap = bootstrap
        self.places = places
        self.random = random.Random(f"{seed} {name}")
        self.is_ending = threading.Event()

    def begins(self) -> Attempt:
        self.goes_on()
        places = self.random.sample(self.places, self.random.randint(1, 3))
        return self.ledger.begins(self.name, tuple(places))

    def run(self) -> None:
        """Life after life. One whose client does not come back from a call is left behind, as an operator would do: its
        successor has the same transactional.id, so whatever it still does is fenced."""
        while not self.is_ending.is_set():
            self.progress_at = time.monotonic()
            life = threading.Thread(target=self._live, name=f"{self.name} life", daemon=True)
            life.start()
            while life.is_alive() and time.monotonic() - self.progress_at < STUCK_S:
                life.join(0.2)
            if life.is_alive():
                self.ledger.complains(self.name, TimeoutError("its client hangs; started again"))
            self.is_ending.wait(0.5)

    def _live(self) -> None:
        try:
            self.lives()
        except Exception as error:  # a client's own bug must not end the storm
            self.ledger.complains(self.name, error)

    def goes_on(self) -> None:
        self.progress_at = time.monotonic()

    def lives(self) -> None:
        """One client object, from its creation to the error after which it is of no use."""
        raise NotImplementedError


class ConfluentWriter(Writer):
    def configuration(self) -> dict[str, object]:
        return {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": self.name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "socket.timeout.ms": REQUEST_TIMEOUT_MS,
            "log_level": 0,
        }

    def lives(self) -> None:
        producer = Producer(self.configuration())
        producer.init_transactions(CALL_TIMEOUT_S)
        while not self.is_ending.is_set():
            attempt = self.begins()
            dice = self.random.random()
            producer.begin_transaction()
            for place in attempt.places:
                producer.produce(place.topic, attempt.value, partition=place.partition)
            if dice < ABANDONS:
                self.abandons(producer, attempt)
                return
            if dice < ABANDONS + ABORTS:
                if self.random.random() < 0.5:
                    producer.flush(CALL_TIMEOUT_S)
                again(producer.abort_transaction)
                attempt.ends(ABORTED)
            else:
                self.commits(producer, attempt)
            time.sleep(PAUSE_S)

    def commits(self, producer: Producer, attempt: Attempt) -> None:
        try:
            again(producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.ledger.complains(self.name, error)
            again(producer.abort_transaction)
            attempt.ends(ABORTED)
        else:
            attempt.ends(COMMITTED)

    def abandons(self, zombie: Producer, attempt: Attempt) -> None:
        """Its successor takes the name, and then it wakes up and commits what it had begun."""
        zombie.flush(5.0)
        successor = Producer(self.configuration())
        successor.init_transactions(CALL_TIMEOUT_S)
        # Whatever the zombie is told now, its transaction was ended when its successor began.
        attempt.ends(ABORTED)
        with contextlib.suppress(KafkaException):
            zombie.commit_transaction(CALL_TIMEOUT_S)


def again(step: Callable[[float], None]) -> None:
    """What the client says may be repeated is repeated."""
    deadline = time.monotonic() + CALL_TIMEOUT_S
    while True:
        try:
            step(CALL_TIMEOUT_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


class IdempotentWriter(Writer):
    """No transactions: what is acknowledged stands once, what is not at most once, all in the order it was sent."""

    def lives(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                "log_level": 0,
            }
        )
        while not self.is_ending.is_set():
            self.goes_on()
            attempt = self.ledger.begins(self.name, (self.random.choice(self.places),))

            def told(error: object, _message: object, attempt: Attempt = attempt) -> None:
                if error is None:
                    attempt.ends(COMMITTED)
                else:
                    self.ledger.complains(self.name, KafkaException(error))

            place = attempt.places[0]
            producer.produce(
                place.topic, attempt.value, partition=place.partition, on_delivery=told
            )
            producer.poll(0.02)
        producer.flush(CALL_TIMEOUT_S)


class KafkaPythonWriter(Writer):
    def lives(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            transactional_id=self.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=int(CALL_TIMEOUT_S * 1000),
            max_block_ms=int(CALL_TIMEOUT_S * 1000),
        )
        try:
            producer.init_transactions()
            while not self.is_ending.is_set():
                attempt = self.begins()
                producer.begin_transaction()
                sent = [
                    producer.send(place.topic, attempt.value, partition=place.partition)
                    for place in attempt.places
                ]
                if self.random.random() < ABORTS:
                    producer.abort_transaction()
                    attempt.ends(ABORTED)
                else:
                    producer.commit_transaction()
                    # This client commits without the batches that it gave up (3.0.12); their futures tell.
                    for future in sent:
                        future.get(timeout=0)
                    attempt.ends(COMMITTED)
                time.sleep(PAUSE_S)
        finally:
            producer.close(timeout=1.0)


class AiokafkaWriter(Writer):
    def lives(self) -> None:
        asyncio.run(self._lives())

    async def _lives(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        try:
            await asyncio.wait_for(producer.start(), CALL_TIMEOUT_S)
            while not self.is_ending.is_set():
                await asyncio.wait_for(self._one(producer), CALL_TIMEOUT_S)
                await asyncio.sleep(PAUSE_S)
        finally:
            await asyncio.wait_for(producer.stop(), 5.0)

    async def _one(self, producer: AIOKafkaProducer) -> None:
        attempt = self.begins()
        await producer.begin_transaction()
        for place in attempt.places:
            await producer.send(place.topic, attempt.value, partition=place.partition)
        if self.random.random() < ABORTS:
            await producer.abort_transaction()
            attempt.ends(ABORTED)
        else:
            await producer.commit_transaction()
            attempt.ends(COMMITTED)


WRITERS: dict[str, type[Writer]] = {
    "confluent": ConfluentWriter,
    "idempotent": IdempotentWriter,
    "pykafka": KafkaPythonWriter,
    "aiokafka": AiokafkaWriter,
}
