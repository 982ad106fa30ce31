"""Sends the batches of one transactional producer, several at a time, each exactly once.

Batches of a partition carry sequences without a gap. So a leader recognises a repeated batch (it remembers the last
five, docs/kafka-facts.md, 9) and refuses one that came too early. That permits the simplest repair there is: on any
retriable failure all connections are closed, leaders are asked for again, and everything unanswered is sent again in
order. With at most five batches of a partition under way, each repeated one is either still remembered or was never
written.
"""

import struct
import time
from collections import deque
from datetime import timedelta
from typing import Final

from crc32c import crc32c

from oncelog.client.cluster import SPOKEN, Cluster
from oncelog.client.connection import Connection, Deadline
from oncelog.client.core.addresses import Address
from oncelog.client.core.encode import ClosedBatch
from oncelog.errors import ErrorCode, KafkaError, OncelogError, error_code_of
from oncelog.ids import Partition
from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.wording import counted

IN_FLIGHT_PER_PARTITION_MAX: Final = 5
IN_FLIGHT_BYTES_MAX: Final = 16 * 1024 * 1024
ACKS_ALL: Final = -1

_FENCED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17


class ProducerFencedError(OncelogError):
    """The leader refuses this producer: a newer one took its place, or its transaction has ended already."""


class ProducePipeline:
    """Sends record batches under one producer id and epoch, several at a time. `send` returns early; `flush` waits
    until all are acknowledged."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._connections: dict[Address, Connection] = {}
        self._under_way: dict[Address, deque[ClosedBatch]] = {}
        self._unanswered: dict[Partition, deque[ClosedBatch]] = {}
        self._unanswered_bytes = 0
        self._failing_since: Deadline | None = None
        self._backoff_ms = cluster.settings.backoff_min_ms
        self.last_sequences: dict[Partition, int] = {}
        """The last sequence of each partition, of the batches sent so far."""
        self.crc32c = 0
        """The CRC-32C over the CRCs of the batches, in the order of sending."""
        self.first_offsets: dict[Partition, int] = {}
        """The offset of the first batch of each partition, once it is acknowledged."""

    def send(self, batch: ClosedBatch) -> None:
        """Send a batch. Wait first while five batches of its partition, or too many bytes, are unanswered.

        Raises ProducerFencedError, and KafkaError or OncelogError for what no repetition cures.
        """
        queue = self._unanswered.setdefault(batch.partition, deque())
        size = len(batch.records)
        while len(queue) >= IN_FLIGHT_PER_PARTITION_MAX or (
            self._unanswered_bytes and self._unanswered_bytes + size > IN_FLIGHT_BYTES_MAX
        ):
            self._receive_one()
        queue.append(batch)
        self._unanswered_bytes += size
        self.last_sequences[batch.partition] = batch.last_sequence
        self.crc32c = crc32c(batch.records[_CRC_AT : _CRC_AT + _CRC.size], self.crc32c)
        try:
            self._transmit(batch)
        except KafkaError as error:
            self._repair(error)

    def flush(self) -> None:
        """Wait until every batch is acknowledged by all in-sync replicas. Raises as `send` does."""
        while self._unanswered_bytes:
            self._receive_one()

    def close(self) -> None:
        """Drop the connections. The outcome of unanswered batches stays unknown."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._under_way.clear()

    def _transmit(self, batch: ClosedBatch) -> None:
        leader = self._cluster.leader_of(batch.partition)
        if leader not in self._connections:
            self._connections[leader] = self._cluster.open_connection(leader)
        request = _produce_request(
            self._transactional_id, batch, self._cluster.settings.request_timeout_ms
        )
        schema = self._cluster.schema(leader, versions.PRODUCE)
        deadline = Deadline(self._cluster.settings.request_timeout_ms)
        self._connections[leader].send(schema, request, deadline)
        self._under_way.setdefault(leader, deque()).append(batch)

    def _receive_one(self) -> None:
        """Receive one answer: to the oldest unanswered batch at one of the leaders."""
        leader, batches = next((key, value) for key, value in self._under_way.items() if value)
        deadline = Deadline(self._cluster.settings.request_timeout_ms)
        try:
            response = self._connections[leader].receive(deadline)
            answer = response.responses[0].partition_responses[0]
            self._check(batches[0], error_code_of(answer.error_code.value), answer.error_message)
        except KafkaError as error:
            self._repair(error)
            return
        batch = batches.popleft()
        self.first_offsets.setdefault(batch.partition, answer.base_offset)
        self._unanswered[batch.partition].popleft()
        self._unanswered_bytes -= len(batch.records)
        self._failing_since = None
        self._backoff_ms = self._cluster.settings.backoff_min_ms

    def _check(self, batch: ClosedBatch, code: ErrorCode, message: str | None) -> None:
        if code is ErrorCode.NONE:
            return
        if code in _FENCED:
            raise ProducerFencedError(
                f"{batch.partition} refuses producer {self._transactional_id!r} with {code.name}"
                f"{': ' + message if message else ''}. Its transaction is over: a newer attempt or a timeout ended it"
            )
        if code is ErrorCode.MESSAGE_TOO_LARGE:
            raise OncelogError(
                f"{batch.partition} refuses a batch of {len(batch.records)} bytes with "
                f"{counted(batch.record_count, 'record')}: raise the topic's max.message.bytes, "
                "or write smaller records"
            )
        self._cluster.check_partition(batch.partition, code.value)

    def _repair(self, error: KafkaError) -> None:
        """Close all connections, and send every unanswered batch again in order. The next answers show whether that
        helped.

        OUT_OF_ORDER_SEQUENCE_NUMBER counts as retriable: it follows from a predecessor that failed or is still being
        verified, and the whole queue goes out again from its head.
        """
        while True:
            self.close()
            is_out_of_order = error.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if not (error.error_code.is_retriable or is_out_of_order):
                raise error
            if self._failing_since is None:
                self._failing_since = Deadline(self._cluster.settings.call_timeout_ms)
            elif self._failing_since.has_passed:
                raise error
            if error.error_code is ErrorCode.NETWORK_EXCEPTION:
                self._cluster.forget_leaders()
            time.sleep(self._backoff_ms / 1000)
            self._backoff_ms = min(self._backoff_ms * 2, self._cluster.settings.backoff_max_ms)
            try:
                for queue in self._unanswered.values():
                    for batch in queue:
                        self._transmit(batch)
            except KafkaError as next_error:
                error = next_error
                continue
            return


def _produce_request(transactional_id: str, batch: ClosedBatch, timeout_ms: int) -> object:
    types = schema_of(versions.PRODUCE, SPOKEN[versions.PRODUCE]).request_types
    partition = types.PartitionProduceData(index=batch.partition.partition, records=batch.records)
    topic = types.TopicProduceData(name=batch.partition.topic, partition_data=(partition,))
    return types.ProduceRequest(
        transactional_id=transactional_id,
        acks=ACKS_ALL,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=(topic,),
    )
