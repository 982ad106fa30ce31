"""The sender of ISR proposals to the controller: one request at a time, and one proposal for each partition.

An answer that does not come leaves it unknown what was decided. So the identical proposal is sent again until the
controller answers or the metadata moves on; its epochs make a repetition harmless. A refusal ends a proposal: the
leader looks again and proposes with the epochs it then has.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import OncelogError, error_code_of
from oncelog.rpc.directory import Directory
from oncelog_storage.core.leader_state import Proposal
from oncelog_storage.core.proposals import Proposals
from oncelog_storage.hosted_partition import HostedPartition

_log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0
_RETRY_S: Final = 0.1


class IsrProposals(Proposals[HostedPartition]):
    def __init__(
        self,
        node_id: int,
        directory: Directory,
        node_epoch: Callable[[], int],
        seen: Callable[[], pb.MetadataPosition],
    ) -> None:
        super().__init__()
        self._node_id = node_id
        self._directory = directory
        self._node_epoch = node_epoch
        self._seen = seen
        self._wanted = asyncio.Event()

    def propose(self, hosted: HostedPartition, isr: list[int]) -> None:
        isr_before = [] if hosted.replicas is None else list(hosted.replicas.isr)
        super().propose(hosted, isr)
        _log.info("%s: in-sync replicas %s, proposed %s", hosted.partition, isr_before, isr)
        self._wanted.set()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            proposals = self.to_send()
            if proposals and not await self._send(proposals):
                await asyncio.sleep(_RETRY_S)
                self._wanted.set()

    async def _send(self, proposals: dict[HostedPartition, Proposal]) -> bool:
        """Send these proposals for a changed ISR to the controller. False: it is not known what the controller decided,
        so they must be sent again.
        """
        request = pb.AlterPartitionRequest(
            node_id=self._node_id, node_epoch=self._node_epoch(), seen=self._seen()
        )
        self.fill(proposals, request.partitions)
        try:
            response = await self._directory.controller().AlterPartition(
                request, timeout=_TIMEOUT_S
            )
        except (TimeoutError, OSError, OncelogError) as error:
            _log.warning("the controller does not answer for in-sync replicas: %s", error)
            return False
        if response.status.error_code:
            name = error_code_of(response.status.error_code).name
            _log.warning("the controller takes no in-sync replicas from here: %s", name)
            settled = self.refused(proposals, response.status.error_code)
            if settled is None:
                return False
            for hosted in settled:
                hosted.follow_replicas()
            return True
        answered = self.settle_proposals(proposals, response.partitions)
        for hosted, proposal, code in answered.refused:
            isr, name = list(proposal.isr), error_code_of(code).name
            _log.info("%s: in-sync replicas %s refused: %s", hosted.partition, isr, name)
        for hosted in answered.settled:
            hosted.follow_replicas()
        return True
