"""The state machine of one `__transaction_state` partition: transactions and Spark sinks side by side in one log.

Events are routed by type, records by the type in their key. The two share no state but the names. A transactional.id
belongs to its first user: a producer is refused a sink's name, and a sink is refused a producer's. Names that oncelog
gives itself (`oncelog.ids.RESERVED_PREFIX`) are refused to every producer.

A branch is the producer of one Spark task. It writes like a TV2 transaction, so a partition leader's AddPartitionsToTxn
for its producer id goes to the sinks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import Millis, Offset, ProducerId, is_reserved_name
from oncelog.machine import Decision, Effect, Reply, answered
from oncelog_coordinator.core import add_partitions, sink_events, views
from oncelog_coordinator.core.add_partitions import Verifiable
from oncelog_coordinator.core.markers import TXN_MACHINE, MarkersDelivered
from oncelog_coordinator.core.sink import SinkEvent, SinkMachine
from oncelog_coordinator.core.sink_limits import DEFAULT_LIMITS, SinkLimits
from oncelog_coordinator.core.sink_records import (
    SinkHeader,
    SinkRecord,
    SinkRecordType,
    Tombstone,
    decode_sink_record,
    encode_sink_record,
)
from oncelog_coordinator.core.txn import TxnConfig, TxnMachine
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    CompletePrepared,
    DescribeTransaction,
    EndTxn,
    ErrorAnswer,
    ExpireIds,
    ForceTerminate,
    IdentityAnswer,
    InitProducerId,
    ListTransactions,
    ResendMarkers,
    TxnEvent,
    TxnTimedOut,
    VerifyPartitions,
)
from oncelog_coordinator.core.txn_records import (
    TXN_RECORD_TYPE,
    decode_record,
    encode_record,
    record_type,
)
from oncelog_coordinator.core.txn_state import (
    TxnMetadata,
    TxnRecord,
    TxnTombstone,
)

ShardEvent = TxnEvent | SinkEvent
ShardRecord = TxnRecord | SinkRecord

_ASKS_A_TRANSACTION: Final = (
    AddPartitions,
    EndTxn,
    InitProducerId,
    VerifyPartitions,
    ForceTerminate,
    CompletePrepared,
    DescribeTransaction,
    ListTransactions,
)
_TXN_ONLY: Final = (TxnTimedOut, ExpireIds, ResendMarkers)


def encode_shard_record(record: ShardRecord, version: int) -> tuple[bytes, bytes | None]:
    """Return key and value of a shard's record. `version` is the one of a transaction's value to write
    (docs/kafka-facts.md, 5.1).
    """
    if isinstance(record, TxnMetadata | TxnTombstone):
        return encode_record(record, version)
    return encode_sink_record(record)


def decode_shard_record(key: bytes, value: bytes | None) -> ShardRecord | None:
    """Return the shard's record of these bytes; None for one of an unknown type or version.

    Raises ValueError or OncelogError for a damaged one.
    """
    if record_type(key) == TXN_RECORD_TYPE:
        return decode_record(key, value)
    return decode_sink_record(key, value)


@dataclass(frozen=True, slots=True)
class ShardConfig:
    txn: TxnConfig = TxnConfig()
    sink: SinkLimits = DEFAULT_LIMITS


class ShardMachine:
    """The state machine of one `__transaction_state` partition. It holds two others, one for transactions and one for
    Spark sinks, and passes each event to the one that it concerns.

    Its methods are those of `oncelog.machine.Machine`: `decide`, `apply` and `resume`.
    """

    def __init__(self, config: ShardConfig | None = None) -> None:
        config = config or ShardConfig()
        self.txn = TxnMachine(config.txn)
        self.sink = SinkMachine(config.sink)
        self._sinks: dict[str, None] = {}

    def decide(self, event: ShardEvent, now: Millis) -> Decision[ShardRecord]:
        if isinstance(event, _ASKS_A_TRANSACTION):
            return self._decide_named(event, now)
        if isinstance(event, MarkersDelivered):
            if event.decision_key.machine == TXN_MACHINE:
                return self.txn.decide(event, now)
            return self.sink.decide(event, now)
        if isinstance(event, _TXN_ONLY):
            return self.txn.decide(event, now)
        return self._decide_sink(event, now)

    def apply(self, offset: Offset, record: ShardRecord) -> None:
        if isinstance(record, TxnMetadata | TxnTombstone):
            self.txn.apply(offset, record)
            return
        if isinstance(record, SinkHeader):
            self._sinks[record.sink] = None
        if isinstance(record, Tombstone) and record.record_type is SinkRecordType.SINK:
            self._sinks.pop(record.sink, None)
        self.sink.apply(offset, record)

    def resume(self, now: Millis) -> Sequence[Effect]:
        return (*self.txn.resume(now), *self.sink.resume(now))

    def verified_since(self, asked: Verifiable) -> Millis | None:
        """Return when the transaction that has these partitions began, in milliseconds.

        None: it does not have them all, or the producer may not write now. `decide` answers the reason.
        """
        txn = self.txn.transaction(asked.transactional_id)
        if txn is None or self.sink.owns_producer(ProducerId(asked.producer_id)):
            return None
        return (
            Millis(max(0, txn.start_timestamp)) if add_partitions.is_verified(txn, asked) else None
        )

    def wants_producer_id(self, event: ShardEvent) -> bool:
        if isinstance(event, sink_events.JoinAttempt):
            return self.sink.wants_producer_id(event)
        return self.txn.wants_producer_id(event)

    @property
    def is_empty(self) -> bool:
        return not self._sinks and not any(True for _ in self.txn.transactions)

    # --------------------------------------------------------------------------------------- ids that sinks may own

    def _decide_named(
        self,
        event: AddPartitions
        | EndTxn
        | InitProducerId
        | VerifyPartitions
        | ForceTerminate
        | CompletePrepared
        | DescribeTransaction
        | ListTransactions,
        now: Millis,
    ) -> Decision[ShardRecord]:
        match event:
            case AddPartitions() | VerifyPartitions():
                if self.sink.owns_producer(event.producer_id):
                    return self.sink.decide(event, now)
            case InitProducerId() | EndTxn():
                if self._is_of_a_sink(event.transactional_id):
                    refused = IdentityAnswer(ErrorCode.INVALID_REQUEST)
                    return answered(event, refused, "id_is_a_sink")
            case ForceTerminate():
                if self._is_of_a_sink(event.transactional_id):
                    return self._terminate_branch(event, now)
            case CompletePrepared():
                if self._is_of_a_sink(event.transactional_id):
                    message = f"{event.transactional_id!r} is a Spark sink: its batch decides"
                    refusal = ErrorAnswer(ErrorCode.INVALID_REQUEST, message)
                    return answered(event, refusal, "id_is_a_sink")
            case DescribeTransaction():
                rows = [
                    row
                    for row in self._branches()
                    if row.transactional_id == event.transactional_id
                ]
                if rows:
                    return answered(event, views.describe(rows[-1]), "described")
            case ListTransactions():
                everything = chain(self.txn.candidates(event), self._branches())
                return answered(event, views.list_transactions(everything, event, now), "listed")
        return self.txn.decide(event, now)

    def _decide_sink(self, event: SinkEvent, now: Millis) -> Decision[ShardRecord]:
        if isinstance(event, sink_events.OpenAttempt | sink_events.JoinAttempt) and self.txn.knows(
            event.sink
        ):
            message = (
                f"transactionalId {event.sink!r} is in use by an ordinary producer; "
                "give the sink a name of its own"
            )
            answer = (
                sink_events.OpenAnswer(ErrorCode.INVALID_REQUEST, message)
                if isinstance(event, sink_events.OpenAttempt)
                else sink_events.JoinAnswer(ErrorCode.INVALID_REQUEST, message)
            )
            return answered(event, answer, "id_is_a_producer")
        return self.sink.decide(event, now)

    def _is_of_a_sink(self, transactional_id: str) -> bool:
        """True for a Spark sink's name, and for every name that only oncelog itself gives."""
        return transactional_id in self._sinks or is_reserved_name(transactional_id)

    def _terminate_branch(self, event: ForceTerminate, now: Millis) -> Decision[ShardRecord]:
        """Abort open attempts (tries to write a Spark micro-batch) for an operator.

        A sink's name aborts all of its attempts. The name of a branch, one task's producer, aborts its whole attempt.
        """
        rows = [
            row
            for row in self.sink.transaction_views()
            if event.transactional_id in (row.transaction.transactional_id, row.sink)
        ]
        if not rows:
            message = f"nothing of {event.transactional_id!r} is open"
            answer = ErrorAnswer(ErrorCode.INVALID_TXN_STATE, message)
            return answered(event, answer, "terminate_refused")
        nonces = tuple(dict.fromkeys(row.nonce for row in rows))
        abort = sink_events.AbortAttempt(event.request_id, rows[0].sink, nonces)
        aborted = self.sink.decide(abort, now)
        effects = tuple(
            replace(one, answer=ErrorAnswer(one.answer.error_code, one.answer.error_message))
            if isinstance(one, Reply)
            else one
            for one in aborted.effects
        )
        return replace(aborted, effects=effects)

    def _branches(self) -> list[TxnMetadata]:
        return [row.transaction for row in self.sink.transaction_views()]
