"""The server ends an Ongoing transaction: fence the producer, then abort (facts 8.3, 8.6, 8.7, 8.9).

Three callers: InitProducerId over an open transaction, the transaction timeout, an operator. One record does both: it
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
from oncelog_coordinator.core.txn_state import TV2, TxnMetadata, TxnRecord, TxnState


def wants_producer_id(txn: TxnMetadata | None, cluster_transaction_version: int) -> bool:
    """Whether aborting this transaction needs a successor id."""
    return (
        txn is not None
        and txn.state is TxnState.ONGOING
        and cluster_transaction_version >= TV2
        and txn.is_exhausted
    )


def fence_and_abort(
    txn: TxnMetadata,
    cluster_transaction_version: int,
    new_producer_id: ProducerId | None,
    key: DecisionKey,
    reply: Reply | None,
    label: str,
    now: Millis,
) -> Decision[TxnRecord] | None:
    """The abort; None when a successor id is needed and there is none: the caller answers 14 or tries later."""
    assert txn.state is TxnState.ONGOING, txn
    fenced = ProducerEpoch(min(txn.producer_epoch + 1, PRODUCER_EPOCH_MAX))
    next_producer_id, last = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    if cluster_transaction_version >= TV2:
        last = txn.producer_epoch
        if txn.is_exhausted:
            if new_producer_id is None:
                return None
            next_producer_id = new_producer_id
    prepared = txn.prepared(
        TxnState.PREPARE_ABORT, fenced, last, next_producer_id, cluster_transaction_version, now
    )
    return prepared_decision(prepared, key, reply, label, now)
