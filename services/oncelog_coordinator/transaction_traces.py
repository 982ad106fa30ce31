"""The spans that a transaction shard records for its decisions (ADR 0028).

The trace begins in `with_trace`, which adds it to an AddPartitionsToTxn right before the state machine decides on that.
`decided` moves the request's spans into the trace, and gives them the decision's label. `committed` records how long
the append took; when it completes the transaction, it records the root span, too. `root_again` exports the root span of
a completion that another coordinator wrote. A process without tracing does none of it.
"""

import time
from functools import partial
from typing import Final

from oncelog.api.v1.types_pb2 import TraceContext
from oncelog.ids import CoordinatorEpoch, Millis
from oncelog.machine import Decision
from oncelog.rpc.trace_context import trace_message
from oncelog.telemetry import spans
from oncelog.trace import TransactionTrace
from oncelog_coordinator.core.markers import MarkersDelivered, MarkerWanted
from oncelog_coordinator.core.shard_machine import ShardEvent, ShardRecord
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    CompletePrepared,
    EndTxn,
    ForceTerminate,
    InitProducerId,
    TxnTimedOut,
    VerifyPartitions,
)
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState

_APPEND: Final = "state append"
_NS_PER_MS: Final = 1_000_000
_DECIDED_WITHOUT_REQUEST: Final = (TxnTimedOut, MarkersDelivered)
_OF_A_PRODUCER: Final = (AddPartitions, VerifyPartitions, EndTxn)
_OF_AN_ID: Final = (
    *_OF_A_PRODUCER,
    InitProducerId,
    ForceTerminate,
    CompletePrepared,
    TxnTimedOut,
)
_COMPLETE: Final = frozenset({TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT})
_ABORTS: Final = frozenset({TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT})


def with_trace(
    running: spans.Span, event: AddPartitions, known: TxnMetadata | None
) -> AddPartitions:
    """Return the AddPartitionsToTxn with a new trace, for the transaction that it may start. `running` is the request's
    span.

    `known` is the transaction before it; an open one keeps its trace. The new trace begins with the client's request.
    It is not the trace under which the request came. Spans of a request that gives up waiting stay in that one: they
    never learn which transaction they belong to.
    """
    if known is not None and known.state is TxnState.ONGOING:
        return event
    home = running.home
    # A request that came in the belief that its transaction is open may begin another one.
    start_ns = home.start_ns if home.trace is None else time.time_ns()
    return event.with_trace(TransactionTrace(*spans.new_ids(), start_ns))


