"""Transactions that take too long, ids that are not used, and operators who end a transaction (docs/kafka-facts.md,
8.9).

Kafka looks every ten seconds for transactions past their timeout. Here each Ongoing transaction has a timer, so it is
aborted within a second of its deadline, and strictly after it, as in Kafka. When the timer fires, the wall clock is
compared with the deadline. A timer that comes early, or after the transaction has ended, changes nothing. But a wall
clock that was set back adds one timeout at most.
"""

from collections.abc import Iterable
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog.machine import Decision, Reply, SetTimer, answered
from oncelog_coordinator.core import fencing
from oncelog_coordinator.core.add_partitions import timeout_timer
from oncelog_coordinator.core.completion import timer_name
from oncelog_coordinator.core.markers import DecisionKey
from oncelog_coordinator.core.txn_events import (
    CompletePrepared,
    ErrorAnswer,
    ExpireIds,
    ForceTerminate,
    TxnTimedOut,
)
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnRecord, TxnState, TxnTombstone

RETRY_TIMEOUT_AFTER_MS: Final = Millis(1_000)
"""The time in milliseconds after which an overdue abort that lacks a producer id is tried again."""

TOMBSTONES_MAX: Final = 1_000
"""The most ids that expire in one step. The next step follows soon after."""

NEXT_TOMBSTONES_AFTER_MS: Final = Millis(50)

EXPIRE_TIMER: Final = "expire ids"


def timed_out(
    txn: TxnMetadata | None, event: TxnTimedOut, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    if txn is None or txn.state is not TxnState.ONGOING or not txn.has_timeout:
        return Decision(label="timer_outlived_transaction")
    if not txn.deadline < now and event.waited_since != txn.start_timestamp:
        return Decision((), (timeout_timer(txn, now),), "timer_too_early")
    aborted = fencing.fence_and_end(
        txn,
        event.cluster_transaction_version,
        event.new_producer_id,
        key,
        None,
        "timed_out",
        now,
    )
    if aborted is not None:
        return aborted
    later = SetTimer(
        timer_name(txn.transactional_id),
        RETRY_TIMEOUT_AFTER_MS,
        TxnTimedOut(txn.transactional_id, waited_since=event.waited_since),
    )
    return Decision((), (later,), "timeout_waits_for_producer_id")


def force_terminate(
    txn: TxnMetadata | None, event: ForceTerminate, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    """Return the decision that aborts an Ongoing transaction for an operator.

    If it is already being aborted, the answer is NONE as well.
    """
    if txn is None:
        return _answer(
            event,
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            f"no transactional.id {event.transactional_id!r} is known; list them first",
        )
    if event.seen_start_timestamp not in (None, txn.start_timestamp) and not txn.state.is_idle:
        return _answer(
            event,
            ErrorCode.INVALID_TXN_STATE,
            f"the transaction of {event.transactional_id!r} that was looked at has ended meanwhile; "
            "another one is open now, and nothing was changed",
        )
    if txn.state is TxnState.PREPARE_ABORT:
        return _answer(event, ErrorCode.NONE, "")
    if txn.state is not TxnState.ONGOING:
        return _answer(
            event,
            ErrorCode.INVALID_TXN_STATE,
            f"{event.transactional_id!r} is in state {txn.state.kafka_name}: only an Ongoing "
            "transaction can be terminated",
        )
    done = Reply(event.request_id, ErrorAnswer(ErrorCode.NONE))
    aborted = fencing.fence_and_end(
        txn,
        event.cluster_transaction_version,
        event.new_producer_id,
        key,
        done,
        "force_terminated",
        now,
    )
    return aborted or _answer(
        event, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is at hand yet; try again"
    )


def complete_prepared(
    txn: TxnMetadata | None, event: CompletePrepared, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    """Return the decision that commits or aborts a two-phase transaction (KIP-939) for an operator.

    Such a transaction has no timeout: its application decides the outcome. If the application sends its own EndTxn too,
    it is answered as a repetition: a success if it decides the same.
    """
    name, identity = event.transactional_id, f"{event.producer_id}:{event.producer_epoch}"
    if txn is None:
        return _answer(
            event,
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            f"no transactional.id {name!r} is known; list them first",
        )
    if txn.state is not TxnState.ONGOING:
        return _answer(
            event,
            ErrorCode.INVALID_TXN_STATE,
            f"{name!r} is in state {txn.state.kafka_name}: nothing is left to decide",
        )
    if (event.producer_id, event.producer_epoch) != (txn.producer_id, txn.producer_epoch):
        return _answer(
            event,
            ErrorCode.INVALID_TXN_STATE,
            f"{identity} is not the open transaction of {name!r}: that is "
            f"{txn.producer_id}:{txn.producer_epoch}, and nothing was changed",
        )
    if not txn.is_two_phase:
        return _answer(
            event,
            ErrorCode.INVALID_TXN_STATE,
            f"the transaction of {name!r} is not two-phase: its producer or its time-out ends it; "
            "terminate it if it must end now",
        )
    ended = fencing.fence_and_end(
        txn,
        event.cluster_transaction_version,
        event.new_producer_id,
        key,
        Reply(event.request_id, ErrorAnswer(ErrorCode.NONE)),
        "prepared_committed" if event.commit else "prepared_aborted",
        now,
        TxnState.PREPARE_COMMIT if event.commit else TxnState.PREPARE_ABORT,
    )
    return ended or _answer(
        event, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is at hand yet; try again"
    )


def expire_ids(
    transactions: Iterable[TxnMetadata], expiration_ms: Millis, interval_ms: Millis, now: Millis
) -> Decision[TxnRecord]:
    """Remove transactional.ids without an open transaction whose state last changed at least `expiration_ms` ago."""
    latest = now - expiration_ms
    expired: list[TxnTombstone] = []
    for txn in transactions:
        if txn.state.is_idle and txn.last_update_timestamp <= latest:
            expired.append(TxnTombstone(txn.transactional_id))
            if len(expired) == TOMBSTONES_MAX:
                break
    is_full = len(expired) == TOMBSTONES_MAX
    again = SetTimer(
        EXPIRE_TIMER,
        NEXT_TOMBSTONES_AFTER_MS if is_full else interval_ms,
        ExpireIds(),
        Millis(0) if is_full else Millis(interval_ms // 10),
    )
    return Decision(tuple(expired), (again,), "ids_expired" if expired else "no_id_expired")


def _answer(
    event: ForceTerminate | CompletePrepared, error_code: ErrorCode, message: str
) -> Decision[TxnRecord]:
    label = "terminate_refused" if error_code is not ErrorCode.NONE else "already_terminating"
    return answered(event, ErrorAnswer(error_code, message), label)
