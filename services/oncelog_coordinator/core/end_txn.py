"""EndTxn: the client asks to commit or abort its transaction (docs/kafka-facts.md, 8.6 for TV1, 8.7 for TV2; KIP-890
made TV2).

TV1 keeps the producer epoch, so a repeated EndTxn looks like the first one. The transaction's state tells them apart.
Once the next transaction is open, only the client's connection does (`core.request_origin`).

TV2 bumps the producer epoch with every commit or abort. A retry has the epoch before the bump. The response has the
producer id and epoch with which the producer continues once the transaction is complete. After an exhausted epoch that
is a new producer id at epoch 0.

Kafka returns CONCURRENT_TRANSACTIONS in TV2 as long as a completion is pending. oncelog differs:

- A TV2 retry gets the final response at once, by the tables below.
- A producer that already has the next identity gets CONCURRENT_TRANSACTIONS. It did nothing wrong.
- Every other producer is fenced.

A transaction that was kept for a new producer (KIP-939) is ended by that producer. The one that opened it is fenced.
"""

from dataclasses import replace
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import NO_PRODUCER_ID, PRODUCER_EPOCH_MAX, Millis, ProducerEpoch
from oncelog.machine import Decision, Reply, answered
from oncelog_coordinator.core import fencing
from oncelog_coordinator.core.completion import prepared_decision
from oncelog_coordinator.core.markers import DecisionKey
from oncelog_coordinator.core.request_origin import is_delayed
from oncelog_coordinator.core.txn_events import EndTxn, IdentityAnswer
from oncelog_coordinator.core.txn_state import (
    EXHAUSTED_EPOCH,
    TV2,
    TxnMetadata,
    TxnRecord,
    TxnState,
    next_identity,
)

_NONE: Final = ErrorCode.NONE
_BUSY: Final = ErrorCode.CONCURRENT_TRANSACTIONS
_BAD: Final = ErrorCode.INVALID_TXN_STATE

REPEATED: Final[dict[tuple[TxnState, bool], ErrorCode]] = {
    (TxnState.PREPARE_COMMIT, True): _BUSY,
    (TxnState.PREPARE_COMMIT, False): _BAD,
    (TxnState.PREPARE_ABORT, True): _BAD,
    (TxnState.PREPARE_ABORT, False): _BUSY,
    (TxnState.COMPLETE_COMMIT, True): _NONE,
    (TxnState.COMPLETE_COMMIT, False): _BAD,
    (TxnState.COMPLETE_ABORT, True): _BAD,
    (TxnState.COMPLETE_ABORT, False): _NONE,
    (TxnState.EMPTY, True): _BAD,
    (TxnState.EMPTY, False): _BAD,
}
"""The answer to an EndTxn that repeats an earlier one or looks like it, by (the transaction's state, True if the
request asks for a commit)."""


def wants_producer_id(txn: TxnMetadata | None, event: EndTxn) -> bool:
    """True if this EndTxn needs a new producer id: it commits or aborts under TV2, and the producer epoch is
    exhausted.
    """
    return (
        txn is not None
        and event.client_transaction_version >= TV2
        and txn.is_exhausted
        and not txn.is_kept
        and event.producer_id == txn.producer_id
        and event.producer_epoch == txn.producer_epoch
        and (txn.state is TxnState.ONGOING or (txn.state.is_idle and not event.commit))
    )


