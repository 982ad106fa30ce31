"""The waiting line of a producer: records that wait for their topic's metadata, or for memory, in order of arrival
(S2-11, S2-38, ADR 0044)."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from oncelog.client.core.accumulator import NEVER
from oncelog.client.core.cluster_view import ClusterView
from oncelog.client.core.producer_batch import ProducerBatch, Record, size_bound
from oncelog.client.core.producer_settings import ProducerSettings
from oncelog.client.errors import BufferExhaustedError, ClientError, RefusedError, TimedOutError
from oncelog.errors import ErrorCode

LINE_SHARE: Final = 4
"""The divisor of `buffer.memory`: the line may hold that part of it."""

Settled = Callable[[ProducerBatch | None, ClientError | None], None]
"""A callback that is called once: with the record's batch, or with the error why there is none."""


class _Waiting:
    __slots__ = ("expires_ms", "record", "settled", "size")

    def __init__(self, record: Record, size: int, expires_ms: float, settled: Settled) -> None:
        self.record = record
        self.size = size
        self.expires_ms = expires_ms
        self.settled = settled


class Line:
    """The records of one producer that are in no batch yet. `on_failure` gets the error of each record that fails
    here."""

    def __init__(
        self, settings: ProducerSettings, on_failure: Callable[[ClientError], None]
    ) -> None:
        self._settings = settings
        self._on_failure = on_failure
        self._for_memory: deque[_Waiting] = deque()
        self._for_topic: dict[str, deque[_Waiting]] = {}
        self._bytes = 0
        self.exhausted_count = 0
        """Records that found no memory in time (`buffer-exhausted-records`)."""

    def __bool__(self) -> bool:
        return bool(self._for_memory or self._for_topic)

    @property
    def is_for_memory(self) -> bool:
        return bool(self._for_memory)

    @property
    def is_for_metadata(self) -> bool:
        return bool(self._for_topic)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def holds_back(self, topic: str) -> bool:
        """True if records wait here that a new record for this topic must not overtake."""
        return bool(self._for_memory) or topic in self._for_topic

    def join(self, record: Record, now_ms: float, view: ClusterView, settled: Settled) -> None:
        """Add a record at the end. Raises BufferExhaustedError where the line is full."""
        size = size_bound(record.key, record.value, record.headers)
        memory = self._settings.buffer_memory
        if self._bytes and self._bytes + size > memory // LINE_SHARE:
            self.exhausted_count += 1
            raise BufferExhaustedError(
                f"buffer.memory={memory} is full, and so is the line of those who wait for it: await ready(), or what "
                "send() returned, before you send more"
            )
        waiting = _Waiting(record, size, now_ms + self._settings.max_block_ms, settled)
        self._bytes += size
        if record.topic not in view.topics or record.topic in self._for_topic:
            self._for_topic.setdefault(record.topic, deque()).append(waiting)
        else:
            self._for_memory.append(waiting)

    def move(
        self, now_ms: float, view: ClusterView, place: Callable[[Record], ProducerBatch | None]
    ) -> None:
        """Move records into batches in order, while `place` finds a batch for them. Fail those that waited longer than
        `max.block.ms`."""
        for topic in [name for name in self._for_topic if name in view.topics]:
            known = view.topics[topic]
            if known.leaders:
                self._for_memory.extend(self._for_topic.pop(topic))
            elif known.error is not ErrorCode.NONE and not known.error.is_retriable:
                refused = RefusedError(
                    f"topic {topic!r} cannot be written to: {known.error.name}", known.error
                )
                self._send_away(self._for_topic.pop(topic), refused)
        while self._for_memory:
            try:
                batch = place(self._for_memory[0].record)
            except ClientError as error:
                self._leave(self._for_memory.popleft(), None, error)
                continue
            if batch is None:
                break
            self._leave(self._for_memory.popleft(), batch, None)
        self._expire(now_ms, view)

    def send_all_away(self, error: ClientError) -> None:
        for queue in self._queues():
            self._send_away(queue, error)
        self._for_topic.clear()

    @property
    def next_expiry_ms(self) -> float:
        return min((queue[0].expires_ms for queue in self._queues() if queue), default=NEVER)

    def _queues(self) -> Iterator[deque[_Waiting]]:
        yield self._for_memory
        yield from list(self._for_topic.values())

    def _expire(self, now_ms: float, view: ClusterView) -> None:
        limit = f"max.block.ms={self._settings.max_block_ms}"
        while self._for_memory and self._for_memory[0].expires_ms <= now_ms:
            self.exhausted_count += 1
            error = BufferExhaustedError(
                f"no room in buffer.memory={self._settings.buffer_memory} within {limit}: brokers take records more "
                "slowly than they are sent, or not at all"
            )
            self._leave(self._for_memory.popleft(), None, error)
        for topic, queue in list(self._for_topic.items()):
            known = view.topics.get(topic)
            said = "no broker told of it" if known is None else known.error.name
            while queue and queue[0].expires_ms <= now_ms:
                late = TimedOutError(
                    f"topic {topic!r} was not in the metadata within {limit} ({said}): create it first, and see that "
                    "bootstrap.servers is right"
                )
                self._leave(queue.popleft(), None, late)
            if not queue:
                del self._for_topic[topic]

    def _send_away(self, queue: deque[_Waiting], error: ClientError) -> None:
        while queue:
            self._leave(queue.popleft(), None, error)

    def _leave(self, one: _Waiting, batch: ProducerBatch | None, error: ClientError | None) -> None:
        self._bytes -= one.size
        if error is not None:
            self._on_failure(error)
        one.settled(batch, error)
