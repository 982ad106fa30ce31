"""FindCoordinator: the listener that is asked (ADR 0017)."""

import pytest
from tests.unit.listener.listener_image import NODE_ID
from tests.unit.listener.listener_world import World
from tests.unit.listener.wire_client import WireClient

from oncelog.api.v1 import controller_pb2
from oncelog.rpc.metadata import GROUP, TRANSACTION


@pytest.mark.parametrize(("key_type", "kind"), [(0, GROUP), (1, TRANSACTION)])
async def test_the_asked_one_coordinates_while_the_shard_has_no_owner(key_type, kind):
    """librdkafka's send_offsets_to_transaction hung for ten minutes after three refusals."""
    world = World()

    async with world.listening() as role:
        nobody = [
            controller_pb2.Shard(kind=kind, shard=n, coordinator=-1, coordinator_epoch=1)
            for n in range(50)
        ]
        await world.metadata.wait_until(world.controller.change(shards=nobody))
        client = await WireClient.connect(role.port)
        for version in (1, 4):
            key = {"coordinator_keys": ("pay",)} if version >= 4 else {"key": "pay"}
            found = await client.call(10, version, key_type=key_type, **key)
            place = found.coordinators[0] if version >= 4 else found
            assert (place.error_code, place.node_id, place.port) == (0, NODE_ID, role.port)