def decide(
    txn: TxnMetadata | None, event: EndTxn, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    if txn is None:
        return _answer(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "unknown_id")
    if txn.is_kept:
        return _decide_kept(txn, event, key, now)
    if event.client_transaction_version >= TV2:
        return _decide_tv2(txn, event, key, now)
    return _decide_tv1(txn, event, key, now)


def _decide_tv1(
    txn: TxnMetadata, event: EndTxn, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    if event.producer_id != txn.producer_id:
        return _answer(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "wrong_producer_id")
    if event.producer_epoch != txn.producer_epoch:
        return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
    if txn.state is not TxnState.ONGOING:
        return _repeated_tv1(txn, event)
    if is_delayed(txn.origin, event.origin, event.refused_origin):
        return _delayed(txn, event)
    prepared = txn.prepared(
        _decided_state(event),
        txn.producer_epoch,
        txn.last_producer_epoch,
        NO_PRODUCER_ID,
        event.client_transaction_version,
        now,
        event.origin,
    )
    reply = Reply(event.request_id, IdentityAnswer(ErrorCode.NONE))
    return prepared_decision(prepared, key, reply, _label(event), now)


def _repeated_tv1(txn: TxnMetadata, event: EndTxn) -> Decision[TxnRecord]:
    """Answer a repeated EndTxn of TV1. The record of a complete transaction is written again; the reply waits for that
    append.

    Kafka writes nothing here. But another coordinator may own the shard by now, and may have started a new transaction.
    This request must not end that one: the append fails if there is another owner. After the reply the client sends its
    next requests. So this request is recorded as the newest one, and older ones have no effect (`core.request_origin`).
    """
    aborts_nothing = _aborts_nothing(txn, event)
    error_code = REPEATED[txn.state, event.commit]
    if aborts_nothing:
        error_code = _BUSY if txn.state.is_prepared else _NONE
    if error_code is not ErrorCode.NONE:
        return _answer(event, error_code, "repeat_answered")
    if is_delayed(txn.origin, event.origin, event.refused_origin):
        return _delayed(txn, event)
    reply = Reply(event.request_id, IdentityAnswer(error_code))
    label = "abort_without_addition" if aborts_nothing else "repeat_answered"
    return Decision((replace(txn, origin=event.origin or txn.origin),), (reply,), label)


def _aborts_nothing(txn: TxnMetadata, event: EndTxn) -> bool:
    """True if the transaction that this request aborts never began.

    Its first AddPartitionsToTxn was refused: it was the first request of a new connection, or the transaction before
    was not complete. librdkafka still sends the abort, without repeating the addition. INVALID_TXN_STATE would end its
    producer, as it does with Kafka.
    """
    return (
        not event.commit
        and (txn.state.is_prepared or txn.state in _COMPLETE)
        and event.refused_addition_origin is not None
        and event.refused_addition_origin == txn.origin
    )


def _delayed(txn: TxnMetadata, event: EndTxn) -> Decision[TxnRecord]:
    refused = IdentityAnswer(ErrorCode.CONCURRENT_TRANSACTIONS, delayed_by=txn.origin)
    return answered(event, refused, "delayed_end_refused")


def _decide_tv2(
    txn: TxnMetadata, event: EndTxn, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    identity = (event.producer_id, event.producer_epoch)
    if txn.state.is_prepared and identity == next_identity(txn):
        return _answer(event, ErrorCode.CONCURRENT_TRANSACTIONS, "end_while_completing")
    is_overflow_retry = (
        event.producer_id == txn.previous_producer_id
        and event.producer_epoch == EXHAUSTED_EPOCH
        and txn.producer_epoch == 0
    )
    if event.producer_id != txn.producer_id and not is_overflow_retry:
        return _answer(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "wrong_producer_id")
    # Only an end under TV2 has bumped the epoch. After an end under TV1 the epoch before belongs to a fenced producer.
    # It must learn neither that a transaction was committed nor its successor's epoch. Kafka does not check this.
    is_retry = txn.client_transaction_version >= TV2 and (
        is_overflow_retry or event.producer_epoch == txn.producer_epoch - 1
    )
    if is_retry and (txn.state.is_prepared or txn.state in _COMPLETE):
        if event.commit and txn.state in _ABORTED:
            # Its producer did not abort: a timeout, an operator or its successor did. INVALID_TXN_STATE would end the
            # threads of Kafka Streams, which start anew after this code (KAFKA-20785).
            return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
        error_code = REPEATED[txn.state, event.commit]
        if error_code is not ErrorCode.NONE:
            return _answer(event, error_code, "repeat_answered")
        answer = IdentityAnswer(ErrorCode.NONE, txn.producer_id, txn.producer_epoch)
        return answered(event, answer, "repeat_answered")
    if event.producer_epoch != txn.producer_epoch or txn.state.is_prepared:
        return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
    if txn.state is not TxnState.ONGOING and event.commit:
        return _answer(event, ErrorCode.INVALID_TXN_STATE, "nothing_to_commit")
    return _prepare_tv2(txn, event, key, now)


def _decide_kept(
    txn: TxnMetadata, event: EndTxn, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    """Return the decision on the EndTxn of a kept transaction: one that a new producer took over in order to end it
    (KIP-939).

    The transaction may be ongoing or prepared.
    """
    identity = (event.producer_id, event.producer_epoch)
    if event.producer_id not in (txn.producer_id, txn.next_producer_id):
        return _answer(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "wrong_producer_id")
    if txn.state is TxnState.ONGOING:
        if identity != txn.owner or event.client_transaction_version < TV2:
            return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
        prepared = fencing.kept_decision(txn, _decided_state(event), now, event.origin)
        reply = Reply(event.request_id, IdentityAnswer(ErrorCode.NONE, *next_identity(prepared)))
        return prepared_decision(prepared, key, reply, _label(event), now)
    if identity == next_identity(txn):
        return _answer(event, ErrorCode.CONCURRENT_TRANSACTIONS, "end_while_completing")
    if identity != (txn.next_producer_id, txn.last_producer_epoch):
        return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
    if event.commit and txn.state is TxnState.PREPARE_ABORT:
        return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
    return _answer(event, REPEATED[txn.state, event.commit], "repeat_answered")


_COMPLETE: Final = (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
_ABORTED: Final = (TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT)


def _prepare_tv2(
    txn: TxnMetadata, event: EndTxn, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    next_producer_id = NO_PRODUCER_ID
    if txn.is_exhausted:
        if txn.producer_epoch == PRODUCER_EPOCH_MAX and event.commit:
            # No producer ever received this epoch: it exists only to fence.
            return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
        if event.new_producer_id is None:
            return _answer(event, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no_producer_id")
        next_producer_id = event.new_producer_id
    prepared = txn.prepared(
        _decided_state(event),
        ProducerEpoch(min(txn.producer_epoch + 1, PRODUCER_EPOCH_MAX)),
        txn.producer_epoch,
        next_producer_id,
        event.client_transaction_version,
        now,
        event.origin,
    )
    reply = Reply(event.request_id, IdentityAnswer(ErrorCode.NONE, *next_identity(prepared)))
    label = _label(event) if prepared.partitions else "empty_abort"
    return prepared_decision(prepared, key, reply, label, now)


def _decided_state(event: EndTxn) -> TxnState:
    return TxnState.PREPARE_COMMIT if event.commit else TxnState.PREPARE_ABORT


def _label(event: EndTxn) -> str:
    return "commit_prepared" if event.commit else "abort_prepared"


def _answer(event: EndTxn, error_code: ErrorCode, label: str) -> Decision[TxnRecord]:
    return answered(event, IdentityAnswer(error_code), label)
