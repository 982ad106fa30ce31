"""The requests of a transactional producer and of an operator of transactions, each sent once and not repeated.

A client library sends only what is right; here a test can send anything. KafkaError has the error of the
coordinator's or the leader's response. Lost means that nobody knows whether the request was carried out.
"""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from oncelog.protocol import versions
from oncelog.record.records import Record, encode_batch
from oncelog_robustness.clients.wire import (
    REQUEST_TIMEOUT_S,
    SPOKEN,
    TRANSACTION,
    Brokers,
    check,
    types_of,
)
from oncelog_robustness.history import Partition

TWO_PHASE_INIT: Final = 6
TV2_END: Final = SPOKEN[versions.END_TXN]
TV1_PRODUCE, TV1_END = 11, 4
"""The newest versions of Produce and EndTxn in TV1, the transaction protocol before KIP-890."""
ACKS_ALL: Final = -1
SET: Final = 0
TOPIC: Final = 2
"""The number that IncrementalAlterConfigs has for a topic."""


class Identity(NamedTuple):
    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        """Return the producer id and epoch as applications of two-phase commit store them, such as `42:7` (KIP-939)."""
        return f"{self.producer_id}:{self.producer_epoch}"


NOBODY: Final = Identity(-1, -1)


class TransactionCalls:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def _ask(self, transactional_id: str, api_key: int, request: Any, version: int) -> Any:
        coordinator = await self._brokers.coordinator_of(TRANSACTION, transactional_id)
        return await self._brokers.call(coordinator, api_key, request, version)

    # ------------------------------------------------------------------------------------------- as a producer

    async def init(
        self, transactional_id: str, timeout_ms: int, expected: Identity = NOBODY
    ) -> Identity:
        """Send InitProducerId and return the new producer id and epoch. `expected` is the identity that the
        producer claims to have had."""
        version = 4
        request = types_of(versions.INIT_PRODUCER_ID, version).InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout=timedelta(milliseconds=timeout_ms),
            producer_id=expected.producer_id,
            producer_epoch=expected.producer_epoch,
        )
        answer = await self._ask(transactional_id, versions.INIT_PRODUCER_ID, request, version)
        check(answer.error_code.value, "InitProducerId")
        return Identity(int(answer.producer_id), int(answer.producer_epoch))

    async def keep(
        self, transactional_id: str, timeout_ms: int
    ) -> tuple[Identity, Identity | None]:
        """Send an InitProducerId that takes the transactional id over and keeps its open transaction (KIP-939,
        keepPreparedTxn).

        Return the new identity, and the identity by which the kept transaction is ended; None if no transaction was
        open.
        """
        request = types_of(versions.INIT_PRODUCER_ID, TWO_PHASE_INIT).InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout=timedelta(milliseconds=timeout_ms),
            producer_id=NOBODY.producer_id,
            producer_epoch=NOBODY.producer_epoch,
            enable2_pc=False,
            keep_prepared_txn=True,
        )
        answer = await self._ask(
            transactional_id, versions.INIT_PRODUCER_ID, request, TWO_PHASE_INIT
        )
        check(answer.error_code.value, "InitProducerId")
        me = Identity(int(answer.producer_id), int(answer.producer_epoch))
        left = Identity(int(answer.ongoing_txn_producer_id), int(answer.ongoing_txn_producer_epoch))
        return me, None if left == NOBODY else left

    async def add(self, transactional_id: str, me: Identity, partition: Partition) -> None:
        version = 3
        types = types_of(versions.ADD_PARTITIONS_TO_TXN, version)
        topic, number = partition
        request = types.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=me.producer_id,
            v3_and_below_producer_epoch=me.producer_epoch,
            v3_and_below_topics=(types.AddPartitionsToTxnTopic(name=topic, partitions=(number,)),),
        )
        answer = await self._ask(transactional_id, versions.ADD_PARTITIONS_TO_TXN, request, version)
        result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
        check(result.partition_error_code.value, f"add {partition}")

    async def produce(
        self, transactional_id: str, me: Identity, partition: Partition, value: str
    ) -> None:
        """Send one record in a transaction of the producer `me`, by a Produce of TV1, the protocol before KIP-890. The
        caller decides whether the partition was added to the transaction before."""
        batch = encode_batch(
            [Record(None, value.encode(), time.time_ns() // 1_000_000)],
            producer_id=me.producer_id,
            producer_epoch=me.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        types = types_of(versions.PRODUCE, TV1_PRODUCE)
        topic, number = partition
        data = types.PartitionProduceData(index=number, records=bytes(batch))
        request = types.ProduceRequest(
            transactional_id=transactional_id,
            acks=ACKS_ALL,
            timeout=timedelta(seconds=REQUEST_TIMEOUT_S - 1),
            topic_data=(types.TopicProduceData(name=topic, partition_data=(data,)),),
        )
        leader = await self._brokers.leader_of(partition)
        answer = await self._brokers.call(leader, versions.PRODUCE, request, TV1_PRODUCE)
        result = answer.responses[0].partition_responses[0]
        check(result.error_code.value, f"produce to {partition}")

    async def end(
        self, transactional_id: str, me: Identity, *, is_commit: bool, version: int
    ) -> Identity:
        """Send EndTxn in this version, as the producer `me`. Return the producer id and epoch for the next transaction:
        in TV1 those of this one, in TV2 those of the response."""
        request = types_of(versions.END_TXN, version).EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=me.producer_id,
            producer_epoch=me.producer_epoch,
            committed=is_commit,
        )
        answer = await self._ask(transactional_id, versions.END_TXN, request, version)
        check(answer.error_code.value, "EndTxn")
        if version <= TV1_END:
            return me
        return Identity(int(answer.producer_id), int(answer.producer_epoch))

    # ------------------------------------------------------------------------------------------ as an operator

    async def described(self, transactional_id: str) -> Identity:
        """Return the producer id and epoch of a transactional id, by DescribeTransactions. Raises KafkaError when
        no coordinator knows the id."""
        types = types_of(versions.DESCRIBE_TRANSACTIONS)
        request = types.DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        answer = await self._brokers.call_any(versions.DESCRIBE_TRANSACTIONS, request)
        result = answer.transaction_states[0]
        check(result.error_code.value, f"describe {transactional_id}")
        return Identity(int(result.producer_id), int(result.producer_epoch))

    async def listed(self, states: Sequence[str] = ()) -> list[str]:
        request = types_of(versions.LIST_TRANSACTIONS).ListTransactionsRequest(
            state_filters=tuple(states), producer_id_filters=(), duration_filter=-1
        )
        answer = await self._brokers.call_any(versions.LIST_TRANSACTIONS, request)
        check(answer.error_code.value, "ListTransactions")
        return [one.transactional_id for one in answer.transaction_states]

    async def producers(self, partition: Partition) -> list[Identity]:
        topic, number = partition
        types = types_of(versions.DESCRIBE_PRODUCERS)
        topic_request = types.TopicRequest(name=topic, partition_indexes=(number,))
        request = types.DescribeProducersRequest(topics=(topic_request,))
        answer = await self._brokers.call_any(versions.DESCRIBE_PRODUCERS, request)
        result = answer.topics[0].partitions[0]
        check(result.error_code.value, f"producers of {partition}")
        return [
            Identity(int(one.producer_id), int(one.producer_epoch))
            for one in result.active_producers
        ]

    async def alter(self, topic: str, name: str, value: str) -> None:
        types = types_of(versions.INCREMENTAL_ALTER_CONFIGS)
        config = types.AlterableConfig(name=name, config_operation=SET, value=value)
        request = types.IncrementalAlterConfigsRequest(
            resources=(
                types.AlterConfigsResource(
                    resource_type=TOPIC, resource_name=topic, configs=(config,)
                ),
            ),
            validate_only=False,
        )
        answer = await self._brokers.call_any(versions.INCREMENTAL_ALTER_CONFIGS, request)
        check(answer.responses[0].error_code.value, f"{name} of {topic}")
