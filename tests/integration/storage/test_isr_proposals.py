"""Proposals of in-sync replicas on their way to the controller, when the image is faster than the answer."""

import asyncio
from dataclasses import dataclass

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.ids import Partition
from oncelog_storage.core.leader_state import LeaderState
from oncelog_storage.isr_proposals import IsrProposals


class SlowController:
    """Takes every proposal, and answers when it is told to."""

    def __init__(self):
        self.requests = asyncio.Queue()
        self.answers = asyncio.Semaphore(0)

    def controller(self):
        return self

    async def AlterPartition(self, request, timeout):  # noqa: N802  (the contract's name)
        self.requests.put_nowait([list(one.isr) for one in request.partitions])
        await self.answers.acquire()
        return pb.AlterPartitionResponse()


@dataclass(eq=False)
class Leader:
    partition: Partition
    replicas: LeaderState


async def test_an_answer_closes_only_the_proposal_that_it_answers():
    controller = SlowController()
    proposals = IsrProposals(11, controller, lambda: 1)
    state = LeaderState(11, 0, 0, [11, 12, 13], [11, 12], 5, now=0.0)
    leader = Leader(Partition("t", 0), state)
    runs = asyncio.create_task(proposals.run())
    proposals.propose(leader, [11])
    assert await controller.requests.get() == [[11]]
    # The image brings it before the answer does, and a follower has caught up meanwhile.
    state.image_moved([11, 12, 13], [11], 6, now=1.0)
    proposals.propose(leader, [11, 13])
    controller.answers.release()
    assert await controller.requests.get() == [[11, 13]]
    runs.cancel()
