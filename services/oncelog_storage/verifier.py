"""Asks the coordinator whether, or that, a partition belongs to a transaction (facts 9, rules 3 and 4; KIP-890).

One of the modules at the wire's edge: it speaks the coordinator's protobuf messages. A TV1 transaction is verified, a
TV2 transaction gets the partition added. A stub raises TimeoutError or ConnectionError (OSError) when the other side
does not answer: then it is unknown what happened, and asking again is harmless.
"""

import asyncio
import random
from collections.abc import Sequence

from oncelog.api.v1 import coordinator_pb2, storage_pb2, types_pb2
from oncelog.errors import ErrorCode, OncelogError, error_code_of
from oncelog.ids import Partition
from oncelog.rpc.directory import Directory, transaction_coordinator
from oncelog.rpc.metadata import TRANSACTION, MetadataFollower, MetadataImage
from oncelog.rpc.owner_calls import answer_of_owner
from oncelog_storage.settings import StorageSettings

_COORDINATOR_AWAY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

_NEWS_WAIT_S = 0.05
"""Between two tries while the coordinator is away, unless the metadata has news before."""


def answer_to_producer(error_code: ErrorCode, mode: int) -> ErrorCode:
    """What a producer is told of the coordinator's answer (facts 9, rule 4).

    Old clients know neither PRODUCER_FENCED nor TRANSACTION_ABORTABLE on Produce; NOT_ENOUGH_REPLICAS is the retriable
    error that every one of them knows.
    """
    if error_code in _COORDINATOR_AWAY:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    match error_code:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if mode == storage_pb2.VERIFY_LEGACY:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.CONCURRENT_TRANSACTIONS if mode != storage_pb2.ADD_PARTITION:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return ErrorCode.INVALID_TXN_STATE
        case _:
            return error_code


class Verifier:
    def __init__(
        self, settings: StorageSettings, metadata: MetadataFollower, directory: Directory
    ) -> None:
        self._settings = settings
        self._metadata = metadata
        self._directory = directory
        # One verification at a time per transactional id, in the order of arrival: a producer's second request must not
        # overtake its first. Kafka's manager instead answers the first with an error.
        self._locks: dict[str, tuple[asyncio.Lock, list[int]]] = {}

    def turn(self, transactional_id: str) -> "_Turn":
        """`async with`: this id's next verification, and the appends it allows, after those before it."""
        return _Turn(self._locks, transactional_id)

    async def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        mode: int,
        partitions: Sequence[Partition],
        timeout_ms: int,
    ) -> tuple[list[ErrorCode], int]:
        """One code for each partition, as the producer is to be told it; and when the transaction that was verified
        began, 0 when nothing tells."""
        is_add = mode == storage_pb2.ADD_PARTITION
        request = coordinator_pb2.AddPartitionsToTxnRequest(
            transactions=[
                coordinator_pb2.AddPartitionsToTxnRequest.Transaction(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    verify_only=not is_add,
                    partitions=[
                        types_pb2.TopicPartition(topic=topic, partition=partition)
                        for topic, partition in partitions
                    ],
                    client_transaction_version=2 if is_add else 0,
                )
            ]
        )
        settings = self._settings
        timeout_s = min(timeout_ms, settings.request_timeout_ms) / 1000
        backoff_s = settings.add_partitions_retry_backoff_ms / 1000
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        give_up = asked_at + min(settings.add_partitions_retry_backoff_max_ms / 1000, timeout_s)
        coordinator_deadline = asked_at + min(settings.coordinator_wait_max_ms / 1000, timeout_s)
        while True:
            image = self._metadata.image
            left_s = max(0.001, asked_at + timeout_s - loop.time())
            codes, start_ms = await self._call(transactional_id, request, partitions, left_s)
            if not _COORDINATOR_AWAY.isdisjoint(codes):
                # It is being replaced, or its new owner loads: over in a moment, and asking again is harmless.
                left_s = coordinator_deadline - loop.time()
                if left_s > 0:
                    pause_s = random.uniform(0.5, 1.0) * _NEWS_WAIT_S
                    await self._metadata.newer_than(image, min(left_s, pause_s))
                    continue
            is_completing = is_add and ErrorCode.CONCURRENT_TRANSACTIONS in codes
            if not is_completing or loop.time() + backoff_s > give_up:
                told = [answer_to_producer(code, mode) if code else code for code in codes]
                return told, 0 if is_add else start_ms
            # The previous transaction's markers are still being written: usually over in milliseconds (facts 1.2).
            await asyncio.sleep(backoff_s)

    async def _call(
        self,
        transactional_id: str,
        request: coordinator_pb2.AddPartitionsToTxnRequest,
        partitions: Sequence[Partition],
        timeout_s: float,
    ) -> tuple[list[ErrorCode], int]:
        image = self._metadata.image
        stub = transaction_coordinator(self._directory, image, transactional_id)
        if stub is None:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(partitions), 0
        owner = _owner(image, transactional_id)
        try:
            response = await answer_of_owner(
                stub.AddPartitionsToTxn(request),
                timeout_s,
                self._metadata,
                lambda new: _owner(new, transactional_id) == owner,
            )
        except (TimeoutError, OSError, OncelogError):
            return [ErrorCode.NETWORK_EXCEPTION] * len(partitions), 0
        start_ms = response.results[0].transaction_start_ms if response.results else 0
        return _codes(response, partitions), start_ms


def _owner(image: MetadataImage, transactional_id: str) -> int:
    shard = image.shard_for(TRANSACTION, transactional_id)
    return -1 if shard is None else shard.coordinator


def _codes(
    response: coordinator_pb2.AddPartitionsToTxnResponse, partitions: Sequence[Partition]
) -> list[ErrorCode]:
    if not response.results:
        return [ErrorCode.NETWORK_EXCEPTION] * len(partitions)
    result = response.results[0]
    if result.error_code:
        return [error_code_of(result.error_code)] * len(partitions)
    told = {(each.topic, each.partition): each.error_code for each in result.partitions}
    return [
        error_code_of(told.get((partition.topic, partition.partition), 0))
        for partition in partitions
    ]


class _Turn:
    """A lock that exists only while somebody wants it."""

    def __init__(self, locks: dict[str, tuple[asyncio.Lock, list[int]]], name: str) -> None:
        self._locks = locks
        self._name = name

    async def __aenter__(self) -> None:
        lock, users = self._locks.setdefault(self._name, (asyncio.Lock(), [0]))
        users[0] += 1
        try:
            await lock.acquire()
        except asyncio.CancelledError:
            self._leave(users)
            raise

    async def __aexit__(self, *_: object) -> None:
        lock, users = self._locks[self._name]
        lock.release()
        self._leave(users)

    def _leave(self, users: list[int]) -> None:
        users[0] -= 1
        if not users[0]:
            del self._locks[self._name]
