"""Kafka's messages for a producer: calls of its pure part (`core/`) are encoded here, and the answers decoded to its
values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
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
from oncelog.client.network.brokers import GROUP, TRANSACTION, Brokers, Build
from oncelog.errors import ErrorCode, error_code_of
from oncelog.ids import Partition
from oncelog.protocol import versions

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

_TWO_PHASE_FROM: Final = 6
"""InitProducerId's first version with two-phase commit (KIP-939)."""

TypesT = TypeVar("TypesT")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


def has_ids(request: Drained) -> bool:
    return all(batch.topic_id for batch in request.batches)


def produce_request(
    types: kafka.ProduceRequestTypes, settings: ProducerSettings, request: Drained
) -> kafka.ProduceRequest:
    is_by_name = types.version <= BY_NAME_MAX[versions.PRODUCE]
    topics: dict[tuple[str, bytes], list[kafka.ProduceRequestTypes.PartitionProduceData]] = {}
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
            types.TopicProduceData(name=name, partition_data=tuple(data))
            if is_by_name
            else types.TopicProduceData(topic_id=UUID(bytes=topic_id), partition_data=tuple(data))
            for (name, topic_id), data in topics.items()
        ),
    )


def produce_answers(
    response: kafka.ProduceResponse, batches: Sequence[ProducerBatch]
) -> list[tuple[ProducerBatch, PartitionAnswer]]:
    """Return each batch with its part of the Produce answer. A batch that the answer leaves out gets NETWORK_EXCEPTION:
    its outcome is unknown."""
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


def _name(
    topic: kafka.ProduceResponseTypes.TopicProduceResponse, names: Mapping[bytes, str]
) -> str:
    """Return the name of a topic in an answer, which has its name or its id."""
    if hasattr(topic, "name"):
        return topic.name
    return names.get(topic.topic_id.bytes, "") if topic.topic_id is not None else ""


def new_leaders(
    response: kafka.ProduceResponse, batches: Iterable[ProducerBatch]
) -> list[tuple[Partition, Leader, Node | None]]:
    """Return the newer leaders that a Produce answer names (KIP-951), each with its node. None: the answer does not
    have the node's address."""
    names = _names(batches)
    told: list[tuple[Partition, Leader, Node | None]] = []
    nodes = {
        one.node_id: Node(one.node_id, Address(one.host, one.port), one.rack)
        for one in (response.node_endpoints if hasattr(response, "node_endpoints") else ())
    }
    for topic in response.responses:
        for one in topic.partition_responses:
            leader = one.current_leader if hasattr(one, "current_leader") else None
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


