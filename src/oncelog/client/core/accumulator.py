"""Records that wait to be sent: a queue of batches for each partition, and the memory that all of them may take.

```
append ──▶ last batch of the partition's queue ──(full, lingered, flush, …)──▶ drained for its leader
                    ▲──────────────── put back, in order, to be retried ───────────────┘
```

The accumulator decides which batches may be sent. A `Gate` tells it which brokers can be sent to, and what the
sequences allow.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from oncelog.client.core.cluster_view import NO_NODE, ClusterView, Leader
from oncelog.client.core.compression_ratio import CompressionRatios
from oncelog.client.core.producer_batch import BuilderOf, Order, ProducerBatch, Record, size_bound
from oncelog.client.core.producer_settings import ProducerSettings
from oncelog.client.core.sticky import StickyPartitioner
from oncelog.client.errors import ClientError
from oncelog.ids import Partition
from oncelog.record.batch import Codec

NEVER: Final = float("inf")
LOADS_EVERY_MS: Final = 10.0
"""Milliseconds between two looks at the queues' loads.
A batch takes at least that long, so more looks tell nothing new."""


class Drained(NamedTuple):
    """The batches of one Produce request to one node, at most one of each partition."""

    node_id: int
    batches: list[ProducerBatch]


class Gate(Protocol):
    """The conditions for sending a batch that the accumulator does not know itself: connections, sequences, the
    transaction."""

    def may_send(self, node_id: int) -> bool:
        """Return True if the node's connection is open, not throttled, and has room for a further request.

        The limit is `max.in.flight.requests.per.connection`.
        """
        ...

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Return True if the producer id, the sequences and the transaction allow this batch to be sent now. The
        question changes nothing."""
        ...


