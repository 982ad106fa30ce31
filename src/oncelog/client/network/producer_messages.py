"""The producer's calls as Kafka's messages, and their answers as values of the core."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from oncelog.client.core.accumulator import Drained
from oncelog.client.core.addresses import Address
from oncelog.client.core.cluster_view import Leader, Node
from oncelog.client.core.produce_answers import PartitionAnswer
from oncelog.client.core.producer_batch import ProducerBatch
from oncelog.client.core.producer_settings import ProducerSettings
from oncelog.client.core.sequences import Identity
from oncelog.client.core.spoken import BY_NAME_MAX, TV1_MAX
from oncelog.client.core.transaction_calls import (
    AddOffsets,
    AddPartitions,
    Answer,
    Call,
    CommitOffsets,
    EndTxn,
    InitProducerId,
)
from oncelog.client.errors import UnsupportedError
from oncelog.client.network.brokers import GROUP, TRANSACTION, Brokers
from oncelog.errors import ErrorCode, error_code_of
from oncelog.ids import Partition
from oncelog.protocol import versions
from oncelog.protocol.messages import Schema

_TWO_PHASE_FROM: Final = 6
"""InitProducerId's first version with two-phase commit (KIP-939)."""

API_OF: Final[Mapping[type, int]] = {
    InitProducerId: versions.INIT_PRODUCER_ID,
    AddPartitions: versions.ADD_PARTITIONS_TO_TXN,
    AddOffsets: versions.ADD_OFFSETS_TO_TXN,
    CommitOffsets: versions.TXN_OFFSET_COMMIT,
    EndTxn: versions.END_TXN,
}


def has_ids(request: Drained) -> bool:
    return all(batch.topic_id for batch in request.batches)


def produce_request(schema: Schema, settings: ProducerSettings, request: Drained) -> Any:
    types = schema.request_types
    is_by_name = schema.version <= BY_NAME_MAX[versions.PRODUCE]
    topics: dict[tuple[str, bytes], list[Any]] = {}
    for batch in request.batches:
        assert batch.records is not None
        # Copied: the batch may be given up, and its memory used otherwise, before the bytes have left.
        data = types.PartitionProduceData(
            index=batch.partition.partition, records=bytes(batch.records)
        )
        topics.setdefault((batch.partition.topic, batch.topic_id), []).append(data)
    return types.ProduceRequest(
        transactional_id=settings.transactional_id,
        acks=settings.acks,
        timeout=timedelta(milliseconds=settings.request_timeout_ms),
        topic_data=tuple(
            types.TopicProduceData(
                **({"name": name} if is_by_name else {"topic_id": UUID(bytes=topic_id)}),
                partition_data=tuple(data),
            )
            for (name, topic_id), data in topics.items()
        ),
    )


def produce_answers(
    response: Any, batches: Sequence[ProducerBatch]
) -> list[tuple[ProducerBatch, PartitionAnswer]]:
    """Return the answer to each batch.
    One that the response leaves out gets NETWORK_EXCEPTION: its outcome is unknown."""
    found: dict[Partition, PartitionAnswer] = {}
    names = _names(batches)
    for topic in response.responses:
        for one in topic.partition_responses:
            found[Partition(_name(topic, names), one.index)] = _partition_answer(one)
    nothing = PartitionAnswer(ErrorCode.NETWORK_EXCEPTION, message="the answer leaves it out")
    return [(batch, found.get(batch.partition, nothing)) for batch in batches]


def _names(batches: Iterable[ProducerBatch]) -> dict[bytes, str]:
    """Return topic id → name, for the topics of the batches."""
    return {batch.topic_id: batch.partition.topic for batch in batches if batch.topic_id}


def _name(topic: Any, names: Mapping[bytes, str]) -> str:
    """Return the name of a topic in an answer, which has its name or its id."""
    name: str | None = getattr(topic, "name", None)
    if name is not None:
        return name
    return names.get(topic.topic_id.bytes, "") if topic.topic_id is not None else ""


def new_leaders(
    response: Any, batches: Iterable[ProducerBatch]
) -> list[tuple[Partition, Leader, Node | None]]:
    """Return the leaders that the answer names (KIP-951)."""
    names = _names(batches)
    told: list[tuple[Partition, Leader, Node | None]] = []
    nodes = {
        one.node_id: Node(one.node_id, Address(one.host, one.port), one.rack)
        for one in getattr(response, "node_endpoints", ())
    }
    for topic in response.responses:
        for one in topic.partition_responses:
            leader = getattr(one, "current_leader", None)
            if leader is not None and leader.leader_id >= 0:
                partition = Partition(_name(topic, names), one.index)
                told.append(
                    (
                        partition,
                        Leader(leader.leader_id, leader.leader_epoch),
                        nodes.get(leader.leader_id),
                    )
                )
    return told


def _partition_answer(one: Any) -> PartitionAnswer:
    appended = one.log_append_time
    return PartitionAnswer(
        error_code_of(one.error_code.value),
        one.base_offset,
        -1 if appended is None else int(appended.timestamp() * 1000),
        one.log_start_offset,
        one.error_message or "",
        tuple(
            (record.batch_index, record.batch_index_error_message or "")
            for record in one.record_errors
        ),
    )


