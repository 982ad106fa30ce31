"""Transactional producers that never pause, and the judgement of what they wrote.

    with Load(bootstrap, topic) as load: ...      # writes while the block runs
    verdict = load.verdict()                      # reads everything back

Each producer counts: in every transaction its next numbers, in both partitions. A transaction that fails is a failed
transaction, whatever the reason; its numbers go again in the next. What is read committed must be every number of an
acknowledged transaction, once.
"""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS: Final = 6
RECORDS: Final = 5
TIMEOUT_S: Final = 60.0


@dataclass
class Writer:
    """What one producer did."""

    name: str
    committed: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    ended_s: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    commits: int
    aborts: int
    failures: tuple[str, ...]
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    uncommitted: tuple[str, ...]
    p50_s: float
    p99_s: float
    longest_pause_s: float
    """Of any one producer, between the ends of two transactions."""

    @property
    def is_sound(self) -> bool:
        return not (self.failures or self.lost or self.doubled or self.uncommitted)


class Load:
    def __init__(self, bootstrap: str, topic: str, *, writers: int = 3, replicas: int = 3) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, replicas)])[topic].result(TIMEOUT_S)
        self.writers = [Writer(f"{topic}-{number}") for number in range(writers)]
        self._is_ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(one,), daemon=True) for one in self.writers
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending.set()
        for thread in self._threads:
            thread.join(2 * TIMEOUT_S)

    def _write(self, writer: Writer) -> None:
        number, count = 0, 0
        while not self._is_ending.is_set():
            producer = Producer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "transactional.id": writer.name,
                    "linger.ms": 1,
                    "transaction.timeout.ms": 60_000,
                    "log_level": 0,
                }
            )
            try:
                producer.init_transactions(TIMEOUT_S)
                while not self._is_ending.is_set():
                    count += 1
                    numbers = list(range(number, number + RECORDS))
                    self._transact(writer, producer, numbers, is_abort=count % 7 == 0)
                    number += RECORDS
            except KafkaException as error:
                writer.failures.append(f"{writer.name}: {error.args[0]}")
                # Nobody knows of the last ones: they are never sent again under these numbers.
                writer.unknown += range(number, number + RECORDS)
                number += RECORDS

    def _transact(
        self, writer: Writer, producer: Producer, numbers: list[int], *, is_abort: bool
    ) -> None:
        began_s = time.monotonic()
        producer.begin_transaction()
        for one in numbers:
            value = f"{writer.name}/{one}"
            producer.produce(self._topic, value=value, partition=one % PARTITIONS)
        if is_abort:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
            writer.aborted += numbers
        else:
            producer.commit_transaction(TIMEOUT_S)
            writer.committed += numbers
        ended_s = time.monotonic()
        writer.ended_s.append(ended_s)
        writer.took_s.append(ended_s - began_s)

    def verdict(self) -> Verdict:
        """Call it after the block."""
        seen = Counter(self._read())
        committed = {f"{one.name}/{n}" for one in self.writers for n in one.committed}
        unknown = {f"{one.name}/{n}" for one in self.writers for n in one.unknown}
        took = sorted(took for one in self.writers for took in one.took_s) or [0.0]
        pauses = [
            after - before
            for one in self.writers
            for before, after in zip(one.ended_s, one.ended_s[1:], strict=False)
        ]
        return Verdict(
            commits=sum(len(one.committed) for one in self.writers) // RECORDS,
            aborts=sum(len(one.aborted) for one in self.writers) // RECORDS,
            failures=tuple(failure for one in self.writers for failure in one.failures),
            lost=tuple(sorted(committed - seen.keys())),
            doubled=tuple(sorted(value for value, times in seen.items() if times > 1)),
            uncommitted=tuple(sorted(seen.keys() - committed - unknown)),
            p50_s=took[len(took) // 2],
            p99_s=took[int(len(took) * 0.99)],
            longest_pause_s=max(pauses, default=0.0),
        )

    def _read(self) -> list[str]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"{self._topic}-verdict",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        try:
            ends = {}
            for partition in range(PARTITIONS):
                one = TopicPartition(self._topic, partition)
                ends[partition] = consumer.get_watermark_offsets(one, TIMEOUT_S)[1]
            consumer.assign([TopicPartition(self._topic, one, 0) for one in ends])
            found: list[str] = []
            deadline = time.monotonic() + 2 * TIMEOUT_S
            while time.monotonic() < deadline:
                for record in consumer.consume(1000, 1.0):
                    if record.error() is None:
                        found.append(record.value().decode())
                places = consumer.position([TopicPartition(self._topic, one) for one in ends])
                if all(one.offset >= ends[one.partition] for one in places):
                    return found
            raise TimeoutError(f"reading {self._topic} did not reach its end: {places} of {ends}")
        finally:
            consumer.close()
