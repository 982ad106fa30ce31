"""Asks the coordinator when the newest transaction of a transactional.id began, running or ended.

Under TV1 the transactions of a producer share a producer epoch. So a marker that was delayed on its way looks like the
marker of the transaction that is open when it arrives. The marker names the start of its own transaction. The process
that verified the open transaction knows when that one began, until its partition gets another leader or it restarts.
After that it must ask the coordinator, by this module (docs/kafka-facts.md, 9, Markers).
"""

from typing import Final

from oncelog.api.v1 import coordinator_pb2
from oncelog.errors import ErrorCode, OncelogError
from oncelog.rpc.directory import Directory, transaction_coordinator
from oncelog.rpc.metadata import TRANSACTION, MetadataFollower, MetadataImage
from oncelog.rpc.owner_calls import answer_of_owner

TIMEOUT_S: Final = 1.0
"""Seconds that one question may take. The marker sender sends a marker again if its answer takes longer."""


class TransactionStarts:
    def __init__(self, metadata: MetadataFollower, directory: Directory) -> None:
        self._metadata = metadata
        self._directory = directory

    async def start_of(self, transactional_id: str, producer_id: int) -> int | None:
        """Return when the newest transaction of this id began, in ms since 1970. It holds for this moment only.

        0: the id has no transaction of this producer. None: no answer came; try again.
        """
        image = self._metadata.image
        stub = transaction_coordinator(self._directory, image, transactional_id)
        if stub is None:
            return None
        owner = _owner(image, transactional_id)
        request = coordinator_pb2.DescribeTransactionsRequest(transactional_ids=[transactional_id])
        try:
            response = await answer_of_owner(
                stub.DescribeTransactions(request),
                TIMEOUT_S,
                self._metadata,
                lambda new: _owner(new, transactional_id) == owner,
            )
        except (TimeoutError, OSError, OncelogError):
            return None
        for found in response.transactions:
            if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return 0
            if found.error_code or found.coordinator_epoch < owner[1]:
                # It does not own the shard, or does not know yet that it lost it and got it back.
                return None
            start_ms: int = found.transaction_start_time_ms
            return max(0, start_ms) if found.producer_id == producer_id else 0
        return None


def _owner(image: MetadataImage, transactional_id: str) -> tuple[int, int]:
    """Return the coordinator's node id and its coordinator epoch, for the shard of this transactional.id."""
    shard = image.shard_for(TRANSACTION, transactional_id)
    return (-1, -1) if shard is None else (shard.coordinator, shard.coordinator_epoch)
