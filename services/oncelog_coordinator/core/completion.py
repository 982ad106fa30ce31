"""The way from a decision to its completion: markers go out, and when all are written the transaction is complete.

The prepare record is the decision; EndTxn is answered when it is committed. A transaction without partitions needs no
markers: its completion is decided in the same step. When the marker sender was stopped by someone newer (facts 8.11)
the transaction stays prepared: if the shard is still ours after `RESEND_AFTER_MS`, the markers are wanted again.
"""

from oncelog.ids import Millis, TransactionalId
from oncelog.machine import CancelTimer, Decision, Effect, Reply, Send, SetTimer
from oncelog_coordinator.core.markers import (
    MARKER_SENDER,
    RESEND_AFTER_MS,
    DecisionKey,
    DeliveryOutcome,
    MarkersDelivered,
    MarkersWanted,
    MarkerWanted,
)
from oncelog_coordinator.core.txn_events import ResendMarkers
from oncelog_coordinator.core.txn_state import TV2, TxnMetadata, TxnRecord, TxnState


def prepared_decision(
    prepared: TxnMetadata, key: DecisionKey, reply: Reply | None, label: str, now: Millis
) -> Decision[TxnRecord]:
    """Append the decision, answer, and send the markers; with no partition, complete at once."""
    effects: list[Effect] = [] if reply is None else [reply]
    effects.append(CancelTimer(timer_name(prepared.transactional_id)))
    if not prepared.partitions:
        return Decision((prepared, prepared.completed(now)), tuple(effects), label)
    effects.append(markers_wanted(prepared, key))
    return Decision((prepared,), tuple(effects), label)


def markers_wanted(prepared: TxnMetadata, key: DecisionKey) -> Send:
    marker = MarkerWanted(
        prepared.producer_id,
        prepared.producer_epoch,
        prepared.state is TxnState.PREPARE_COMMIT,
        prepared.client_transaction_version,
        prepared.partitions,
        prepared.start_timestamp,
        prepared.transactional_id if prepared.client_transaction_version < TV2 else "",
        prepared.trace,
    )
    return Send(MARKER_SENDER, MarkersWanted(key, (marker,)))


def markers_delivered(
    txn: TxnMetadata | None, is_current: bool, event: MarkersDelivered, now: Millis
) -> Decision[TxnRecord]:
    """Complete the transaction, or set the timer that sends its markers again. `is_current`: the event is about the
    decision that this transaction waits for."""
    if txn is None or not is_current or not txn.state.is_prepared:
        return Decision(label="stale_delivery_ignored")
    if event.outcome is DeliveryOutcome.DELIVERED:
        return Decision((txn.completed(now),), (), "completed")
    again = SetTimer(
        resend_timer_name(txn.transactional_id),
        RESEND_AFTER_MS,
        ResendMarkers(event.decision_key),
        RESEND_AFTER_MS,
    )
    return Decision((), (again,), f"markers_{event.outcome.value}")


def resend_markers(
    txn: TxnMetadata | None, is_current: bool, event: ResendMarkers
) -> Decision[TxnRecord]:
    if txn is None or not is_current or not txn.state.is_prepared:
        return Decision(label="stale_resend_ignored")
    return Decision((), (markers_wanted(txn, event.decision_key),), "markers_resent")


def timer_name(transactional_id: TransactionalId) -> str:
    """Return the name of the timer of the transaction timeout."""
    return f"timeout {transactional_id}"


def resend_timer_name(transactional_id: TransactionalId) -> str:
    return f"resend {transactional_id}"
