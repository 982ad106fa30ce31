"""The cost of transactions for clients that do not wait for them.

One producer commits ten times a second. One reader follows the end of partitions. One of the partitions is held up by
a producer that neither commits nor aborts.
"""

import struct
import threading
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.brokers import MOCK_PARTITIONS, Broker, create_topics, log_and_kafka
from bench.client_workloads import (
    CALL_TIMEOUT_S,
    RECORD_BYTES_LARGE,
    Rounds,
    rounds_of,
    row,
    transactional_producer,
)
from bench.results import Measurement, percentile
from bench.runner import ShowStep

COMMIT_EVERY_S: Final = 0.1
QUEUE_KB: Final = 4_000
"""The most KB that a producer may queue.
A commit waits for the queue: a long one would make transactions of a second."""
TOPIC: Final = "tail"
STUCK_PARTITION: Final = 0
WRITE_EVERY_S: Final = 0.02
POLL_S: Final = 0.1
HELD_BACK: Final = 100
ABORTED: Final = b"of the stuck producer"
SENT_AT: Final = struct.Struct(">d")


def overhead(is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    """Measure the records a second of one producer that commits every 100 ms, as a ratio to the same idempotent
    producer without transactions."""
    seconds = 1.0 if is_quick else 4.0
    plain: Rounds = {}
    shares: Rounds = {}
    with log_and_kafka() as brokers:
        create_topics(brokers, "overhead")
        for turn in range(rounds_of(is_quick) + 1):
            for name, broker in brokers.items():
                show_step(f"{name}, round {turn}")
                without = _sent_a_second(broker.bootstrap, seconds, is_transactional=False)
                within = _sent_a_second(broker.bootstrap, seconds, is_transactional=True)
                if turn:  # The first is to get warm.
                    plain.setdefault(name, []).append(without)
                    shares.setdefault(name, []).append(within / without)
    size = f"{RECORD_BYTES_LARGE} B"
    yield row("overhead", f"idempotent, no transactions, {size}", "records/s", plain)
    yield row("overhead", f"rate in transactions of 100 ms by that without, {size}", "×", shares)


def _sent_a_second(bootstrap: str, seconds: float, *, is_transactional: bool) -> float:
    """Return the records a second, all acknowledged and committed."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "linger.ms": 5,
        "batch.size": 1_000_000,
        "queue.buffering.max.kbytes": QUEUE_KB,
        "log_level": 0,
    }
    if is_transactional:
        settings["transactional.id"] = "overhead"
    producer = Producer(settings)
    producer.list_topics("overhead", CALL_TIMEOUT_S)
    if is_transactional:
        producer.init_transactions(CALL_TIMEOUT_S)
        producer.begin_transaction()
    value = b"x" * RECORD_BYTES_LARGE
    sent, began = 0, time.perf_counter()
    commit_at = began + COMMIT_EVERY_S
    while (now := time.perf_counter()) < began + seconds:
        if is_transactional and now >= commit_at:
            producer.commit_transaction(CALL_TIMEOUT_S)
            producer.begin_transaction()
            commit_at = time.perf_counter() + COMMIT_EVERY_S
        try:
            for _ in range(100):
                producer.produce("overhead", value, partition=sent % MOCK_PARTITIONS)
                sent += 1
        except BufferError:
            producer.poll(0.005)
    if is_transactional:
        producer.commit_transaction(CALL_TIMEOUT_S)
    assert producer.flush(CALL_TIMEOUT_S) == 0
    return sent / (time.perf_counter() - began)


class Seen(NamedTuple):
    """A record that a reader received from one partition, and how many seconds after it was sent."""

    partition: int
    delay_s: float
    is_aborted: bool


class TailReader:
    """A thread that reads the end of all partitions at read_committed. It is a context manager."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: list[Seen] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "tail",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [TopicPartition(TOPIC, number, 0) for number in range(MOCK_PARTITIONS)]
        )
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> "TailReader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending.set()
        self._thread.join()
        self._consumer.close()

    def held_back(self) -> list[Seen]:
        return [one for one in self.seen if one.partition == STUCK_PARTITION]

    def _read(self) -> None:
        while not self._is_ending.is_set():
            message = self._consumer.poll(POLL_S)
            if message is None or message.error() is not None:
                continue
            value = message.value() or b""
            is_aborted = value == ABORTED
            delay_s = 0.0 if is_aborted else time.time() - SENT_AT.unpack(value)[0]
            self.seen.append(Seen(message.partition() or 0, delay_s, is_aborted))