def _partition_answer(
    one: kafka.ProduceResponseTypes.PartitionProduceResponse,
) -> PartitionAnswer:
    appended = one.log_append_time
    return PartitionAnswer(
        error_code_of(one.error_code),
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
    """Send a call of the pure producer to its coordinator, or to any broker, and return the answer. Raises as
    `Brokers.call_coordinator` does."""
    sender = _Sender(brokers, settings, is_tv2)
    match call:
        case InitProducerId():
            initialised = await sender.send(
                versions.INIT_PRODUCER_ID, lambda types: _init_request(types, settings, call)
            )
            return _initialised(initialised)
        case AddPartitions():
            added = await sender.send(
                versions.ADD_PARTITIONS_TO_TXN,
                lambda types: _partitions_request(types, settings, call),
            )
            return _of_partitions(
                (Partition(topic.name, one.partition_index), one.partition_error_code)
                for topic in added.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            )
        case AddOffsets(identity, member):
            response = await sender.send(
                versions.ADD_OFFSETS_TO_TXN,
                lambda types: types.AddOffsetsToTxnRequest(
                    transactional_id=settings.transactional_id or "",
                    producer_id=identity.producer_id,
                    producer_epoch=identity.producer_epoch,
                    group_id=member.group_id,
                ),
            )
            return Answer(error_code_of(response.error_code))
        case CommitOffsets():
            committed = await sender.send(
                versions.TXN_OFFSET_COMMIT,
                lambda types: _offsets_request(types, settings, call),
                call.member.group_id,
            )
            return _of_partitions(
                (Partition(topic.name, one.partition_index), one.error_code)
                for topic in committed.topics
                for one in topic.partitions
            )
        case EndTxn(identity, is_commit):
            ended = await sender.send(
                versions.END_TXN,
                lambda types: types.EndTxnRequest(
                    transactional_id=settings.transactional_id or "",
                    producer_id=identity.producer_id,
                    producer_epoch=identity.producer_epoch,
                    committed=is_commit,
                ),
            )
            return _ended(ended)


class _Sender(NamedTuple):
    brokers: Brokers
    settings: ProducerSettings
    is_tv2: bool

    async def send(
        self,
        api_key: kafka.ApiKey[TypesT, RequestT, object, ResponseT],
        build: Build[TypesT, RequestT],
        group_id: str | None = None,
    ) -> ResponseT:
        """Send a request to the coordinator of the group, or of the transaction; without a transaction to any
        broker."""
        at_most = None if self.is_tv2 else TV1_MAX.get(api_key)
        name = self.settings.transactional_id
        if name is None:
            return await self.brokers.call_any(api_key, build, at_most=at_most)
        kind, key = (TRANSACTION, name) if group_id is None else (GROUP, group_id)
        return await self.brokers.call_coordinator(kind, key, api_key, build, at_most=at_most)


def forget_coordinator(brokers: Brokers, settings: ProducerSettings, call: Call) -> None:
    """Forget which node is the coordinator for this call, because that node said that it is not."""
    if isinstance(call, CommitOffsets):
        brokers.forget_coordinator(GROUP, call.member.group_id)
    elif settings.transactional_id is not None:
        brokers.forget_coordinator(TRANSACTION, settings.transactional_id)


def _init_request(
    types: kafka.InitProducerIdRequestTypes, settings: ProducerSettings, call: InitProducerId
) -> kafka.InitProducerIdRequest:
    """Return the InitProducerId request. Raises UnsupportedError where it needs two-phase commit and the broker does
    not know that."""
    enabled = settings.transaction_two_phase_commit_enable
    if (enabled or call.keep_prepared) and types.version < _TWO_PHASE_FROM:
        raise UnsupportedError(
            "this broker has no two-phase commit: it serves InitProducerId up to version "
            f"{types.version}, and KIP-939 came with {_TWO_PHASE_FROM}"
        )
    return types.InitProducerIdRequest(
        transactional_id=settings.transactional_id,
        transaction_timeout=timedelta(milliseconds=settings.transaction_timeout_ms),
        producer_id=call.known.producer_id,
        producer_epoch=call.known.producer_epoch,
        enable2_pc=enabled,
        keep_prepared_txn=call.keep_prepared,
    )


def _partitions_request(
    types: kafka.AddPartitionsToTxnRequestTypes, settings: ProducerSettings, call: AddPartitions
) -> kafka.AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for partition in call.partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return types.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=settings.transactional_id or "",
        v3_and_below_producer_id=call.identity.producer_id,
        v3_and_below_producer_epoch=call.identity.producer_epoch,
        v3_and_below_topics=tuple(
            types.AddPartitionsToTxnTopic(name=name, partitions=tuple(numbers))
            for name, numbers in topics.items()
        ),
    )


def _offsets_request(
    types: kafka.TxnOffsetCommitRequestTypes, settings: ProducerSettings, call: CommitOffsets
) -> kafka.TxnOffsetCommitRequest:
    topics: dict[str, list[kafka.TxnOffsetCommitRequestTypes.TxnOffsetCommitRequestPartition]] = {}
    for partition, offset in call.offsets.items():
        one = types.TxnOffsetCommitRequestPartition(
            partition_index=partition.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            committed_metadata=offset.metadata,
        )
        topics.setdefault(partition.topic, []).append(one)
    return types.TxnOffsetCommitRequest(
        transactional_id=settings.transactional_id or "",
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


def _initialised(response: kafka.InitProducerIdResponse) -> Answer:
    kept = None
    if hasattr(response, "ongoing_txn_producer_id") and response.ongoing_txn_producer_id >= 0:
        kept = Identity(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
    identity = _identity(response.producer_id, response.producer_epoch)
    return Answer(error_code_of(response.error_code), identity=identity, kept=kept)


def _ended(response: kafka.EndTxnResponse) -> Answer:
    identity = None
    if hasattr(response, "producer_id"):
        identity = _identity(response.producer_id, response.producer_epoch)
    return Answer(error_code_of(response.error_code), identity=identity)


def _identity(producer_id: int, producer_epoch: int) -> Identity | None:
    return Identity(producer_id, producer_epoch) if producer_id >= 0 else None


def _of_partitions(codes: Iterable[tuple[Partition, int]]) -> Answer:
    """Return one answer for the codes of several partitions: the final error if there is one, otherwise a retriable
    one."""
    refused = [(partition, error_code_of(code)) for partition, code in codes if code]
    final = [one for one in refused if not one[1].is_retriable]
    if final:
        return Answer(
            final[0][1], refused=tuple(sorted(refused, key=lambda one: one[1].is_retriable))
        )
    return Answer(refused[0][1]) if refused else Answer(ErrorCode.NONE)
