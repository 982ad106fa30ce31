"""Sessions over the service: fenced until the first heartbeat, fenced when the stream breaks, drained, replaced."""

import asyncio
from contextlib import asynccontextmanager

from tests.integration.controller.controller_at import allocate, controller_at, create, followed

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import TRANSACTION_STATE_TOPIC

DEADLINE_S = 90
STORAGE, COORDINATOR = pb.ROLE_STORAGE, pb.ROLE_COORDINATOR
SETTINGS = {
    "bootstrap_storage_nodes": 3,
    "transaction_shard_count": 6,
    "group_shard_count": 4,
    "session_grace_ms": 100,
    "session_timeout_ms": 600_000,
}


class Node:
    """A process that registers and keeps a session, as the others see it."""

    def __init__(self, stub, node_id, role=STORAGE, incarnation_id="first", address="unknown"):
        self.stub, self.node_id, self.role = stub, node_id, role
        self.incarnation_id = incarnation_id
        self.address = address
        self._beats = asyncio.Queue()
        self.answers = None

    async def register(self):
        node = pb.Node(node_id=self.node_id, roles=[self.role], rpc_address=self.address)
        return await self.stub.RegisterNode(
            pb.RegisterNodeRequest(node=node, incarnation_id=self.incarnation_id)
        )

    async def join(self):
        answer = await self.register()
        assert answer.status.error_code == ErrorCode.NONE, answer
        self.node_epoch = answer.node_epoch
        self.answers = self.stub.NodeSession(self._requests())
        assert (await self.beat()).status.error_code == ErrorCode.NONE
        return self

    async def _requests(self):
        while (request := await self._beats.get()) is not None:
            yield request

    async def beat(self, want_drain=False):
        self._beats.put_nowait(
            pb.NodeHeartbeatRequest(
                node_id=self.node_id, node_epoch=self.node_epoch, want_drain=want_drain
            )
        )
        async with asyncio.timeout(DEADLINE_S):
            return await anext(self.answers)

    async def die(self):
        """The stream breaks."""
        await self.answers.aclose()


@asynccontextmanager
async def cluster(database_url, **settings):
    """Three storage nodes and two coordinators."""
    async with (
        controller_at(database_url, **{**SETTINGS, **settings}) as stub,
        followed(stub) as follower,
    ):
        nodes = {}
        for node_id, role in ((1, STORAGE), (2, STORAGE), (3, STORAGE), (4, COORDINATOR)):
            nodes[node_id] = await Node(stub, node_id, role).join()
        nodes[5] = await Node(stub, 5, COORDINATOR).join()
        yield stub, follower, nodes


