"""The independent reader: a plain confluent-kafka consumer at read_committed, and nothing of ours around it.

It reads what a stranger would see. Before it reads, every transaction must have ended, or the answer would depend on
the moment: `wait_until_decided` waits until the last stable offset has met the high watermark on every partition.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from oncelog.errors import OncelogError
from oncelog_server.cli.client_config import login_settings

CALL_TIMEOUT_S = 15.0
READ_BATCH = 10_000
TAIL_OFFSETS_FIRST = 500
POLL_S = 0.05


class ReadFailed(OncelogError):
    """The log could not be read to its end."""


class CommittedReader:
    """Reads topics from beginning to end. A context manager."""

    def __init__(self, bootstrap: str, stall_timeout_s: float = 60.0) -> None:
        self._bootstrap = bootstrap
        self._stall_timeout_s = stall_timeout_s
        self._consumers = {
            isolation: self._consumer(isolation)
            for isolation in ("read_committed", "read_uncommitted")
        }

    def __enter__(self) -> "CommittedReader":
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def stable_ends(self, topic: str) -> dict[int, int]:
        """The last stable offset of every partition."""
        return self._ends(topic, "read_committed")

    def wait_until_decided(self, topics: Sequence[str], timeout_s: float) -> dict[str, int]:
        """Wait until no transaction is open. Per topic, how many offsets still are: 0 unless it timed out."""
        deadline = time.monotonic() + timeout_s
        while True:
            undecided = {
                topic: sum(self._ends(topic, "read_uncommitted").values())
                - sum(self.stable_ends(topic).values())
                for topic in topics
            }
            if not any(undecided.values()) or time.monotonic() > deadline:
                return undecided
            time.sleep(POLL_S)

    def read(self, topic: str) -> Iterator[Message]:
        """Every committed record of `topic`, partition by partition in offset order. Raises ReadFailed on a stall."""
        yield from self._read([TopicPartition(topic, p, 0) for p in self.stable_ends(topic)])

    def last_of_each_partition(self, topic: str) -> list[Message]:
        """The last committed record of every partition that has one.

        A transaction that was aborted may fill the end of a partition. So the stretch that is searched doubles until a
        record is found or the partition has been searched whole.
        """
        found: list[Message] = []
        for partition, end in self.stable_ends(topic).items():
            stretch = TAIL_OFFSETS_FIRST
            while end > 0:
                start = max(0, end - stretch)
                tail = deque(self._read([TopicPartition(topic, partition, start)]), maxlen=1)
                found.extend(tail)
                if tail or start == 0:
                    break
                stretch *= 2
        return found

    def _read(self, assignment: list[TopicPartition]) -> Iterator[Message]:
        consumer = self._consumers["read_committed"]
        consumer.assign(assignment)
        unfinished = {partition.partition for partition in assignment}
        stalled_at = time.monotonic() + self._stall_timeout_s
        while unfinished:
            messages = consumer.consume(READ_BATCH, timeout=0.2)
            if messages:
                stalled_at = time.monotonic() + self._stall_timeout_s
            elif time.monotonic() > stalled_at:
                raise ReadFailed(
                    f"no record and no end of {assignment[0].topic} "
                    f"within {self._stall_timeout_s:.0f} s"
                )
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
                elif not error.retriable():
                    raise ReadFailed(f"{assignment[0].topic}: {error.str()}")
        consumer.unassign()

    def _ends(self, topic: str, isolation: str) -> dict[int, int]:
        consumer = self._consumers[isolation]
        try:
            partitions = sorted(
                consumer.list_topics(topic, CALL_TIMEOUT_S).topics[topic].partitions
            )
            return {
                partition: consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), CALL_TIMEOUT_S
                )[1]
                for partition in partitions
            }
        except KafkaException as error:
            raise ReadFailed(f"cannot ask where {topic} ends: {error}") from error

    def _consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                **login_settings(self._bootstrap),
                "bootstrap.servers": str(self._bootstrap),
                "group.id": "oncelog-demo-proof",
                "isolation.level": isolation,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
                "queued.min.messages": 20_000,
                "reconnect.backoff.max.ms": 500,
            }
        )
