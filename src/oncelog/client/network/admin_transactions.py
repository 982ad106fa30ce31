"""The administrator's requests about transactions: it sees and ends them (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from oncelog.client.core.admin_results import (
    FencedProducer,
    ProducerDescription,
    Results,
    TransactionDescription,
    TransactionListing,
    item_error,
)
from oncelog.client.errors import ClientError
from oncelog.client.network.admin_calls import AdminCalls, check_codes, code_of, outcome
from oncelog.client.network.brokers import TRANSACTION
from oncelog.client.network.consumer_messages import by_topic
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.protocol import versions

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

_NO_TIME: Final = -1


async def list_transactions(
    calls: AdminCalls,
    states: Iterable[str],
    producer_ids: Iterable[int],
    longer_than_ms: int,
    pattern: str | None,
) -> list[TransactionListing]:
    wanted_states, wanted_ids = tuple(states), tuple(producer_ids)
    responses = await calls.every(
        versions.LIST_TRANSACTIONS,
        lambda types: types.ListTransactionsRequest(
            state_filters=wanted_states,
            producer_id_filters=wanted_ids,
            duration_filter=longer_than_ms,
            transactional_id_pattern=pattern,
        ),
        "list_transactions()",
        lambda response: (code_of(response),),
    )
    found: list[TransactionListing] = []
    for response in responses:
        code = code_of(response)
        if code is not ErrorCode.NONE:
            raise item_error(code, "list_transactions()")
        found += [
            TransactionListing(one.transactional_id, one.producer_id, one.transaction_state)
            for one in response.transaction_states
        ]
    return sorted(found, key=lambda one: one.transactional_id)


async def describe_transactions(
    calls: AdminCalls, names: Iterable[str]
) -> Results[str, TransactionDescription]:
    return Results({name: await _describe_transaction(calls, name) for name in names})


async def _describe_transaction(
    calls: AdminCalls, name: str
) -> TransactionDescription | ClientError:
    response = await calls.coordinator(
        name,
        versions.DESCRIBE_TRANSACTIONS,
        lambda types: types.DescribeTransactionsRequest(transactional_ids=(name,)),
        f"transactional.id {name!r}",
        lambda response: map(code_of, response.transaction_states),
        TRANSACTION,
    )
    one = response.transaction_states[0]
    return outcome(one, f"transactional.id {name!r}", _transaction(one))


def _transaction(
    one: kafka.DescribeTransactionsResponseTypes.TransactionState,
) -> TransactionDescription:
    started = one.transaction_start_time
    return TransactionDescription(
        one.transactional_id,
        one.transaction_state,
        one.producer_id,
        one.producer_epoch,
        int(one.transaction_timeout / timedelta(milliseconds=1)),
        _NO_TIME if started is None else round(started.timestamp() * 1000),
        frozenset(
            Partition(topic.topic, number) for topic in one.topics for number in topic.partitions
        ),
    )


async def describe_producers(
    calls: AdminCalls, partitions: Iterable[Partition]
) -> Results[Partition, tuple[ProducerDescription, ...]]:
    async def ask(
        node_id: int, asked: Mapping[Partition, None]
    ) -> dict[Partition, tuple[ProducerDescription, ...] | ClientError]:
        response = await calls.brokers.call_node(
            node_id,
            versions.DESCRIBE_PRODUCERS,
            lambda types: types.DescribeProducersRequest(
                topics=tuple(
                    types.TopicRequest(name=name, partition_indexes=tuple(numbers))
                    for name, numbers in by_topic(asked).items()
                )
            ),
        )
        answers = {
            Partition(topic.name, one.partition_index): one
            for topic in response.topics
            for one in topic.partitions
        }
        check_codes(map(code_of, answers.values()), "describe_producers()")
        return {key: outcome(one, str(key), _producers(one)) for key, one in answers.items()}

    return Results(
        await calls.leaders(dict.fromkeys(partitions, None), ask, "describe_producers()")
    )


def _producers(
    one: kafka.DescribeProducersResponseTypes.PartitionResponse,
) -> tuple[ProducerDescription, ...]:
    return tuple(
        ProducerDescription(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in one.active_producers
    )


async def abort_transaction(
    calls: AdminCalls,
    partition: Partition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    async def ask(
        node_id: int, asked: Mapping[Partition, None]
    ) -> dict[Partition, ClientError | None]:
        response = await calls.brokers.call_node(
            node_id,
            versions.WRITE_TXN_MARKERS,
            lambda types: types.WriteTxnMarkersRequest(
                markers=(
                    types.WritableTxnMarker(
                        producer_id=producer_id,
                        producer_epoch=producer_epoch,
                        transaction_result=False,
                        topics=(
                            types.WritableTxnMarkerTopic(
                                name=partition.topic, partition_indexes=(partition.partition,)
                            ),
                        ),
                        coordinator_epoch=coordinator_epoch,
                    ),
                )
            ),
        )
        answer = response.markers[0].topics[0].partitions[0]
        check_codes((code_of(answer),), "abort_transaction()")
        return {partition: outcome(answer, str(partition), None)}

    found = await calls.leaders({partition: None}, ask, "abort_transaction()")
    failed = found[partition]
    if failed is not None:
        raise failed


async def fence_producers(calls: AdminCalls, names: Iterable[str]) -> Results[str, FencedProducer]:
    """Fence each transactional id by an InitProducerId: the open transaction is aborted, and the epoch raised."""
    return Results({name: await _fence_producer(calls, name) for name in names})


async def _fence_producer(calls: AdminCalls, name: str) -> FencedProducer | ClientError:
    what = f"transactional.id {name!r}"
    response = await calls.coordinator(
        name,
        versions.INIT_PRODUCER_ID,
        lambda types: types.InitProducerIdRequest(
            transactional_id=name, transaction_timeout=timedelta(milliseconds=calls.timeout_ms)
        ),
        what,
        lambda response: (code_of(response),),
        TRANSACTION,
    )
    return outcome(response, what, FencedProducer(response.producer_id, response.producer_epoch))
