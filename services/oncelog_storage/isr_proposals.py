"""Asks the controller for another ISR: one request under way for this node, one proposal for each partition.

An answer that does not come leaves it unknown what was decided, so the identical proposal is sent again until the
controller answers or the metadata moves on; its epochs make a repetition harmless. A refusal ends a proposal: the
leader looks again and proposes with the epochs it then has.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode, OncelogError, error_code_of
from oncelog.rpc.directory import Directory
from oncelog_storage.core.isr import NEWER_EPOCHS
from oncelog_storage.core.leader_state import LeaderState, Proposal
from oncelog_storage.hosted_partition import HostedPartition

_log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0
_RETRY_S: Final = 0.1


class IsrProposals:
    def __init__(self, node_id: int, directory: Directory, node_epoch: Callable[[], int]) -> None:
        self._node_id = node_id
        self._directory = directory
        self._node_epoch = node_epoch
        self._open: dict[HostedPartition, Proposal] = {}
        self._wanted = asyncio.Event()
        self.shrink_count = 0
        self.expand_count = 0

    def propose(self, hosted: HostedPartition, isr: list[int]) -> None:
        state = hosted.replicas
        assert state is not None, hosted.partition
        assert state.pending is None, hosted.partition
        _log.info("%s: in-sync replicas %s, proposed %s", hosted.partition, list(state.isr), isr)
        if len(isr) < len(state.isr):
            self.shrink_count += 1
        else:
            self.expand_count += 1
        self._open[hosted] = state.propose(isr)
        self._wanted.set()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._forget_settled()
            if self._open and not await self._send(dict(self._open)):
                await asyncio.sleep(_RETRY_S)
                self._wanted.set()

    def _forget_settled(self) -> None:
        self._open = {
            hosted: proposal
            for hosted, proposal in self._open.items()
            if _pending(hosted) is proposal
        }

    async def _send(self, proposals: dict[HostedPartition, Proposal]) -> bool:
        """Returns False when it is not known what became of them."""
        request = pb.AlterPartitionRequest(node_id=self._node_id, node_epoch=self._node_epoch())
        for hosted, proposal in proposals.items():
            request.partitions.add(
                partition=types_pb2.TopicPartition(
                    topic=hosted.partition.topic, partition=hosted.partition.partition
                ),
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                isr=proposal.isr,
            )
        try:
            response: Any = await self._directory.controller().AlterPartition(
                request, timeout=_TIMEOUT_S
            )
        except (TimeoutError, OSError, OncelogError) as error:
            _log.warning("the controller does not answer for in-sync replicas: %s", error)
            return False
        if response.status.error_code:
            name = error_code_of(response.status.error_code).name
            _log.warning("the controller takes no in-sync replicas from here: %s", name)
            if response.status.error_code in (
                ErrorCode.NOT_CONTROLLER,
                ErrorCode.REQUEST_TIMED_OUT,
            ):
                return False
            for hosted, proposal in proposals.items():
                self._settle(hosted, proposal)
            return True
        codes = {(each.topic, each.partition): each.error_code for each in response.partitions}
        for hosted, proposal in proposals.items():
            code = codes.get((hosted.partition.topic, hosted.partition.partition), 0)
            # What was taken stays pending until the image brings it: until then the maximal ISR counts.
            self._close(hosted, proposal)
            if code:
                _log.info(
                    "%s: in-sync replicas %s refused: %s",
                    hosted.partition,
                    list(proposal.isr),
                    error_code_of(code).name,
                )
                if code not in NEWER_EPOCHS:
                    self._settle(hosted, proposal)
        return True

    def _close(self, hosted: HostedPartition, proposal: Proposal) -> None:
        """It need not be sent again. The image may have been faster than the answer, and another one be open by now."""
        if self._open.get(hosted) is proposal:
            del self._open[hosted]

    def _settle(self, hosted: HostedPartition, proposal: Proposal) -> None:
        self._close(hosted, proposal)
        if _pending(hosted) is proposal:
            state: LeaderState | None = hosted.replicas
            assert state is not None
            state.pending = None
            hosted.follow_replicas()


def _pending(hosted: HostedPartition) -> Proposal | None:
    return None if hosted.replicas is None else hosted.replicas.pending
