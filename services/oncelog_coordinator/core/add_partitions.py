"""AddPartitionsToTxn states which partitions a transaction writes to, before it writes (docs/kafka-facts.md, 8.4 and
8.5).

Under TV1 (before KIP-890) a client adds partitions itself. Under TV2 the partition leader adds them on the client's
behalf. Adding to an idle transactional.id starts its next transaction: no request begins one. A verification changes
nothing: it only asks whether partitions were added.

Kafka answers CONCURRENT_TRANSACTIONS before it looks at the caller's identity (producer id and epoch) while a state
change is pending. The completion of a prepared transaction is always pending. We keep that order for prepared
transactions. After TV2's EndTxn on an exhausted producer id the client already holds the identity that completion will
install. It must be told to wait, not that it is unknown.

An addition that is still being written counts as present here. Its answer waits until the record is committed.
"""

from collections.abc import Sequence
from typing import Protocol

from oncelog.errors import ErrorCode
from oncelog.ids import Millis, Partition
from oncelog.machine import Decision, Effect, Reply, SetTimer, answered
from oncelog_coordinator.core.completion import timer_name
from oncelog_coordinator.core.request_origin import is_delayed
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    ErrorAnswer,
    TxnTimedOut,
    VerifyAnswer,
    VerifyPartitions,
)
from oncelog_coordinator.core.txn_records import value_bytes_estimate
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnRecord, TxnState


class Verifiable(Protocol):
    """The fields of a request that asks whether a transaction has certain partitions. `is_verified` takes any such
    request.
    """

    @property
    def transactional_id(self) -> str: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def partitions(self) -> Sequence[Partition]: ...


def decide(
    txn: TxnMetadata | None, event: AddPartitions, record_bytes_max: int, now: Millis
) -> Decision[TxnRecord]:
    """Return the decision on AddPartitionsToTxn: the transaction's new record and the reply, or an error code.

    `record_bytes_max` is the most bytes of one record of the shard's log. A transaction whose record would be larger is
    refused.
    """
    if txn is None:
        return _answer(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "unknown_id")
    if txn.state.is_prepared:
        return _completing(txn, event)
    if txn.is_kept:
        # A kept transaction takes no more partitions. Its new producer may end it; the one that opened it is fenced.
        if (event.producer_id, event.producer_epoch) == txn.owner:
            return _answer(event, ErrorCode.INVALID_TXN_STATE, "add_to_kept")
        return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
    if event.producer_id != txn.producer_id:
        return _answer(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "wrong_producer_id")
    if event.producer_epoch != txn.producer_epoch:
        return _answer(event, ErrorCode.PRODUCER_FENCED, "fenced")
    is_ongoing = txn.state is TxnState.ONGOING
    added = _absent(txn.partitions, event.partitions)
    # Nobody has begun a transaction of this epoch as long as it is Empty: there is none that this could be late for.
    if txn.state is not TxnState.EMPTY and is_delayed(
        txn.origin, event.origin, event.refused_origin
    ):
        refused = ErrorAnswer(ErrorCode.CONCURRENT_TRANSACTIONS, delayed_by=txn.origin)
        return answered(event, refused, "delayed_add_refused")
    if is_ongoing and not added and event.origin in (None, txn.origin):
        return _answer(event, ErrorCode.NONE, "partitions_present")
    if (
        len(txn.partitions) + len(added) > 256
        and value_bytes_estimate((*txn.partitions, *added)) > record_bytes_max
    ):
        # Kafka's append fails with RecordTooLarge here, which a client sees as this code (facts 6).
        return _answer(event, ErrorCode.UNKNOWN_SERVER_ERROR, "too_many_partitions")
    ongoing = txn.with_partitions(
        added, event.client_transaction_version, now, event.origin, event.trace
    )
    effects: tuple[Effect, ...] = (Reply(event.request_id, ErrorAnswer(ErrorCode.NONE)),)
    if is_ongoing:
        # Those that are present are written down as well: nothing older may count from then on (`core.request_origin`).
        label = "partitions_added" if added else "partitions_present"
        return Decision((ongoing,), effects, label)
    if ongoing.has_timeout:
        effects = (*effects, timeout_timer(ongoing, now))
    return Decision((ongoing,), effects, "transaction_started")


