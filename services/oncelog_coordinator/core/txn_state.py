"""The stored state of one transactional.id, and every legal way to change it (docs/kafka-facts.md, 8.2).

```
Empty ──▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit ──▶ Ongoing …
  ▲          └──────▶ PrepareAbort ───▶ CompleteAbort ───▶ Ongoing …
  └── InitProducerId ── Empty, CompleteCommit, CompleteAbort
```

Kafka keeps a `pendingState` beside this state while a record is on its way to the log. We do not: a record is applied
as soon as it is decided. Replies and sends wait until it is committed, and a failed append drops the state machine. So
`PrepareEpochFence` and `Dead`, which in Kafka exist only as pending states, are never stored here either.

A producer that starts again over a prepared transaction gets a new identity beside the transaction's own (KIP-939).
Until the end both are kept: `producer_id` and `producer_epoch` are the transaction's, `next_producer_id` and
`next_producer_epoch` are those of the producer that may end it.

A state is a value: the record of a transition is the new state whole, as in Kafka's log.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from oncelog.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    PRODUCER_EPOCH_MAX,
    Millis,
    Partition,
    ProducerEpoch,
    ProducerId,
    TransactionalId,
)
from oncelog.trace import TransactionTrace
from oncelog_coordinator.core.request_origin import RequestOrigin

EXHAUSTED_EPOCH: Final = PRODUCER_EPOCH_MAX - 1
"""The first producer epoch at which a producer id must be replaced: the last epoch is kept for fencing
(docs/kafka-facts.md, 10).
"""

TWO_PHASE_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of a transaction that is decided from outside and never times out (KIP-939)."""

TV2: Final = 2


class TxnState(IntEnum):
    """The state of a transaction, with Kafka's numbers as they stand in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """The state's name as DescribeTransactions spells it, such as `PrepareCommit`."""
        return KAFKA_NAMES[self]

    @property
    def is_prepared(self) -> bool:
        """True if the commit or abort is decided, but not all markers are delivered."""
        return self is TxnState.PREPARE_COMMIT or self is TxnState.PREPARE_ABORT

    @property
    def is_idle(self) -> bool:
        """True if no transaction is open or being completed."""
        return self in IDLE_STATES