async def image_with(follower, condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition(follower.image):
            await follower.wait_until(follower.image.metadata_offset + 1, DEADLINE_S)
    return follower.image


def owners(image):
    return {shard.coordinator for shard in image.shards.values()}


async def test_a_node_is_fenced_until_its_first_heartbeat(sqlite_url):
    async with cluster(sqlite_url) as (stub, follower, _):
        image = await image_with(follower, lambda image: owners(image) == {4, 5})
        topic = image.topics[TRANSACTION_STATE_TOPIC]
        assert topic.configs["min.insync.replicas"] == "2"
        assert sorted(p.leader for p in topic.partitions) == [1, 1, 2, 2, 3, 3]
        newcomer = Node(stub, 6, COORDINATOR)
        await newcomer.register()
        image = await image_with(follower, lambda image: 6 in image.nodes)
        assert image.nodes[6].fenced
        assert 6 not in owners(image)
        await newcomer.join()
        image = await image_with(follower, lambda image: 6 in owners(image))
        assert not image.nodes[6].fenced


async def test_a_broken_stream_fences_and_moves_what_the_node_had(sqlite_url):
    async with cluster(sqlite_url) as (stub, follower, nodes):
        made = await create(stub, "orders", partitions=3, replication_factor=3)
        await follower.wait_until(made.metadata_offset)
        before = follower.image
        await nodes[1].die()
        await nodes[4].die()
        image = await image_with(
            follower, lambda image: image.nodes[1].fenced and image.nodes[4].fenced
        )
        assert owners(image) == {5}
        for was, now in zip(
            before.topics["orders"].partitions, image.topics["orders"].partitions, strict=True
        ):
            assert sorted(now.isr) == [2, 3]
            assert now.leader in (2, 3)
            assert now.leader_epoch == was.leader_epoch + (was.leader == 1)
        await Node(stub, 1, incarnation_id="second").join()
        image = await image_with(follower, lambda image: not image.nodes[1].fenced)
        assert sorted(image.topics["orders"].partitions[0].isr) == [2, 3]


async def test_a_stream_opened_again_within_the_grace_keeps_the_node(sqlite_url):
    async with cluster(sqlite_url, session_grace_ms=60_000) as (stub, follower, nodes):
        await nodes[1].die()
        nodes[1].answers = stub.NodeSession(nodes[1]._requests())
        answer = await nodes[1].beat()
        assert (answer.status.error_code, answer.fenced) == (ErrorCode.NONE, False)
        assert not follower.image.nodes[1].fenced


async def test_a_node_whose_port_is_closed_is_not_waited_for(sqlite_url):
    async with cluster(sqlite_url, session_grace_ms=60_000) as (stub, follower, _):
        gone = await Node(stub, 6, COORDINATOR, address="127.0.0.1:1").join()
        await gone.die()
        await image_with(follower, lambda image: 6 in image.nodes and image.nodes[6].fenced)


async def test_a_silent_node_is_fenced_after_its_session(sqlite_url):
    async with cluster(sqlite_url, session_timeout_ms=400) as (_, follower, nodes):
        await image_with(follower, lambda image: image.nodes[2].fenced)
        # It was only slow: its next heartbeat brings it back.
        assert not (await nodes[2].beat()).fenced
        await image_with(follower, lambda image: not image.nodes[2].fenced)


async def test_a_second_process_is_refused_while_the_first_lives(sqlite_url):
    async with cluster(sqlite_url) as (stub, follower, nodes):
        twin = await Node(stub, 1, incarnation_id="twin").register()
        assert twin.status.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        old_epoch = nodes[1].node_epoch
        await nodes[1].die()
        successor = await Node(stub, 1, incarnation_id="twin").join()
        assert successor.node_epoch > old_epoch
        stale = await allocate(stub, old_epoch, node_id=1)
        assert stale.status.error_code == ErrorCode.STALE_BROKER_EPOCH
        await image_with(follower, lambda image: not image.nodes[1].fenced)


async def test_a_draining_node_is_told_when_it_may_stop(sqlite_url):
    async with cluster(sqlite_url) as (_, follower, nodes):
        for node_id in (1, 4):
            assert (await nodes[node_id].beat(want_drain=True)).drained
        image = await image_with(follower, lambda image: image.nodes[4].draining)
        assert owners(image) == {5}
        leaders = {p.leader for topic in image.topics.values() for p in topic.partitions}
        assert leaders == {2, 3}
        await nodes[1].die()
        await image_with(follower, lambda image: image.nodes[1].fenced)
        await Node(nodes[1].stub, 1, incarnation_id="second").join()
        image = await image_with(follower, lambda image: not image.nodes[1].fenced)
        assert not image.nodes[1].draining


async def given(stub, incarnation_id, **fields):
    node = pb.Node(roles=[pb.ROLE_GATEWAY], rpc_address="unknown", **fields)
    request = pb.RegisterNodeRequest(node=node, incarnation_id=incarnation_id)
    return await stub.RegisterNode(request)


async def test_an_id_that_was_given_and_never_used_is_forgotten(
    sqlite_url,
):
    async with (
        controller_at(sqlite_url, session_timeout_ms=400) as stub,
        followed(stub) as follower,
    ):
        answer = await given(stub, "first")
        await image_with(follower, lambda image: answer.node_id in image.nodes)
        assert follower.image.nodes[answer.node_id].given
        await image_with(follower, lambda image: answer.node_id not in image.nodes)


async def test_a_given_id_is_freed_by_the_next_controller(sqlite_url):
    async with controller_at(sqlite_url, session_timeout_ms=60_000) as stub:
        first = await given(stub, "first")
    async with (
        controller_at(sqlite_url, session_timeout_ms=400) as stub,
        followed(stub) as follower,
    ):
        assert (await given(stub, "second")).node_id != first.node_id
        await image_with(follower, lambda image: not image.nodes)
