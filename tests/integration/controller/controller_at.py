"""A started controller with the calls these tests make, on any database."""

import asyncio
from contextlib import asynccontextmanager

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.metadata import MetadataFollower
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import build_controller

ALL_ROLES = (1, 2, 3, 4, 5, 6)


@asynccontextmanager
async def controller_at(database_url, **settings):
    """A stub of a controller that runs until the block ends."""
    role = build_controller(ControllerSettings(database_url=database_url, **settings))
    await role.start()
    try:
        yield DirectStub(role.servicer)
    finally:
        await role.stop()


@asynccontextmanager
async def followed(stub, node_id=1):
    """A follower of the metadata, and the end of its stream as a task."""
    follower = MetadataFollower(node_id, stub)
    task = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def register(stub, incarnation_id="first", node_id=1, roles=ALL_ROLES):
    node = pb.Node(node_id=node_id, roles=roles, kafka_host="localhost", kafka_port=9092)
    return await stub.RegisterNode(pb.RegisterNodeRequest(node=node, incarnation_id=incarnation_id))


async def create(stub, *names, **fields):
    topics = [
        pb.NewTopic(
            name=name,
            partitions=fields.get("partitions", -1),
            replication_factor=fields.get("replication_factor", -1),
        )
        for name in names
    ]
    return await stub.CreateTopics(pb.CreateTopicsRequest(topics=topics))


async def allocate(stub, node_epoch, node_id=1):
    return await stub.AllocateProducerIds(
        pb.AllocateProducerIdsRequest(node_id=node_id, node_epoch=node_epoch)
    )