async def ask(brokers: Brokers, settings: ProducerSettings, call: Call, is_tv2: bool) -> Answer:
    """Send a call to its coordinator, or to any broker, and return the answer.
    Raises as `Brokers.call_coordinator` does."""
    api_key = API_OF[type(call)]
    at_most = None if is_tv2 else TV1_MAX.get(api_key)

    def build(types: Any) -> Any:
        return _request(types, settings, call)

    if settings.transactional_id is None:
        response = await brokers.call_any(api_key, build, at_most=at_most)
    elif isinstance(call, CommitOffsets):
        response = await brokers.call_coordinator(
            GROUP, call.member.group_id, api_key, build, at_most=at_most
        )
    else:
        response = await brokers.call_coordinator(
            TRANSACTION, settings.transactional_id, api_key, build, at_most=at_most
        )
    return _answer(call, response)


def forget_coordinator(brokers: Brokers, settings: ProducerSettings, call: Call) -> None:
    """Forget the coordinator of this call, which said that it is the coordinator no more."""
    if isinstance(call, CommitOffsets):
        brokers.forget_coordinator(GROUP, call.member.group_id)
    elif settings.transactional_id is not None:
        brokers.forget_coordinator(TRANSACTION, settings.transactional_id)


def _request(types: Any, settings: ProducerSettings, call: Call) -> Any:
    who = {"transactional_id": settings.transactional_id}
    match call:
        case InitProducerId(known, keep_prepared):
            return types.InitProducerIdRequest(
                **who,
                transaction_timeout=timedelta(milliseconds=settings.transaction_timeout_ms),
                producer_id=known.producer_id,
                producer_epoch=known.producer_epoch,
                **_two_phase(types, settings, keep_prepared),
            )
        case AddPartitions(identity, partitions):
            topics: dict[str, list[int]] = {}
            for partition in partitions:
                topics.setdefault(partition.topic, []).append(partition.partition)
            return types.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=settings.transactional_id,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.producer_epoch,
                v3_and_below_topics=tuple(
                    types.AddPartitionsToTxnTopic(name=name, partitions=tuple(numbers))
                    for name, numbers in topics.items()
                ),
            )
        case AddOffsets(identity, member):
            return types.AddOffsetsToTxnRequest(
                **who,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                group_id=member.group_id,
            )
        case CommitOffsets():
            return _offsets_request(types, who, call)
        case EndTxn(identity, is_commit):
            return types.EndTxnRequest(
                **who,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                committed=is_commit,
            )


def _two_phase(types: Any, settings: ProducerSettings, keep_prepared: bool) -> dict[str, bool]:
    """Return InitProducerId's fields of two-phase commit.
    Raises UnsupportedError where the broker does not know them."""
    enabled = settings.transaction_two_phase_commit_enable
    if not (enabled or keep_prepared):
        return {}
    if types.version < _TWO_PHASE_FROM:
        raise UnsupportedError(
            "this broker has no two-phase commit: it serves InitProducerId up to version "
            f"{types.version}, and KIP-939 came with {_TWO_PHASE_FROM}"
        )
    return {"enable2_pc": enabled, "keep_prepared_txn": keep_prepared}


def _offsets_request(types: Any, who: Mapping[str, str | None], call: CommitOffsets) -> Any:
    topics: dict[str, list[Any]] = {}
    for partition, offset in call.offsets.items():
        one = types.TxnOffsetCommitRequestPartition(
            partition_index=partition.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            committed_metadata=offset.metadata,
        )
        topics.setdefault(partition.topic, []).append(one)
    return types.TxnOffsetCommitRequest(
        **who,
        group_id=call.member.group_id,
        producer_id=call.identity.producer_id,
        producer_epoch=call.identity.producer_epoch,
        generation_id=call.member.generation,
        member_id=call.member.member_id,
        group_instance_id=call.member.instance_id,
        topics=tuple(
            types.TxnOffsetCommitRequestTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )


def _answer(call: Call, response: Any) -> Answer:
    match call:
        case InitProducerId() | EndTxn():
            identity = None
            producer_id = getattr(response, "producer_id", -1)
            if producer_id >= 0:
                identity = Identity(producer_id, response.producer_epoch)
            kept = None
            if getattr(response, "ongoing_txn_producer_id", -1) >= 0:
                kept = Identity(
                    response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
                )
            return Answer(error_code_of(response.error_code.value), identity=identity, kept=kept)
        case AddOffsets():
            return Answer(error_code_of(response.error_code.value))
        case AddPartitions():
            return _of_partitions(
                (Partition(topic.name, one.partition_index), one.partition_error_code.value)
                for topic in response.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            )
        case CommitOffsets():
            return _of_partitions(
                (Partition(topic.name, one.partition_index), one.error_code.value)
                for topic in response.topics
                for one in topic.partitions
            )


def _of_partitions(codes: Iterable[tuple[Partition, int]]) -> Answer:
    """Return the answer for these partitions. A retriable code is the whole answer's, unless another code is final."""
    refused = [(partition, error_code_of(code)) for partition, code in codes if code]
    final = [one for one in refused if not one[1].is_retriable]
    if final:
        return Answer(
            final[0][1], refused=tuple(sorted(refused, key=lambda one: one[1].is_retriable))
        )
    return Answer(refused[0][1]) if refused else Answer(ErrorCode.NONE)
