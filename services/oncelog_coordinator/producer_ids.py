"""Producer ids from blocks that the controller gives out. `claim` is immediate: the next block is fetched ahead of need
(docs/kafka-facts.md, 9).

The controller journals a block before it answers with it, and only one process uses a block. So an id is never used
twice. A crash loses the rest of a block, which costs nothing but numbers.
"""

import asyncio
import logging
from typing import Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError, error_code_of
from oncelog.ids import ProducerId
from oncelog.rpc.backoff import Backoff
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower

_log = logging.getLogger(__name__)

PREFETCH_PERCENT: Final = 90
"""The percentage of a block after which the next one is fetched."""

BACKOFF_MS: Final = 50
BACKOFF_MAX_MS: Final = 1_000
CALL_TIMEOUT_S: Final = 5.0
_INT64_MAX: Final = 2**63 - 1


class ProducerIds:
    """The producer ids that this process may give out. It holds at most one block beside the current one."""

    def __init__(self, node_id: int, metadata: MetadataFollower, directory: Directory) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._directory = directory
        self._current = range(0)
        self._position = 0
        self._prefetch_at = 0
        self._next: range | None = None
        self._last_id = -1
        self._fetch: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()

    def claim(self) -> ProducerId | None:
        """Return a producer id that was never given out; None while no block is at hand (one is then being fetched)."""
        if self._position >= len(self._current):
            if self._next is None:
                self._prefetch()
                return None
            self._install(self._next)
            self._next = None
        claimed = self._current[self._position]
        self._position += 1
        if self._position > self._prefetch_at and self._next is None:
            self._prefetch()
        return ProducerId(claimed)

    async def claim_when_ready(self) -> ProducerId:
        """Return a producer id that was never given out, and wait if none is at hand. It waits without limit, so the
        caller sets one.
        """
        while (claimed := self.claim()) is None:
            await self._arrived.wait()
        return claimed

    async def start(self) -> None:
        """Wait until the first block of producer ids has arrived from the controller.

        It waits without limit, so the caller sets one; the fetch continues after it.
        """
        self._prefetch()
        await self._arrived.wait()

    async def stop(self) -> None:
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.gather(self._fetch, return_exceptions=True)

    def _install(self, block: range) -> None:
        self._current = block
        self._position = 0
        self._prefetch_at = len(block) * PREFETCH_PERCENT // 100

    def _prefetch(self) -> None:
        if self._fetch is None or self._fetch.done():
            self._arrived.clear()
            self._fetch = asyncio.create_task(self._fetch_block(), name="producer id block")

    async def _fetch_block(self) -> None:
        # Safe to repeat: an answer that was lost costs a block, and blocks are never handed out twice.
        backoff = Backoff(BACKOFF_MS, BACKOFF_MAX_MS)
        while True:
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    block = await self._ask_controller()
                break
            except TimeoutError:
                _log.warning(
                    "no answer about producer ids within %.1f s; asking again", CALL_TIMEOUT_S
                )
            except Exception as error:
                _log.warning("no producer ids yet: %s", error)
                await backoff.pause()
        self._last_id = block[-1]
        if self._position >= len(self._current):
            self._install(block)
        else:
            self._next = block
        self._arrived.set()

    async def _ask_controller(self) -> range:
        image = self._metadata.image
        node = image.nodes.get(self._node_id)
        if node is None:
            raise KafkaError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"node {self._node_id} is not in the metadata"
            )
        request = pb.AllocateProducerIdsRequest(
            node_id=self._node_id, node_epoch=node.node_epoch, seen=image.position
        )
        answer = await self._directory.controller().AllocateProducerIds(request)
        if answer.status.error_code != ErrorCode.NONE:
            raise KafkaError(error_code_of(answer.status.error_code), answer.status.error_message)
        first, count = answer.first_producer_id, answer.producer_id_count
        if first < 0 or count <= 0 or first + count > _INT64_MAX or first <= self._last_id:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"controller offered producer ids from {first}, {count} of them, after {self._last_id}",
            )
        return range(first, first + count)
