"""Heartbeats of the consumer protocol that were held up on their way (ADR 0018)."""

from tests.integration.coordinator.whole_log import whole_log

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.api.v1 import types_pb2


class Member:
    """`owned` is what it says that it reads; it gives up what it must only with its next heartbeat."""

    def __init__(self, log, member_id, connection):
        self.log = log
        self.member_id = member_id
        self.connection = connection
        self.epoch = 0
        self.requests = 0
        self.owned = frozenset()

    async def beat(self):
        self.requests += 1
        answer = await self.send(self.requests, self.epoch, self.owned)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment_present:
            self.owned = frozenset(
                (one.topic_id, number) for one in answer.assignment for number in one.partitions
            )
        return answer

    async def send(self, request, epoch, owned):
        ids = {topic_id for topic_id, _ in owned}
        return await self.log.role.group_servicer.ConsumerGroupHeartbeat(
            pb.ConsumerGroupHeartbeatRequest(
                group_id="readers",
                member_id=self.member_id,
                member_epoch=epoch,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=["orders"],
                subscription_present=True,
                owned=[
                    pb.TopicIdPartitions(
                        topic_id=each, partitions=[number for id_, number in owned if id_ == each]
                    )
                    for each in ids
                ],
                owned_present=True,
                origin=types_pb2.RequestOrigin(
                    listener=5, connection=self.connection, request=request
                ),
            ),
            None,
        )


async def test_a_late_join_gives_up_nothing_that_its_member_reads(tmp_path):
    """The listener asked again, and the member lives by the second answer. Who joins owns nothing, says the copy; so
    what the member has yet to give up would go to another one at once."""

    async with whole_log(tmp_path) as log:
        first, second = Member(log, "one", 1), Member(log, "two", 2)
        await first.beat()
        copy_of_join = first.requests, 0, frozenset()
        read_by_first = first.owned
        assert len(read_by_first) == 3
        await second.beat()
        assert not second.owned
        for _ in range(2):
            await first.send(*copy_of_join)
            await second.beat()
            assert not second.owned & read_by_first, "which the first one has not given up"
            await first.beat()
        await second.beat()
        assert (len(first.owned), len(second.owned)) == (2, 1)
        assert first.owned | second.owned == read_by_first
