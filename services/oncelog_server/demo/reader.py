"""The demo's reader: it reads all committed records of the demo's topics, as any consumer sees them.

It shares no code with the pipeline or the producer. Every transaction must have ended before it reads, because
otherwise the result would depend on the moment. `wait_until_decided` waits until the last stable offset has met the
high watermark on every partition.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from oncelog.client.admin import LATEST
from oncelog.client.blocking import Admin, Consumer
from oncelog.client.core.consumer_record import ConsumerRecord
from oncelog.client.errors import ClientError
from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog_server.cli.client_config import login_properties

CALL_TIMEOUT_MS = 15_000
READ_BATCH = 10_000
TAIL_OFFSETS_FIRST = 500
POLL_S = 0.05


class ReadFailed(OncelogError):
    """The log could not be read to its end."""


class CommittedReader:
    """Reads topics from beginning to end at read_committed. A context manager."""

    def __init__(self, bootstrap: str, stall_timeout_s: float = 60.0) -> None:
        self._stall_timeout_s = stall_timeout_s
        login = login_properties(bootstrap)
        self._admin = Admin(str(bootstrap), login, default_api_timeout_ms=CALL_TIMEOUT_MS)
        self._consumer = Consumer(
            str(bootstrap),
            login,
            auto_offset_reset="none",
            max_poll_records=READ_BATCH,
            default_api_timeout_ms=CALL_TIMEOUT_MS,
        )
        self._clients = ExitStack()

    def __enter__(self) -> "CommittedReader":
        with _reading("the topics"):
            self._clients.enter_context(self._admin)
            self._clients.enter_context(self._consumer)
        return self

    def __exit__(self, *_: object) -> None:
        self._clients.close()

    def stable_ends(self, topic: str) -> dict[int, int]:
        """Return the last stable offset of every partition."""
        return self._ends(topic, read_committed=True)

    def wait_until_decided(self, topics: Sequence[str], timeout_s: float) -> dict[str, int]:
        """Wait until no transaction is open. Returns by topic how many offsets are still undecided: 0 unless it timed
        out.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            undecided = {
                topic: sum(self._ends(topic, read_committed=False).values())
                - sum(self.stable_ends(topic).values())
                for topic in topics
            }
            if not any(undecided.values()) or time.monotonic() > deadline:
                return undecided
            time.sleep(POLL_S)

    def read(self, topic: str) -> Iterator[ConsumerRecord]:
        """Yield every committed record of `topic`, in offset order in each partition. Raises ReadFailed on a stall."""
        ends = self.stable_ends(topic)
        yield from self._read({Partition(topic, one): (0, end) for one, end in ends.items()})

    def last_of_each_partition(self, topic: str) -> list[ConsumerRecord]:
        """Return the last committed record of every partition that has one.

        An aborted transaction may fill the end of a partition. So the part that is searched doubles until it has a
        record, or the partition has been searched whole.
        """
        found: list[ConsumerRecord] = []
        for partition, end in self.stable_ends(topic).items():
            stretch = TAIL_OFFSETS_FIRST
            while end > 0:
                start = max(0, end - stretch)
                tail = list(self._read({Partition(topic, partition): (start, end)}))
                found += tail[-1:]
                if tail or start == 0:
                    break
                stretch *= 2
        return found

    def _read(self, stretches: dict[Partition, tuple[int, int]]) -> Iterator[ConsumerRecord]:
        """Yield the records of these partitions, each from its first offset up to before its second one."""
        consumer = self._consumer
        topic = next(iter(stretches)).topic
        with _reading(topic):
            consumer.assign(stretches)
            for partition, (start, _) in stretches.items():
                consumer.seek(partition, start)
            stalled_at = time.monotonic() + self._stall_timeout_s
            while any(consumer.position(one) < end for one, (_, end) in stretches.items()):
                records = consumer.poll(POLL_S)
                if records:
                    stalled_at = time.monotonic() + self._stall_timeout_s
                elif time.monotonic() > stalled_at:
                    raise ReadFailed(
                        f"no record and no end of {topic} within {self._stall_timeout_s:.0f} s"
                    )
                yield from (
                    one for one in records if one.offset < stretches[one.topic_partition][1]
                )

    def _ends(self, topic: str, *, read_committed: bool) -> dict[int, int]:
        with _reading(topic):
            known = self._admin.describe_topics([topic])[topic].partitions
            wanted = {Partition(topic, one.partition): LATEST for one in known}
            ends = self._admin.list_offsets(wanted, read_committed=read_committed)
        return {one.partition: at.offset for one, at in ends.items() if at is not None}


@contextmanager
def _reading(what: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise ReadFailed(f"cannot read {what}: {error}") from error
