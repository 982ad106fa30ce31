"""A Produce request from its bytes to its answers: check, verify, append, wait for commitment.

At the wire's edge: it fills protobuf answers directly, since one object per partition more would cost as much as the
append. The order is Kafka's: a repeated batch is answered before anything is asked of the coordinator (facts 9).
"""

import asyncio
import time
from functools import partial
from typing import Any, Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError, RecordsRefused
from oncelog.ids import INTERNAL_TOPICS, Partition
from oncelog.process.role_metrics import Histogram
from oncelog.record.batch import BatchHeader, read_header
from oncelog.record.check import is_long_check
from oncelog.runtime import Clock
from oncelog.telemetry import spans
from oncelog_storage.arrivals import Arrivals
from oncelog_storage.changed_settings import ChangedSettings
from oncelog_storage.core.partition_values import Appended
from oncelog_storage.core.record_links import HEADER_BYTES, linked_spans
from oncelog_storage.core.verification import VerificationGuard
from oncelog_storage.feed_events import StorageEvents
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.settings import StorageSettings
from oncelog_storage.traces import OpenTraces, OpenTransaction, appended
from oncelog_storage.verifier import Verifier

ACKS_ALL: Final = -1
_PRODUCE_TIMEOUT_MS_MAX: Final = 3_600_000
_INLINE_BYTES_MAX: Final = 16 * 1024
"""Recompressed at once, without a thread: the hand-over costs as much as such a batch."""
_SHORT_PAUSE_S: Final = 0.000_05
"""Long enough for another thread to take the interpreter's lock."""


def _let_others_run() -> None:
    time.sleep(_SHORT_PAUSE_S)


class _Item:
    """One partition's batch on its way."""

    __slots__ = (
        "answer",
        "appended",
        "guard",
        "header",
        "is_checked",
        "leader",
        "leader_epoch",
        "records",
    )

    def __init__(self, records: bytes, answer: pb.PartitionProduced) -> None:
        self.records = records
        self.answer = answer
        self.leader: HostedPartition
        self.header: BatchHeader
        self.is_checked = False
        """Down to its records."""
        self.guard: VerificationGuard | None = None
        self.appended: Appended | None = None
        self.leader_epoch = -1
        """In which the batch was appended."""

    def refuse(self, error: KafkaError) -> None:
        answer = self.answer
        answer.error_code = error.error_code
        answer.error_message = error.message
        answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if isinstance(error, RecordsRefused):
            for index, message in error.record_errors:
                answer.record_errors.add(index=index, message=message)

    @property
    def is_awaited(self) -> bool:
        """It is in the log, and not on every replica in sync."""
        appended = self.appended
        return appended is not None and self.leader.high_watermark <= appended.last_offset

    @property
    def is_refused(self) -> bool:
        return self.answer.error_code != 0


class ProduceTimes:
    """For `/metrics`."""

    def __init__(self) -> None:
        self.produce = {acks: Histogram() for acks in ("-1", "0", "1")}
        """From the request to its answer, by acks: append, verification and replication."""
        self.verification = Histogram()
        """What the transaction coordinator took of it."""
        self.replication = {acks: Histogram() for acks in (-1, 1)}
        """From the append to the records being as safe as acks asks."""


