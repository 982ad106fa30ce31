"""The spans that a transaction shard records for the attempts of its Spark sinks (ADR 0028).

An attempt is one try of Spark to write a micro-batch; a random nonce names it. An attempt is one trace. Its id follows
from the nonce (`oncelog.trace.attempt_trace`), so nothing of it is stored or sent: Spark's driver and tasks, and the
next coordinator, compute the same id. The root span is exported with the record that completes the attempt. No process
of Spark could export it: the one that opens an attempt is not the one that ends it, and a driver that gives up names no
attempt.

A trace is kept if its attempt aborts, if a branch of it lost, or if it was open for long.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from oncelog.ids import CoordinatorEpoch, Millis
from oncelog.machine import Decision
from oncelog.telemetry import spans
from oncelog.trace import attempt_trace
from oncelog_coordinator.core.markers import SINK_MACHINE, MarkersDelivered, MarkersWanted
from oncelog_coordinator.core.shard_machine import ShardEvent, ShardRecord
from oncelog_coordinator.core.sink import SinkMachine
from oncelog_coordinator.core.sink_events import (
    AbortAttempt,
    CommitBatch,
    JoinAttempt,
    OpenAttempt,
    SealBranch,
)
from oncelog_coordinator.core.sink_records import (
    AttemptOpen,
    Branch,
    Decide,
    Outcome,
    SinkRecordType,
    Tombstone,
)
from oncelog_coordinator.core.sink_state import NO_BATCH, Attempt, decision_number
from oncelog_coordinator.core.txn_events import AddPartitions, ForceTerminate, VerifyPartitions

_APPEND: Final = "state append"
_NS_PER_MS: Final = 1_000_000
_ENDING_MAX: Final = 10_000
"""The most attempts to remember while the record that completes them is being appended. A shard that is lost forgets
them."""


class _Seen(NamedTuple):
    """The facts about one attempt (one try to write a Spark micro-batch) that its trace needs. They are copied right
    before or after a decision, or collected by a replay.
    """

    sink: str
    nonce: bytes
    batch_id: int
    opened_ms: int
    """The time at which the attempt was opened, in milliseconds since the Unix epoch; -1: unknown."""
    branch_count: int
    decide: Decide | None

    def is_kept(self, now: int, late_ms: int) -> bool:
        if self.decide is not None and (
            self.decide.outcome is Outcome.ABORT or len(self.decide.winners) < self.branch_count
        ):
            return True
        return 0 <= self.opened_ms < now - late_ms

    @property
    def attributes(self) -> dict[str, spans.Value]:
        found: dict[str, spans.Value] = {"oncelog.sink": self.sink}
        if self.batch_id != NO_BATCH:
            found["oncelog.batch_id"] = self.batch_id
        return found


class AttemptTraces:
    """Records the spans of the attempts of one transaction shard, while this process owns it under one coordinator
    epoch.

    An attempt is one try of Spark to write a micro-batch.
    """

    def __init__(self, shard: int, coordinator_epoch: CoordinatorEpoch) -> None:
        self._attributes: dict[str, spans.Value] = {
            "oncelog.shard": shard,
            "oncelog.coordinator_epoch": coordinator_epoch,
        }
        self._before: dict[bytes, _Seen] = {}
        self._ending: dict[bytes, _Seen] = {}

    def about_to_decide(self, event: ShardEvent, machine: SinkMachine) -> None:
        """Copy the attempts (tries to write a micro-batch) of the Spark sink that this event is about, before it is
        decided.

        The decision may remove them, and `decided` needs what they were.
        """
        sink = _sink_of(event)
        if sink:
            self._before = {one.nonce: one for one in map(_seen, machine.attempts_of(sink))}

    def decided(
        self, event: ShardEvent, decision: Decision[ShardRecord], machine: SinkMachine, now: Millis
    ) -> None:
        """Move the current span into the trace of the attempt (one try to write a Spark micro-batch) that the request
        is about.

        Attempts that this decision completes are copied, so that `committed` can export their root spans.
        """
        recorder = spans.recorder
        if recorder is None:
            return
        if type(event) is AddPartitions or type(event) is VerifyPartitions:
            attempt = machine.attempt_of_producer(event.producer_id)
            asked = None if attempt is None else _seen(attempt)
        elif type(event) is ForceTerminate or _sink_of(event):
            asked = self._ended_by(event, decision, machine).get(_nonce_of(event, decision))
        else:
            return
        running = spans.current()
        if running is None or asked is None:
            return
        running.set(**self._attributes, **asked.attributes, **{"oncelog.decision": decision.label})
        running.home.move(attempt_trace(asked.nonce), is_kept=asked.is_kept(now, recorder.late_ms))

    def _ended_by(
        self, event: ShardEvent, decision: Decision[ShardRecord], machine: SinkMachine
    ) -> dict[bytes, _Seen]:
        """Return the sink's attempts (tries to write a micro-batch) by nonce: those it has now, and those that the
        decision removed.
        """
        known, self._before = self._before, {}
        decides = [one for one in decision.records if isinstance(one, Decide)]
        for sink in {_sink_of(event), *(one.sink for one in decides)}:
            known.update((one.nonce, _seen(one)) for one in machine.attempts_of(sink))
        for decide in decides:
            seen = known.get(decide.nonce) or _Seen(
                decide.sink, decide.nonce, decide.batch_id, -1, len(decide.winners), None
            )
            known[decide.nonce] = seen._replace(batch_id=decide.batch_id, decide=decide)
        for nonce in _completed(decision.records):
            if nonce in known and len(self._ending) < _ENDING_MAX:
                self._ending[nonce] = known[nonce]
        return known

    def committed(self, decision: Decision[ShardRecord], decided_ns: int) -> None:
        """Export the spans of a decision whose records are now committed.

        They are the span of the append, and the root span of each attempt (one try to write a Spark micro-batch) that
        it completed. `decided_ns`: when the decision was made.
        """
        recorder = spans.recorder
        if recorder is None:
            return
        for nonce in _appended(decision.records):
            trace = attempt_trace(nonce)
            parent = spans.current()
            if parent is not None and parent.home.trace_id != trace.trace_id:
                parent = None
            append = spans.Span(
                _APPEND if parent is not None else f"{decision.label} ({_APPEND})",
                spans.Home(trace) if parent is None else parent.home,
                parent,
                spans.Kind.INTERNAL,
                {**self._attributes, "oncelog.decision": decision.label},
                decided_ns,
            )
            append.end()
        for nonce in _completed(decision.records):
            ended = self._ending.pop(nonce, None)
            if ended is not None:
                self._root(recorder, ended, time.time_ns())

    def root_again(
        self, appended_ms: Millis, record: ShardRecord, superseded: ShardRecord | None
    ) -> None:
        """Export the root span of an attempt (one try to write a Spark micro-batch) that a replay finds complete in the
        log.

        The process that completed it may have crashed before the export. The tombstones of an attempt come one by one,
        and the one of its DECIDE record (commit or abort) is the last. `superseded` is the record that a tombstone
        removes; these records say what the attempt was.
        """
        recorder = spans.recorder
        if recorder is None or not isinstance(record, Tombstone) or not record.nonce:
            return
        nonce = record.nonce
        known = self._ending.pop(nonce, None) or _Seen(record.sink, nonce, NO_BATCH, -1, 0, None)
        match superseded:
            case AttemptOpen(opened_time_ms=opened_ms):
                known = known._replace(opened_ms=opened_ms)
            case Branch():
                known = known._replace(branch_count=known.branch_count + 1)
            case Decide(batch_id=batch_id):
                known = known._replace(batch_id=batch_id, decide=superseded)
        if record.record_type is not SinkRecordType.DECIDE:
            if len(self._ending) < _ENDING_MAX:
                self._ending[nonce] = known
            return
        is_seen = recorder.is_in_head(attempt_trace(nonce).trace_id)
        if is_seen or known.is_kept(appended_ms, recorder.late_ms):
            self._root(recorder, known, appended_ms * _NS_PER_MS)

    def with_trace(self, wanted: MarkersWanted, machine: SinkMachine) -> MarkersWanted:
        """Return the request for markers; if they end an attempt (one try to write a Spark micro-batch), each carries
        its trace.
        """
        recorder = spans.recorder
        key = wanted.decision_key
        if key.machine != SINK_MACHINE or recorder is None:
            return wanted
        for attempt in machine.attempts_of(key.name):
            if decision_number(attempt.nonce) == key.number:
                trace = attempt_trace(attempt.nonce)
                now = time.time_ns() // _NS_PER_MS
                is_kept = _seen(attempt).is_kept(now, recorder.late_ms)
                markers = (
                    replace(one, trace=trace, is_trace_kept=is_kept) for one in wanted.markers
                )
                return replace(wanted, markers=tuple(markers))
        return wanted

    def _root(self, recorder: spans.Recorder, ended: _Seen, now_ns: int) -> None:
        opened_ns = ended.opened_ms * _NS_PER_MS if ended.opened_ms >= 0 else now_ns
        found = {**self._attributes, **ended.attributes, "oncelog.branches": ended.branch_count}
        if ended.decide is not None:
            found["oncelog.outcome"] = ended.decide.outcome.name.lower()
            found["oncelog.decision"] = ended.decide.reason
            found["oncelog.rows"] = ended.decide.row_count
        recorder.root(
            attempt_trace(ended.nonce, opened_ns),
            f"Spark batch {ended.sink}",
            now_ns,
            found,
            is_kept=ended.is_kept(now_ns // _NS_PER_MS, recorder.late_ms),
        )


def _seen(attempt: Attempt) -> _Seen:
    held = attempt.opened or attempt.decide or next(iter(attempt.branches.values()))
    return _Seen(
        held.sink,
        attempt.nonce,
        attempt.batch_id,
        -1 if attempt.opened is None else attempt.opened.opened_time_ms,
        len(attempt.branches),
        attempt.decide,
    )


def _sink_of(event: ShardEvent) -> str:
    """Return the name of the Spark sink that the event is about; empty: it is about none.

    This runs for every event of every transaction.
    """
    if type(event) is MarkersDelivered:
        return event.decision_key.name if event.decision_key.machine == SINK_MACHINE else ""
    return getattr(event, "sink", "")


def _nonce_of(event: ShardEvent, decision: Decision[ShardRecord]) -> bytes:
    """Return the nonce of the attempt (one try to write a Spark micro-batch) that a request is about; empty: it is
    about none.
    """
    match event:
        case OpenAttempt() | JoinAttempt() | SealBranch():
            return event.nonce
        case CommitBatch():
            return event.messages[0].nonce if event.messages else b""
        case AbortAttempt():
            return event.nonces[0] if event.nonces else b""
    decided = (one.nonce for one in decision.records if isinstance(one, Decide))
    return next(decided, b"")


def _appended(records: Sequence[ShardRecord]) -> Iterable[bytes]:
    """Return the nonces of the attempts (tries to write a Spark micro-batch) that these records belong to, each
    once.
    """
    nonces = (
        one.nonce
        for one in records
        if isinstance(one, AttemptOpen | Branch | Decide | Tombstone) and one.nonce
    )
    return dict.fromkeys(nonces)


def _completed(records: Sequence[ShardRecord]) -> Iterable[bytes]:
    return (
        one.nonce
        for one in records
        if isinstance(one, Tombstone) and one.record_type is SinkRecordType.DECIDE
    )
