"""A Produce request from its bytes to its response: check, verify, append, wait for the commit.

`core.producing` decides each stage. This module has the threads for long checks, asks the coordinator, writes and
waits. It also records times, spans and events.
"""

import asyncio
import time
from functools import partial
from typing import Final, Protocol, TypeVar

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.process.role_metrics import Histogram
from oncelog.record.batch import BatchHeader
from oncelog.record.check import is_long_check
from oncelog.rpc import plain
from oncelog.runtime import Clock
from oncelog.telemetry import spans
from oncelog_storage import direct_answers
from oncelog_storage.arrivals import Arrivals
from oncelog_storage.changed_settings import ChangedSettings
from oncelog_storage.core.partition_values import Appended
from oncelog_storage.core.producing import ProducedBatch, Producing, Wanted
from oncelog_storage.core.record_links import HEADER_BYTES, linked_spans
from oncelog_storage.feed_events import StorageEvents
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.settings import StorageSettings
from oncelog_storage.traces import OpenTraces, OpenTransaction, appended
from oncelog_storage.verifier import Verifier

_INLINE_BYTES_MAX: Final = 16 * 1024
"""A batch of at most this size is recompressed without a thread: the hand-over costs as much as such a batch."""
_SHORT_PAUSE_S: Final = 0.000_05
"""The pause, in seconds, that a long check makes now and then, so that another thread takes the interpreter's lock."""


def _let_others_run() -> None:
    time.sleep(_SHORT_PAUSE_S)


AnyProduceRequest = pb.ProduceRequest | plain.ProduceRequest
ResponseT = TypeVar("ResponseT", pb.ProduceResponse, direct_answers.ProduceResponse)
_Batch = ProducedBatch[HostedPartition]
_Request = Producing[HostedPartition]


class ProduceTimes:
    """The times of Produce requests, for `/metrics`, in seconds."""

    def __init__(self) -> None:
        self.produce = {acks: Histogram() for acks in ("-1", "0", "1")}
        """The time from the request to its response by acks: append, verification and replication."""
        self.verification = Histogram()
        """The part of a request's time that the transaction coordinator took."""
        self.replication = {acks: Histogram() for acks in (-1, 1)}
        """The time from the append until the records are as safe as acks wants."""


