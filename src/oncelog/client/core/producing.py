"""The producer's core: it gets records, answers and the time, and says what to send. It does no I/O.

```
send ─▶ line ─▶ accumulator ─▶ step ─▶ produce requests ─▶ batch_answered ─▶ done, retried, or split
          │ (no metadata yet, or no memory)                  batch_lost
          └▶ at most max.block.ms
```
"""

from collections.abc import Callable
from typing import NamedTuple

from oncelog.client.core.accumulator import NEVER, Accumulator, Drained
from oncelog.client.core.backoff import backoff_ms
from oncelog.client.core.cluster_view import OF_ANOTHER_TOPIC, ClusterView
from oncelog.client.core.counts import ProducerCounts
from oncelog.client.core.key_hash import positive_murmur2
from oncelog.client.core.line import Line, Settled
from oncelog.client.core.produce_answers import (
    OF_THE_LEADER,
    PartitionAnswer,
    Verdict,
    leaves_open,
    record_refusals,
    refusal,
    verdict,
)
from oncelog.client.core.producer_batch import BuilderOf, Headers, ProducerBatch, Record, size_bound
from oncelog.client.core.producer_settings import ProducerSettings
from oncelog.client.core.sequences import NOBODY, Sequences
from oncelog.client.core.transaction_calls import Answer, Call, InitProducerId
from oncelog.client.core.transactions import State, Transactions
from oncelog.client.errors import (
    AbortableError,
    ClientError,
    FatalError,
    RecordTooLargeError,
    RefusedError,
    TimedOutError,
)
from oncelog.errors import ErrorCode
from oncelog.ids import Partition

MayReach = Callable[[int], bool]
Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""A function of (topic, key, value, number of partitions) that returns the partition."""


class Step(NamedTuple):
    """The next work of a producer's network loop: the Produce requests and the call to send, and when to ask again."""

    requests: list[Drained]
    call: Call | None
    """A call to a coordinator; for a producer without transactional id, to any broker."""
    next_ms: float
    """The time of the next step at the latest, in ms."""
    wants_metadata: bool