class ProduceHandler:
    def __init__(
        self,
        settings: StorageSettings,
        hosted: ReplicaManager,
        verifier: Verifier,
        clock: Clock,
        changed: ChangedSettings,
        traces: OpenTraces | None = None,
        events: StorageEvents | None = None,
        times: ProduceTimes | None = None,
    ) -> None:
        self._times = times or ProduceTimes()
        self._traces = traces or OpenTraces()
        self._events = events
        self._settings = settings
        self._changed = changed
        self._hosted = hosted
        self._verifier = verifier
        self._clock = clock
        self._arrivals = Arrivals()
        self._one_large_check = asyncio.Lock()

    async def produce(self, request: pb.ProduceRequest) -> pb.ProduceResponse:
        began = time.monotonic()
        took: list[tuple[Histogram, float]] = []
        response = await self._produce(request, took)
        times = self._times.produce.get(str(request.acks))
        if times is not None:
            took.append((times, time.monotonic() - began))
        trace_id = spans.exemplar()
        for times, seconds in took:
            times.observe(seconds, trace_id)
        return response

    async def _produce(
        self, request: pb.ProduceRequest, took: list[tuple[Histogram, float]]
    ) -> pb.ProduceResponse:
        """Adds what its stages `took`, in seconds."""
        response = pb.ProduceResponse()
        items: list[_Item] = []
        for part in request.partitions:
            answer = response.partitions.add(topic=part.topic, partition=part.partition)
            items.append(_Item(part.records, answer))
        now = self._clock.now()
        refusal = self._check_all(request, items, now)
        if refusal is not None:
            for item in items:
                item.refuse(refusal)
            return response
        await self._finish_batches(items, now)
        if request.transactional_id and self._needs_verification(request, items):
            async with self._verifier.turn(request.transactional_id):
                began = time.monotonic()
                await self._verify(request, items)
                took.append((self._times.verification, time.monotonic() - began))
                self._append_all(request, items)
        else:
            self._append_all(request, items)
        if spans.recorder is not None:
            # Behind the append, so that nothing waits for it but this answer.
            for item, known in self._first_batches(items):
                await self._link(item, known)
        if self._events is not None:
            self._tell(request, items, self._events)
        if request.acks:
            began = time.monotonic()
            # Where this node is the only replica there is often nothing to wait for, and nothing to show.
            waits = any(one.is_awaited for one in items)
            with spans.span("replication wait") if waits else spans.NOTHING:
                await self._wait_committed(request, items)
            took.append((self._times.replication[request.acks], time.monotonic() - began))
        return response

    def _first_batches(self, items: list[_Item]) -> list[tuple[_Item, OpenTransaction]]:
        """Of transactions that are traced, in their partitions, where they may name spans. The running span is told of
        all that was appended."""
        first = []
        for item in items:
            if item.appended is None or not item.header.is_transactional:
                continue
            header = item.header
            known = self._traces.belongs(header.producer_id, header.producer_epoch)
            where = (item.leader.partition, item.appended.base_offset)
            spans.describe(partial(appended, header.producer_id, header.producer_epoch, *where))
            if known is None or not known.is_first_in(item.leader.partition):
                continue
            if header.codec or HEADER_BYTES in item.records:
                first.append((item, known))
        return first

    async def _link(self, item: _Item, known: OpenTransaction) -> None:
        """The running span, to the spans that the batch's records name."""
        left = known.links_left
        if not left:
            return
        if item.header.codec and is_long_check(len(item.records), item.header):
            async with self._one_large_check:
                found = await asyncio.to_thread(linked_spans, item.records, left)
        else:
            found = linked_spans(item.records, left)
        running = spans.current()
        if found and running is not None:
            running.links = [*running.links, *(one for one in found if one not in known.links)]
            known.links.update(found)

    def _tell(self, request: pb.ProduceRequest, items: list[_Item], events: StorageEvents) -> None:
        client = (request.client_id, request.client_host)
        for item in items:
            # One that was refused before its header was read has none.
            header: BatchHeader | None = getattr(item, "header", None)
            if header is None or header.producer_id < 0:
                continue
            if item.appended is not None:
                if header.is_transactional and not item.appended.is_duplicate:
                    base_offset = item.appended.base_offset
                    events.appended(request.transactional_id, item.leader, header, base_offset)
            elif item.is_refused:
                code = item.answer.error_code
                events.refused(
                    request.transactional_id, client, item.leader.partition, header, code
                )

    def _check_all(
        self, request: pb.ProduceRequest, items: list[_Item], now: int
    ) -> KafkaError | None:
        """Check each batch by itself; returns an error that refuses the whole request."""
        if request.acks not in (-1, 0, 1):
            return KafkaError(
                ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}; 0, 1 and -1 are known"
            )
        transactional_producers: set[int] = set()
        for item in items:
            answer = item.answer
            try:
                if answer.topic in INTERNAL_TOPICS:
                    raise KafkaError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION,
                        f"clients may not write to the internal topic {answer.topic}",
                    )
                item.leader = self._hosted.get(answer.topic, answer.partition)
                if request.acks == ACKS_ALL:
                    item.leader.require_enough_replicas()
                item.header = item.leader.header_of_produced(item.records)
                item.is_checked = not is_long_check(len(item.records), item.header)
                if item.is_checked:
                    item.leader.check_produced(item.records, item.header, now)
            except KafkaError as error:
                self._refuse(item, error)
                continue
            if item.header.is_transactional:
                transactional_producers.add(item.header.producer_id)
        if transactional_producers and not request.transactional_id:
            return KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "transactional batches need a transactional.id",
            )
        if len(transactional_producers) > 1:
            return KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "transactional batches of one request must have one producer id",
            )
        return None

    async def _finish_batches(self, items: list[_Item], now: int) -> None:
        """Check large batches, and give batches the codec of their topic, each partition's requests in the order in
        which they came.

        A large batch keeps a thread busy for a moment, and what came behind it waits, in all of its partitions: it may
        follow in sequence. Small batches of topics whose compression.type is `producer` are concerned only by waiting.
        """
        taken = [item for item in items if not item.is_refused]
        partitions = {item.leader.partition for item in taken}
        unchecked = [item for item in taken if not item.is_checked]
        to_change = [item for item in taken if item.leader.wants_other_codec(item.header)]
        if not unchecked and not to_change and not self._arrivals.is_awaited(partitions):
            return
        async with self._arrivals.turn(partitions):
            for item in unchecked:
                try:
                    async with self._one_large_check:
                        await asyncio.to_thread(
                            item.leader.check_produced,
                            item.records,
                            item.header,
                            now,
                            _let_others_run,
                        )
                except KafkaError as error:
                    self._refuse(item, error)
            for item in to_change:
                if not item.is_refused:
                    await self._recompress(item)

    async def _recompress(self, item: _Item) -> None:
        try:
            if not item.header.codec and len(item.records) <= _INLINE_BYTES_MAX:
                item.records = item.leader.recompressed(item.records)
            else:
                item.records = await asyncio.to_thread(item.leader.recompressed, item.records)
        except KafkaError as error:
            self._refuse(item, error)
            return
        item.header = read_header(item.records)

    def _refuse(self, item: _Item, error: KafkaError) -> None:
        item.refuse(error)
        if error.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader, leader_epoch = self._hosted.leader_of(
                Partition(item.answer.topic, item.answer.partition)
            )
            item.answer.leader = leader
            item.answer.leader_epoch = leader_epoch

    def _needs_verification(self, request: pb.ProduceRequest, items: list[_Item]) -> bool:
        """Whether any batch would open a transaction in its partition; a repeated batch never does."""
        if (
            request.verification_mode != pb.ADD_PARTITION
            and not self._changed.verifies_transactions
        ):
            return False
        for item in items:
            if item.is_refused or not item.header.is_transactional:
                continue
            producers = item.leader.log.producers
            header = item.header
            if not producers.has_ongoing_transaction(header.producer_id, header.producer_epoch):
                return True
        return False

    async def _verify(self, request: pb.ProduceRequest, items: list[_Item]) -> None:
        """Ask once for all partitions that need it; the others go on as they are."""
        now = self._clock.now()
        asked: list[_Item] = []
        for item in items:
            if item.is_refused or not item.header.is_transactional:
                continue
            if item.leader.find_duplicate(item.header) is not None:
                continue
            try:
                item.guard = item.leader.begin_verification(
                    item.header,
                    supports_epoch_bump=request.verification_mode == pb.ADD_PARTITION,
                    now=now,
                )
            except KafkaError as error:
                item.refuse(error)
                continue
            if item.guard is not None:
                asked.append(item)
        by_identity: dict[tuple[int, int], list[_Item]] = {}
        for item in asked:
            key = (item.header.producer_id, item.header.producer_epoch)
            by_identity.setdefault(key, []).append(item)
        for (producer_id, producer_epoch), group in by_identity.items():
            codes, start_ms = await self._verifier.ask(
                request.transactional_id,
                producer_id,
                producer_epoch,
                request.verification_mode,
                [item.leader.partition for item in group],
                request.timeout_ms or self._settings.request_timeout_ms,
            )
            for item, code in zip(group, codes, strict=True):
                if not code and item.guard is not None:
                    item.leader.verifications.note_start(producer_id, item.guard, start_ms, now)
                if code:
                    item.refuse(
                        KafkaError(
                            code,
                            f"the transaction coordinator did not let {request.transactional_id} into"
                            f" {item.leader.partition}",
                        )
                    )

    def _append_all(self, request: pb.ProduceRequest, items: list[_Item]) -> None:
        now = self._clock.now()
        needs_guard = (
            request.verification_mode == pb.ADD_PARTITION or self._changed.verifies_transactions
        )
        for item in items:
            if item.is_refused:
                continue
            try:
                # Leadership, the topic or the disk may have gone while the coordinator was asked.
                item.leader.require_leader()
                item.appended = item.leader.append_produced(
                    item.records, item.header, item.guard, needs_guard=needs_guard, now=now
                )
            except KafkaError as error:
                self._refuse(item, error)
                continue
            item.leader_epoch = item.leader.leadership.leader_epoch
            item.answer.base_offset = item.appended.base_offset
            item.answer.log_append_time_ms = item.appended.log_append_time
            item.answer.log_start_offset = item.leader.log.log_start_offset

    async def _wait_committed(self, request: pb.ProduceRequest, items: list[_Item]) -> None:
        timeout_s = min(request.timeout_ms or 30_000, _PRODUCE_TIMEOUT_MS_MAX) / 1000
        for item in items:
            if item.appended is None:
                continue
            last_offset = item.appended.last_offset
            if item.leader.leadership.leader_epoch != item.leader_epoch:
                # It changed while the partitions before this one were waited for, and nobody told us. What stands at
                # this offset now, committed or not, may be another leader's.
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif item.leader.high_watermark > last_offset:
                continue
            elif request.acks == ACKS_ALL:
                code = await item.leader.wait_committed(last_offset, timeout_s)
            else:
                code = await item.leader.wait_written(last_offset, timeout_s)
            if code:
                self._refuse(
                    item,
                    KafkaError(
                        code,
                        f"{item.leader.partition}: the batch at offset {item.appended.base_offset} is not known to be"
                        " committed",
                    ),
                )


def refuse(answer: Any, error: KafkaError) -> None:
    """Put an error into any answer with `error_code` and `error_message`."""
    answer.error_code = error.error_code
    answer.error_message = error.message