KAFKA_NAMES: Final = {
    TxnState.EMPTY: "Empty",
    TxnState.ONGOING: "Ongoing",
    TxnState.PREPARE_COMMIT: "PrepareCommit",
    TxnState.PREPARE_ABORT: "PrepareAbort",
    TxnState.COMPLETE_COMMIT: "CompleteCommit",
    TxnState.COMPLETE_ABORT: "CompleteAbort",
    TxnState.DEAD: "Dead",
    TxnState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
STATE_OF_NAME: Final = {name: state for state, name in KAFKA_NAMES.items()}
IDLE_STATES: Final = (TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)

VALID_PREVIOUS: Final = {
    TxnState.EMPTY: IDLE_STATES,
    TxnState.ONGOING: (TxnState.ONGOING, *IDLE_STATES),
    TxnState.PREPARE_COMMIT: (TxnState.ONGOING,),
    TxnState.PREPARE_ABORT: (TxnState.ONGOING, *IDLE_STATES),
    TxnState.COMPLETE_COMMIT: (TxnState.PREPARE_COMMIT,),
    TxnState.COMPLETE_ABORT: (TxnState.PREPARE_ABORT,),
}


@dataclass(frozen=True, slots=True)
class TxnMetadata:
    """The state of one transactional.id: its producer id and epoch, and its newest transaction. It is stored as the
    value of a record of `__transaction_state`.
    """

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    state: TxnState
    timeout_ms: Millis
    partitions: tuple[Partition, ...]
    start_timestamp: Millis
    """The start of the transaction in milliseconds; -1 only in Empty. After completion it is still the last
    transaction's."""
    last_update_timestamp: Millis
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    """The producer id before the last transition; it differs from the current one only across a rotation."""
    next_producer_id: ProducerId = NO_PRODUCER_ID
    """The producer id that takes over at completion: this one's epochs are exhausted, or the transaction was kept
    for a new producer."""
    client_transaction_version: int = 0
    """The version of the client's protocol, which decides how strictly leaders check the markers' epoch."""
    last_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    """The epoch before the last bump, by which a retry is recognised. A record of version 0 has no place for it."""
    origin: RequestOrigin | None = None
    """The origin of the producer's newest successful request. A new epoch has only that of the InitProducerId that
    made it (ADR 0018)."""
    trace: TransactionTrace | None = None
    """The trace of the newest transaction, if its coordinator records traces (ADR 0028)."""
    next_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    """The epoch that belongs to `next_producer_id`, if the transaction was kept for a new producer (KIP-939); -1
    otherwise."""

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= EXHAUSTED_EPOCH

    @property
    def is_kept(self) -> bool:
        """True if the transaction was kept for a producer that started anew, which may only commit or abort it
        (KIP-939).
        """
        return self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def is_two_phase(self) -> bool:
        """True if the application decides the outcome outside of Kafka, as part of a two-phase commit (KIP-939).

        Such a transaction may be prepared, and never times out.
        """
        return self.timeout_ms == TWO_PHASE_TIMEOUT_MS or self.is_kept

    @property
    def has_timeout(self) -> bool:
        return not self.is_two_phase

    @property
    def owner(self) -> tuple[ProducerId, ProducerEpoch]:
        """The producer id and epoch of the producer that may end the open transaction."""
        if self.is_kept:
            return self.next_producer_id, self.next_producer_epoch
        return self.producer_id, self.producer_epoch

    @property
    def deadline(self) -> Millis:
        """The time in milliseconds after which the transaction may be aborted, but not yet at it (docs/kafka-facts.md,
        8.9).
        """
        return Millis(self.start_timestamp + self.timeout_ms)

    def initialised(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        last_producer_epoch: ProducerEpoch,
        timeout_ms: Millis,
        now: Millis,
        origin: RequestOrigin | None = None,
    ) -> "TxnMetadata":
        """Return the state after InitProducerId: Empty, with the producer id and epoch that the producer is given."""
        return TxnMetadata(
            self.transactional_id,
            producer_id,
            producer_epoch,
            TxnState.EMPTY,
            timeout_ms,
            (),
            NO_TIMESTAMP,
            now,
            self.producer_id,
            NO_PRODUCER_ID,
            self.client_transaction_version,
            last_producer_epoch,
            origin,
        )

    def with_partitions(
        self,
        added: tuple[Partition, ...],
        client_transaction_version: int,
        now: Millis,
        origin: RequestOrigin | None = None,
        trace: TransactionTrace | None = None,
    ) -> "TxnMetadata":
        """Return the state Ongoing with these partitions as well. The first ones start the transaction."""
        assert not self.is_kept, self
        is_new = self.state is not TxnState.ONGOING
        return TxnMetadata(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            TxnState.ONGOING,
            self.timeout_ms,
            added if is_new else self.partitions + added,
            now if is_new else self.start_timestamp,
            now,
            self.producer_id,
            self.next_producer_id,
            client_transaction_version,
            self.last_producer_epoch,
            origin or self.origin,
            trace if is_new else self.trace,
        )

    def kept(
        self,
        next_producer_id: ProducerId,
        next_producer_epoch: ProducerEpoch,
        timeout_ms: Millis,
        now: Millis,
        origin: RequestOrigin | None,
    ) -> "TxnMetadata":
        """Return the state Ongoing, kept for a new producer with this id and epoch, which may only end it (KIP-939)."""
        return replace(
            self,
            next_producer_id=next_producer_id,
            next_producer_epoch=next_producer_epoch,
            previous_producer_id=self.producer_id,
            timeout_ms=timeout_ms,
            last_update_timestamp=now,
            origin=origin,
        )

    def prepared(
        self,
        state: TxnState,
        producer_epoch: ProducerEpoch,
        last_producer_epoch: ProducerEpoch,
        next_producer_id: ProducerId,
        transaction_version: int,
        now: Millis,
        origin: RequestOrigin | None = None,
        next_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    ) -> "TxnMetadata":
        """Return the state PrepareCommit or PrepareAbort, which is the decision.

        An abort without an open transaction (TV2) gets `now` as its start: completion needs one. If the producer did
        not ask for the end, it is fenced. The stored origin (connection and number) of its newest request is then
        dropped: late copies of its requests can no longer do harm.
        """
        has_request = origin is not None or producer_epoch == self.producer_epoch
        return TxnMetadata(
            self.transactional_id,
            self.producer_id,
            producer_epoch,
            state,
            self.timeout_ms,
            self.partitions,
            self.start_timestamp if self.state is TxnState.ONGOING else now,
            now,
            self.producer_id,
            next_producer_id,
            transaction_version,
            last_producer_epoch,
            origin or self.origin if has_request else None,
            self.trace if self.state is TxnState.ONGOING else None,
            next_producer_epoch,
        )

    def completed(self, now: Millis) -> "TxnMetadata":
        """Return the state CompleteCommit or CompleteAbort: every marker is written.

        If a successor producer id was chosen, it takes over at epoch 0 (docs/kafka-facts.md, 8.7). A producer for which
        the transaction was kept (KIP-939) continues with its own id and epoch.
        """
        return TxnMetadata(
            self.transactional_id,
            *next_identity(self),
            TxnState.COMPLETE_COMMIT
            if self.state is TxnState.PREPARE_COMMIT
            else TxnState.COMPLETE_ABORT,
            self.timeout_ms,
            (),
            self.start_timestamp,
            now,
            self.producer_id,
            NO_PRODUCER_ID,
            self.client_transaction_version,
            self.last_producer_epoch,
            self.origin,
            self.trace,
        )


@dataclass(frozen=True, slots=True)
class TxnTombstone:
    """A record with a null value: the transactional.id has expired, and its state is removed."""

    transactional_id: TransactionalId


TxnRecord = TxnMetadata | TxnTombstone


def next_identity(prepared: TxnMetadata) -> tuple[ProducerId, ProducerEpoch]:
    """Return the producer id and epoch that the producer uses once this prepared transaction is complete.

    TV2's EndTxn returns them at once.
    """
    if prepared.is_kept:
        return prepared.next_producer_id, prepared.next_producer_epoch
    if prepared.client_transaction_version >= TV2 and prepared.next_producer_id != NO_PRODUCER_ID:
        return prepared.next_producer_id, ProducerEpoch(0)
    return prepared.producer_id, prepared.producer_epoch


def check_transition(old: TxnMetadata | None, new: TxnMetadata) -> None:
    """Assert that the new state of a transactional.id may follow the old one (docs/kafka-facts.md, 8.2).

    A violation is our bug, never a client's.
    """
    if old is None:
        assert new.state is TxnState.EMPTY, ("first record", new)
        return
    is_complete = new.state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
    if is_complete and new.state is old.state and new == replace(old, origin=new.origin):
        return  # A repeated EndTxn has it written once more, perhaps from another connection.
    assert old.state in VALID_PREVIOUS[new.state], (old, new)
    assert new.previous_producer_id == old.producer_id, (old, new)
    if new.state is TxnState.EMPTY:
        assert not new.partitions, (old, new)
        assert new.start_timestamp == NO_TIMESTAMP, (old, new)
        if new.producer_id == old.producer_id:
            assert new.producer_epoch - old.producer_epoch in (0, 1), (old, new)
        else:
            assert new.producer_epoch == 0, (old, new)
        return
    is_being_kept = new.state is TxnState.ONGOING and new.is_kept
    assert new.timeout_ms == old.timeout_ms or is_being_kept, (old, new)
    assert new.start_timestamp != NO_TIMESTAMP, (old, new)
    if new.state is TxnState.ONGOING:
        assert new.producer_id == old.producer_id, (old, new)
        assert new.producer_epoch == old.producer_epoch, (old, new)
        assert new.partitions[: len(old.partitions)] == old.partitions, (old, new)
        if is_being_kept:
            assert old.state is TxnState.ONGOING, (old, new)
            assert new.partitions == old.partitions, (old, new)
            assert new.owner != old.owner, (old, new)
        else:
            assert not old.is_kept or old.state.is_idle, (old, new)
    elif new.state.is_prepared:
        assert new.producer_id == old.producer_id, (old, new)
        assert new.producer_epoch - old.producer_epoch in (0, 1), (old, new)
        assert new.partitions == old.partitions, (old, new)
        assert new.is_kept == (old.is_kept and old.state is TxnState.ONGOING), (old, new)
    else:
        assert not new.partitions, (old, new)
        assert new.start_timestamp == old.start_timestamp, (old, new)
        assert (new.producer_id, new.producer_epoch) == next_identity(old), (old, new)
        assert not new.is_kept, (old, new)
