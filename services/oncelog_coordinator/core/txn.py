"""The transaction machine: every transactional.id of one `__transaction_state` partition.

`decide` passes each event to the module that knows the answer. `apply` keeps the newest state of each id. `resume`
returns what is to be done after a load: markers of prepared transactions, and a timer for each Ongoing one, which is
left alone until its own timeout (docs/kafka-facts.md, 1.1, rows 2 and 3).

Start with `txn_state`, then `end_txn`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from oncelog.ids import Millis, Offset, ProducerId, TransactionalId
from oncelog.machine import Decision, Effect, SetTimer, answered
from oncelog_coordinator.core import (
    add_partitions,
    completion,
    end_txn,
    fencing,
    init_producer_id,
    timeouts,
    views,
)
from oncelog_coordinator.core.markers import TXN_MACHINE, DecisionKey, MarkersDelivered
from oncelog_coordinator.core.refusals import held_until_confirmed
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    CompletePrepared,
    DescribeTransaction,
    EndTxn,
    ExpireIds,
    ForceTerminate,
    InitProducerId,
    ListTransactions,
    ResendMarkers,
    TxnEvent,
    TxnTimedOut,
    VerifyPartitions,
)
from oncelog_coordinator.core.txn_state import (
    TxnMetadata,
    TxnRecord,
    TxnState,
    TxnTombstone,
    check_transition,
)

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class TxnConfig:
    """The settings that a transaction machine needs, with Kafka's defaults (docs/kafka-facts.md, 10)."""

    transactional_id_expiration_ms: Millis = Millis(7 * DAY_MS)
    expire_interval_ms: Millis = Millis(3_600_000)
    record_bytes_max: int = 900_000
    """The most bytes of a transaction's record. It is below max.message.bytes, so that the batch around the record
    fits."""


