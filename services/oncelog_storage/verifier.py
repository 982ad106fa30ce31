"""The verification of transactions with their coordinator (docs/kafka-facts.md, 9, rules 3 and 4; KIP-890).

This module is at the wire's edge: it speaks the coordinator's protobuf messages. A TV1 transaction is verified, a TV2
transaction gets the partition added. A stub raises TimeoutError or ConnectionError (OSError) when the other side does
not answer: then it is unknown what happened, and asking again is harmless.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Protocol, cast
from weakref import WeakValueDictionary

from oncelog.api.v1 import coordinator_pb2, storage_pb2, types_pb2
from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import Partition
from oncelog.rpc import plain
from oncelog.rpc.direct import takes_plain
from oncelog.rpc.directory import Directory, transaction_coordinator
from oncelog.rpc.metadata import TRANSACTION, MetadataFollower, MetadataImage
from oncelog.rpc.owner_calls import answer_of_owner
from oncelog_storage.core.verification_calls import (
    Codes,
    Limits,
    VerificationCall,
    codes_of,
    same_code,
)
from oncelog_storage.settings import StorageSettings


class VerifiesAtOnce(Protocol):
    """A coordinator in this process that verifies in a plain call, without a wait.

    `oncelog.rpc.direct.takes_plain` is True for a stub of such a service.
    """

    def VerifyAtOnce(self, request: plain.VerifyRequest) -> int | None: ...  # noqa: N802


class Verifier:
    def __init__(
        self, settings: StorageSettings, metadata: MetadataFollower, directory: Directory
    ) -> None:
        self._settings = settings
        self._metadata = metadata
        self._directory = directory
        # One verification runs at a time per transactional.id, in the order of arrival: a producer's second request
        # must not overtake its first. Kafka's manager instead answers the first with an error.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """The lock of each transactional.id. It exists only while somebody wants it."""

    def turn(self, transactional_id: str) -> asyncio.Lock:
        """Return the lock of a transactional.id.

        Its holder verifies and appends; later requests of this id wait for it.
        """
        return self._turns.setdefault(transactional_id, asyncio.Lock())

    def verified_at_once(self, request: plain.VerifyRequest) -> int | None:
        """Return when the transaction began, in ms, if a coordinator of this process has these partitions in it.

        None: the caller must call `verify`, which waits, or says why the transaction does not have them.
        """
        name = request.transactional_id
        before = self._turns.get(name)
        if before is not None and before.locked():
            return None
        stub = transaction_coordinator(self._directory, self._metadata.image, name)
        if not takes_plain(stub, "VerifyAtOnce"):
            return None
        return cast(VerifiesAtOnce, stub).VerifyAtOnce(request)

    async def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        mode: int,
        partitions: Sequence[Partition],
        timeout_ms: int,
    ) -> Codes:
        """Ask the coordinator until it answers. Return the producer's code for each partition, and when the transaction
        began.

        The start is in ms, and 0 if nothing tells it.
        """
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
        loop = asyncio.get_running_loop()
        limits = Limits(
            min(timeout_ms, settings.request_timeout_ms) / 1000,
            settings.add_partitions_retry_backoff_max_ms / 1000,
            settings.add_partitions_retry_backoff_ms / 1000,
            settings.coordinator_wait_max_ms / 1000,
        )
        call = VerificationCall(mode, limits, loop.time())
        while True:
            image = self._metadata.image
            left_s = call.left_s(loop.time())
            found = await self._call(transactional_id, request, partitions, left_s)
            step = call.codes_or_pause(found, loop.time(), _jitter)
            if isinstance(step, Codes):
                return step
            if step.until_news:
                await self._metadata.newer_than(image, step.seconds)
            else:
                await asyncio.sleep(step.seconds)

    async def _call(
        self,
        transactional_id: str,
        request: coordinator_pb2.AddPartitionsToTxnRequest,
        partitions: Sequence[Partition],
        timeout_s: float,
    ) -> Codes:
        image = self._metadata.image
        stub = transaction_coordinator(self._directory, image, transactional_id)
        if stub is None:
            return same_code(ErrorCode.COORDINATOR_NOT_AVAILABLE, partitions)
        owner = _owner(image, transactional_id)
        try:
            response = await answer_of_owner(
                stub.AddPartitionsToTxn(request),
                timeout_s,
                self._metadata,
                lambda new: _owner(new, transactional_id) == owner,
            )
        except (TimeoutError, OSError, OncelogError):
            return same_code(ErrorCode.NETWORK_EXCEPTION, partitions)
        return codes_of(response.results, partitions)


def _jitter() -> float:
    return random.uniform(0.5, 1.0)


def _owner(image: MetadataImage, transactional_id: str) -> int:
    shard = image.shard_for(TRANSACTION, transactional_id)
    return -1 if shard is None else shard.coordinator
