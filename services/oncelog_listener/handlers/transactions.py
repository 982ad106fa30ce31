"""The requests of a producer to its transaction coordinator, and the markers that an operator writes
(docs/kafka-facts.md, 1.3, 1.4, 3).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.errors import ErrorCode, OncelogError, error_code_of
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, INTERNAL_TOPICS
from oncelog.rpc.metadata import GROUP, TRANSACTION
from oncelog.rpc.stubs import (
    GroupCoordinatorStub,
    StorageStub,
    TransactionCoordinatorStub,
)
from oncelog.security.acl import Operation, ResourceType
from oncelog_listener.call import Call, CloseConnection
from oncelog_listener.cluster import (
    PEER_FAILURES,
    ApiError,
    Cluster,
    TopicPartition,
    grouped,
    milliseconds,
)
from oncelog_listener.core.repeating import Repeatable, is_repeated
from oncelog_listener.group_access import transaction_refusal
from oncelog_listener.retry_policy import RetryPolicy, was_sent
from oncelog_listener.shard_calls import TRANSACTION_COORDINATORS, call_shard

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import (
        AddPartitionsToTxnCall,
        EndTxnCall,
        InitProducerIdCall,
        WriteTxnMarkersCall,
    )

_IDENTITY_FROM: Final = 3
_TWO_PHASE_FROM: Final = 6
_TV2_END_FROM: Final = 5
_TV2: Final = 2
_MAY_HAVE_DECIDED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""The errors of EndTxn after which the decision may yet be in the log: its append was not confirmed in time
(docs/kafka-facts.md, 6)."""


async def _ask_any_coordinator(
    cluster: Cluster, forwarded: pb.InitProducerIdRequest
) -> pb.InitProducerIdResponse:
    """Ask any coordinator for the producer id of an idempotent producer. It has no transactional.id, so no certain
    coordinator owns it.

    Raises OncelogError if no coordinator can be reached.
    """
    retries = RetryPolicy(cluster)
    while True:
        image = cluster.image
        owners = dict.fromkeys(
            shard.coordinator
            for (kind, _), shard in image.shards.items()
            if kind == TRANSACTION and shard.coordinator >= 0
        )
        answer = None
        for node_id in owners:
            try:
                answer = await cluster.answer_in_time(
                    cluster.coordinator(node_id).InitProducerId(forwarded)
                )
            except PEER_FAILURES:
                continue
            if not is_repeated(Repeatable.ALWAYS, answer.error_code):
                return answer
        if not await retries.pause(image):
            if answer is None:
                raise OncelogError("no coordinator can be reached")
            return answer


def _init_refusal(
    call: Call, transactional_id: str | None, *, enables_two_phase_commit: bool
) -> ErrorCode:
    """Return the error if ACLs forbid this InitProducerId; NONE: it is allowed. Without a transactional.id the client
    needs WRITE on some topic (KIP-679)."""
    if transactional_id is not None:
        refusal = transaction_refusal(call, Operation.WRITE, transactional_id)
        if not refusal and enables_two_phase_commit:
            refusal = transaction_refusal(call, Operation.TWO_PHASE_COMMIT, transactional_id)
        return refusal
    if call.may_cluster(Operation.IDEMPOTENT_WRITE, is_logged=False):
        return ErrorCode.NONE
    if call.may(Operation.WRITE, ResourceType.TOPIC, None):
        return ErrorCode.NONE
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def init_producer_id(call: InitProducerIdCall) -> kafka.InitProducerIdResponse:
    request = call.request
    is_two_phase = call.version >= _TWO_PHASE_FROM and request.enable2_pc
    refusal = _init_refusal(call, request.transactional_id, enables_two_phase_commit=is_two_phase)
    if refusal:
        return _initialised(call, refusal)
    producer_id = request.producer_id if call.version >= _IDENTITY_FROM else -1
    producer_epoch = request.producer_epoch if call.version >= _IDENTITY_FROM else -1
    if (producer_id == -1) != (producer_epoch == -1):
        return _initialised(call, ErrorCode.INVALID_REQUEST)
    transactional_id = request.transactional_id
    if transactional_id == "":
        return _initialised(call, ErrorCode.INVALID_REQUEST)
    forwarded = pb.InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=milliseconds(request.transaction_timeout),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        enable_two_phase_commit=is_two_phase,
        keep_prepared_transaction=call.version >= _TWO_PHASE_FROM and request.keep_prepared_txn,
        origin=call.origin(transactional_id),
    )
    try:
        if transactional_id is None:
            answer = await _ask_any_coordinator(call.cluster, forwarded)
        else:
            answer = await call_shard(
                call.cluster,
                TRANSACTION_COORDINATORS,
                transactional_id,
                lambda coordinator: coordinator.InitProducerId(forwarded),
                is_wanted=call.is_wanted,
            )
    except PEER_FAILURES:
        return _initialised(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if answer.error_code:
        return _initialised(call, answer.error_code)
    ongoing = answer.ongoing_producer_id, answer.ongoing_producer_epoch
    return _initialised(call, ErrorCode.NONE, answer.producer_id, answer.producer_epoch, ongoing)


def _initialised(
    call: InitProducerIdCall,
    error_code: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    ongoing: tuple[int, int] = (-1, -1),
) -> kafka.InitProducerIdResponse:
    return call.types.InitProducerIdResponse(
        error_code=error_code,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        ongoing_txn_producer_id=ongoing[0],
        ongoing_txn_producer_epoch=ongoing[1],
    )


async def add_partitions_to_txn(call: AddPartitionsToTxnCall) -> kafka.AddPartitionsToTxnResponse:
    request = call.request
    refusal = transaction_refusal(call, Operation.WRITE, request.v3_and_below_transactional_id)
    wanted: dict[TopicPartition, None] = {}
    refused: dict[TopicPartition, int] = {}
    for topic in request.v3_and_below_topics:
        is_writable = not refusal and _is_writable(call, topic.name)
        for partition in topic.partitions:
            key = (topic.name, partition)
            wanted[key] = None
            code = refusal or _refused_partition(call.cluster, key, is_writable=is_writable)
            if code:
                refused[key] = code
            if call.is_turn_over():
                await call.next_turn()
    keys = list(wanted)
    if refused:
        # One that may not be added fails the whole request; the others were not tried (facts 3).
        codes, otherwise = refused, ErrorCode.OPERATION_NOT_ATTEMPTED
    else:
        codes, otherwise = await _add_partitions(call, keys), ErrorCode.UNKNOWN_SERVER_ERROR
    types = call.types
    results: dict[
        str, list[kafka.AddPartitionsToTxnResponseTypes.AddPartitionsToTxnPartitionResult]
    ] = {}
    for name, partition in keys:
        error_code = codes.get((name, partition), otherwise)
        results.setdefault(name, []).append(
            types.AddPartitionsToTxnPartitionResult(
                partition_index=partition, partition_error_code=error_code
            )
        )
        if call.is_turn_over():
            await call.next_turn()
    topics: list[kafka.AddPartitionsToTxnResponseTypes.AddPartitionsToTxnTopicResult] = []
    for name, found in results.items():
        topics.append(
            types.AddPartitionsToTxnTopicResult(name=name, results_by_partition=tuple(found))
        )
        if call.is_turn_over():
            await call.next_turn()
    return types.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=tuple(topics))


