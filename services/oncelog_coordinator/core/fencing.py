"""The server ends an Ongoing transaction: it fences the producer, and aborts (docs/kafka-facts.md, 8.3, 8.6, 8.7, 8.9).

There are three callers: InitProducerId over an open transaction, the transaction timeout, an operator. An operator may
also commit a transaction whose outcome another system decided (KIP-939).

One record does both: it carries the abort and an epoch above the producer's. So the zombie is never fenced while its
transaction is open, or the other way round. No producer ever gets the fence epoch; the next InitProducerId bumps again.

The cluster's `transaction.version`, not the client's, decides how:

- With 2, the bump is the one that every commit or abort under TV2 makes. An exhausted producer id gets a successor.
- Below 2, the bump is extra and stops at 32767. Leaders accept the abort at that epoch, because TV1 markers need only
  an epoch that is not smaller. The last epoch is dropped, so that no retry of the fenced producer is recognised.
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
    """True if the server needs a new producer id to end this transaction, because its producer epoch is exhausted."""
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
    """Return the decision that fences the producer and aborts its transaction, or commits it if `state` says so.

    None: a new producer id is needed and `new_producer_id` is None. The caller answers COORDINATOR_LOAD_IN_PROGRESS or
    tries later. The report about the markers carries `key`. `label` names the decision in logs and metrics.
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
    """Return the prepared state of a kept transaction: one that a new producer took over in order to end it (KIP-939).

    That producer ends it, or the server does. The markers carry the epoch after the transaction's own. The new
    producer's epoch is above that already. It is bumped as at every end of a transaction under TV2, and is never near
    the last epoch (`init_producer_id`).
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