class ProducerCore:
    """The pure part of one producer. `draw` returns a random number from 0 up to 1."""

    def __init__(
        self,
        settings: ProducerSettings,
        build: BuilderOf,
        draw: Callable[[], float],
        partitioner: Partitioner | None = None,
    ) -> None:
        self.settings = settings
        self.accumulator = Accumulator(settings, build, draw)
        self.sequences = Sequences(settings.max_in_flight_requests_per_connection)
        self.transactions = Transactions(settings, self.sequences, draw)
        self.view = ClusterView()
        self._is_transactional = settings.is_transactional
        self._draw = draw
        self._partitioner = partitioner
        self._hashes_keys = partitioner is None and not settings.partitioner_ignore_keys
        self.line = Line(settings, self._line_failed)
        self.counts = ProducerCounts()
        self._under_way: dict[int, int] = {}
        """Node → number of produce requests that are not answered."""
        self._may_reach: MayReach = lambda _: False
        self._wants_metadata = False
        self._muted: set[Partition] = set()
        """Partitions that wait for the answer to their batch: those of one request in flight without sequences
        (S2-49, ADR 0044)."""

    # ---------------------------------------------------------------------------------------------- records

    def append_to_open(
        self,
        topic: str,
        partition: int | None,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> ProducerBatch | None:
        """Append a record to the open batch of its partition: the fast path of most records. None: call `append`
        instead."""
        if self._is_transactional and self.transactions.state is not State.IN_TRANSACTION:
            return None
        if partition is None and key is not None and self._hashes_keys:
            view = self.view.topics.get(topic)
            if view is None or not view.leaders:
                return None
            partition = positive_murmur2(key) % len(view.leaders)
        if partition is None:
            batch = self.accumulator.sticky_batches.get(topic)
        else:
            batch = self.accumulator.newest(topic, partition)
        if (
            batch is None
            or self.line.holds_back(topic)
            or not batch.append(timestamp_ms, key, value, headers)
        ):
            return None
        return batch

    def append(self, record: Record, now_ms: float) -> ProducerBatch | None:
        """Append a record, and return its batch; None: it must wait for metadata or memory, by `stand_in_line`.

        Raises RecordTooLargeError, RefusedError for a partition that does not exist, and errors of the transaction's
        state.
        """
        if self._is_transactional:
            self.transactions.check_may_send()
        self._check_size(record)
        if self.line.holds_back(record.topic):
            return None
        return self._place(record, now_ms)

    def stand_in_line(self, record: Record, now_ms: float, settled: Settled) -> None:
        """Let a record wait for metadata or memory; `settled` is called when it has a batch or has failed. Raises
        BufferExhaustedError where the line is full, too."""
        self.line.join(record, now_ms, self.view, settled)
        self.accumulator.is_short_of_memory = self.line.is_for_memory

    def _check_size(self, record: Record) -> None:
        size = size_bound(record.key, record.value, record.headers)
        for name, limit in (
            ("max.request.size", self.settings.max_request_size),
            ("buffer.memory", self.settings.buffer_memory),
        ):
            if size > limit:
                raise RecordTooLargeError(
                    f"a record of {size} bytes for {record.topic!r} is above {name}={limit}"
                )

    def _place(self, record: Record, now_ms: float) -> ProducerBatch | None:
        topic = self.view.topics.get(record.topic)
        if topic is None or not topic.leaders:
            return None
        number = self._partition_of(record, topic.partition_count)
        if number is None:
            batch = self.accumulator.append_sticky(record, topic.leaders, now_ms)
        else:
            batch = self.accumulator.append(Partition(record.topic, number), record, now_ms)
        if batch is not None:
            if batch.record_count == 1:
                batch.topic_id = topic.topic_id
            if self._is_transactional:
                self.transactions.wants(batch.partition)
        return batch

    def _partition_of(self, record: Record, count: int) -> int | None:
        """Return the partition that the program, its partitioner or the key chooses; None: the sticky partitioner
        chooses."""
        if record.partition is not None:
            if not 0 <= record.partition < count:
                raise RefusedError(
                    f"topic {record.topic!r} has {count} partitions; there is no partition {record.partition}"
                )
            return record.partition
        if self._partitioner is not None:
            chosen = self._partitioner(record.topic, record.key, record.value, count)
            if not isinstance(chosen, int) or not 0 <= chosen < count:
                raise RefusedError(
                    f"the partitioner chose {chosen!r} of topic {record.topic!r}, which has partitions 0 to {count - 1}"
                )
            return chosen
        if record.key is not None and self._hashes_keys:
            return positive_murmur2(record.key) % count
        return None

    def _line_failed(self, error: ClientError) -> None:
        if self._is_transactional:
            self.transactions.failed(error)

    # ---------------------------------------------------------------------------------------------- a step

    def step(self, now_ms: float, may_reach: MayReach) -> Step:
        self._may_reach = may_reach
        self._expire(now_ms)
        self._leave_old_topics()
        self.line.move(now_ms, self.view, lambda record: self._place(record, now_ms))
        self.accumulator.is_short_of_memory = self.line.is_for_memory
        if self.transactions.state is State.ABORTING:
            self._drop_unsent(AbortableError("the transaction is aborted"))
        self.accumulator.is_completing = self.transactions.is_completing
        self._begin_again()
        call = self._next_call(now_ms)
        self.accumulator.update_loads(self.view, now_ms)
        drained, next_ms = self.accumulator.drain(self.view, self, now_ms, self.settings.codec)
        for request in drained:
            self._under_way[request.node_id] = self._under_way.get(request.node_id, 0) + 1
            for batch in request.batches:
                batch.attempts += 1
                self.counts.batches_sent += 1
                self.counts.bytes_sent += batch.size_bytes
                self._mute(batch)
                if self.settings.enable_idempotence:
                    self.sequences.stamp(batch)
            if self._is_transactional:
                self.transactions.drained()
        next_ms = min(next_ms, self._next_deadline(now_ms))
        if any(self._lacks_leader(batch) for batch in self.accumulator.waiting()):
            self._wants_metadata = True
        # An answer since the last step may have said that the metadata is old.
        wants_metadata, self._wants_metadata = self._wants_metadata, False
        return Step(drained, call, next_ms, wants_metadata or self.line.is_for_metadata)

    def may_send(self, node_id: int) -> bool:
        limit = self.settings.max_in_flight_requests_per_connection
        return self._under_way.get(node_id, 0) < limit and self._may_reach(node_id)

    def may_drain(self, batch: ProducerBatch) -> bool:
        if batch.partition in self._muted:
            return False
        if self._is_transactional and not self.transactions.may_drain(batch.partition):
            return False
        return not self.settings.enable_idempotence or self.sequences.may_drain(batch)

    def _lacks_leader(self, batch: ProducerBatch) -> bool:
        leader = self.view.leader(batch.partition)
        return leader is None or leader.node_id not in self.view.nodes

    def _mute(self, batch: ProducerBatch) -> None:
        if self.settings.max_in_flight_requests_per_connection == 1:
            self._muted.add(batch.partition)

    def _next_call(self, now_ms: float) -> Call | None:
        transactions = self.transactions
        needs_identity = (
            self.settings.enable_idempotence
            and not self._is_transactional
            and not self.sequences.identity.is_known
            and self.accumulator.has_waiting
        )
        if needs_identity and transactions.state in (State.UNINITIALIZED, State.READY):
            transactions.state = State.UNINITIALIZED
            transactions.initialize()
        return transactions.next_call(now_ms, bool(self.accumulator.unfinished or self.line))

    def _next_deadline(self, now_ms: float) -> float:
        due = self.accumulator.oldest_ms + self.settings.delivery_timeout_ms
        if due <= now_ms:
            due = NEVER  # The batch is given up, and its request is still under way.
        if self.transactions.retry_at_ms > now_ms:
            due = min(due, self.transactions.retry_at_ms)
        return min(due, self.line.next_expiry_ms)

    # ---------------------------------------------------------------------------------------------- answers

    def request_done(self, node_id: int) -> None:
        """Allow one more produce request to this node: one was answered, or never will be."""
        self._under_way[node_id] -= 1

    def batch_answered(self, batch: ProducerBatch, answer: PartitionAnswer, now_ms: float) -> None:
        batch.is_under_way = False
        self._muted.discard(batch.partition)
        if answer.error in OF_THE_LEADER:
            self._wants_metadata = True
        batch.is_id_refused = answer.error in OF_ANOTHER_TOPIC
        if batch.is_done:
            # The batch was given up before its answer came (S2-41).
            self.accumulator.release(batch)
            return
        batch.may_be_written |= leaves_open(answer.error)
        found = verdict(answer.error, batch.record_count)
        if found is Verdict.WRITTEN:
            if self.settings.enable_idempotence:
                self.sequences.acknowledged(batch)
            self.accumulator.release(batch)
            self.counts.records_sent += batch.record_count
            batch.complete(answer.base_offset, answer.log_append_ms)
        elif found is Verdict.TOO_LARGE:
            self.counts.batches_split += 1
            parts = self.accumulator.split(batch, now_ms)
            if self.settings.enable_idempotence:
                self.sequences.replaced(batch, parts)
        elif self._goes_again(batch, found, answer):
            self._put_back(batch, now_ms)
        else:
            error = refusal(batch.partition, answer, batch.may_be_written)
            self._fail(batch, error, record_refusals(answer, error))

    def batch_lost(self, batch: ProducerBatch, error: ClientError, now_ms: float) -> None:
        """Retry or fail a batch that got no answer: the connection broke, or time ran out. The batch may have been
        written."""
        code = error.error_code or ErrorCode.NETWORK_EXCEPTION
        if isinstance(error, FatalError):
            batch.is_under_way = False
            self._muted.discard(batch.partition)
            self._fail(batch, error, None)
            return
        self.batch_answered(batch, PartitionAnswer(code, message=str(error)), now_ms)

    def call_answered(self, answer: Answer, call: Call, now_ms: float) -> None:
        """Handle the answer to a coordinator call that `Step.call` asked for. If no producer id is granted, the records
        that wait for one fail."""
        self.transactions.answered(answer, now_ms)
        if isinstance(call, InitProducerId) and self.transactions.state is not State.READY:
            error = self.transactions.error
            if error is not None and not answer.error.is_retriable:
                self._drop_unsent(error)

    def _goes_again(self, batch: ProducerBatch, found: Verdict, answer: PartitionAnswer) -> bool:
        if batch.attempts > self.settings.retries:
            return False
        if found is Verdict.AGAIN:
            return not self.transactions_are_over
        if not self.settings.enable_idempotence:
            return False
        if found is Verdict.OUT_OF_ORDER:
            is_behind_another = (
                answer.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                and not self.sequences.is_real_hole(batch)
            )
            if is_behind_another:
                return True
            if self._is_transactional:
                return False
            self.sequences.found_hole(batch)
            return True
        if found is Verdict.NEW_IDENTITY and not self._is_transactional:
            self.sequences.found_hole(batch)
            self.sequences.identity = NOBODY
            return True
        return False

    @property
    def transactions_are_over(self) -> bool:
        return self.transactions.state in (State.FATAL_ERROR, State.ABORTING)

    def _put_back(self, batch: ProducerBatch, now_ms: float) -> None:
        settings = self.settings
        pause_ms = backoff_ms(
            settings.retry_backoff_ms,
            settings.retry_backoff_max_ms,
            batch.attempts - 1,
            self._draw(),
        )
        batch.retry_at_ms = now_ms + pause_ms
        self.counts.batches_retried += 1
        self.accumulator.put_back(batch)

    def _fail(
        self,
        batch: ProducerBatch,
        error: ClientError,
        record_errors: dict[int, ClientError] | None,
        is_sent: bool = False,
    ) -> None:
        """Fail a batch, and its records, with an error. `is_sent`: its request is under way, so its memory is freed
        only with the answer."""
        if self._is_transactional:
            if batch.has_sequence:
                self.transactions.left_unknown()
            self.transactions.failed(error)
        if self.settings.enable_idempotence:
            self.sequences.gave_up(batch)
        if not is_sent:
            self.accumulator.release(batch)
        self.counts.records_failed += batch.record_count
        batch.fail(error, record_errors)

    def _expire(self, now_ms: float) -> None:
        timeout_ms = self.settings.delivery_timeout_ms
        if self.accumulator.oldest_ms + timeout_ms > now_ms:
            return
        for batch in self.accumulator.take_expired(now_ms):
            self._fail(batch, self._too_late(batch), None)
        late = [
            batch
            for batch in self.accumulator.unfinished.values()
            if batch.is_under_way and not batch.is_done and batch.created_ms + timeout_ms <= now_ms
        ]
        for batch in late:
            self._fail(batch, self._too_late(batch), None, is_sent=True)

    def _leave_old_topics(self) -> None:
        """Fail the batches of a topic that was deleted and made again: they belong to the old one.

        Leader and metadata must both say so, for one of them alone may be behind.
        """
        old = {
            (batch.partition.topic, batch.topic_id)
            for batch in self.accumulator.waiting()
            if batch.is_id_refused and self._is_of_another_topic(batch)
        }
        for topic, topic_id in old:
            for batch in self.accumulator.take_of(topic, topic_id):
                error = RefusedError(
                    f"topic {topic!r} was deleted and made again: records that were sent before belong to the old one; "
                    "send them again if the new one should have them",
                    ErrorCode.UNKNOWN_TOPIC_ID,
                    may_be_done=batch.may_be_written,
                )
                self._fail(batch, error, None)

    def _is_of_another_topic(self, batch: ProducerBatch) -> bool:
        known = self.view.topics.get(batch.partition.topic)
        known_id = b"" if known is None else known.topic_id
        return bool(batch.topic_id and known_id) and known_id != batch.topic_id

    def _too_late(self, batch: ProducerBatch) -> ClientError:
        may_be_done = batch.is_under_way or batch.may_be_written
        sent = "it may have been written" if may_be_done else "it was not written"
        return TimedOutError(
            f"{batch.record_count} records for {batch.partition} were not delivered within "
            f"delivery.timeout.ms={self.settings.delivery_timeout_ms}, in {batch.attempts} attempts; {sent}",
            ErrorCode.REQUEST_TIMED_OUT,
            may_be_done=may_be_done,
        )

    def _begin_again(self) -> None:
        """Raise the epoch of an idempotent producer after a sequence may be missing, so that its partitions can begin
        at 0 (S2-68, S2-69, ADR 0044)."""
        if self._is_transactional or not self.settings.enable_idempotence:
            return
        partitions = self.sequences.partitions_to_begin_again()
        if not partitions:
            return
        if self.sequences.identity.is_known and self.sequences.bump(partitions):
            for partition in partitions:
                self.sequences.begin_again(partition)

    # ---------------------------------------------------------------------------------------------- the end

    def _drop_unsent(self, error: ClientError) -> None:
        """Fail the records that were never sent. Batches under way are waited for."""
        self.line.send_all_away(error)
        for batch in self.accumulator.take_all():
            if batch.has_sequence and self._is_transactional:
                self.transactions.left_unknown()
            if self.settings.enable_idempotence:
                self.sequences.gave_up(batch)
            self.accumulator.release(batch)
            self.counts.records_failed += batch.record_count
            batch.fail(error)

    def end(self, error: ClientError) -> None:
        """End the producer: every record that is not delivered yet fails with `error` (S2-79, ADR 0044)."""
        self._drop_unsent(error)
        for batch in list(self.accumulator.unfinished.values()):
            self.accumulator.release(batch)
            open_end = FatalError(str(error), error.error_code, may_be_done=True)
            batch.fail(open_end if batch.is_under_way or batch.may_be_written else error)