class ProduceHandler:
    def __init__(
        self,
        settings: StorageSettings,
        replica_manager: ReplicaManager,
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
        self._replica_manager = replica_manager
        self._verifier = verifier
        self._clock = clock
        self._arrivals = Arrivals()
        self._one_large_check = asyncio.Lock()

    def produce_at_once(
        self, request: plain.ProduceRequest
    ) -> direct_answers.PartitionsProduced | None:
        """Return the answers if all batches are written and committed in this call, without a wait; else None.

        After None the caller must call `produce`. That waits, or says what is wrong, and recognises a batch that was
        written here by its sequence.
        """
        began, now = time.monotonic(), self._clock.now()
        answers = direct_answers.PartitionsProduced()
        is_add = request.verification_mode == pb.ADD_PARTITION
        work: _Request = Producing(request, answers, self._replica_manager, adds_partition=is_add)
        if spans.recorder is not None or not work.check(now) or not self._goes_at_once(work):
            return None
        if work.needs_verification(is_verification_on=self._changed.verifies_transactions):
            if is_add or not self._is_verified_at_once(request, work, now):
                return None
            self._times.verification.observe(time.monotonic() - began)
        self._append_all(work)
        written = [item for item in work.batches if not item.is_refused]
        if self._events is not None:
            self._report(request, written, self._events)
        if work.is_awaited or len(written) < len(work.batches):
            return None
        self._times.replication[request.acks].observe(0.0)
        self._times.produce[str(request.acks)].observe(time.monotonic() - began)
        return answers

    def _goes_at_once(self, work: _Request) -> bool:
        """True if the batches are sound, and wait for no thread, follower, sync or earlier request."""
        return (
            work.is_checked
            and all(item.led.commits_at_once for item in work.batches)
            and not self._arrivals.is_awaited(item.led.partition for item in work.batches)
        )

    def _is_verified_at_once(self, request: plain.ProduceRequest, work: _Request, now: int) -> bool:
        for question in work.questions(now):
            start_ms = self._verifier.verified_at_once(
                plain.VerifyRequest(
                    request.transactional_id,
                    question.producer_id,
                    question.producer_epoch,
                    question.partitions,
                )
            )
            if start_ms is None:
                return False
            work.verified(question, [ErrorCode.NONE] * len(question.batches), start_ms, now)
        return True

    async def produce(
        self, request: AnyProduceRequest, response_type: type[ResponseT]
    ) -> ResponseT:
        began = time.monotonic()
        took: list[tuple[Histogram, float]] = []
        response = await self._produce(request, response_type(), took)
        times = self._times.produce.get(str(request.acks))
        if times is not None:
            took.append((times, time.monotonic() - began))
        trace_id = spans.exemplar()
        for times, seconds in took:
            times.observe(seconds, trace_id)
        return response

    async def _produce(
        self,
        request: AnyProduceRequest,
        response: ResponseT,
        took: list[tuple[Histogram, float]],
    ) -> ResponseT:
        """Fill the response. Add the times of its stages to `took`, in seconds."""
        work: _Request = Producing(
            request,
            response.partitions,
            self._replica_manager,
            adds_partition=request.verification_mode == pb.ADD_PARTITION,
        )
        now = self._clock.now()
        if not work.check(now):
            return response
        await self._finish_batches(work, now)
        is_verification_on = self._changed.verifies_transactions
        work.note_refused(now, is_verification_on=is_verification_on)
        if work.needs_verification(is_verification_on=is_verification_on):
            async with self._verifier.turn(request.transactional_id):
                began = time.monotonic()
                await self._verify(request, work)
                took.append((self._times.verification, time.monotonic() - began))
                self._append_all(work)
        else:
            self._append_all(work)
        if spans.recorder is not None:
            # The links come behind the append, so that only this response waits for them.
            for item, known in self._first_batches(work.batches):
                await self._link(item, known)
        if self._events is not None:
            self._report(request, work.batches, self._events)
        if request.acks:
            began = time.monotonic()
            with spans.span("replication wait") if work.is_awaited else spans.NOTHING:
                await self._wait_committed(work)
            took.append((self._times.replication[request.acks], time.monotonic() - began))
        return response

    def _first_batches(self, items: list[_Batch]) -> list[tuple[_Batch, OpenTransaction]]:
        """Return the batches that are the first of a traced transaction in their partition, if their records may name
        spans.

        The running span gets the details of all batches that were appended.
        """
        first: list[tuple[_Batch, OpenTransaction]] = []
        running = spans.current()
        if running is None:
            return first
        for item in items:
            if item.appended is None or not item.header.is_transactional:
                continue
            header, partition = item.header, item.led.partition
            producer = (header.producer_id, header.producer_epoch)
            known = self._traces.belongs(running, *producer)
            detail = partial(appended, *producer, partition, item.appended.base_offset)
            running.details = (*running.details, detail)
            if known is None or not known.is_first_in(partition):
                continue
            if header.codec or HEADER_BYTES in item.records:
                first.append((item, known))
        return first

    async def _link(self, item: _Batch, known: OpenTransaction) -> None:
        """Link the running span to the spans that the batch's records name."""
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

    def _report(
        self, request: AnyProduceRequest, items: list[_Batch], events: StorageEvents
    ) -> None:
        client = (request.client_id, request.client_host)
        for item in items:
            # A batch that was refused before its header was read has none.
            header: BatchHeader | None = getattr(item, "header", None)
            if header is None or header.producer_id < 0:
                continue
            if item.appended is not None:
                if header.is_transactional and not item.appended.is_duplicate:
                    base_offset = item.appended.base_offset
                    events.appended(request.transactional_id, item.led, header, base_offset)
            elif item.is_refused:
                code = item.answer.error_code
                events.refused(request.transactional_id, client, item.led.partition, header, code)

    async def _finish_batches(self, work: _Request, now: int) -> None:
        """Check large batches, and give batches their topic's codec, in the order in which requests came to each
        partition.

        A large batch keeps a thread busy for a moment, and later requests wait in all of its partitions: they may
        follow in sequence. Small batches of topics whose compression.type is `producer` only wait.
        """
        partitions, unchecked = work.partitions, work.unchecked()
        to_change = work.to_recompress()
        if not unchecked and not to_change and not self._arrivals.is_awaited(partitions):
            return
        async with self._arrivals.turn(partitions):
            for item in unchecked:
                try:
                    async with self._one_large_check:
                        records = await asyncio.to_thread(
                            item.led.check_produced,
                            item.records,
                            item.header,
                            now,
                            _let_others_run,
                        )
                except KafkaError as error:
                    work.refuse(item, error)
                else:
                    item.change_to(records)
            for item in to_change:
                if not item.is_refused:
                    await self._recompress(work, item)

    async def _recompress(self, work: _Request, item: _Batch) -> None:
        try:
            if not item.header.codec and len(item.records) <= _INLINE_BYTES_MAX:
                records = item.led.recompressed(item.records)
            else:
                records = await asyncio.to_thread(item.led.recompressed, item.records)
        except KafkaError as error:
            work.refuse(item, error)
            return
        item.change_to(records)

    async def _verify(self, request: AnyProduceRequest, work: _Request) -> None:
        """Ask the coordinator once for all partitions that need verification."""
        now = self._clock.now()
        for question in work.questions(now):
            codes, start_ms = await self._verifier.verify(
                request.transactional_id,
                question.producer_id,
                question.producer_epoch,
                request.verification_mode,
                question.partitions,
                request.timeout_ms or self._settings.request_timeout_ms,
            )
            work.verified(question, codes, start_ms, now)

    def _append_all(self, work: _Request) -> None:
        now = self._clock.now()
        needs_guard = work.needs_guard(is_verification_on=self._changed.verifies_transactions)
        for item in work.to_append():
            try:
                appended = item.led.append_produced(
                    item.records, item.header, item.guard, needs_guard=needs_guard, now=now
                )
            except KafkaError as error:
                work.refuse(item, error)
            else:
                item.written(appended)

    async def _wait_committed(self, work: _Request) -> None:
        """Wait until the batches of a request are as safe as its acks want. All have the request's timeout together."""
        deadline = time.monotonic() + work.timeout_s
        for item in work.batches:
            left_s = max(deadline - time.monotonic(), 0.0)
            match work.wanted(item), item.appended:
                case Wanted.COMMITTED, Appended(last_offset=last_offset):
                    code = await item.led.wait_committed(last_offset, left_s)
                case Wanted.WRITTEN, Appended(last_offset=last_offset):
                    code = await item.led.wait_written(last_offset, left_s)
                case _:
                    continue
            if code:
                work.not_committed(item, code)


class _Refusable(Protocol):
    error_code: int
    error_message: str


def refuse(answer: _Refusable, error: KafkaError) -> None:
    """Put an error into any answer that has `error_code` and `error_message`."""
    answer.error_code = error.error_code
    answer.error_message = error.message