class TransactionTraces:
    """Records the spans of one shard's transactions, under one coordinator epoch."""

    def __init__(self, shard: int, coordinator_epoch: CoordinatorEpoch) -> None:
        self._attributes: dict[str, spans.Value] = {
            "oncelog.shard": shard,
            "oncelog.coordinator_epoch": coordinator_epoch,
        }

    def decided(
        self,
        running: spans.Span,
        event: ShardEvent,
        decision: Decision[ShardRecord],
        known: TxnMetadata,
        now: Millis,
    ) -> None:
        """Move the current span into the transaction's trace, and give it the decision's label.

        `known` is the transaction after the decision.
        """
        recorder = spans.recorder
        assert recorder is not None
        # A request that waits for a completion is decided again after it.
        before = running.attributes.get("oncelog.decision")
        label = decision.label if before is None else f"{before}, {decision.label}"
        running.attributes["oncelog.decision"] = label
        running.details = (*running.details, partial(self._attributes_of, known))
        # Nearly every request names the producer that its transaction has.
        is_its = (
            isinstance(event, _OF_A_PRODUCER)
            and event.producer_id == known.producer_id
            and event.producer_epoch == known.producer_epoch
            and known.state is not TxnState.EMPTY
        )
        if known.trace is not None and (is_its or _is_of(event, known)):
            home = running.home
            home.trace = known.trace
            home.is_kept = home.is_kept or is_kept(recorder, known, now)

    def committed(
        self, event: ShardEvent, decision: Decision[ShardRecord], decided_ns: int, now_ns: int
    ) -> int:
        """Record the span of a committed decision's append, and the root span of a transaction that it completes.

        Returns the id of the trace in which the append can be seen; 0 if that is not exported.
        """
        seen_in = 0
        recorder = spans.recorder
        if recorder is None:
            return seen_in
        now = Millis(now_ns // _NS_PER_MS)
        parent = spans.current()
        name = f"{decision.label} ({_APPEND})" if parent is None else _APPEND
        is_completion = type(event) is MarkersDelivered
        for record in decision.records:
            if type(record) is not TxnMetadata or record.trace is None:
                continue
            trace_id = record.trace.trace_id
            is_seen = recorder.is_in_head(trace_id) or (
                is_kept(recorder, record, now) if parent is None else parent.home.is_kept
            )
            seen_in = trace_id if is_seen else 0
            if is_completion and not is_seen:
                recorder.verdict(trace_id, is_kept=False)
                recorder.spans_dropped += 2  # This one, and the root.
                continue
            append = spans.Span(
                name,
                spans.Home(record.trace) if parent is None else parent.home,
                parent,
                spans.Kind.INTERNAL,
                {"oncelog.decision": decision.label},
                decided_ns,
            )
            append.details = (partial(self._attributes_of, record),)
            append.end(end_ns=now_ns)
            if is_completion:
                self._complete(recorder, record, now_ns)
        return seen_in

    def root_again(self, record: TxnMetadata) -> None:
        """Export the root span of a transaction that a load finds complete in the log.

        The record has the ids, so it is the same span that the earlier coordinator may have exported.
        """
        recorder = spans.recorder
        if recorder is None or record.trace is None or record.state not in _COMPLETE:
            return
        ended_ms = record.last_update_timestamp
        if recorder.is_in_head(record.trace.trace_id) or is_kept(recorder, record, ended_ms):
            self._complete(recorder, record, ended_ms * _NS_PER_MS)

    def _attributes_of(self, txn: TxnMetadata) -> spans.Attributes:
        return {**self._attributes, **identity(txn), "oncelog.state": txn.state.kafka_name}

    def _complete(self, recorder: spans.Recorder, record: TxnMetadata, now_ns: int) -> None:
        assert record.trace is not None, record
        recorder.root(
            record.trace,
            f"transaction {record.transactional_id}",
            now_ns,
            self._attributes_of(record),
            is_kept=is_kept(recorder, record, Millis(now_ns // _NS_PER_MS)),
        )


def name_of(event: ShardEvent) -> str:
    """Return the transactional.id that an event is about; empty: it is about none."""
    if isinstance(event, _OF_AN_ID):
        return event.transactional_id
    name = getattr(event, "transactional_id", None)
    if isinstance(name, str):
        return name
    return event.decision_key.name if isinstance(event, MarkersDelivered) else ""


def identity(txn: TxnMetadata) -> spans.Attributes:
    """Return the attributes by which a span names a transaction."""
    return {
        "messaging.kafka.transactional_id": txn.transactional_id,
        "oncelog.producer_id": txn.producer_id,
        "oncelog.producer_epoch": txn.producer_epoch,
    }


def is_kept(recorder: spans.Recorder, txn: TxnMetadata, now: Millis) -> bool:
    """True if the transaction's trace is exported even if it was not sampled: it was aborted, or was open for long."""
    # Asked of each request: two comparisons are less than a lookup of an enum's member in a set.
    state = txn.state
    is_abort = state is TxnState.PREPARE_ABORT or state is TxnState.COMPLETE_ABORT
    return is_abort or 0 <= txn.start_timestamp < now - recorder.late_ms


def exemplar(record: TxnMetadata, now: Millis) -> int:
    """Return the transaction's trace id, to be shown beside its value in a histogram; 0 if its trace is not
    exported.
    """
    recorder = spans.recorder
    if recorder is None or record.trace is None:
        return 0
    trace_id = record.trace.trace_id
    return trace_id if recorder.is_kept(trace_id) or is_kept(recorder, record, now) else 0


def trace_of_marker(marker: MarkerWanted) -> TraceContext | None:
    """Return the trace context that a marker carries to the marker sender.

    None: the marker has no trace, or its trace is not exported.
    """
    recorder, trace = spans.recorder, marker.trace
    if trace is None:
        return None
    if recorder is None:
        # The marker sender and the leaders know the ratio of this cluster.
        return trace_message(trace, is_kept=marker.is_trace_kept)
    now_ms = time.time_ns() // _NS_PER_MS
    is_late = 0 < marker.start_timestamp < now_ms - recorder.late_ms
    is_kept = marker.is_trace_kept or not marker.commit or is_late
    return (
        trace_message(trace, is_kept=is_kept)
        if is_kept or recorder.is_kept(trace.trace_id)
        else None
    )


def _is_of(event: ShardEvent, known: TxnMetadata) -> bool:
    """True if the event's spans belong into this transaction's trace.

    They do if the event is no client's request, or names the transaction's producer id and epoch, or comes while the
    transaction is being completed. So do those of the producer that was fenced when it was aborted.
    """
    if isinstance(event, _DECIDED_WITHOUT_REQUEST):
        return True
    state = known.state
    if state is TxnState.EMPTY:
        return False
    producer_id = getattr(event, "producer_id", known.producer_id)
    producer_epoch = getattr(event, "producer_epoch", known.producer_epoch)
    if producer_id == known.producer_id and producer_epoch == known.producer_epoch:
        return True
    is_before = producer_id == known.previous_producer_id and state in _ABORTS
    return is_before or state.is_prepared
