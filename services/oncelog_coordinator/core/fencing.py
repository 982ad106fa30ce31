"""An Ongoing transaction is ended by the server: fence the producer, then abort (facts 8.3, 8.6, 8.7, 8.9).

Three callers: InitProducerId over an open transaction, the transaction timeout, an operator. An operator may also
commit one that is decided from outside (KIP-939). One record does both: it
carries the abort and an epoch above the producer's. So there is no moment in which the zombie is fenced but its
transaction open, or the other way round. The fence epoch is never told to anyone; the next InitProducerId bumps again.

The cluster's `transaction.version`, not the client's, decides how: with 2 the epoch bump is the one that every TV2
decision makes, and an exhausted producer id gets a successor. Below 2 the bump is extra, stops at 32767 (the abort at
that epoch is accepted by leaders, because TV1 markers need only an epoch that is not smaller), and forgets the last
epoch so that no retry of the fenced producer is recognised.
"""

from oncelog.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    Millis,
    ProducerEpoch,
    ProducerId,
)
from oncelog.machine import Decision, Reply
from oncelog_coordinator.core.completion import prepared_decision
from oncelog_coordinator.core.markers import DecisionKey
from oncelog_coordinator.core.request_origin import RequestOrigin
from oncelog_coordinator.core.txn_state import TV2, TxnMetadata, TxnRecord, TxnState


def wants_producer_id(txn: TxnMetadata | None, cluster_transaction_version: int) -> bool:
    """True if ending this transaction needs a successor producer id."""
    return (
        txn is not None
        and txn.state is TxnState.ONGOING
        and cluster_transaction_version >= TV2
        and txn.is_exhausted
        and not txn.is_kept
    )


def fence_and_end(
    txn: TxnMetadata,
    cluster_transaction_version: int,
    new_producer_id: ProducerId | None,
    key: DecisionKey,
    reply: Reply | None,
    label: str,
    now: Millis,
    state: TxnState = TxnState.PREPARE_ABORT,
) -> Decision[TxnRecord] | None:
    """Return the decision that fences the producer and aborts, or commits if `state` says so.

    None: a successor producer id is needed and there is none. The caller answers 14 (COORDINATOR_LOAD_IN_PROGRESS) or
    tries later.
    """
    assert txn.state is TxnState.ONGOING, txn
    if txn.is_kept:
        return prepared_decision(kept_decision(txn, state, now), key, reply, label, now)
    fenced = ProducerEpoch(min(txn.producer_epoch + 1, PRODUCER_EPOCH_MAX))
    next_producer_id, last = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if cluster_transaction_version >= TV2:
        last = txn.producer_epoch
        if txn.is_exhausted:
            if new_producer_id is None:
                return None
            next_producer_id = new_producer_id
    prepared = txn.prepared(state, fenced, last, next_producer_id, cluster_transaction_version, now)
    return prepared_decision(prepared, key, reply, label, now)


def kept_decision(
    txn: TxnMetadata, state: TxnState, now: Millis, origin: RequestOrigin | None = None
) -> TxnMetadata:
    """Return the prepared state of a transaction that was kept for a new producer (KIP-939).

    It is ended by that producer, or by the server without it. Markers carry the epoch after the transaction's. The
    producer's own epoch is above that already. It is bumped as at every end of a transaction under TV2, and is never
    near the last epoch (`init_producer_id`).
    """
    assert txn.is_kept, txn
    return txn.prepared(
        state,
        ProducerEpoch(min(txn.producer_epoch + 1, PRODUCER_EPOCH_MAX)),
        txn.next_producer_epoch,
        txn.next_producer_id,
        TV2,
        now,
        origin,
        ProducerEpoch(txn.next_producer_epoch + 1),
    )
