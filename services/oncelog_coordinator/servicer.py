"""The TransactionCoordinator service: requests become events of a shard's state machine, its answers become responses.

Every method answers with Kafka error codes and raises nothing. The first checks come in Kafka's order
(docs/kafka-facts.md, 8.1): what is wrong with the request itself, then whether the shard is here, then the machine.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar, Concatenate, Final, ParamSpec, TypeVar

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import (
    CONSUMER_OFFSETS_TOPIC,
    Millis,
    Partition,
    ProducerEpoch,
    ProducerId,
    TransactionalId,
    shard_of,
)
from oncelog.rpc import plain
from oncelog.rpc.metadata import MetadataFollower
from oncelog.runtime import DriverStopped
from oncelog_coordinator.core import init_producer_id
from oncelog_coordinator.core.client import Client
from oncelog_coordinator.core.id_pattern import compile_id_pattern
from oncelog_coordinator.core.request_origin import RequestOrigin
from oncelog_coordinator.core.shard_machine import ShardEvent
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    CompletePrepared,
    DescribeAnswer,
    DescribeTransaction,
    EndTxn,
    ErrorAnswer,
    ForceTerminate,
    IdentityAnswer,
    InitProducerId,
    ListAnswer,
    ListTransactions,
    VerifyAnswer,
    VerifyPartitions,
)
from oncelog_coordinator.core.txn_state import TxnMetadata
from oncelog_coordinator.core.views import most_urgent, split_state_filters
from oncelog_coordinator.producer_ids import ProducerIds
from oncelog_coordinator.request_origins import client_of, origins_of, request_number
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.shards import NO_REQUEST, Shards, ShardUnavailable, TransactionTerm
from oncelog_coordinator.sink_servicer import SinkCalls

TRANSACTIONS_PER_CALL_MAX = 1_000
"""The most transactions in one AddPartitionsToTxn of a storage leader, and the most ids in one DescribeTransactions."""

_TV1: Final = 0
"""The protocol of clients that add partitions themselves (docs/kafka-facts.md, 2.1)."""

AnswerT = TypeVar("AnswerT")
P = ParamSpec("P")
_Result = pb.AddPartitionsToTxnResponse.Result


class TransactionCoordinatorServicer(SinkCalls):
    """The service TransactionCoordinator of `coordinator.proto`; its calls for Spark sinks are in `SinkCalls`."""

    direct_methods: ClassVar = {
        "VerifyAtOnce": "verify_at_once",
        "AddPartitionsAtOnce": "add_partitions_at_once",
        "EndTxnAtOnce": "end_txn_at_once",
    }

    def __init__(
        self,
        node_id: int,
        metadata: MetadataFollower,
        shards: Shards,
        producer_ids: ProducerIds,
        settings: CoordinatorSettings,
    ) -> None:
        super().__init__(shards)
        self._node_id = node_id
        self._metadata = metadata
        self._producer_ids = producer_ids
        self._settings = settings
        self._checks_origins = settings.origin_check_enabled

    async def _ask(
        self,
        refused: Callable[[ErrorCode], AnswerT],
        event: Callable[Concatenate[int, TransactionalId, P], ShardEvent],
        transactional_id: TransactionalId,
        /,
        *fields: P.args,
        **named: P.kwargs,
    ) -> AnswerT:
        """Send the id's state machine an event of this class with these fields, and return its answer; without an
        answer, `refused(error code)`. Often `refused` is the answer's class, whose first field is the code.
        """
        try:
            answer: AnswerT = await self._shards.ask(
                transactional_id,
                lambda request_id: event(request_id, transactional_id, *fields, **named),
            )
            return answer
        except (ShardUnavailable, DriverStopped) as unavailable:
            return refused(unavailable.error_code)

    # ------------------------------------------------------------------------------------------------ producers

    async def InitProducerId(
        self, request: pb.InitProducerIdRequest, context: object
    ) -> pb.InitProducerIdResponse:
        if not request.HasField("transactional_id"):
            return self._idempotent_producer()
        settings = self._settings
        error_code = init_producer_id.request_error(
            request.transactional_id,
            request.transaction_timeout_ms,
            request.producer_id,
            request.producer_epoch,
            enable_two_phase_commit=request.enable_two_phase_commit,
            keep_prepared_transaction=request.keep_prepared_transaction,
            two_phase_commit_enabled=settings.two_phase_commit_enabled,
            has_two_phase_commit=self._metadata.image.has_two_phase_commit,
            timeout_max_ms=settings.transaction_max_timeout_ms,
        )
        if error_code is not ErrorCode.NONE:
            return _initialised(IdentityAnswer(error_code))
        timeout_ms = init_producer_id.effective_timeout_ms(
            request.transaction_timeout_ms, enable_two_phase_commit=request.enable_two_phase_commit
        )
        answer = await self._ask(
            IdentityAnswer,
            InitProducerId,
            TransactionalId(request.transactional_id),
            timeout_ms,
            ProducerId(request.producer_id),
            ProducerEpoch(request.producer_epoch),
            origin=origins_of(request, is_enabled=self._checks_origins).origin,
            client=client_of(request),
            keep_prepared=request.keep_prepared_transaction,
        )
        return _initialised(answer)

    def _idempotent_producer(self) -> pb.InitProducerIdResponse:
        """Answer a producer without transactional.id: it gets a producer id at epoch 0, and nothing is stored."""
        claimed = self._producer_ids.claim()
        if claimed is None:
            return _initialised(IdentityAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return _initialised(IdentityAnswer(ErrorCode.NONE, claimed, ProducerEpoch(0)))

    # ------------------------------------------------------------------------------------------------ partitions

    async def AddPartitionsToTxn(
        self, request: pb.AddPartitionsToTxnRequest, context: object
    ) -> pb.AddPartitionsToTxnResponse:
        transactions = request.transactions
        if len(transactions) == 1:
            results = [await self._add_partitions(transactions[0])]
        else:
            results = list(await asyncio.gather(*map(self._add_partitions, transactions)))
        return pb.AddPartitionsToTxnResponse(results=results)

    async def _add_partitions(
        self, transaction: pb.AddPartitionsToTxnRequest.Transaction
    ) -> _Result:
        name = transaction.transactional_id
        if not name:
            return _whole(name, ErrorCode.INVALID_REQUEST)
        partitions = tuple(Partition(p.topic, p.partition) for p in transaction.partitions)
        image = self._metadata.image
        known = [image.partition(partition) is not None for partition in partitions]
        if not all(known):
            # One failed partition fails them all; the others were not attempted (facts 3).
            codes = [
                ErrorCode.OPERATION_NOT_ATTEMPTED
                if is_known
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                for is_known in known
            ]
            return _each(name, zip(partitions, codes, strict=True))
        producer = (
            TransactionalId(name),
            ProducerId(transaction.producer_id),
            ProducerEpoch(transaction.producer_epoch),
        )
        if transaction.verify_only:
            verified = await self._ask(VerifyAnswer, VerifyPartitions, *producer, partitions)
            return _verified(name, verified, partitions)
        version = transaction.client_transaction_version
        origins = origins_of(transaction, is_enabled=self._checks_origins)
        added = await self._ask(
            ErrorAnswer,
            AddPartitions,
            *producer,
            partitions,
            version,
            origins.origin,
            origins.refused_origin,
            client=client_of(transaction),
        )
        if added.error_code is not ErrorCode.NONE:
            return _whole(name, added.error_code, added.delayed_by)
        return _each(name, ((partition, ErrorCode.NONE) for partition in partitions))

    def verify_at_once(self, request: plain.VerifyRequest, context: object) -> Millis | None:
        """Return when the transaction with these partitions began, for a leader in this process; None if this takes a
        wait or is refused. The leader then sends AddPartitionsToTxn, which says what is wrong.
        """
        image = self._metadata.image
        if any(image.partition(partition) is None for partition in request.partitions):
            return None
        return self._shards.verified_at_once(request)

    def add_partitions_at_once(self, request: plain.AddPartitionsRequest, context: object) -> bool:
        """Add the partitions without a wait, for a listener in this process. True: they are added and committed. False:
        nothing was done. The listener then sends AddPartitionsToTxn, which adds them or says what is wrong.
        """
        image = self._metadata.image
        if any(image.partition(partition) is None for partition in request.partitions):
            return False
        origin, client = self._origin_of(request.origin)
        event = AddPartitions(
            NO_REQUEST,
            TransactionalId(request.transactional_id),
            ProducerId(request.producer_id),
            ProducerEpoch(request.producer_epoch),
            tuple(request.partitions),
            _TV1,
            origin,
            client=client,
        )
        return self._shards.ask_at_once(request.transactional_id, event) is not None

    def _origin_of(self, given: plain.RequestOrigin) -> tuple[RequestOrigin | None, Client]:
        is_known = self._checks_origins and given.listener
        origin = RequestOrigin(*given[:3]) if is_known else None
        return origin, Client(given.client_id, given.client_host)

    async def AddOffsetsToTxn(
        self, request: pb.AddOffsetsToTxnRequest, context: object
    ) -> pb.AddOffsetsToTxnResponse:
        """Add the partition of `__consumer_offsets` that keeps the group's offsets to the transaction, always as TV0
        (docs/kafka-facts.md, 2.1).
        """
        if not request.transactional_id:
            return pb.AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
        offsets = self._metadata.image.topics.get(CONSUMER_OFFSETS_TOPIC)
        if offsets is None or not offsets.partitions:
            return pb.AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        partition = Partition(
            CONSUMER_OFFSETS_TOPIC, shard_of(request.group_id, len(offsets.partitions))
        )
        origins = origins_of(request, is_enabled=self._checks_origins)
        answer = await self._ask(
            ErrorAnswer,
            AddPartitions,
            TransactionalId(request.transactional_id),
            ProducerId(request.producer_id),
            ProducerEpoch(request.producer_epoch),
            (partition,),
            0,
            origins.origin,
            origins.refused_origin,
            client=client_of(request),
        )
        return pb.AddOffsetsToTxnResponse(
            error_code=answer.error_code, delayed_by=request_number(answer.delayed_by)
        )

    # ------------------------------------------------------------------------------------------------ end

    async def EndTxn(self, request: pb.EndTxnRequest, context: object) -> pb.EndTxnResponse:
        name = request.transactional_id
        if not name:
            return _ended(IdentityAnswer(ErrorCode.INVALID_REQUEST))
        origins = origins_of(request, is_enabled=self._checks_origins)
        answer = await self._ask(
            IdentityAnswer,
            EndTxn,
            TransactionalId(name),
            ProducerId(request.producer_id),
            ProducerEpoch(request.producer_epoch),
            request.committed,
            request.client_transaction_version,
            origin=origins.origin,
            refused_origin=origins.refused_origin,
            refused_addition_origin=origins.refused_addition_origin,
            client=client_of(request),
        )
        return _ended(answer)

    def end_txn_at_once(self, request: plain.EndTxnRequest, context: object) -> bool:
        """Commit or abort a transaction without a wait, for a listener in this process. Return False if nothing was
        done; the listener must then call EndTxn, which waits.
        """
        origin, client = self._origin_of(request.origin)
        event = EndTxn(
            NO_REQUEST,
            TransactionalId(request.transactional_id),
            ProducerId(request.producer_id),
            ProducerEpoch(request.producer_epoch),
            request.commit,
            _TV1,
            origin=origin,
            client=client,
        )
        return self._shards.ask_at_once(request.transactional_id, event) is not None

    async def ForceTerminateTransaction(
        self, request: pb.ForceTerminateTransactionRequest, context: object
    ) -> pb.ForceTerminateTransactionResponse:
        name = request.transactional_id
        if not name:
            return pb.ForceTerminateTransactionResponse(
                error_code=ErrorCode.INVALID_REQUEST, error_message="transactional_id is empty"
            )
        seen_start = Millis(request.start_time_ms) if request.HasField("start_time_ms") else None
        try:
            answer: ErrorAnswer = await self._shards.ask(
                name,
                lambda request_id: ForceTerminate(
                    request_id, TransactionalId(name), seen_start_timestamp=seen_start
                ),
            )
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.ForceTerminateTransactionResponse(
                error_code=unavailable.error_code, error_message=str(unavailable)
            )
        return pb.ForceTerminateTransactionResponse(
            error_code=answer.error_code, error_message=answer.message
        )

    async def CompletePreparedTransaction(
        self, request: pb.CompletePreparedTransactionRequest, context: object
    ) -> pb.CompletePreparedTransactionResponse:
        name = request.transactional_id
        if not name:
            return pb.CompletePreparedTransactionResponse(
                error_code=ErrorCode.INVALID_REQUEST, error_message="transactional_id is empty"
            )
        try:
            answer: ErrorAnswer = await self._shards.ask(
                name,
                lambda request_id: CompletePrepared(
                    request_id,
                    TransactionalId(name),
                    ProducerId(request.producer_id),
                    ProducerEpoch(request.producer_epoch),
                    request.committed,
                ),
            )
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.CompletePreparedTransactionResponse(
                error_code=unavailable.error_code, error_message=str(unavailable)
            )
        return pb.CompletePreparedTransactionResponse(
            error_code=answer.error_code, error_message=answer.message
        )

    # ------------------------------------------------------------------------------------------------ views

    async def DescribeTransactions(
        self, request: pb.DescribeTransactionsRequest, context: object
    ) -> pb.DescribeTransactionsResponse:
        names = request.transactional_ids[:TRANSACTIONS_PER_CALL_MAX]
        described = await asyncio.gather(*map(self._describe, names))
        refused = [
            pb.TransactionDescription(error_code=ErrorCode.INVALID_REQUEST, transactional_id=name)
            for name in request.transactional_ids[TRANSACTIONS_PER_CALL_MAX:]
        ]
        return pb.DescribeTransactionsResponse(transactions=[*described, *refused])

    async def _describe(self, name: str) -> pb.TransactionDescription:
        answer = DescribeAnswer(ErrorCode.INVALID_REQUEST)
        if name:
            answer = await self._ask(DescribeAnswer, DescribeTransaction, TransactionalId(name))
        term = self._shards.term_of(name)
        if answer.transaction is not None and term is not None:
            txn = answer.transaction
            if txn.state.is_prepared and term.markers is not None:
                txn = replace(txn, partitions=await term.markers.missing(txn))
            return self._description(txn, term)
        return pb.TransactionDescription(error_code=answer.error_code, transactional_id=name)

    async def ListTransactions(
        self, request: pb.ListTransactionsRequest, context: object
    ) -> pb.ListTransactionsResponse:
        states, unknown = split_state_filters(request.state_filters)
        found: list[tuple[TxnMetadata, TransactionTerm]] = []
        try:
            compile_id_pattern(request.transactional_id_pattern)
            for term, driver in self._shards.drivers():
                request_id = driver.request_id()
                event = ListTransactions(
                    request_id,
                    states,
                    tuple(map(ProducerId, request.producer_id_filters)),
                    Millis(request.duration_filter_ms),
                    request.transactional_id_pattern,
                )
                answer: ListAnswer = await driver.ask(event, request_id)
                found += [(txn, term) for txn in answer.transactions]
        except KafkaError as refused:
            return pb.ListTransactionsResponse(
                error_code=refused.error_code,
                error_message=refused.message,
                unknown_state_filters=unknown,
            )
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.ListTransactionsResponse(
                error_code=unavailable.error_code,
                error_message=str(unavailable),
                unknown_state_filters=unknown,
            )
        shown = most_urgent(found, max(request.most_urgent, 0), lambda one: one[0])
        return pb.ListTransactionsResponse(
            transactions=[self._description(txn, term) for txn, term in shown],
            unknown_state_filters=unknown,
            total_count=len(found),
        )

    def _description(self, txn: TxnMetadata, term: TransactionTerm) -> pb.TransactionDescription:
        return pb.TransactionDescription(
            transactional_id=txn.transactional_id,
            state=txn.state.kafka_name,
            transaction_timeout_ms=txn.timeout_ms,
            transaction_start_time_ms=txn.start_timestamp,
            producer_id=txn.producer_id,
            producer_epoch=txn.producer_epoch,
            partitions=[
                types_pb2.TopicPartition(topic=topic, partition=partition)
                for topic, partition in txn.partitions
            ],
            last_update_time_ms=txn.last_update_timestamp,
            shard=term.shard,
            coordinator=self._node_id,
            coordinator_epoch=term.coordinator_epoch,
            client_transaction_version=txn.client_transaction_version,
            trace_id="" if txn.trace is None else f"{txn.trace.trace_id:032x}",
            owner_producer_id=txn.next_producer_id if txn.is_kept else None,
            owner_producer_epoch=txn.next_producer_epoch if txn.is_kept else None,
        )


def _initialised(answer: IdentityAnswer) -> pb.InitProducerIdResponse:
    return pb.InitProducerIdResponse(
        error_code=answer.error_code,
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
        ongoing_producer_id=answer.ongoing_producer_id,
        ongoing_producer_epoch=answer.ongoing_producer_epoch,
    )


def _ended(answer: IdentityAnswer) -> pb.EndTxnResponse:
    return pb.EndTxnResponse(
        error_code=answer.error_code,
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
        delayed_by=request_number(answer.delayed_by),
    )


def _whole(
    transactional_id: str, error_code: ErrorCode, delayed_by: RequestOrigin | None = None
) -> _Result:
    return _Result(
        transactional_id=transactional_id,
        error_code=error_code,
        delayed_by=request_number(delayed_by),
    )


def _each(transactional_id: str, codes: Iterable[tuple[Partition, ErrorCode]]) -> _Result:
    return _Result(
        transactional_id=transactional_id,
        partitions=[
            types_pb2.PartitionError(topic=topic, partition=partition, error_code=error_code)
            for (topic, partition), error_code in codes
        ],
    )


def _verified(
    transactional_id: str, answer: VerifyAnswer, partitions: tuple[Partition, ...]
) -> _Result:
    if answer.error_code is not ErrorCode.NONE:
        return _whole(transactional_id, answer.error_code)
    missing = frozenset(answer.missing)
    codes = (
        ErrorCode.TRANSACTION_ABORTABLE if partition in missing else ErrorCode.NONE
        for partition in partitions
    )
    result = _each(transactional_id, zip(partitions, codes, strict=True))
    result.transaction_start_ms = max(0, answer.start_timestamp)
    return result
