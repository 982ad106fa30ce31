"""Completes a decided transaction: markers go to every partition; when all are written, the transaction is complete.

The prepare record is the decision; EndTxn is answered when it is committed. A transaction without partitions needs no
markers: it is prepared and completed together. The marker sender stops when a newer coordinator has taken over
(docs/kafka-facts.md, 8.11). The transaction then stays prepared. If the shard is still ours after `RESEND_AFTER_MS`,
its markers are sent again.
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
    """Return the decision that writes a transaction's prepare record, sends `reply` and asks for its markers.

    A transaction without partitions is completed at once. Its timeout is cancelled. The report about the markers
    carries `key`. `label` names the decision in logs and metrics.
    """
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
    """Complete the transaction whose markers are all written. If they could not be, set the timer that sends them
    again.

    `is_current` is False if the event is about an earlier transaction's markers; it is then ignored.
    """
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
    """Return the name of the timer that aborts this transaction when its timeout is over."""
    return f"timeout {transactional_id}"


def resend_timer_name(transactional_id: TransactionalId) -> str:
    return f"resend {transactional_id}"
