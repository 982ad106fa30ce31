"""The question to a transaction's coordinator whether a group's partition belongs to the transaction
(docs/kafka-facts.md, 9; KIP-890).

A partition's leader asks the same before a client's first transactional batch. A TV1 transaction is verified; to a TV2
transaction the partition is added. Asking again is harmless.
"""

from typing import Final

from oncelog.api.v1 import coordinator_pb2, types_pb2
from oncelog.errors import ErrorCode, OncelogError, error_code_of
from oncelog.ids import Partition
from oncelog.rpc.directory import Directory, transaction_coordinator
from oncelog.rpc.metadata import MetadataFollower

TIMEOUT_S: Final = 10.0
TV2: Final = 2

_TOLD_TO_PRODUCERS: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    # "Not coordinator" here is the transaction's; told to a producer it would be taken for the group's.
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""The error that TxnOffsetCommit answers for an error of the transaction coordinator; others pass through unchanged."""


class TransactionCheck:
    def __init__(self, metadata: MetadataFollower, directory: Directory) -> None:
        self._metadata = metadata
        self._directory = directory

    async def verify_in_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        transaction_version: int,
        partition: Partition,
    ) -> tuple[ErrorCode, int]:
        """Ask the transaction's coordinator whether this partition is in the producer's open transaction.

        Returns NONE if it is, or an error that TxnOffsetCommit may answer; and when the transaction began, in
        milliseconds (0: unknown). In TV2 the partition is added to the transaction.
        """
        is_add = transaction_version >= TV2
        stub = transaction_coordinator(self._directory, self._metadata.image, transactional_id)
        if stub is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, 0
        request = coordinator_pb2.AddPartitionsToTxnRequest(
            transactions=[
                coordinator_pb2.AddPartitionsToTxnRequest.Transaction(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    verify_only=not is_add,
                    partitions=[
                        types_pb2.TopicPartition(
                            topic=partition.topic, partition=partition.partition
                        )
                    ],
                    client_transaction_version=TV2 if is_add else 0,
                )
            ]
        )
        try:
            response = await stub.AddPartitionsToTxn(request, timeout=TIMEOUT_S)
        except (TimeoutError, OSError, OncelogError):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0
        error_code = _code(response)
        start_ms = response.results[0].transaction_start_ms if response.results else 0
        return _TOLD_TO_PRODUCERS.get(error_code, error_code), start_ms


def _code(response: coordinator_pb2.AddPartitionsToTxnResponse) -> ErrorCode:
    if not response.results:
        return ErrorCode.NETWORK_EXCEPTION
    result = response.results[0]
    if result.error_code:
        return error_code_of(result.error_code)
    return next((error_code_of(p.error_code) for p in result.partitions), ErrorCode.NONE)
