"""Answers that come late: to a follower whose log was cut meanwhile, and to a leader that has a newer image."""

import asyncio
from dataclasses import dataclass

from oncelog.api.v1 import controller_pb2
from oncelog.api.v1 import storage_pb2 as pb
from oncelog.ids import Partition
from oncelog_storage.core.leader_state import LeaderState
from oncelog_storage.isr_proposals import IsrProposals
from oncelog_storage.replica_fetcher import ReplicaFetcher
from oncelog_storage.settings import StorageSettings

FIRST, SECOND = Partition("t", 0), Partition("t", 1)


class Log:
    """A followed log that only counts offsets. Its `take` waits for `gate`, as for a disk."""

    is_failed = False
    is_durable = True

    def __init__(self, partition):
        self.partition = partition
        self.end = 25
        self.taken = []
        self.gate = asyncio.Event()
        self.has_taken = asyncio.Event()

    @property
    def position(self):
        return self.end, 0, 0

    def fill(self, part):
        part.topic, part.partition = self.partition
        part.fetch_offset = self.end

    def apply_fetched(self, part):
        self.taken.append((self.end, part.high_watermark))
        self.end += 1
        self.has_taken.set()
        return self.gate.wait()


class Leader:
    """Answers the first request with both partitions, and none after it."""

    def __init__(self):
        self.requests = asyncio.Queue()
        self.answered = False

    def storage(self, node_id):
        return self

    async def ReplicaFetch(self, request, timeout):  # noqa: N802  (the contract's name)
        self.requests.put_nowait(request)
        if self.answered:
            await asyncio.Event().wait()
        self.answered = True
        answer = pb.ReplicaFetchResponse(session_id=7)
        for topic, number in (FIRST, SECOND):
            answer.partitions.add(topic=topic, partition=number, high_watermark=26)
        return answer


async def test_an_answer_to_an_older_position_is_dropped():
    leader, logs = Leader(), {one: Log(one) for one in (FIRST, SECOND)}
    fetcher = ReplicaFetcher(
        12, 11, lambda: 1, StorageSettings(), leader, lambda held: logs[held.partition]
    )
    for log in logs.values():
        fetcher.follow(log)
    fetcher.start()
    request = await leader.requests.get()
    assert [one.fetch_offset for one in request.partitions] == [25, 25]
    await logs[FIRST].has_taken.wait()
    # While the first waits for its disk, the second is found damaged and begins again.
    logs[SECOND].end = 0
    logs[FIRST].gate.set()
    again = await leader.requests.get()
    assert logs[SECOND].taken == []
    assert {one.partition: one.fetch_offset for one in again.partitions} == {0: 26, 1: 0}
    await fetcher.stop()


async def test_a_stop_ends_a_fetcher_just_interrupted():
    leader, logs = Leader(), {one: Log(one) for one in (FIRST, SECOND)}
    fetcher = ReplicaFetcher(
        12, 11, lambda: 1, StorageSettings(), leader, lambda held: logs[held.partition]
    )
    leader.answered = True
    fetcher.follow(logs[FIRST])
    fetcher.start()
    await leader.requests.get()
    fetcher.follow(logs[SECOND])
    async with asyncio.timeout(30):
        await fetcher.stop()


# A leader's proposals of in-sync replicas, when the image is faster than the controller's answer.


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
        return controller_pb2.AlterPartitionResponse()


@dataclass(eq=False)
class LedPartition:
    partition: Partition
    replicas: LeaderState


async def test_an_answer_closes_only_the_proposal_that_it_answers():
    controller = SlowController()
    proposals = IsrProposals(11, controller, lambda: 1, controller_pb2.MetadataPosition)
    state = LeaderState(11, 0, 0, [11, 12, 13], [11, 12], 5, now=0.0)
    leader = LedPartition(Partition("t", 0), state)
    runs = asyncio.create_task(proposals.run())
    proposals.propose(leader, [11])
    assert await controller.requests.get() == [[11]]
    # The image brings it before the answer does, and a follower has caught up meanwhile.
    state.image_moved([11, 12, 13], [11], 6, now=1.0)
    proposals.propose(leader, [11, 13])
    controller.answers.release()
    assert await controller.requests.get() == [[11, 13]]
    runs.cancel()