class Accumulator:
    """The record batches of one producer that wait to be sent, by partition, within `buffer.memory`. `draw` returns a
    random number from 0 up to 1."""

    def __init__(
        self, settings: ProducerSettings, build: BuilderOf, draw: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._build = build
        self._draw = draw
        self._queues: dict[Partition, deque[ProducerBatch]] = {}
        """The queue of batches of each partition in which something waits."""
        self._sticky: dict[str, StickyPartitioner] = {}
        self.sticky_batches: dict[str, ProducerBatch] = {}
        """Topic → the newest batch of its sticky partition. It may be closed, and sent."""
        self._batched: dict[str, set[int]] = {}
        """Topic → the partitions that had a batch: the sticky partitioner counts only their queues."""
        self._drained_at: dict[int, float] = {}
        """Node → the time in ms at which a batch was drained for it last, or began to wait for it. The sticky
        partitioner avoids a node for which that is long ago (S2-27, ADR 0044)."""
        self._ratios = CompressionRatios()
        self._next_order = 0
        self._loads_at_ms = -NEVER
        self._turns: dict[int, Partition] = {}
        """Node → the partition that its last request ended with."""
        self.free_bytes = settings.buffer_memory
        self.unfinished: dict[Order, ProducerBatch] = {}
        """All batches that are not done, the oldest first."""
        self.is_flushing = 0
        """The number of flushes that wait. While there is one, every batch may go at once."""
        self.is_short_of_memory = False
        """True while records wait for memory: then every batch may go at once."""
        self.is_completing = False
        """True when the transaction is about to end: then every batch may go at once."""
        self.is_closed = False

    # ---------------------------------------------------------------------------------------------- appending

    def append_sticky(
        self, record: Record, leaders: tuple[Leader, ...], now_ms: float
    ) -> ProducerBatch | None:
        """Append a record without a key to the partition that the sticky partitioner has chosen, and return its batch;
        None: there is no memory for a new one.

        If the topic's last batch was closed meanwhile, its bytes are counted: they decide when the next partition is
        chosen.
        """
        topic = record.topic
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = StickyPartitioner(self._settings.batch_size, self._draw)
            self._sticky[topic] = sticky
        last = self.sticky_batches.pop(topic, None)
        if last is not None and not last.is_open:
            sticky.appended(last.appended_bytes, leaders)
        partition = Partition(topic, sticky.partition(leaders))
        batch = self.append(partition, record, now_ms)
        if batch is not None:
            self.sticky_batches[topic] = batch
        return batch

    def newest(self, topic: str, partition: int) -> ProducerBatch | None:
        """Return the newest waiting batch of a partition; None: no batch of it waits."""
        queue = self._queues.get((topic, partition))  # type: ignore[call-overload]
        return queue[-1] if queue else None

    def append(self, partition: Partition, record: Record, now_ms: float) -> ProducerBatch | None:
        """Append a record to the last batch of its partition, or to a new one, and return that batch; None: there is no
        memory for a new one."""
        _, _, timestamp_ms, key, value, headers = record
        queue = self._queues.get(partition)
        if queue is not None:
            batch = queue[-1]
            if batch.append(timestamp_ms, key, value, headers):
                return batch
        reserved = max(self._settings.batch_size, size_bound(key, value, headers))
        if reserved > self.free_bytes:
            return None
        batch = self._open_batch(partition, reserved, now_ms)
        batch.append(timestamp_ms, key, value, headers)
        if queue is None:
            queue = self._queues[partition] = deque()
        queue.append(batch)
        self._batched.setdefault(partition.topic, set()).add(partition.partition)
        return batch

    def is_full(self, batch: ProducerBatch) -> bool:
        """True if the batch takes no more records and need not wait for `linger.ms`."""
        return not batch.is_open or batch.size_bytes >= self._settings.batch_size

    def _open_batch(self, partition: Partition, reserved: int, now_ms: float) -> ProducerBatch:
        settings = self._settings
        size_max = self._ratios.room(partition.topic, settings.codec, settings.batch_size)
        batch = ProducerBatch(
            self._build,
            partition,
            order=(self._next_order,),
            created_ms=now_ms,
            size_max=size_max,
            reserved_bytes=reserved,
            is_transactional=settings.is_transactional,
        )
        self._next_order += 1
        self.free_bytes -= reserved
        self.unfinished[batch.order] = batch
        return batch

    # ---------------------------------------------------------------------------------------------- draining

    def waiting(self) -> Iterator[ProducerBatch]:
        """Return the oldest waiting batch of each partition."""
        return (queue[0] for queue in self._queues.values())

    @property
    def has_waiting(self) -> bool:
        return bool(self._queues)

    def ready_at_ms(self, batch: ProducerBatch, now_ms: float) -> float:
        """Return from when on the first batch of a queue may be sent, in ms; a time up to `now_ms` means now."""
        if batch.attempts and batch.retry_at_ms > now_ms:
            return batch.retry_at_ms
        if (
            batch.attempts
            or self.is_flushing
            or self.is_short_of_memory
            or self.is_completing
            or self.is_closed
            or len(self._queues[batch.partition]) > 1
            or self.is_full(batch)
        ):
            return now_ms
        return batch.created_ms + self._settings.linger_ms

    def drain(
        self, view: ClusterView, gate: Gate, now_ms: float, codec: Codec
    ) -> tuple[list[Drained], float]:
        """Take the batches that may be sent now out of their queues, grouped by node. Return them, and the time in ms
        at which to call again at the latest.

        A batch without a leader waits for the metadata to name one. One whose leader is newer than its last try does
        not wait for its pause (S2-15, ADR 0044).

        Each node's request begins behind the partition that its last one ended with, and holds at most
        `max.request.size` (S2-45, S2-46, ADR 0044).
        """
        next_ms = NEVER
        by_node: dict[int, list[ProducerBatch]] = {}
        may_send: dict[int, bool] = {}
        for partition, queue in self._queues.items():
            batch, leader = queue[0], view.leader(partition)
            is_fresh = leader is not None and 0 <= batch.leader_epoch < leader.epoch
            ready_ms = now_ms if is_fresh else self.ready_at_ms(batch, now_ms)
            if ready_ms > now_ms:
                next_ms = min(next_ms, ready_ms)
                continue
            if leader is None or leader.node_id == NO_NODE:
                continue
            node_id = leader.node_id
            if node_id not in may_send:
                may_send[node_id] = gate.may_send(node_id)
                self._drained_at.setdefault(node_id, now_ms)
            if may_send[node_id] and gate.may_drain(batch):
                by_node.setdefault(node_id, []).append(batch)
        drained = []
        for node_id, ready in by_node.items():
            taken = self._take(node_id, ready, codec)
            drained.append(Drained(node_id, taken))
            self._drained_at[node_id] = now_ms
            for batch in taken:
                known = view.leader(batch.partition)
                batch.leader_epoch = -1 if known is None else known.epoch
        for node_id, is_free in may_send.items():
            if is_free and node_id not in by_node:
                self._drained_at[node_id] = now_ms
        return drained, next_ms

    def _take(self, node_id: int, ready: list[ProducerBatch], codec: Codec) -> list[ProducerBatch]:
        last = self._turns.get(node_id)
        if last is not None and len(ready) > 1:
            at = next((i for i, one in enumerate(ready) if one.partition == last), -1)
            ready = ready[at + 1 :] + ready[: at + 1]
        taken: list[ProducerBatch] = []
        size = 0
        for batch in ready:
            if batch.records is None:
                self._close(batch, codec)
            if taken and size + batch.size_bytes > self._settings.max_request_size:
                break
            size += batch.size_bytes
            queue = self._queues[batch.partition]
            queue.popleft()
            if not queue:
                del self._queues[batch.partition]
            batch.is_under_way = True
            taken.append(batch)
        self._turns[node_id] = taken[-1].partition
        return taken

    def _close(self, batch: ProducerBatch, codec: Codec) -> None:
        ratio = batch.close(codec, self._settings.compression_level)
        self._ratios.observe(batch.partition.topic, codec, ratio)

    def put_back(self, batch: ProducerBatch) -> None:
        """Put a batch back to be sent again, before all batches that were made after it (S2-61, ADR 0044)."""
        batch.is_under_way = False
        queue = self._queues.setdefault(batch.partition, deque())
        at = 0
        while at < len(queue) and queue[at].order < batch.order:
            at += 1
        queue.insert(at, batch)

    def split(self, batch: ProducerBatch, now_ms: float) -> list[ProducerBatch]:
        """Split a batch that a broker refused as too large into smaller ones, and queue them in its place. It does not
        count as a retry (S2-59, ADR 0044)."""
        batch.is_under_way = False
        self._ratios.reset(batch.partition.topic, self._settings.codec, at_least=1.0)
        half = max(batch.record_count // 2, 1)
        children: list[tuple[int, ProducerBatch]] = []
        reserved = batch.reserved_bytes
        for index, record in enumerate(batch.decoded()):
            headers = list(record.headers)
            is_new = not children or children[-1][1].record_count >= half
            if is_new or not children[-1][1].append(
                record.timestamp, record.key, record.value, headers
            ):
                child = self._open_batch(batch.partition, 0, batch.created_ms)
                child.topic_id = batch.topic_id
                child.append(record.timestamp, record.key, record.value, headers)
                children.append((index, child))
        for _, child in children:
            self._close(child, self._settings.codec)
            child.reserved_bytes = reserved // len(children)
        children[0][1].reserved_bytes += reserved % len(children)
        orders = [child.order for _, child in children]
        self._put_in_place_of(batch, [child for _, child in children], orders)
        batch.split_into(children)
        return [child for _, child in children]

    def _put_in_place_of(
        self, batch: ProducerBatch, parts: list[ProducerBatch], orders: list[Order]
    ) -> None:
        """Replace a batch by its parts at its place in the queue: their order numbers lie between its neighbours'."""
        del self.unfinished[batch.order]
        queue = self._queues.setdefault(batch.partition, deque())
        at = 0
        while at < len(queue) and queue[at].order < batch.order:
            at += 1
        for order in orders:
            del self.unfinished[order]
        for step, part in enumerate(parts):
            part.order = (*batch.order, step)
            self.unfinished[part.order] = part
        for part in reversed(parts):
            queue.insert(at, part)
        self.unfinished = dict(sorted(self.unfinished.items()))

    # ---------------------------------------------------------------------------------------------- the end

    def release(self, batch: ProducerBatch) -> None:
        """Drop a batch that is delivered or has failed, and free its memory."""
        if self.unfinished.pop(batch.order, None) is not None:
            self.free_bytes += batch.reserved_bytes
            assert self.free_bytes <= self._settings.buffer_memory, (
                "more memory came back than was taken"
            )

    @property
    def oldest_ms(self) -> float:
        """The time in ms at which the oldest batch was made that is neither delivered nor failed; NEVER if there is
        none."""
        return next((batch.created_ms for batch in self.unfinished.values()), NEVER)

    def take_expired(self, now_ms: float) -> list[ProducerBatch]:
        """Remove the waiting batches that are older than `delivery.timeout.ms` from their queues, and return them."""
        deadline = now_ms - self._settings.delivery_timeout_ms
        return self._take_out(lambda batch: batch.created_ms <= deadline)

    def take_of(self, topic: str, topic_id: bytes) -> list[ProducerBatch]:
        """Remove the waiting batches that were sent to a deleted topic from their queues, and return them. `topic_id`
        is that topic's. Further records choose a partition anew."""
        self._sticky.pop(topic, None)
        self.sticky_batches.pop(topic, None)
        self._batched.pop(topic, None)
        return self._take_out(
            lambda batch: batch.partition.topic == topic and batch.topic_id == topic_id
        )

    def take_unsent(self) -> list[ProducerBatch]:
        """Remove the waiting batches that were never sent from their queues, and return them."""
        return self._take_out(lambda batch: not batch.has_sequence)

    def take_all(self) -> list[ProducerBatch]:
        return self._take_out(lambda batch: True)

    def _take_out(self, is_out: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        out = []
        for partition, queue in list(self._queues.items()):
            gone = [batch for batch in queue if is_out(batch)]
            if not gone:
                continue
            out += gone
            kept = deque(batch for batch in queue if not is_out(batch))
            if kept:
                self._queues[partition] = kept
            else:
                del self._queues[partition]
        return out

    def queued(self, partition: Partition) -> Iterator[ProducerBatch]:
        return iter(self._queues.get(partition, ()))

    # ---------------------------------------------------------------------------------------------- loads

    def update_loads(self, view: ClusterView, now_ms: float) -> None:
        """Tell the sticky partitioners the queue lengths and which brokers accept nothing, so that slow brokers get
        fewer records (S2-25 to S2-28, ADR 0044)."""
        if (
            not self._settings.partitioner_adaptive_partitioning_enable
            or not self._sticky
            or now_ms < self._loads_at_ms + LOADS_EVERY_MS
        ):
            return
        self._loads_at_ms = now_ms
        lengths: dict[str, dict[int, int]] = {}
        for partition, queue in self._queues.items():
            lengths.setdefault(partition.topic, {})[partition.partition] = len(queue)
        for name, sticky in self._sticky.items():
            topic = view.topics.get(name)
            if topic is None or not topic.leaders:
                continue
            known = lengths.get(name, {})
            had = self._batched.get(name, set())
            queues = {one: known.get(one, 0) for one in range(topic.partition_count) if one in had}
            usable = self._usable(topic.leaders, view, now_ms)
            sticky.update_loads(queues, topic.partition_count, usable)

    def _usable(
        self, leaders: tuple[Leader, ...], view: ClusterView, now_ms: float
    ) -> Callable[[int], bool]:
        timeout_ms = self._settings.partitioner_availability_timeout_ms

        def is_available(number: int) -> bool:
            node_id = leaders[number].node_id
            if node_id == NO_NODE:
                return False
            drained_ms = self._drained_at.get(node_id, now_ms)
            return not timeout_ms or now_ms - drained_ms <= timeout_ms

        rack = self._settings.client_rack
        if not (self._settings.partitioner_rack_aware and rack):
            return is_available
        near = {
            number
            for number, leader in enumerate(leaders)
            if is_available(number) and _rack_of(view, leader) == rack
        }
        return near.__contains__ if near else is_available


def _rack_of(view: ClusterView, leader: Leader) -> str | None:
    node = view.nodes.get(leader.node_id)
    return None if node is None else node.rack


def fail_all(
    batches: list[ProducerBatch], error: ClientError, release: Callable[[ProducerBatch], None]
) -> None:
    """End these batches with one error, which their records get, and free their memory."""
    for batch in batches:
        batch.fail(error)
        release(batch)
