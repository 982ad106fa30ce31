"""Decides every Spark sink of one `__transaction_state` partition.

A micro-batch is written by one *attempt*, which Spark's driver opens under a fresh random nonce. Each task joins it and
gets a *branch*: a producer id of its own, with which it writes ordinary transactional batches. The task seals the
branch when all of them are acknowledged. The driver then commits the batch, naming the winning branch of each task. One
DECIDE record is the commit: the winners become visible, every other branch of the attempt aborts. A branch is never
used again, so the markers' bumped epoch fences its producer id for good.

```
            OpenAttempt              CommitBatch                 MarkersDelivered
   (none) ──────────────▶ Open ───────────────────▶ Committing ─────────────────▶ (removed; in the window)
                           │  superseded, timed out,
                           └──────────────────────▶ Aborting ───────────────────▶ (removed)
                              AbortAttempt, ALREADY_OTHER
```

A sink has at most one open attempt: opening one aborts the open one. Batch ids of a query only grow, and a batch at or
below the last committed one is never written again: its tasks are told to skip. So a batch that Spark runs again after
a crash is harmless. State and records: `sink_state`, `sink_records`. The answers to joins: `sink_join`; to commits:
`sink_commit`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from oncelog.errors import ErrorCode
from oncelog.ids import Millis, Offset, ProducerId
from oncelog.machine import CancelTimer, Decision, Effect, Reply, Send, SetTimer, answered
from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core.markers import MARKER_SENDER, DeliveryOutcome, MarkersDelivered
from oncelog_coordinator.core.sink_commit import judge_commit
from oncelog_coordinator.core.sink_events import (
    AbortAnswer,
    AbortAttempt,
    AnsweredEvent,
    AttemptAnswer,
    AttemptTimedOut,
    CommitBatch,
    DeleteSink,
    DescribeSink,
    ExpireSinks,
    JoinAnswer,
    JoinAttempt,
    ListSinks,
    LiveBranch,
    MarkersOverdue,
    OpenAnswer,
    OpenAttempt,
    SealBranch,
)
from oncelog_coordinator.core.sink_join import (
    header_after_join,
    join_answer,
    joined_before,
    new_branch,
    refuse_join,
)
from oncelog_coordinator.core.sink_limits import DEFAULT_LIMITS, SinkLimits, refuse_arguments
from oncelog_coordinator.core.sink_records import (
    AttemptOpen,
    Branch,
    Decide,
    Outcome,
    SinkHeader,
    SinkRecord,
)
from oncelog_coordinator.core.sink_registry import (
    decide_registry,
    expire_timer,
    full_shard_message,
)
from oncelog_coordinator.core.sink_replay import sum_of_checksums
from oncelog_coordinator.core.sink_state import (
    Attempt,
    Sink,
    SinkMap,
    bumped,
    completion_records,
    live_branch,
    markers_wanted,
)
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    ErrorAnswer,
    VerifyAnswer,
    VerifyPartitions,
)

SinkEvent = AnsweredEvent | AttemptTimedOut | MarkersOverdue | MarkersDelivered | ExpireSinks

_UINT32_MASK: Final = 0xFFFF_FFFF
_FENCED: Final = SinkAnswer.FENCED


class SinkMachine:
    """The state machine of the Spark sinks of one shard (a partition of `__transaction_state`).

    It decides the events of `sink_events`, and `MarkersDelivered` whose key names SINK_MACHINE.
    """

    def __init__(self, limits: SinkLimits = DEFAULT_LIMITS) -> None:
        assert limits.attempts_max < limits.batches_max, (
            "a decision under way must not be older than the window that it will enter",
            limits,
        )
        self._limits = limits
        self._map = SinkMap()

    # ------------------------------------------------------------------------------------------ the contract

    def decide(self, event: SinkEvent, now: Millis) -> Decision[SinkRecord]:
        match event:
            case OpenAttempt():
                return self._open(event, now)
            case JoinAttempt():
                return self._join(event, now)
            case SealBranch():
                return self._seal(event, now)
            case CommitBatch():
                return self._commit(event, now)
            case AbortAttempt():
                return self._abort(event, now)
            case AddPartitions() | VerifyPartitions():
                return self._add_partitions(event)
            case DescribeSink() | ListSinks() | DeleteSink() | ExpireSinks():
                return decide_registry(self._map, self._limits, event, now)
            case AttemptTimedOut():
                return self._time_out(event, now)
            case MarkersOverdue():
                return self._send_again(event)
            case MarkersDelivered():
                return self._delivered(event)
            case _:
                assert_never(event)

    def apply(self, offset: Offset, record: SinkRecord) -> None:
        self._map.put(record)

    def resume(self, now: Millis) -> Sequence[Effect]:
        """Return what a machine owes after its load: timers of open attempts (tries to write a micro-batch), markers of
        ended ones.
        """
        effects: list[Effect] = [expire_timer(self._limits.expire_interval_ms)]
        for name in sorted(self._map.sinks):
            for attempt in self._map.sinks[name].sorted_attempts():
                if attempt.decide is not None:
                    effects.append(_drive_markers(attempt, attempt.decide))
                else:
                    effects.append(_deadline_left(name, attempt, now))
        return effects

    # ------------------------------------------------------------------------------- questions of the shell

    def wants_producer_id(self, event: SinkEvent) -> bool:
        """True if the event is a task's first join that would be accepted, and it has no producer id for the task
        yet.
        """
        if not isinstance(event, JoinAttempt) or event.producer_id is not None:
            return False
        return (
            refuse_join(self._map, self._limits, event) is None
            and joined_before(self._map, event) is None
        )

    def owns_producer(self, producer_id: ProducerId) -> bool:
        """True if a Spark task got this producer id and its markers are not all written: its AddPartitionsToTxn belongs
        here.
        """
        return producer_id in self._map.attempt_of_producer

    def attempts_of(self, sink: str) -> list[Attempt]:
        """Return the sink's attempts (tries to write a micro-batch), the oldest first, without those that are
        complete.
        """
        held = self._map.sinks.get(sink)
        return [] if held is None else held.sorted_attempts()

    def attempt_of_producer(self, producer_id: ProducerId) -> Attempt | None:
        """Return the attempt (one try to write a micro-batch) whose task has this producer id; None: there is none."""
        sink, nonce = self._map.attempt_of_producer.get(producer_id, ("", b""))
        return self._map.attempt(sink, nonce)

    def transaction_views(self) -> tuple[LiveBranch, ...]:
        """Return each Spark task's branch (its producer id) as a transaction, until its markers are written. Two tries
        of one task have the same name; the newer is last.
        """
        return tuple(
            live_branch(attempt, branch)
            for name in sorted(self._map.sinks)
            for attempt in self._map.sinks[name].sorted_attempts()
            for branch in attempt.sorted_branches()
        )

    def oldest_open_attempt_ms(self) -> Millis | None:
        """Return when the oldest open attempt to write a micro-batch was opened, in milliseconds; None: no attempt is
        open.
        """
        opened = [
            attempt.opened.opened_time_ms
            for sink in self._map.sinks.values()
            for attempt in sink.attempts.values()
            if attempt.is_open and attempt.opened is not None
        ]
        return min(opened, default=None)

    # ---------------------------------------------------------------------------------------------- attempts

    def _open(self, event: OpenAttempt, now: Millis) -> Decision[SinkRecord]:
        refusal = refuse_arguments(event, self._limits)
        if refusal is not None:
            return answered(event, OpenAnswer(*refusal), "open_refused")
        sink = self._map.sinks.get(event.sink, Sink(event.sink))
        known = sink.attempts.get(event.nonce)
        if known is not None and known.is_open:
            return answered(event, OpenAnswer(sink_epoch=known.sink_epoch), "open_repeated")
        if known is not None or any(b.nonce == event.nonce for b in sink.committed_batches()):
            message = f"attempt {event.nonce.hex()} is decided; draw a new nonce"
            return answered(event, OpenAnswer(error_message=message, answer=_FENCED), "open_fenced")
        if event.sink not in self._map.sinks and len(self._map.sinks) >= self._limits.sinks_max:
            message = full_shard_message(event.sink, self._limits)
            return answered(event, OpenAnswer(ErrorCode.POLICY_VIOLATION, message), "open_refused")
        if len(sink.attempts) >= self._limits.attempts_max:
            message = f"{len(sink.attempts)} attempts of sink {event.sink!r} wait for their markers; try again"
            answer = OpenAnswer(ErrorCode.CONCURRENT_TRANSACTIONS, message)
            return answered(event, answer, "open_refused")
        # Superseded attempts are decided before the new one exists: any prefix of these records is a state in
        # which at most one attempt is open.
        records: list[SinkRecord] = []
        effects: list[Effect] = []
        for attempt in sink.open_attempts():
            closed = self._close(sink, attempt, Outcome.ABORT, "superseded", now)
            records.extend(closed.records)
            effects.extend(closed.effects)
        header = sink.header or SinkHeader(event.sink, 0, 0, "", "", (), ())
        header = replace(header, sink_epoch=header.sink_epoch + 1, opened_time_ms=now)
        timeout_ms = event.timeout_ms or self._limits.timeout_default_ms
        opened = AttemptOpen(event.sink, event.nonce, header.sink_epoch, now, timeout_ms)
        effects.append(Reply(event.request_id, OpenAnswer(sink_epoch=header.sink_epoch)))
        effects.append(_deadline(event.sink, event.nonce, timeout_ms))
        label = "superseded" if records else "opened"
        return Decision((*records, header, opened), tuple(effects), label)

    def _abort(self, event: AbortAttempt, now: Millis) -> Decision[SinkRecord]:
        refusal = refuse_arguments(event, self._limits)
        if refusal is not None:
            return answered(event, AbortAnswer(*refusal), "abort_refused")
        sink = self._map.sinks.get(event.sink, Sink(event.sink))
        aborts = [attempt for attempt in sink.open_attempts() if attempt.nonce in event.nonces]
        records: list[SinkRecord] = []
        effects: list[Effect] = [Reply(event.request_id, AbortAnswer(aborted=len(aborts)))]
        for attempt in aborts:
            closed = self._close(sink, attempt, Outcome.ABORT, "aborted", now)
            records.extend(closed.records)
            effects.extend(closed.effects)
        return Decision(tuple(records), tuple(effects), "aborted" if aborts else "abort_ignored")

    def _time_out(self, event: AttemptTimedOut, now: Millis) -> Decision[SinkRecord]:
        attempt = self._map.open_attempt(event.sink, event.nonce)
        if attempt is None:
            return Decision(label="timeout_ignored")
        if attempt.deadline_ms > now and event.waited_for != attempt.deadline_ms:
            return Decision((), (_deadline_left(event.sink, attempt, now),), "timeout_early")
        return self._close(self._map.sinks[event.sink], attempt, Outcome.ABORT, "timed_out", now)

    def _commit(self, event: CommitBatch, now: Millis) -> Decision[SinkRecord]:
        refusal = refuse_arguments(event, self._limits)
        if refusal is not None:
            return answered(event, AttemptAnswer(*refusal), "commit_refused")
        sink = self._map.sinks.get(event.sink)
        verdict = judge_commit(sink, event)
        answer = AttemptAnswer(error_message=verdict.message, answer=verdict.answer)
        records: list[SinkRecord] = []
        effects: list[Effect] = [Reply(event.request_id, answer)]
        if verdict.attempt is not None and verdict.winners is not None:
            assert sink is not None, event
            closed = self._close(
                sink, verdict.attempt, Outcome.COMMIT, verdict.label, now, verdict.winners
            )
            records.extend(closed.records)
            effects.extend(closed.effects)
        for attempt in verdict.aborts:
            assert sink is not None, event
            closed = self._close(sink, attempt, Outcome.ABORT, verdict.label, now)
            records.extend(closed.records)
            effects.extend(closed.effects)
        return Decision(tuple(records), tuple(effects), verdict.label)

    def _close(
        self,
        sink: Sink,
        attempt: Attempt,
        outcome: Outcome,
        reason: str,
        now: Millis,
        winners: Sequence[Branch] = (),
    ) -> Decision[SinkRecord]:
        """Return the decision that ends an attempt (a try to write a micro-batch): its one record, and the markers it
        requires.
        """
        assert sink.header is not None, sink
        generation = next(
            (branch.query_generation for branch in attempt.branches.values()),
            sink.header.query_generation,
        )
        decide = Decide(
            sink=sink.name,
            nonce=attempt.nonce,
            outcome=outcome,
            reason=reason,
            sink_epoch=attempt.sink_epoch,
            query_generation=generation,
            batch_id=attempt.batch_id,
            row_count=sum(branch.row_count for branch in winners),
            crc32c=sum(branch.crc32c for branch in winners) & _UINT32_MASK,
            decided_time_ms=now,
            winners=tuple(sorted(branch.producer_id for branch in winners)),
            row_checksum=sum_of_checksums([branch.row_checksum for branch in winners]),
        )
        records: tuple[SinkRecord, ...] = (decide,)
        effects: tuple[Effect, ...] = (CancelTimer(_deadline_name(sink.name, attempt.nonce)),)
        wanted = markers_wanted(attempt, decide)
        if wanted.markers:
            effects += (Send(MARKER_SENDER, wanted),)
        else:
            records += completion_records(sink, attempt, decide, self._limits.batches_max)
        return Decision(records, effects, reason)

    # ---------------------------------------------------------------------------------------------- branches

    def _join(self, event: JoinAttempt, now: Millis) -> Decision[SinkRecord]:
        refusal = refuse_join(self._map, self._limits, event)
        if refusal is not None:
            return answered(event, *refusal)
        joined = joined_before(self._map, event)
        if joined is not None:
            return answered(event, join_answer(joined), "join_repeated")
        if event.producer_id is None:
            answer = JoinAnswer(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id at hand; try again"
            )
            return answered(event, answer, "join_without_producer_id")
        assert not self.owns_producer(event.producer_id), ("a producer id is used once", event)
        attempt = self._map.open_attempt(event.sink, event.nonce)
        header = self._map.sinks[event.sink].header
        assert header is not None, event
        assert attempt is not None, event
        assert attempt.opened is not None, event
        joined_header = header_after_join(header, event, self._limits)
        branch = new_branch(event, joined_header, event.producer_id, now)
        changed = () if joined_header == header else (joined_header,)
        return Decision(
            records=(*changed, branch),
            effects=(
                Reply(event.request_id, join_answer(branch)),
                _deadline(event.sink, event.nonce, attempt.opened.timeout_ms),
            ),
            label="adopted"
            if joined_header.query_generation != header.query_generation
            else "joined",
        )

    def _seal(self, event: SealBranch, now: Millis) -> Decision[SinkRecord]:
        refusal = refuse_arguments(event, self._limits)
        if refusal is not None:
            return answered(event, AttemptAnswer(*refusal), "seal_refused")
        attempt = self._map.open_attempt(event.sink, event.nonce)
        branch = attempt.branches.get(event.producer_id) if attempt is not None else None
        message = ""
        if attempt is None or attempt.opened is None:
            message = f"attempt {event.nonce.hex()} is not open: superseded, decided or timed out"
        elif branch is None or branch.producer_epoch != event.producer_epoch:
            message = f"the attempt has no branch of producer id {event.producer_id}, epoch {event.producer_epoch}"
        elif branch.is_sealed:
            if (branch.row_count, branch.crc32c) == (event.row_count, event.crc32c):
                return answered(event, AttemptAnswer(), "seal_repeated")
            message = (
                f"producer id {event.producer_id} was sealed with {branch.row_count} other rows"
            )
        if message or branch is None or attempt is None or attempt.opened is None:
            answer = AttemptAnswer(error_message=message, answer=_FENCED)
            return answered(event, answer, "seal_fenced")
        # A partition that the branch wrote to must get its marker, or it would hold back readers for ever. So it
        # is added here too, should a leader have let a batch in without asking.
        written = {partition for partition, _ in event.last_sequences}
        partitions = tuple(sorted(written.union(branch.partitions)))
        sealed = replace(
            branch,
            sealed_time_ms=now,
            row_count=event.row_count,
            crc32c=event.crc32c,
            partitions=partitions,
            row_checksum=event.row_checksum,
        )
        return Decision(
            records=(sealed,),
            effects=(
                Reply(event.request_id, AttemptAnswer()),
                _deadline(event.sink, event.nonce, attempt.opened.timeout_ms),
            ),
            label="sealed",
        )

    def _add_partitions(self, event: AddPartitions | VerifyPartitions) -> Decision[SinkRecord]:
        """Answer the AddPartitionsToTxn that a partition leader sends before a task's first batch there
        (docs/kafka-facts.md, 8.4, 8.5).

        A task's producer id is never used again. So it is fenced once its try has ended, and not told to retry.
        """
        key = self._map.attempt_of_producer.get(event.producer_id)
        if key is None:
            return _refuse_add(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        attempt = self._map.sinks[key[0]].attempts[key[1]]
        branch = attempt.branches[event.producer_id]
        stored = branch.producer_epoch if attempt.is_open else bumped(branch.producer_epoch)
        if event.producer_epoch != stored:
            return _refuse_add(event, ErrorCode.PRODUCER_FENCED)
        if not attempt.is_open:
            return _refuse_add(event, ErrorCode.CONCURRENT_TRANSACTIONS)
        if isinstance(event, VerifyPartitions):
            missing = tuple(one for one in event.partitions if one not in branch.partitions)
            return answered(event, VerifyAnswer(ErrorCode.NONE, missing), "verified")
        added = {partition for partition in event.partitions if partition not in branch.partitions}
        if not added:
            return answered(event, ErrorAnswer(ErrorCode.NONE), "add_repeated")
        if branch.is_sealed:
            return _refuse_add(event, ErrorCode.INVALID_TXN_STATE)
        if len(branch.partitions) + len(added) > self._limits.partitions_max:
            return _refuse_add(event, ErrorCode.POLICY_VIOLATION)
        partitions = tuple(sorted(added.union(branch.partitions)))
        reply = Reply(event.request_id, ErrorAnswer(ErrorCode.NONE))
        return Decision((replace(branch, partitions=partitions),), (reply,), "added")

    # ----------------------------------------------------------------------------------------------- markers

    def _delivered(self, event: MarkersDelivered) -> Decision[SinkRecord]:
        sink = self._map.sinks.get(event.decision_key.name)
        attempt = sink.attempt_of_decision(event.decision_key.number) if sink is not None else None
        if sink is None or attempt is None or attempt.decide is None:
            return Decision(label="delivery_ignored")
        if event.outcome is not DeliveryOutcome.DELIVERED:
            timer = SetTimer(
                f"sink-markers/{sink.name}/{attempt.nonce.hex()}",
                self._limits.redelivery_ms,
                MarkersOverdue(sink.name, attempt.nonce),
            )
            return Decision(effects=(timer,), label=f"delivery_{event.outcome.value}")
        records = completion_records(sink, attempt, attempt.decide, self._limits.batches_max)
        return Decision(records, label="completed")

    def _send_again(self, event: MarkersOverdue) -> Decision[SinkRecord]:
        attempt = self._map.attempt(event.sink, event.nonce)
        if attempt is None or attempt.decide is None:
            return Decision(label="resend_ignored")
        return Decision(
            effects=(_drive_markers(attempt, attempt.decide),), label="markers_sent_again"
        )


def _drive_markers(attempt: Attempt, decide: Decide) -> Effect:
    """Return the effect that sends the remaining markers of a decided attempt (a try to write a micro-batch). If none
    is left, it completes the attempt, which a crash has interrupted.
    """
    wanted = markers_wanted(attempt, decide)
    if wanted.markers:
        return Send(MARKER_SENDER, wanted)
    return SetTimer(
        f"sink-markers/{decide.sink}/{decide.nonce.hex()}",
        Millis(0),
        MarkersDelivered(wanted.decision_key, DeliveryOutcome.DELIVERED),
    )


def _deadline_name(sink: str, nonce: bytes) -> str:
    return f"sink-deadline/{sink}/{nonce.hex()}"


def _deadline_left(sink: str, attempt: Attempt, now: Millis) -> SetTimer:
    """Return the timer that aborts an attempt (a try to write a micro-batch) at its deadline. A wall clock that was set
    back adds one timeout at most, as in `add_partitions.timeout_timer`.
    """
    assert attempt.opened is not None, attempt
    left_ms, timeout_ms = attempt.deadline_ms - now, attempt.opened.timeout_ms
    if left_ms <= timeout_ms:
        return _deadline(sink, attempt.nonce, left_ms)
    last = AttemptTimedOut(sink, attempt.nonce, attempt.deadline_ms)
    return SetTimer(_deadline_name(sink, attempt.nonce), Millis(timeout_ms), last)


def _deadline(sink: str, nonce: bytes, after_ms: int) -> SetTimer:
    return SetTimer(
        _deadline_name(sink, nonce), Millis(max(0, after_ms)), AttemptTimedOut(sink, nonce)
    )


def _refuse_add(
    event: AddPartitions | VerifyPartitions, error_code: ErrorCode
) -> Decision[SinkRecord]:
    answer = VerifyAnswer if isinstance(event, VerifyPartitions) else ErrorAnswer
    return answered(event, answer(error_code), f"add_{error_code.name.lower()}")