class TxnMachine:
    """The state machine of the ordinary transactions of one shard (a partition of `__transaction_state`).

    Its methods are those of `oncelog.machine.Machine`: `decide`, `apply` and `resume`.
    """

    def __init__(self, config: TxnConfig | None = None) -> None:
        self._config = config or TxnConfig()
        self._txns: dict[TransactionalId, TxnMetadata] = {}
        self._of_producer: dict[ProducerId, tuple[TransactionalId, ...]] = {}
        """The transactional.ids of each producer id. It is one id, except in a restored shard; a search for the
        owner must see all."""
        self._decision_numbers: dict[TransactionalId, int] = {}
        self._last_number = 0
        self._is_live = False

    # ------------------------------------------------------------------------------------------------ the contract

    def decide(self, event: TxnEvent, now: Millis) -> Decision[TxnRecord]:
        match event:
            case AddPartitions():
                txn = self._txns.get(event.transactional_id)
                added = add_partitions.decide(txn, event, self._config.record_bytes_max, now)
                return held_until_confirmed(added, txn, event)
            case EndTxn():
                txn = self._txns.get(event.transactional_id)
                key = self._next_key(event.transactional_id)
                return held_until_confirmed(end_txn.decide(txn, event, key, now), txn, event)
            case MarkersDelivered():
                name = TransactionalId(event.decision_key.name)
                is_current = self._is_current(event.decision_key)
                return completion.markers_delivered(self._txns.get(name), is_current, event, now)
            case InitProducerId():
                txn = self._txns.get(event.transactional_id)
                key = self._next_key(event.transactional_id)
                initialised = init_producer_id.decide(txn, event, key, now)
                return held_until_confirmed(initialised, txn, event)
            case VerifyPartitions():
                txn = self._txns.get(event.transactional_id)
                return held_until_confirmed(add_partitions.verify(txn, event), txn, event)
            case TxnTimedOut():
                txn = self._txns.get(event.transactional_id)
                key = self._next_key(event.transactional_id)
                return timeouts.timed_out(txn, event, key, now)
            case ResendMarkers():
                name = TransactionalId(event.decision_key.name)
                is_current = self._is_current(event.decision_key)
                return completion.resend_markers(self._txns.get(name), is_current, event)
            case ForceTerminate():
                txn = self._txns.get(event.transactional_id)
                key = self._next_key(event.transactional_id)
                return timeouts.force_terminate(txn, event, key, now)
            case CompletePrepared():
                txn = self._txns.get(event.transactional_id)
                key = self._next_key(event.transactional_id)
                return timeouts.complete_prepared(txn, event, key, now)
            case _:
                return self._decide_periodic_or_read(event, now)

    def apply(self, offset: Offset, record: TxnRecord) -> None:
        """Store the newest state of a transactional.id.

        Before `resume`, records come from a compacted log, and states may be missing in between. Each decision to
        commit or abort gets a number, by which the report of its markers finds it (`DecisionKey`). It is computed from
        the offset of the record before the decision's, not from its own. So no two decisions ever have the same number,
        even if compaction removes records before a load.
        """
        number = self._last_number + 1 if self._is_live else offset + 1
        self._last_number = offset + 1
        name = record.transactional_id
        if isinstance(record, TxnTombstone):
            known = self._txns.pop(name, None)
            self._index(known, None)
            assert not self._is_live or known is None or known.state.is_idle, (offset, known)
            self._decision_numbers.pop(name, None)
            return
        if self._is_live:
            check_transition(self._txns.get(name), record)
        self._index(self._txns.get(name), record)
        self._txns[name] = record
        if record.state.is_prepared:
            self._decision_numbers[name] = number
        else:
            self._decision_numbers.pop(name, None)

    def resume(self, now: Millis) -> Sequence[Effect]:
        self._is_live = True
        effects: list[Effect] = []
        for name, txn in self._txns.items():
            if txn.state.is_prepared:
                key = DecisionKey(TXN_MACHINE, name, self._decision_numbers[name])
                effects.append(completion.markers_wanted(txn, key))
            elif txn.state is TxnState.ONGOING and txn.has_timeout:
                effects.append(add_partitions.timeout_timer(txn, now))
        interval_ms = self._config.expire_interval_ms
        effects.append(
            SetTimer(timeouts.EXPIRE_TIMER, interval_ms, ExpireIds(), Millis(interval_ms // 10))
        )
        return effects

    # ------------------------------------------------------------------------------------------------ what others ask

    def wants_producer_id(self, event: object) -> bool:
        """True if `decide(event)` may need a fresh producer id in `event.new_producer_id`.

        It is called right before `decide`, without an await in between.
        """
        match event:
            case EndTxn():
                return end_txn.wants_producer_id(self._txns.get(event.transactional_id), event)
            case InitProducerId():
                txn = self._txns.get(event.transactional_id)
                return init_producer_id.wants_producer_id(txn, event)
            case TxnTimedOut() | ForceTerminate() | CompletePrepared():
                txn = self._txns.get(event.transactional_id)
                return fencing.wants_producer_id(txn, event.cluster_transaction_version)
            case _:
                return False

    def knows(self, transactional_id: str) -> bool:
        """True if an ordinary producer has used this transactional.id and it has not expired."""
        return transactional_id in self._txns

    def transaction(self, transactional_id: str) -> TxnMetadata | None:
        return self._txns.get(TransactionalId(transactional_id))

    @property
    def transactions(self) -> Iterable[TxnMetadata]:
        """All transactions, in the order in which their ids were first seen."""
        return self._txns.values()

    def candidates(self, filters: ListTransactions) -> Iterable[TxnMetadata]:
        """Return the transactions that these filters may match; the caller tests each.

        With a filter of producer ids only their transactions are read, not all.
        """
        if not filters.producer_ids:
            return self._txns.values()
        producer_ids = dict.fromkeys(filters.producer_ids)
        return [self._txns[name] for one in producer_ids for name in self._of_producer.get(one, ())]

    # ------------------------------------------------------------------------------------------------

    def _decide_periodic_or_read(
        self, event: ExpireIds | DescribeTransaction | ListTransactions, now: Millis
    ) -> Decision[TxnRecord]:
        match event:
            case ExpireIds():
                config = self._config
                return timeouts.expire_ids(
                    self._txns.values(),
                    config.transactional_id_expiration_ms,
                    config.expire_interval_ms,
                    now,
                )
            case DescribeTransaction():
                described = views.describe(self._txns.get(event.transactional_id))
                return answered(event, described, "described")
            case ListTransactions():
                listed = views.list_transactions(self.candidates(event), event, now)
                return answered(event, listed, "listed")
            case _:
                assert_never(event)

    def _index(self, known: TxnMetadata | None, record: TxnMetadata | None) -> None:
        """Update the index by producer id for one transactional.id; most records change nothing in it."""
        if known is not None and record is not None and known.producer_id == record.producer_id:
            return
        if known is not None:
            others = self._of_producer.pop(known.producer_id)
            others = tuple(name for name in others if name != known.transactional_id)
            if others:
                self._of_producer[known.producer_id] = others
        if record is not None:
            others = self._of_producer.get(record.producer_id, ())
            self._of_producer[record.producer_id] = (*others, record.transactional_id)

    def _next_key(self, transactional_id: TransactionalId) -> DecisionKey:
        """Return the key that names the decision to commit or abort, if the next record applied is one."""
        return DecisionKey(TXN_MACHINE, transactional_id, self._last_number + 1)

    def _is_current(self, key: DecisionKey) -> bool:
        return self._decision_numbers.get(TransactionalId(key.name)) == key.number
