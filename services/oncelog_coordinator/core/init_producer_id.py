"""InitProducerId gives a producer its producer id and epoch, together its identity (docs/kafka-facts.md, 8.3).

- A new producer gets a higher epoch than every earlier one of its transactional.id, which fences them.
- A producer that names its current identity continues after an error, and gets a higher epoch too.
- One that names the identity before the last bump repeats a call whose answer it lost. It gets the same answer again.
- Any other is a zombie, and is refused.

Kafka answers CONCURRENT_TRANSACTIONS while a state change is being written. Here the change is applied already. So a
second caller is bumped again, and the first is fenced. In Kafka the completion of a prepared transaction is always
pending. So here PrepareCommit and PrepareAbort are answered before identity is compared.

With `keep_prepared` (KIP-939) an open transaction is not aborted. The producer is told its own identity, as always, and
that of the open transaction. It compares the latter with what its application stored, and then ends the transaction.
Kafka refuses this with UNSUPPORTED_VERSION to this day; ADR 0043 has our rules.
"""

from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Millis,
    ProducerEpoch,
    ProducerId,
    TransactionalId,
)
from oncelog.machine import CancelTimer, Decision, Reply, answered
from oncelog_coordinator.core import fencing
from oncelog_coordinator.core.completion import timer_name
from oncelog_coordinator.core.markers import DecisionKey
from oncelog_coordinator.core.request_origin import is_copy
from oncelog_coordinator.core.txn_events import IdentityAnswer, InitProducerId
from oncelog_coordinator.core.txn_state import (
    EXHAUSTED_EPOCH,
    TWO_PHASE_TIMEOUT_MS,
    TxnMetadata,
    TxnRecord,
    TxnState,
)

TRANSACTIONAL_ID_BYTES_MAX: Final = 32_767
"""The most bytes of a transactional.id: the length of a Kafka string is an int16."""


