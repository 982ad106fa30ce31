"""The transaction shards of this node, found by transactional.id: each is a state machine with its journal and marker
client.

`shard_terms` has what is the same for every kind of shard.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import (
    TRANSACTION_STATE_TOPIC,
    CoordinatorEpoch,
    Millis,
    Partition,
    shard_name_of,
)
from oncelog.machine import Decision
from oncelog.rpc import plain
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import TRANSACTION, MetadataFollower
from oncelog.runtime import Clock, Driver, DriverStopped
from oncelog.telemetry import spans
from oncelog.telemetry.feed import Feed
from oncelog_coordinator.attempt_traces import AttemptTraces
from oncelog_coordinator.core.markers import SINK_MACHINE, MarkersDelivered
from oncelog_coordinator.core.shard_machine import (
    ShardConfig,
    ShardEvent,
    ShardMachine,
    ShardRecord,
)
from oncelog_coordinator.core.sink_events import JoinAttempt
from oncelog_coordinator.core.sink_limits import SinkLimits
from oncelog_coordinator.core.txn import TxnConfig
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    CompletePrepared,
    EndTxn,
    ErrorAnswer,
    ForceTerminate,
    IdentityAnswer,
    InitProducerId,
    TxnTimedOut,
    VerifyPartitions,
)
from oncelog_coordinator.core.txn_state import TxnMetadata
from oncelog_coordinator.feed_events import REQUESTS, UNAVAILABLE, DecisionEvents, RefusalEvents
from oncelog_coordinator.marker_client import MarkerClient, MarkersAtOnce
from oncelog_coordinator.producer_ids import ProducerIds
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.shard_format import TransactionRecords
from oncelog_coordinator.shard_log import ShardLog
from oncelog_coordinator.shard_terms import (
    Answer,
    LoadedShard,
    ShardTerm,
    ShardTerms,
    ShardUnavailable,
)
from oncelog_coordinator.transaction_times import ShardTimes, TransactionTimes
from oncelog_coordinator.transaction_traces import TransactionTraces, name_of, with_trace

_OF_NO_SINK: Final = frozenset({EndTxn, InitProducerId, TxnTimedOut})
"""The events for which no attempt of a sink is looked up."""
_OF_A_PRODUCER: Final = (AddPartitions, VerifyPartitions)
"""The events whose attempt is looked up by their producer id."""
_BEGINS_NO_TRACE: Final = _OF_NO_SINK | {VerifyPartitions}
_NEEDS_LEVEL: Final = (InitProducerId, TxnTimedOut, ForceTerminate, CompletePrepared)
"""The events by which the server itself may end a transaction. The cluster's transaction.version decides how
(docs/kafka-facts.md, 2.1)."""

_TAKES_NEW_PRODUCER_ID: Final = (
    InitProducerId,
    EndTxn,
    ForceTerminate,
    CompletePrepared,
    TxnTimedOut,
)
"""The events that may give a transactional id another producer id."""

RECORD_BYTES_SHARE: Final = 0.9
"""The part of max.message.bytes that one transaction's record may take."""


