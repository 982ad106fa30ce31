"""The directory follows the image: who is where, who has moved, and who sends markers."""

import asyncio

import pytest
from tests.contracts.stub import ScriptedStorage, length_of, produce
from tests.integration.rpc.scripted_controller import Served

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc.cluster_directory import ClusterDirectory
from oncelog.rpc.contract import MARKER_SENDER, STORAGE
from oncelog.rpc.controller_stub import ActiveControllerStub
from oncelog.rpc.metadata import MetadataFollower
from oncelog.rpc.session_pool import SessionPool
from oncelog.rpc.sessions import PeerUnavailable, SessionLimits

OWN = 1


class World:
    def __init__(self):
        self.pool = SessionPool(SessionLimits())
        controller = ActiveControllerStub(["127.0.0.1:1"], self.pool)
        self.metadata = MetadataFollower(OWN, controller)
        self.directory = ClusterDirectory(
            OWN, self.metadata, controller, frozenset({"127.0.0.1:1"}), self.pool
        )
        self._offset = 0

    def tell(self, *nodes, removed=()):
        """A delta; the first one is a snapshot, as from a controller."""
        self._offset += 1
        update = pb.MetadataUpdate(metadata_offset=self._offset)
        if self._offset == 1:
            update.snapshot.nodes.extend(nodes)
        else:
            update.delta.nodes.extend(nodes)
            update.delta.removed_nodes.extend(removed)
        self.metadata.apply_update(update)


@pytest.fixture
async def world():
    made = World()
    yield made
    await made.pool.close()


def storage(node_id, address, **given):
    return pb.Node(node_id=node_id, roles=[pb.ROLE_STORAGE], rpc_address=address, **given)


def marker_sender(node_id, **given):
    return pb.Node(
        node_id=node_id,
        roles=[pb.ROLE_MARKER_SENDER],
        rpc_address=f"127.0.0.1:{node_id}",
        **given,
    )


async def test_what_is_local_is_called_directly(world):
    world.directory.add_local(STORAGE, ScriptedStorage())
    assert length_of(await world.directory.storage(OWN).Produce(produce(length=2))) == 2
    with pytest.raises(KeyError):
        world.directory.coordinator(OWN)


async def test_an_unknown_node_is_a_key_error(world):
    world.tell(pb.Node(node_id=3))
    for node_id in (3, 4):
        with pytest.raises(KeyError):
            world.directory.storage(node_id)


async def test_a_node_that_moves_is_followed_and_its_old_session_ends(world):
    async with (
        Served(ScriptedStorage(), STORAGE) as before,
        Served(ScriptedStorage(), STORAGE) as after,
    ):
        world.tell(storage(2, before.address))
        stub = world.directory.storage(2)
        assert world.directory.storage(2) is stub
        waits = asyncio.create_task(stub.Produce(produce("waits")))
        await before.servicer.until(lambda: before.servicer.in_flight == 1)
        world.tell(storage(2, after.address))
        with pytest.raises(PeerUnavailable):
            await waits
        await world.directory.storage(2).Produce(produce())
        assert after.servicer.begun == 1
        world.tell(removed=[2])
        with pytest.raises(KeyError):
            world.directory.storage(2)


async def test_a_fenced_node_is_still_called(world):
    async with Served(ScriptedStorage(), STORAGE) as served:
        world.tell(storage(2, served.address, fenced=True))
        assert length_of(await world.directory.storage(2).Produce(produce(length=1))) == 1


async def test_one_marker_sender_is_kept_while_it_lives(world):
    with pytest.raises(KeyError):
        world.directory.marker_sender()
    world.tell(marker_sender(11), marker_sender(12, fenced=True), marker_sender(13))
    chosen = world.directory.marker_sender()
    world.tell(marker_sender(12), marker_sender(14))
    assert world.directory.marker_sender() is chosen
    world.tell(marker_sender(13, fenced=True))
    assert world.directory.marker_sender() is not chosen
    world.tell(removed=[11, 12, 13, 14])
    with pytest.raises(KeyError):
        world.directory.marker_sender()


async def test_a_local_marker_sender_comes_first(world):
    world.tell(marker_sender(11))
    world.directory.add_local(MARKER_SENDER, object())
    local = world.directory.marker_sender()
    assert local is world.directory.marker_sender()
    world.tell(marker_sender(12))
    assert world.directory.marker_sender() is local