def request_error(
    transactional_id: str,
    timeout_ms: int,
    producer_id: int,
    producer_epoch: int,
    *,
    enable_two_phase_commit: bool,
    keep_prepared_transaction: bool,
    two_phase_commit_enabled: bool,
    has_two_phase_commit: bool,
    timeout_max_ms: int,
) -> ErrorCode:
    """Return the error of an InitProducerId request by its arguments alone; NONE: the shard may be asked.

    Its transactional.id is not null. `two_phase_commit_enabled` is the setting. `has_two_phase_commit` says whether the
    cluster's features allow the records of KIP-939 (ADR 0043).
    """
    if not transactional_id or len(transactional_id.encode()) > TRANSACTIONAL_ID_BYTES_MAX:
        return ErrorCode.INVALID_REQUEST
    if (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if enable_two_phase_commit and not two_phase_commit_enabled:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if (keep_prepared_transaction or enable_two_phase_commit) and not has_two_phase_commit:
        return ErrorCode.UNSUPPORTED_VERSION
    if keep_prepared_transaction and producer_id != NO_PRODUCER_ID:
        # It asks who owns the open transaction: a producer that knows goes on with it.
        return ErrorCode.INVALID_REQUEST
    if not enable_two_phase_commit and not 0 < timeout_ms <= timeout_max_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def effective_timeout_ms(timeout_ms: int, *, enable_two_phase_commit: bool) -> Millis:
    """Return the transaction timeout in milliseconds. With two-phase commit (KIP-939) it is one that never ends."""
    return Millis(TWO_PHASE_TIMEOUT_MS if enable_two_phase_commit else timeout_ms)


def wants_producer_id(txn: TxnMetadata | None, event: InitProducerId) -> bool:
    if txn is None:
        return True
    if txn.state.is_idle:
        return _rotates(txn, event)
    if event.keep_prepared and txn.state is TxnState.ONGOING:
        return _next_owner_epoch(txn) is None
    return fencing.wants_producer_id(txn, event.cluster_transaction_version)


def decide(
    txn: TxnMetadata | None, event: InitProducerId, key: DecisionKey, now: Millis
) -> Decision[TxnRecord]:
    if txn is not None and is_copy(txn.origin, event.origin):
        return _copy(txn, event)
    if txn is not None and txn.state.is_prepared:
        return _refuse(event, ErrorCode.CONCURRENT_TRANSACTIONS, "init_while_completing")
    if txn is not None and not _may_be(txn, event):
        return _refuse(event, ErrorCode.PRODUCER_FENCED, "init_fenced")
    if txn is not None and txn.state is TxnState.ONGOING:
        if event.keep_prepared:
            return _keep(txn, event, now)
        refusal = Reply(event.request_id, IdentityAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
        aborted = fencing.fence_and_end(
            txn,
            event.cluster_transaction_version,
            event.new_producer_id,
            key,
            refusal,
            "init_aborts_ongoing",
            now,
        )
        return aborted or _no_producer_id(event)
    if txn is None:
        if event.new_producer_id is None:
            return _no_producer_id(event)
        txn = _unknown(event.transactional_id, event.new_producer_id, now)
    if _rotates(txn, event):
        return _rotate(txn, event, now)
    return _bump(txn, event, now)


def _copy(txn: TxnMetadata, event: InitProducerId) -> Decision[TxnRecord]:
    """Answer a copy of an InitProducerId that a listener sent twice (ADR 0018).

    It gets the same producer id and epoch, as long as the producer has done nothing since; else it is refused. A first
    copy that arrives late must not fence the producer that uses the answer to the second.
    """
    if txn.state is TxnState.EMPTY and txn.origin == event.origin:
        answer = IdentityAnswer(ErrorCode.NONE, txn.producer_id, txn.producer_epoch)
        return answered(event, answer, "init_copy_answered")
    if txn.state is TxnState.ONGOING and txn.is_kept and txn.origin == event.origin:
        return answered(event, _kept_answer(txn), "init_copy_answered")
    refused = IdentityAnswer(ErrorCode.CONCURRENT_TRANSACTIONS, delayed_by=txn.origin)
    return answered(event, refused, "delayed_init_refused")


def _may_be(txn: TxnMetadata, event: InitProducerId) -> bool:
    """True if the caller may be the producer of this transactional.id; else it is fenced.

    It names no identity, or one that the id has or had just before its producer id was replaced. If a transaction is
    open the epoch is not compared, as in Kafka: the request ends it. A two-phase transaction (KIP-939) is ended only by
    its own producer: a predecessor would abort what may be committed elsewhere.
    """
    if event.expected_producer_id == NO_PRODUCER_ID:
        return True
    if txn.state is TxnState.ONGOING and txn.is_two_phase:
        return (event.expected_producer_id, event.expected_producer_epoch) == txn.owner
    return event.expected_producer_id == txn.producer_id or (
        event.expected_producer_id == txn.previous_producer_id
        and event.expected_producer_epoch >= EXHAUSTED_EPOCH
    )


def _rotates(txn: TxnMetadata, event: InitProducerId) -> bool:
    return txn.is_exhausted and (
        event.expected_producer_id == NO_PRODUCER_ID
        or (
            event.expected_producer_epoch == txn.producer_epoch
            and event.expected_producer_id == txn.producer_id
        )
    )


def _rotate(txn: TxnMetadata, event: InitProducerId, now: Millis) -> Decision[TxnRecord]:
    if event.new_producer_id is None:
        return _no_producer_id(event)
    names_itself = event.expected_producer_id != NO_PRODUCER_ID
    return _initialise(
        txn.initialised(
            event.new_producer_id,
            ProducerEpoch(0),
            txn.producer_epoch if names_itself else NO_PRODUCER_EPOCH,
            event.timeout_ms,
            now,
            event.origin,
        ),
        event,
        "producer_id_rotated",
    )


def _bump(txn: TxnMetadata, event: InitProducerId, now: Millis) -> Decision[TxnRecord]:
    stored = txn.producer_epoch
    if event.expected_producer_id == NO_PRODUCER_ID:
        bumped, last = ProducerEpoch(stored + 1), NO_PRODUCER_EPOCH
        label = "initialised"
    elif stored == NO_PRODUCER_EPOCH or (
        event.expected_producer_epoch == stored and event.expected_producer_id == txn.producer_id
    ):
        bumped, last = ProducerEpoch(stored + 1), stored
        label = "epoch_bumped"
    elif event.expected_producer_epoch == txn.last_producer_epoch:
        bumped, last = stored, txn.last_producer_epoch
        label = "init_retry_answered"
    else:
        return _refuse(event, ErrorCode.PRODUCER_FENCED, "init_fenced")
    return _initialise(
        txn.initialised(txn.producer_id, bumped, last, event.timeout_ms, now, event.origin),
        event,
        label,
    )


def _keep(txn: TxnMetadata, event: InitProducerId, now: Millis) -> Decision[TxnRecord]:
    """Keep the open transaction for the producer that starts now (KIP-939), and return its new identity.

    Only this producer may end the transaction. It never times out and takes no more partitions.
    """
    producer_id, epoch = txn.owner[0], _next_owner_epoch(txn)
    if epoch is None:
        if event.new_producer_id is None:
            return _no_producer_id(event)
        producer_id, epoch = event.new_producer_id, ProducerEpoch(0)
    kept = txn.kept(producer_id, epoch, event.timeout_ms, now, event.origin)
    effects = (
        Reply(event.request_id, _kept_answer(kept)),
        CancelTimer(timer_name(txn.transactional_id)),
    )
    return Decision((kept,), effects, "transaction_kept")


def _next_owner_epoch(txn: TxnMetadata) -> ProducerEpoch | None:
    """Return the epoch of the producer that takes a kept transaction over (KIP-939); None: it needs a new producer id.

    The end of the transaction bumps the epoch once more, so that one must still be below the largest.
    """
    epoch = txn.owner[1] + 1
    return ProducerEpoch(epoch) if epoch < EXHAUSTED_EPOCH else None


def _kept_answer(kept: TxnMetadata) -> IdentityAnswer:
    return IdentityAnswer(
        ErrorCode.NONE,
        *kept.owner,
        ongoing_producer_id=kept.producer_id,
        ongoing_producer_epoch=kept.producer_epoch,
    )


def _initialise(initialised: TxnMetadata, event: InitProducerId, label: str) -> Decision[TxnRecord]:
    answer = IdentityAnswer(ErrorCode.NONE, initialised.producer_id, initialised.producer_epoch)
    return Decision((initialised,), (Reply(event.request_id, answer),), label)


def _unknown(
    transactional_id: TransactionalId, producer_id: ProducerId, now: Millis
) -> TxnMetadata:
    """Return the state to start from for a transactional.id that was never used: Empty, before its first epoch.

    It is never stored.
    """
    return TxnMetadata(
        transactional_id,
        producer_id,
        NO_PRODUCER_EPOCH,
        TxnState.EMPTY,
        Millis(0),
        (),
        NO_TIMESTAMP,
        now,
    )


def _refuse(event: InitProducerId, error_code: ErrorCode, label: str) -> Decision[TxnRecord]:
    return answered(event, IdentityAnswer(error_code), label)


def _no_producer_id(event: InitProducerId) -> Decision[TxnRecord]:
    return _refuse(event, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no_producer_id")