class _Tail(NamedTuple):
    free_ms: list[float]
    stuck_ms: list[float]
    freed_ms: float
    wrong: int


def tail_reader(is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    """Measure the times from sending to reading, with no producer stuck and behind a stuck producer, and
    what its abort uncovers."""
    seconds = 2.0 if is_quick else 15.0
    found: dict[str, _Tail] = {}
    with log_and_kafka() as brokers:
        create_topics(brokers, TOPIC)
        for name, broker in brokers.items():
            found[name] = _tail(name, broker, seconds, show_step)
    spans = {
        "nobody stuck": {name: one.free_ms for name, one in found.items()},
        "other partitions of a stuck producer": {name: one.stuck_ms for name, one in found.items()},
    }
    for meanwhile, delays in spans.items():
        for share in (0.5, 0.99):
            values = {name: [percentile(one, share)] for name, one in delays.items()}
            what = f"sent to read, p{share * 100:g}, {meanwhile}"
            yield row("tail-reader", what, "ms", values, is_lower_better=True)
    values = {name: [one.freed_ms] for name, one in found.items()}
    what = f"abort of the stuck one to {HELD_BACK} records behind it read"
    yield row("tail-reader", what, "ms", values, is_lower_better=True)
    wrong = {name: [float(one.wrong)] for name, one in found.items()}
    what = "records read too early, or of the aborted transaction"
    yield row("tail-reader", what, "records", wrong, is_lower_better=True, bar=0)


def _tail(name: str, broker: Broker, seconds: float, show_step: ShowStep) -> _Tail:
    writer = transactional_producer(broker.bootstrap, "tail-writer")
    stuck = transactional_producer(broker.bootstrap, "tail-stuck")
    others = [one for one in range(MOCK_PARTITIONS) if one != STUCK_PARTITION]
    with TailReader(broker.bootstrap) as reader:
        for _ in range(10):  # Until the reader is at the end of every partition.
            _write(writer, others)
        _wait_for(reader, 10 * len(others))
        spans = []
        for is_stuck in (False, True):
            show_step(f"{name}, {'behind a stuck producer' if is_stuck else 'nobody stuck'}")
            if is_stuck:
                stuck.begin_transaction()
                stuck.produce(TOPIC, ABORTED, partition=STUCK_PARTITION)
                assert stuck.flush(CALL_TIMEOUT_S) == 0
            before, sent = len(reader.seen), 0
            deadline = time.perf_counter() + seconds
            while time.perf_counter() < deadline:
                _write(writer, others)
                sent += len(others)
                time.sleep(WRITE_EVERY_S)
            _wait_for(reader, before + sent)
            spans.append([one.delay_s * 1_000 for one in reader.seen[before:]])
        for _ in range(HELD_BACK):
            _write(writer, [STUCK_PARTITION])
        too_early, before = len(reader.held_back()), len(reader.seen)
        began = time.perf_counter()
        stuck.abort_transaction(CALL_TIMEOUT_S)
        _wait_for(reader, before - too_early + HELD_BACK)
        freed_ms = (time.perf_counter() - began) * 1_000
        aborted = sum(one.is_aborted for one in reader.seen)
    return _Tail(spans[0], spans[1], freed_ms, too_early + aborted)


def _write(producer: Producer, partitions: list[int]) -> None:
    """Commit one transaction with a record to each partition; the records hold the time just before the commit."""
    producer.begin_transaction()
    for partition in partitions:
        producer.produce(TOPIC, SENT_AT.pack(time.time()), partition=partition)
    producer.commit_transaction(CALL_TIMEOUT_S)


def _wait_for(reader: TailReader, count: int) -> None:
    """Wait until the reader has read `count` records."""
    deadline = time.perf_counter() + CALL_TIMEOUT_S
    while len(reader.seen) < count:
        assert time.perf_counter() < deadline, f"read: {len(reader.seen)} of {count} records"
        time.sleep(0.001)
