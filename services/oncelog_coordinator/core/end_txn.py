"""EndTxn: the decision (facts 8.6 for TV1, 8.7 for TV2).

TV1 keeps the epoch, so a repeated EndTxn looks like the first: the state alone tells which it is, and once the next
transaction is open only the connection does (`core.stamp`). TV2 bumps the epoch
with every decision, so the epoch tells: a retry comes with the epoch before the bump. Its answer carries the identity
that the producer continues with once the transaction is complete, which on an exhausted epoch is a new producer id at
epoch 0.

A prepared transaction's completion is always pending in Kafka, which answers CONCURRENT_TRANSACTIONS before anything
else in TV2. Here a TV2 retry is answered by the tables below, at once and with the final answer; a producer that
already holds the next identity is told CONCURRENT_TRANSACTIONS (it did nothing wrong); everyone else is fenced.
"""

from dataclasses import replace
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import NO_PRODUCER_ID, PRODUCER_EPOCH_MAX, Millis, ProducerEpoch
from oncelog.machine import Decision, Reply
from oncelog_coordinator.core.completion import prepared_decision
from oncelog_coordinator.core.markers import DecisionKey
from oncelog_coordinator.core.stamp import is_delayed
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
"""(state, commit) → the answer to a request that is, or looks like, a repetition."""


def wants_producer_id(txn: TxnMetadata | None, event: EndTxn) -> bool:
    """A TV2 decision on an exhausted epoch needs a successor id."""
    return (
        txn is not None
        and event.client_transaction_version >= TV2
        and txn.is_exhausted
        and event.producer_id == txn.producer_id
        and event.producer_epoch == txn.producer_epoch
        and (txn.state is TxnState.ONGOING or (txn.state.is_idle and not event.commit))
    )


def decide(
    txn: TxnMetadata | None, event: EndTxn, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    if txn is None:
        return _answer(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "unknown_id")
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
    if is_delayed(txn.stamp, event.stamp, event.told):
        return _delayed(txn, event)
    prepared = txn.prepared(
        _decided_state(event),
        txn.producer_epoch,
        txn.last_producer_epoch,
        NO_PRODUCER_ID,
        event.client_transaction_version,
        now,
        event.stamp,
    )
    reply = Reply(event.request_id, IdentityAnswer(ErrorCode.NONE))
    return prepared_decision(prepared, key, reply, _label(event), now)


def _repeated_tv1(txn: TxnMetadata, event: EndTxn) -> Decision[TxnRecord]:
    """What is complete is written down once more, and the answer waits for that (Kafka writes nothing): if the shard
    has an owner by now of whom this process has not heard, it may be the end of a transaction that that one let begin.
    And whoever is answered goes on, so nothing older may count from then on (`core.stamp`).
    """
    aborts_nothing = _aborts_nothing(txn, event)
    error_code = REPEATED[txn.state, event.commit]
    if aborts_nothing:
        error_code = _BUSY if txn.state.is_prepared else _NONE
    if error_code is not ErrorCode.NONE:
        return _answer(event, error_code, "repeat_answered")
    if is_delayed(txn.stamp, event.stamp, event.told):
        return _delayed(txn, event)
    reply = Reply(event.request_id, IdentityAnswer(error_code))
    label = "abort_without_addition" if aborts_nothing else "repeat_answered"
    return Decision((replace(txn, stamp=event.stamp or txn.stamp),), (reply,), label)


def _aborts_nothing(txn: TxnMetadata, event: EndTxn) -> bool:
    """What it would have aborted was never begun: its first addition was refused, for its connection or because the
    transaction before was not complete, and nothing was heard since. librdkafka aborts without having come again.
    INVALID_TXN_STATE would be the end of its producer, as it is with Kafka."""
    return (
        not event.commit
        and (txn.state.is_prepared or txn.state in _COMPLETE)
        and event.addition_told is not None
        and event.addition_told == txn.stamp
    )


def _delayed(txn: TxnMetadata, event: EndTxn) -> Decision[TxnRecord]:
    refused = IdentityAnswer(ErrorCode.CONCURRENT_TRANSACTIONS, delayed_by=txn.stamp)
    return Decision((), (Reply(event.request_id, refused),), "delayed_end_refused")


def _decide_tv2(
    txn: TxnMetadata, event: EndTxn, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    asked = (event.producer_id, event.producer_epoch)
    if txn.state.is_prepared and asked == next_identity(txn):
        return _answer(event, ErrorCode.CONCURRENT_TRANSACTIONS, "end_while_completing")
    is_overflow_retry = (
        event.producer_id == txn.previous_producer_id
        and event.producer_epoch == EXHAUSTED_EPOCH
        and txn.producer_epoch == 0
    )
    if event.producer_id != txn.producer_id and not is_overflow_retry:
        return _answer(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "wrong_producer_id")
    # Only an end under TV2 has bumped the epoch. After one under TV1 the epoch before is a fenced producer's: it would
    # be told that its transaction was committed, or the epoch of its successor. Kafka asks for less.
    is_retry = txn.client_transaction_version >= TV2 and (
        is_overflow_retry or event.producer_epoch == txn.producer_epoch - 1
    )
    if is_retry and (txn.state.is_prepared or txn.state in _COMPLETE):
        error_code = REPEATED[txn.state, event.commit]
        if error_code is not ErrorCode.NONE:
            return _answer(event, error_code, "repeat_answered")
        answer = IdentityAnswer(ErrorCode.NONE, txn.producer_id, txn.producer_epoch)
        return Decision((), (Reply(event.request_id, answer),), "repeat_answered")
    if event.producer_epoch != txn.producer_epoch or txn.state.is_prepared:
        return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
    if txn.state is not TxnState.ONGOING and event.commit:
        return _answer(event, ErrorCode.INVALID_TXN_STATE, "nothing_to_commit")
    return _prepare_tv2(txn, event, key, now)


_COMPLETE: Final = (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)


def _prepare_tv2(
    txn: TxnMetadata, event: EndTxn, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    following = NO_PRODUCER_ID
    if txn.is_exhausted:
        if txn.producer_epoch == PRODUCER_EPOCH_MAX and event.commit:
            # Nobody was ever told this epoch: it exists only to fence.
            return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
        if event.new_producer_id is None:
            return _answer(event, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no_producer_id")
        following = event.new_producer_id
    prepared = txn.prepared(
        _decided_state(event),
        ProducerEpoch(min(txn.producer_epoch + 1, PRODUCER_EPOCH_MAX)),
        txn.producer_epoch,
        following,
        event.client_transaction_version,
        now,
        event.stamp,
    )
    reply = Reply(event.request_id, IdentityAnswer(ErrorCode.NONE, *next_identity(prepared)))
    label = _label(event) if prepared.partitions else "empty_abort"
    return prepared_decision(prepared, key, reply, label, now)


def _decided_state(event: EndTxn) -> TxnState:
    return TxnState.PREPARE_COMMIT if event.commit else TxnState.PREPARE_ABORT


def _label(event: EndTxn) -> str:
    return "commit_prepared" if event.commit else "abort_prepared"


def _answer(event: EndTxn, error_code: ErrorCode, label: str) -> Decision[TxnRecord]:
    return Decision((), (Reply(event.request_id, IdentityAnswer(error_code)),), label)