class TransactionTerm(ShardTerm):
    """A transaction shard on this node under one coordinator epoch, with its feed events, durations and traces.

    It also holds the callers that wait until a transaction is complete.
    """

    def __init__(
        self,
        shard: int,
        coordinator_epoch: CoordinatorEpoch,
        times: TransactionTimes,
        feed: Feed | None = None,
    ) -> None:
        super().__init__(shard, coordinator_epoch)
        self._times = ShardTimes(times)
        self._append_times = times.append
        self._events = None if feed is None else DecisionEvents(feed, shard, coordinator_epoch)
        self._before: TxnMetadata | None = None
        self._traces = TransactionTraces(shard, coordinator_epoch)
        self.attempt_traces = AttemptTraces(shard, coordinator_epoch)
        self._completions: dict[str, list[asyncio.Future[None]]] = {}
        """The callers that wait for a completion, by transactional id."""
        self.markers: MarkerClient | None = None
        """The marker client of the shard, set while the shard is loaded."""

    def about_to_decide(self, before: TxnMetadata | None) -> None:
        """Store the transaction as it is before the state machine decides on the next event; None: its id is unknown.

        `observe` publishes it beside the new state.
        """
        self._before = before

    def observe(self, event: ShardEvent, decision: Decision[ShardRecord], now: Millis) -> None:
        """Publish a decision in the live feed, and measure it. The driver that runs the state machine calls this for
        each one.

        If it completes a transaction, the callers that wait for that are woken.
        """
        self._times.observe(decision.records, now)
        if self._events is not None:
            self._events.publish(event, decision, self._before)
        if self._completions and isinstance(event, MarkersDelivered) and decision.records:
            # They ask before the shard's writer has its turn, so that their records go into the completion's append.
            for waiting in self._completions.pop(event.decision_key.name, ()):
                if not waiting.done():
                    waiting.set_result(None)

    def verified(self, request: plain.VerifyRequest) -> None:
        if self._events is not None:
            self._events.verified(request)

    def committed(
        self, event: ShardEvent, decision: Decision[ShardRecord], decided_ns: int
    ) -> None:
        """Record the span and the duration of an append: the records that the shard's state machine decided to write.

        The driver, which runs that state machine, calls this once they are committed.
        """
        if not decision.records:
            return
        now_ns, trace_id = time.time_ns(), 0
        if spans.recorder is not None:
            # No decision is about both a sink and a transaction.
            if type(decision.records[0]) is TxnMetadata:
                trace_id = self._traces.committed(event, decision, decided_ns, now_ns)
            else:
                self.attempt_traces.committed(decision, decided_ns)
        self._append_times.observe((now_ns - decided_ns) / 1e9, trace_id)

    def about_to_trace(self, event: ShardEvent, machine: ShardMachine) -> ShardEvent:
        """Return the event that the state machine is to decide, with a trace if it may begin a transaction.

        This is called in a process that records spans. For an event of a Spark sink it copies the sink's attempts
        (tries to write a micro-batch), as the decision may remove them.
        """
        if type(event) is AddPartitions:
            running = spans.current()
            if running is not None:
                known = machine.txn.transaction(event.transactional_id)
                return with_trace(running, event, known)
        elif type(event) is not MarkersDelivered or event.decision_key.machine == SINK_MACHINE:
            self.attempt_traces.about_to_decide(event, machine.sink)
        return event

    def trace(
        self, event: ShardEvent, decision: Decision[ShardRecord], machine: ShardMachine, now: Millis
    ) -> None:
        """Move the current span into the trace of the transaction, or of the Spark micro-batch, that this decision is
        about.
        """
        running = spans.current()
        if running is not None:
            last = decision.records[-1] if decision.records else None
            known = last if type(last) is TxnMetadata else None
            if known is None:
                known = machine.txn.transaction(name_of(event))
            if known is not None:
                self._traces.decided(running, event, decision, known, now)
        if type(event) in _OF_NO_SINK:
            return
        if type(event) is MarkersDelivered and event.decision_key.machine != SINK_MACHINE:
            return
        if not isinstance(event, _OF_A_PRODUCER) or machine.sink.owns_producer(event.producer_id):
            self.attempt_traces.decided(event, decision, machine.sink, now)

    def trace_again(
        self, appended_ms: Millis, record: ShardRecord, superseded: ShardRecord | None
    ) -> None:
        """Export the root span of a recent completion that a load found in the log.

        The process that appended it may have died before it exported the span.
        """
        if isinstance(record, TxnMetadata):
            self._traces.root_again(record)
        else:
            self.attempt_traces.root_again(appended_ms, record, superseded)

    async def completion(self, transactional_id: str, deadline: float) -> None:
        """Return when this prepared transaction is complete. Raises TimeoutError at `deadline` of the loop's clock,
        in seconds."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._completions.setdefault(transactional_id, []).append(waiting)
        try:
            async with asyncio.timeout_at(deadline):
                await waiting
        finally:
            known = self._completions.get(transactional_id)
            if known is not None and waiting in known:
                known.remove(waiting)
                if not known:
                    del self._completions[transactional_id]


NO_REQUEST: Final = 0
"""The request id of an event that no machine decides."""


class Shards(ShardTerms[TransactionTerm]):
    """The transaction shards (partitions of `__transaction_state`) that this node coordinates.

    Call `start` in a running loop; `ask` sends an event to a shard.
    """

    def __init__(
        self,
        node_id: int,
        metadata: MetadataFollower,
        directory: Directory,
        producer_ids: ProducerIds,
        clock: Clock,
        settings: CoordinatorSettings,
        feed: Feed | None = None,
    ) -> None:
        super().__init__(TRANSACTION, node_id, metadata, settings)
        self._directory = directory
        self._producer_ids = producer_ids
        self._clock = clock
        self._feed = feed
        self._refusals = None if feed is None else RefusalEvents(feed)
        self._slots = asyncio.Semaphore(settings.deliveries_max)
        self._markers_at_once = MarkersAtOnce(metadata, directory)
        self.times = TransactionTimes()

    # ------------------------------------------------------------------------------------------------ calls

    async def ask(self, transactional_id: str, event: Callable[[int], ShardEvent]) -> Answer:
        """Send the id's state machine the event that `event(request id)` makes; return its answer once its records are
        committed.

        A transaction is usually complete a moment after EndTxn was answered, and clients that are told
        CONCURRENT_TRANSACTIONS sleep for 20 to 100 ms. So that answer waits for at most `concurrent_wait_ms`. When the
        transaction is complete, the event is sent to the machine again. Raises ShardUnavailable or DriverStopped.
        """
        try:
            term = self._term_for(transactional_id)
            driver = term.driver
            if driver is None:
                raise ShardUnavailable(term.unavailable)
            request_id = driver.request_id()
            answer = await driver.ask(event(request_id), request_id)
            if answer.error_code is ErrorCode.CONCURRENT_TRANSACTIONS and not _is_delayed(answer):
                return await self._ask_until_complete(term, driver, transactional_id, event, answer)
        except (ShardUnavailable, DriverStopped) as unavailable:
            self._report_refusal(transactional_id, event(NO_REQUEST), unavailable.error_code)
            raise
        return answer

    def ask_at_once(self, transactional_id: str, event: AddPartitions | EndTxn) -> Answer | None:
        """Return the state machine's answer if it is a success and could be committed without a wait.

        None: nothing was changed, and the caller uses `ask`.
        """
        term = self.term_of(transactional_id)
        driver = None if term is None else term.driver
        if driver is None or spans.recorder is not None:
            return None
        return driver.ask_at_once(event)

    def verified_at_once(self, request: plain.VerifyRequest) -> Millis | None:
        """Return when the transaction that has these partitions began, in milliseconds, if that can be said without a
        wait.

        None: the caller uses `ask`, which waits for what is being written, or says what is wrong.
        """
        term = self.term_of(request.transactional_id)
        driver = None if term is None else term.driver
        if term is None or driver is None or not driver.is_settled:
            return None
        assert isinstance(driver.machine, ShardMachine), driver.machine
        began = driver.machine.verified_since(request)
        if began is not None:
            self._count("verified")
            term.verified(request)
        return began

    def _report_refusal(self, transactional_id: str, event: ShardEvent, code: ErrorCode) -> None:
        """Publish in the live feed that a request was refused because its shard is not here.

        Such a client asks again and again, and nothing else shows it.
        """
        if self._refusals is None or not isinstance(event, REQUESTS):
            return
        shard = self._shard_number(transactional_id)
        number = {} if shard is None else {"shard": shard}
        self._refusals.publish(event, UNAVAILABLE, code, number)

    async def _ask_until_complete(
        self,
        term: TransactionTerm,
        driver: Driver,
        transactional_id: str,
        event: Callable[[int], ShardEvent],
        answer: Answer,
    ) -> Answer:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.concurrent_wait_ms / 1000
        is_asked_again = False
        while answer.error_code is ErrorCode.CONCURRENT_TRANSACTIONS and loop.time() < deadline:
            machine = driver.machine
            assert isinstance(machine, ShardMachine), machine
            txn = machine.txn.transaction(transactional_id)
            if txn is None or _is_delayed(answer):
                break
            if txn.state.is_prepared:
                try:
                    await term.completion(transactional_id, deadline)
                except TimeoutError:
                    break
            elif is_asked_again:
                # It is refused for something else, such as a sink that is busy: no completion changes that.
                break
            is_asked_again = True
            request_id = driver.request_id()
            answer = await driver.ask(event(request_id), request_id)
        return answer

    def _hashed_name(self, name: str) -> str:
        return shard_name_of(name)

    # ------------------------------------------------------------------------------------------------ terms

    def _new_term(self, shard: int, coordinator_epoch: CoordinatorEpoch) -> TransactionTerm:
        return TransactionTerm(shard, coordinator_epoch, self.times, self._feed)

    def _report(self, term: TransactionTerm, state: str) -> None:
        if self._feed is not None:
            self._feed.publish(
                "shard",
                shard=term.shard,
                coordinator_epoch=term.coordinator_epoch,
                state=state,
            )

    def _is_empty(self, driver: Driver) -> bool:
        assert isinstance(driver.machine, ShardMachine), driver.machine
        return driver.machine.is_empty

    def _new_loaded_shard(self, term: TransactionTerm) -> LoadedShard:
        machine = ShardMachine(self._machine_config())
        driver: Driver

        def feed_back(event: MarkersDelivered) -> None:
            try:
                driver.submit(event)
            except DriverStopped:
                # The shard sends these markers again when it is loaded again.
                return

        def enrich(event: ShardEvent) -> ShardEvent:
            if self._feed is not None:
                term.about_to_decide(machine.txn.transaction(name_of(event)))
            if isinstance(event, _NEEDS_LEVEL):
                level = self._metadata.image.transaction_version
                if event.cluster_transaction_version != level:
                    event = replace(event, cluster_transaction_version=level)
            if spans.recorder is not None and type(event) not in _BEGINS_NO_TRACE:
                event = term.about_to_trace(event, machine)
            if not machine.wants_producer_id(event):
                return event
            if isinstance(event, JoinAttempt):
                return replace(event, producer_id=self._producer_ids.claim())
            assert isinstance(event, _TAKES_NEW_PRODUCER_ID), event
            return replace(event, new_producer_id=self._producer_ids.claim())

        def observe(event: ShardEvent, decision: Decision[ShardRecord], now: Millis) -> None:
            term.observe(event, decision, now)
            if spans.recorder is not None:
                term.trace(event, decision, machine, now)

        markers = term.markers = MarkerClient(
            term.shard,
            term.coordinator_epoch,
            self._metadata,
            self._directory,
            self._settings,
            self._slots,
            self._markers_at_once,
            feed_back,
            lambda wanted: term.attempt_traces.with_trace(wanted, machine.sink),
        )
        journal = self._journal_of(term)
        driver = Driver(
            f"shard {term.shard}",
            machine,
            journal,
            self._clock,
            send=markers.send,
            on_failure=lambda failure: self._on_failure(term, failure),
            on_label=self._count,
            enrich=enrich,
            observe=observe,
            committed=term.committed,
            append_at_once=journal.append_at_once,
            confirm=journal.confirm,
        )

        async def close(has_moved: bool) -> None:
            await markers.stop()
            if has_moved:
                await markers.cancel_at_sender()

        return LoadedShard(driver, close)

    def _journal_of(self, term: TransactionTerm) -> ShardLog[ShardRecord]:
        return ShardLog(
            Partition(TRANSACTION_STATE_TOPIC, term.shard),
            TransactionRecords(self._metadata),
            term.coordinator_epoch,
            self._metadata,
            self._directory,
            self._producer_ids.claim_when_ready,
            self._clock,
            self._settings,
            self._settings.transaction_load_buffer_bytes,
            None if spans.recorder is None else term.trace_again,
        )

    def _machine_config(self) -> ShardConfig:
        settings = self._settings
        topic = self._metadata.image.topic_config(TRANSACTION_STATE_TOPIC)
        return ShardConfig(
            TxnConfig(
                transactional_id_expiration_ms=Millis(settings.transactional_id_expiration_ms),
                expire_interval_ms=Millis(settings.expire_ids_interval_ms),
                record_bytes_max=int(topic.max_message_bytes * RECORD_BYTES_SHARE),
            ),
            SinkLimits(
                job_expiration_ms=Millis(settings.job_sink_expiration_ms),
                expire_interval_ms=Millis(settings.expire_ids_interval_ms),
            ),
        )


def _is_delayed(answer: object) -> bool:
    """True if the state machine refused the request as a delayed one (`core.request_origin`).

    To wait for the transaction's completion would then not help.
    """
    if isinstance(answer, ErrorAnswer) and answer.is_completing:
        return False
    return isinstance(answer, ErrorAnswer | IdentityAnswer) and answer.delayed_by is not None


__all__ = ["ShardUnavailable", "Shards", "TransactionTerm"]
