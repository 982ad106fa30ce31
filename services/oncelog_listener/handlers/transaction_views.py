"""DescribeProducers, DescribeTransactions and ListTransactions, by which operators read transactions (KIP-664;
docs/kafka-facts.md, 1.4, 3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.errors import ErrorCode
from oncelog.rpc.metadata import TRANSACTION
from oncelog.security.acl import Operation, ResourceType
from oncelog_listener.brokers import listed_here
from oncelog_listener.cluster import (
    PEER_FAILURES,
    ApiError,
    grouped,
    wire_time,
)
from oncelog_listener.core.topic_names import is_legal_topic_name
from oncelog_listener.group_access import may_transaction, transaction_refusal
from oncelog_listener.handlers.groups import code_of
from oncelog_listener.topic_access import take_refused

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import (
        DescribeProducersCall,
        DescribeTransactionsCall,
        ListTransactionsCall,
    )

_ILLEGAL_NAME: Final = ApiError(
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    "a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-', and is not '.' or '..'",
)


async def describe_producers(call: DescribeProducersCall) -> kafka.DescribeProducersResponse:
    items = {
        (topic.name, partition): types_pb2.TopicPartition(topic=topic.name, partition=partition)
        for topic in call.request.topics
        for partition in topic.partition_indexes
    }
    illegal = {key: _ILLEGAL_NAME for key in items if not is_legal_topic_name(key[0])}
    for key in illegal:
        del items[key]
    refused = take_refused(call, Operation.READ, items)
    answers = (
        illegal
        | refused
        | await call.cluster.rows_of_leaders(
            items,
            lambda storage: storage.DescribeProducers,
            lambda partitions: storage_pb2.DescribeProducersRequest(partitions=partitions),
        )
    )
    types = call.types
    return types.DescribeProducersResponse(
        topics=tuple(
            types.TopicResponse(
                name=topic.name,
                partitions=tuple(
                    _producers(types, partition, answers[topic.name, partition])
                    for partition in topic.partition_indexes
                ),
            )
            for topic in call.request.topics
        ),
    )


def _producers(
    types: kafka.DescribeProducersResponseTypes,
    partition: int,
    answer: storage_pb2.PartitionProducers | ApiError,
) -> kafka.DescribeProducersResponseTypes.PartitionResponse:
    found = () if isinstance(answer, ApiError) else answer.producers
    return types.PartitionResponse(
        partition_index=partition,
        error_code=answer.error_code,
        error_message=answer.error_message or None,
        active_producers=tuple(
            types.ProducerState(
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.last_timestamp_ms,
                coordinator_epoch=one.coordinator_epoch,
                current_txn_start_offset=one.current_txn_start_offset,
            )
            for one in found
        ),
    )


async def describe_transactions(
    call: DescribeTransactionsCall,
) -> kafka.DescribeTransactionsResponse:
    """Answer DescribeTransactions: each id's transaction, from the coordinator that owns it. Every coordinator gets one
    call."""
    image = call.cluster.image
    ids = list(dict.fromkeys(call.request.transactional_ids))
    described: dict[str, pb.TransactionDescription | ErrorCode] = {}
    by_coordinator: dict[int, list[str]] = {}
    for transactional_id in ids:
        shard = image.shard_for(TRANSACTION, transactional_id)
        refusal = transaction_refusal(call, Operation.DESCRIBE, transactional_id)
        if refusal:
            described[transactional_id] = refusal
        elif not transactional_id:
            described[transactional_id] = ErrorCode.INVALID_REQUEST
        elif shard is None or shard.coordinator < 0:
            described[transactional_id] = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            by_coordinator.setdefault(shard.coordinator, []).append(transactional_id)
    for node_id, names in by_coordinator.items():
        try:
            answer = await call.cluster.answer_in_time(
                call.cluster.coordinator(node_id).DescribeTransactions(
                    pb.DescribeTransactionsRequest(transactional_ids=names)
                )
            )
        except PEER_FAILURES:
            described.update(dict.fromkeys(names, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            continue
        described.update((one.transactional_id, one) for one in answer.transactions)
    return call.types.DescribeTransactionsResponse(
        transaction_states=tuple(
            _state(
                call,
                transactional_id,
                described.get(transactional_id, ErrorCode.UNKNOWN_SERVER_ERROR),
            )
            for transactional_id in ids
        ),
    )


def _state(
    call: DescribeTransactionsCall,
    transactional_id: str,
    found: pb.TransactionDescription | ErrorCode,
) -> kafka.DescribeTransactionsResponseTypes.TransactionState:
    types = call.types
    if isinstance(found, ErrorCode) or found.error_code:
        return types.TransactionState(
            error_code=code_of(found),
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout=timedelta(0),
            transaction_start_time=wire_time(0),
            producer_id=0,
            producer_epoch=0,
            topics=(),
        )
    partitions = [(one.topic, one.partition) for one in found.partitions]
    return types.TransactionState(
        error_code=0,
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout=timedelta(milliseconds=found.transaction_timeout_ms),
        transaction_start_time=wire_time(found.transaction_start_time_ms),
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=tuple(
            types.TopicData(topic=topic, partitions=tuple(numbers))
            for topic, numbers in grouped(partitions).items()
            if call.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, is_logged=False)
        ),
    )


async def list_transactions(call: ListTransactionsCall) -> kafka.ListTransactionsResponse:
    """Answer ListTransactions with those transactions, of all coordinators, whose ids hash to this listener. The client
    asks every broker and joins the answers."""
    request = call.request
    image = call.cluster.image
    forwarded = pb.ListTransactionsRequest(
        state_filters=request.state_filters,
        producer_id_filters=request.producer_id_filters,
        duration_filter_ms=request.duration_filter if call.version >= 1 else -1,
        transactional_id_pattern=(request.transactional_id_pattern or "")
        if call.version >= 2
        else "",
    )
    shards = [shard for (kind, _), shard in image.shards.items() if kind == TRANSACTION]
    if any(shard.coordinator < 0 for shard in shards):
        return _listed(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    found: list[pb.TransactionDescription] = []
    unknown: dict[str, None] = {}
    for node_id in sorted({shard.coordinator for shard in shards}):
        try:
            answer = await call.cluster.answer_in_time(
                call.cluster.coordinator(node_id).ListTransactions(forwarded)
            )
        except PEER_FAILURES:
            return _listed(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if answer.error_code:
            return _listed(call, answer.error_code)
        unknown.update(dict.fromkeys(answer.unknown_state_filters))
        found.extend(answer.transactions)
    is_own = listed_here(call)
    own = [
        one
        for one in found
        if is_own(one.transactional_id)
        and may_transaction(call, Operation.DESCRIBE, one.transactional_id, is_logged=False)
    ]
    return _listed(call, ErrorCode.NONE, tuple(unknown), own)


def _listed(
    call: ListTransactionsCall,
    error_code: int,
    unknown: tuple[str, ...] = (),
    found: Sequence[pb.TransactionDescription] = (),
) -> kafka.ListTransactionsResponse:
    types = call.types
    return types.ListTransactionsResponse(
        error_code=error_code,
        unknown_state_filters=unknown,
        transaction_states=tuple(
            types.TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state,
            )
            for one in found
        ),
    )