def _completing(txn: TxnMetadata, event: AddPartitions) -> Decision[TxnRecord]:
    """Answer CONCURRENT_TRANSACTIONS while the transaction is prepared but not complete.

    The connection that asked for the end may now ask for the next transaction. It may have sent an abort behind this
    request, which then has nothing to abort. `delayed_by` in the answer lets `end_txn` see that the abort follows this
    refusal.
    """
    is_next = (
        txn.origin is not None and event.origin is not None and event.origin[:2] == txn.origin[:2]
    )
    refused = ErrorAnswer(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        delayed_by=txn.origin if is_next else None,
        is_completing=True,
    )
    return answered(event, refused, "add_while_completing")


def verify(txn: TxnMetadata | None, event: VerifyPartitions) -> Decision[TxnRecord]:
    if txn is None:
        return _verified(event, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "unknown_id")
    refusal = _refusal(txn, event)
    if refusal is not None:
        return _verified(event, *refusal)
    missing = _absent(txn.partitions, event.partitions)
    label = "partition_not_in_transaction" if missing else "verified"
    return answered(event, VerifyAnswer(ErrorCode.NONE, missing, txn.start_timestamp), label)


def is_verified(txn: TxnMetadata, asked: Verifiable) -> bool:
    """True if `verify` would answer that the transaction has all these partitions and this producer may write to
    them.
    """
    return _refusal(txn, asked) is None and not _absent(txn.partitions, tuple(asked.partitions))


def _refusal(txn: TxnMetadata, asked: Verifiable) -> tuple[ErrorCode, str] | None:
    """Return the error code of a refusal, and its label: the name of the decision in logs and metrics. None: the
    producer may write to partitions of this transaction."""
    if asked.producer_id != txn.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, "wrong_producer_id"
    if asked.producer_epoch != txn.producer_epoch:
        return ErrorCode.PRODUCER_FENCED, "fenced"
    if txn.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS, "verify_while_completing"
    if txn.is_kept:
        return ErrorCode.PRODUCER_FENCED, "fenced"
    return None


def timeout_timer(ongoing: TxnMetadata, now: Millis) -> SetTimer:
    """Return the timer that aborts a transaction one millisecond after its deadline.

    The timer waits at most one whole timeout from now. A deadline further away was set before the wall clock went back,
    or by a coordinator whose clock is ahead. An abandoned transaction would hold up its readers until then.
    """
    name = ongoing.transactional_id
    left_ms, timeout_ms = max(0, ongoing.deadline - now), ongoing.timeout_ms
    if left_ms <= timeout_ms:
        return SetTimer(timer_name(name), Millis(left_ms + 1), TxnTimedOut(name))
    last = TxnTimedOut(name, waited_since=ongoing.start_timestamp)
    return SetTimer(timer_name(name), Millis(timeout_ms + 1), last)


def _absent(
    present: tuple[Partition, ...], requested: tuple[Partition, ...]
) -> tuple[Partition, ...]:
    """Return those of the requested partitions that are not in `present`, each once, in the order of the request."""
    if len(requested) == 1:
        return () if requested[0] in present else requested
    known = frozenset(present)
    return tuple(partition for partition in dict.fromkeys(requested) if partition not in known)


def _answer(event: AddPartitions, error_code: ErrorCode, label: str) -> Decision[TxnRecord]:
    return answered(event, ErrorAnswer(error_code), label)


def _verified(
    event: VerifyPartitions,
    error_code: ErrorCode,
    label: str,
) -> Decision[TxnRecord]:
    return answered(event, VerifyAnswer(error_code), label)