def _is_writable(call: Call, topic: str) -> bool:
    return topic not in INTERNAL_TOPICS and call.may(Operation.WRITE, ResourceType.TOPIC, topic)


def _refused_partition(cluster: Cluster, key: TopicPartition, *, is_writable: bool) -> ErrorCode:
    if not is_writable:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = cluster.image.topics.get(key[0])
    if topic is None or not 0 <= key[1] < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


async def _add_partitions(
    call: AddPartitionsToTxnCall, keys: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    request = call.request
    transactional_id = request.v3_and_below_transactional_id
    if not transactional_id:
        return dict.fromkeys(keys, ErrorCode.INVALID_REQUEST)
    forwarded = pb.AddPartitionsToTxnRequest()
    transaction = forwarded.transactions.add(
        transactional_id=transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        origin=call.origin(transactional_id),
    )
    for topic, partition in keys:
        transaction.partitions.add(topic=topic, partition=partition)
        if call.is_turn_over():
            await call.next_turn()
    try:
        answer = await call_shard(
            call.cluster,
            TRANSACTION_COORDINATORS,
            transactional_id,
            lambda coordinator: coordinator.AddPartitionsToTxn(forwarded),
            error_code_of=_first_error,
            is_wanted=call.is_wanted,
        )
    except PEER_FAILURES:
        return dict.fromkeys(keys, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not answer.results:
        return dict.fromkeys(keys, ErrorCode.UNKNOWN_SERVER_ERROR)
    result = answer.results[0]
    if result.HasField("delayed_by"):
        call.note_delayed(transactional_id, result.delayed_by)
    if result.error_code:
        return dict.fromkeys(keys, result.error_code)
    codes = {(one.topic, one.partition): one.error_code for one in result.partitions}
    return {key: codes.get(key, ErrorCode.NONE) for key in keys}


def _first_error(answer: pb.AddPartitionsToTxnResponse) -> int:
    """Return the first error in the answer to an AddPartitionsToTxn, of the whole or of a partition; NONE: there is
    none.

    By it `call_shard` decides whether to send the request again: a coordinator may not know a new topic yet.
    """
    for result in answer.results:
        for code in (result.error_code, *(one.error_code for one in result.partitions)):
            if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED):
                return int(code)
    return ErrorCode.NONE


async def end_txn(call: EndTxnCall) -> kafka.EndTxnResponse:
    request = call.request
    refusal = transaction_refusal(call, Operation.WRITE, request.transactional_id)
    if refusal:
        return _ended(call, refusal)
    if not request.transactional_id:
        return _ended(call, ErrorCode.INVALID_REQUEST)
    forwarded = pb.EndTxnRequest(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        committed=request.committed,
        # The request's version says which protocol the client speaks (facts 2.1).
        client_transaction_version=_TV2 if call.version >= _TV2_END_FROM else 0,
        origin=call.origin(request.transactional_id),
    )
    undecided = 0
    is_last_in_doubt = False

    async def ask(coordinator: TransactionCoordinatorStub) -> pb.EndTxnResponse:
        nonlocal undecided, is_last_in_doubt
        undecided += 1
        try:
            answer = await coordinator.EndTxn(forwarded)
        except PEER_FAILURES as error:
            undecided -= not was_sent(error)
            raise
        is_last_in_doubt = answer.error_code in _MAY_HAVE_DECIDED
        undecided -= not is_last_in_doubt
        return answer

    try:
        answer = await call_shard(
            call.cluster,
            TRANSACTION_COORDINATORS,
            request.transactional_id,
            ask,
            is_wanted=call.is_wanted,
        )
    except PEER_FAILURES:
        return _ended(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if answer.HasField("delayed_by"):
        call.note_delayed(request.transactional_id, answer.delayed_by)
    if answer.error_code:
        earlier = undecided - is_last_in_doubt
        if earlier and not error_code_of(answer.error_code).is_retriable:
            # The repetition was refused, but what it repeated may have decided the transaction, and a successor have
            # begun since. Only a client that knows that it asked twice can make something of this answer.
            raise CloseConnection("EndTxn was repeated, and what became of the first is not known")
        return _ended(call, answer.error_code)
    return _ended(call, ErrorCode.NONE, answer.producer_id, answer.producer_epoch)


def _ended(
    call: EndTxnCall, error_code: int, producer_id: int = -1, producer_epoch: int = -1
) -> kafka.EndTxnResponse:
    return call.types.EndTxnResponse(
        error_code=error_code,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


async def _of_group_shard(
    call: Call,
    shard: int,
    item: types_pb2.TopicPartition,
    ask: Callable[
        [GroupCoordinatorStub, list[types_pb2.TopicPartition]],
        Awaitable[Sequence[types_pb2.PartitionError]],
    ],
) -> types_pb2.PartitionError | ApiError:
    """Ask the coordinator of this partition of `__consumer_offsets`, and return its answer, or an ApiError."""
    found = call.cluster.image.shards.get((GROUP, shard))
    if found is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no group shard {shard}")
    try:
        (answer,) = await ask(call.cluster.group_coordinator(found.coordinator), [item])
    except PEER_FAILURES as error:
        return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
    return answer


async def write_txn_markers(call: WriteTxnMarkersCall) -> kafka.WriteTxnMarkersResponse:
    """Write an operator's markers, which end a hanging transaction (KIP-664). They go to the partition leaders; those
    for `__consumer_offsets` go to the group coordinators (ADR 0015)."""
    codes: list[dict[TopicPartition, int]] = []
    is_allowed = call.may_cluster(Operation.ALTER, is_logged=False) or call.may_cluster(
        Operation.CLUSTER_ACTION
    )
    for marker in call.request.markers:
        items = {
            (topic.name, partition): types_pb2.TopicPartition(topic=topic.name, partition=partition)
            for topic in marker.topics
            for partition in topic.partition_indexes
        }
        refusal = ErrorCode.NONE if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if is_allowed and -1 in (marker.producer_id, marker.producer_epoch):
            refusal = (
                ErrorCode.UNKNOWN_SERVER_ERROR
            )  # Kafka's code, too: no control batch has that identity.
        if refusal:
            codes.append(dict.fromkeys(items, refusal))
            continue

        async def ask(
            storage: StorageStub | GroupCoordinatorStub,
            partitions: list[types_pb2.TopicPartition],
            marker: kafka.WriteTxnMarkersRequestTypes.WritableTxnMarker = marker,
        ) -> Sequence[types_pb2.PartitionError]:
            one = storage_pb2.TxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version if call.version >= 2 else 0,
                partitions=partitions,
            )
            answer = await call.cluster.answer_in_time(
                storage.WriteTxnMarkers(storage_pb2.WriteTxnMarkersRequest(markers=[one]))
            )
            return [found for result in answer.results for found in result.partitions]

        answers = await call.cluster.ask_leaders(
            {key: item for key, item in items.items() if key[0] != CONSUMER_OFFSETS_TOPIC}, ask
        )
        for key, item in items.items():
            if key[0] == CONSUMER_OFFSETS_TOPIC:
                answers[key] = await _of_group_shard(call, key[1], item, ask)
        codes.append({key: answers[key].error_code for key in items})
    types = call.types
    return types.WriteTxnMarkersResponse(
        markers=tuple(
            types.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=tuple(
                    types.WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=tuple(
                            types.WritableTxnMarkerPartitionResult(
                                partition_index=partition,
                                error_code=written[name, partition],
                            )
                            for partition in partitions
                        ),
                    )
                    for name, partitions in grouped(list(written)).items()
                ),
            )
            for marker, written in zip(call.request.markers, codes, strict=True)
        )
    )
