"""The events that the transaction machine (`TxnMachine`) decides, and its answers.

An event that is answered carries the `request_id` of its answer. A machine draws no ids itself. If
`TxnMachine.wants_producer_id(event)` says that it may need one, the shell claims it and puts it in `new_producer_id`.
None there means that no id was to be had. The machine then answers COORDINATOR_LOAD_IN_PROGRESS where it needs it
(docs/kafka-facts.md, 9). `cluster_transaction_version` is the finalized feature level: it decides how the server itself
aborts (docs/kafka-facts.md, 2.1).
"""

from dataclasses import dataclass

from oncelog.errors import ErrorCode
from oncelog.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Millis,
    Partition,
    ProducerEpoch,
    ProducerId,
    TransactionalId,
)
from oncelog.trace import TransactionTrace
from oncelog_coordinator.core.client import NO_CLIENT, Client
from oncelog_coordinator.core.markers import DecisionKey, MarkersDelivered
from oncelog_coordinator.core.request_origin import RequestOrigin
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """An InitProducerId request: a producer starts, continues after an error, or retries.

    `init_producer_id.request_error` has checked its arguments.
    """

    request_id: int
    transactional_id: TransactionalId
    timeout_ms: Millis
    expected_producer_id: ProducerId = NO_PRODUCER_ID
    expected_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    cluster_transaction_version: int = 2
    new_producer_id: ProducerId | None = None
    origin: RequestOrigin | None = None
    client: Client = NO_CLIENT
    keep_prepared: bool = False
    """True if an open transaction stays, for this producer to end (KIP-939)."""


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn from a client (version 0), or from a partition leader for a TV2 client (version 2)."""

    request_id: int
    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[Partition, ...]
    client_transaction_version: int = 0
    origin: RequestOrigin | None = None
    refused_origin: RequestOrigin | None = None
    """The newest successful request, as an earlier refusal of this request named it (`delayed_by`). The client repeats
    the request now (`core.request_origin`). None: it was not refused."""
    trace: TransactionTrace | None = None
    """The trace for the transaction that this request starts, if it starts one."""
    client: Client = NO_CLIENT

    def with_trace(self, trace: TransactionTrace) -> "AddPartitions":
        """Return a copy of the event with this trace.

        This is three times as fast as `dataclasses.replace`, and each transaction of a traced process needs it.
        """
        return AddPartitions(
            self.request_id,
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.partitions,
            self.client_transaction_version,
            self.origin,
            self.refused_origin,
            trace,
            self.client,
        )


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """The event for a partition leader's question whether a TV1 client has added these partitions to its
    transaction.
    """

    request_id: int
    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class EndTxn:
    request_id: int
    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    commit: bool
    client_transaction_version: int = 0
    new_producer_id: ProducerId | None = None
    origin: RequestOrigin | None = None
    refused_origin: RequestOrigin | None = None
    """The newest successful request, as an earlier refusal of this request named it (`delayed_by`). The client repeats
    the request now (`core.request_origin`). None: it was not refused."""
    refused_addition_origin: RequestOrigin | None = None
    """The newest successful request, as the refusal of an earlier AddPartitionsToTxn of this connection named it. None:
    none was refused."""
    client: Client = NO_CLIENT


@dataclass(frozen=True, slots=True)
class ForceTerminate:
    """An operator's request to end an Ongoing transaction: the producer is fenced and the transaction aborted."""

    request_id: int
    transactional_id: TransactionalId
    cluster_transaction_version: int = 2
    new_producer_id: ProducerId | None = None
    seen_start_timestamp: Millis | None = None
    """The start of the transaction that the operator saw, in milliseconds. None: any open transaction is ended."""


@dataclass(frozen=True, slots=True)
class CompletePrepared:
    """An operator commits or aborts a two-phase transaction in its application's place (KIP-939). Its producer is
    fenced.
    """

    request_id: int
    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    """The transaction's producer epoch, as its application stored it when it prepared. Another transaction is
    refused."""
    commit: bool
    cluster_transaction_version: int = 2
    new_producer_id: ProducerId | None = None


@dataclass(frozen=True, slots=True)
class TxnTimedOut:
    """A timer's event: an Ongoing transaction may have passed its deadline, and is then aborted.

    The wall clock may have been set back. `waited_since` is set once the timer has waited the transaction's whole
    timeout. The transaction that began then is aborted, even if the clock shows an earlier time.
    """

    transactional_id: TransactionalId
    cluster_transaction_version: int = 2
    new_producer_id: ProducerId | None = None
    waited_since: Millis | None = None


@dataclass(frozen=True, slots=True)
class ResendMarkers:
    """A timer's event: markers that could not be delivered some time ago are sent again, as this shard is still
    ours.
    """

    decision_key: DecisionKey


@dataclass(frozen=True, slots=True)
class ExpireIds:
    """A timer's event: remove transactional.ids that were not used for long (docs/kafka-facts.md, 8.9)."""


@dataclass(frozen=True, slots=True)
class DescribeTransaction:
    request_id: int
    transactional_id: TransactionalId


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """A ListTransactions request with its filters. `id_pattern.compile_id_pattern` has checked the pattern."""

    request_id: int
    states: tuple[TxnState, ...] | None = None
    """The states to list; None: every state. An empty tuple matches nothing: only unknown names were given."""
    producer_ids: tuple[ProducerId, ...] = ()
    duration_ms: Millis = Millis(-1)
    transactional_id_pattern: str = ""


TxnEvent = (
    InitProducerId
    | AddPartitions
    | VerifyPartitions
    | EndTxn
    | ForceTerminate
    | CompletePrepared
    | TxnTimedOut
    | MarkersDelivered
    | ResendMarkers
    | ExpireIds
    | DescribeTransaction
    | ListTransactions
)


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """The answer to AddPartitions, ForceTerminate and CompletePrepared: an error code, which is NONE on success."""

    error_code: ErrorCode
    message: str = ""
    delayed_by: RequestOrigin | None = None
    """The newest successful request, if this one is refused because it may be older than that. None: it is not refused
    for that reason (`core.request_origin`)."""
    is_completing: bool = False
    """True: refused until the transaction before is complete. `delayed_by` then names that transaction's end."""


@dataclass(frozen=True, slots=True)
class IdentityAnswer:
    """The answer to InitProducerId and EndTxn: the producer id and epoch that the producer uses from now on.

    They are -1 on an error, and in the answer to a TV1 EndTxn.
    """

    error_code: ErrorCode
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    delayed_by: RequestOrigin | None = None
    ongoing_producer_id: ProducerId = NO_PRODUCER_ID
    ongoing_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    """The epoch of the transaction that InitProducerId kept, beside its producer id; -1/-1: none was open."""


@dataclass(frozen=True, slots=True)
class VerifyAnswer:
    """The answer to VerifyPartitions. `missing` partitions are not in the transaction: each gets TRANSACTION_ABORTABLE
    (docs/kafka-facts.md, 8.5).
    """

    error_code: ErrorCode
    missing: tuple[Partition, ...] = ()
    start_timestamp: Millis = Millis(0)
    """The start of the transaction that was verified, in milliseconds; 0: it was not verified."""


@dataclass(frozen=True, slots=True)
class DescribeAnswer:
    error_code: ErrorCode
    transaction: TxnMetadata | None = None


@dataclass(frozen=True, slots=True)
class ListAnswer:
    transactions: tuple[TxnMetadata, ...]
