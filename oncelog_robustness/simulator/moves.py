"""An operator under simulation who moves replicas of partitions while everything goes on: the fault `move`.

The request is drawn when the fault begins. It is sent to every controller in turn, until one has done it. A request
that no controller took is not repeated: operators do not do so either.
"""

import random
from typing import Any, Final

import grpc
import grpc.aio

from oncelog.api.v1 import controller_pb2
from oncelog.api.v1.types_pb2 import TopicPartition
from oncelog.rpc.channel import PlainStub
from oncelog.rpc.contract import CONTROLLER
from oncelog.rpc.metadata import MetadataImage
from oncelog_robustness.simulator.cluster import RPC_PORT, SimCluster
from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.network import SimNetwork
from oncelog_robustness.simulator.world import World

CALL_TIMEOUT_S: Final = 2.0


class Mover:
    def __init__(self, world: World, cluster: SimCluster, network: SimNetwork) -> None:
        self._world = world
        self._cluster = cluster
        self._network = network
        self._process = world.new_process("operator")

    def move(self, draw: random.Random) -> None:
        """Draw a partition that a running node knows of and new replicas for it, and begin to ask controllers
        for the move. Do nothing when no node runs."""
        images = [role.image for _, role in self._cluster.running("storage")]
        image: MetadataImage | None = max(images, key=lambda one: one.metadata_offset, default=None)
        if image is None or not image.topics:
            return
        topic = image.topics[draw.choice(sorted(image.topics))]
        partition = draw.choice(list(topic.partitions))
        nodes = [self._cluster.members[name].node_id for name in self._cluster.names("storage")]
        settled = [one for one in partition.replicas if one not in partition.adding_replicas]
        wanted = draw.sample(nodes, min(len(settled), len(nodes)))
        request = controller_pb2.ReassignPartitionsRequest(
            assignments=[
                controller_pb2.ReassignPartitionsRequest.Assignment(
                    partition=TopicPartition(topic=topic.name, partition=partition.partition),
                    replicas=wanted,
                )
            ]
        )
        self._world.trace("move", topic.name, partition.partition, *wanted)
        self._process.spawn(self._ask(request), "move")

    async def _ask(self, request: Any) -> None:
        for name in self._cluster.names("controller"):
            address = f"{self._network.address_of(name)}:{RPC_PORT}"
            async with grpc.aio.insecure_channel(address) as channel:
                stub = PlainStub(channel, CONTROLLER)
                try:
                    answer = await stub.ReassignPartitions(request, timeout=CALL_TIMEOUT_S)
                except grpc.aio.AioRpcError:
                    continue
                if answer.partitions and not answer.partitions[0].error_code:
                    self._world.effects[Effect.REPLICAS_MOVED] += 1
                    return
