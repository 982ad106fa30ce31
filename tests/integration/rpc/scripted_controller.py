"""A controller that does what a test tells it: a real one cannot be asked to refuse, fence or fall silent.

It implements the calls that a node makes, in the simplest way that obeys the contract.
"""

import asyncio

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1 import types_pb2 as types
from oncelog.errors import ErrorCode
from oncelog.rpc.contract import CONTROLLER
from oncelog.rpc.server import RpcServer
from oncelog.rpc.sessions import SessionLimits

DEADLINE_S = 90


class Cluster:
    """What controllers share: the metadata that they would keep in a database."""

    def __init__(self):
        self.offset = 0
        self.nodes = {}
        self.incarnations = {}
        self.next_node_epoch = 1
        self.drained = set()
        self.fenced = set()
        self.beats = []
        self.changed = asyncio.Condition()

    async def change(self, *nodes):
        for node in nodes:
            self.nodes[node.node_id] = node
        self.offset += 1
        await self.tell()

    async def tell(self):
        async with self.changed:
            self.changed.notify_all()

    async def until(self, holds):
        async with asyncio.timeout(DEADLINE_S), self.changed:
            await self.changed.wait_for(holds)

    async def grown_beyond(self, offset):
        async with self.changed:
            await self.changed.wait_for(lambda: self.offset != offset)

    def update(self):
        snapshot = pb.MetadataSnapshot(cluster_id="scripted", nodes=self.nodes.values())
        return pb.MetadataUpdate(metadata_offset=self.offset, snapshot=snapshot)


class ScriptedController:
    """Set `active` and the codes that the next answers carry as the test likes."""

    def __init__(self, cluster, node_id, *, active=True):
        self.cluster = cluster
        self.node_id = node_id
        self.active = active
        self.register_codes = []
        self.heartbeat_codes = []
        self.created = []
        self.session_timeout_ms = 500
        self.rpc_address = ""
        self.described = 0

    async def DescribeController(self, request, context):  # noqa: N802
        self.described += 1
        await self.cluster.tell()
        return pb.DescribeControllerResponse(
            node_id=self.node_id,
            active=self.active,
            active_node_id=-1,
            active_rpc_address=self.rpc_address if self.active else "",
        )

    async def RegisterNode(self, request, context):  # noqa: N802
        if not self.active:
            return pb.RegisterNodeResponse(status=status(ErrorCode.NOT_CONTROLLER))
        if self.register_codes:
            return pb.RegisterNodeResponse(status=status(self.register_codes.pop(0)))
        node, cluster = request.node, self.cluster
        if cluster.incarnations.get(node.node_id) != request.incarnation_id:
            cluster.incarnations[node.node_id] = request.incarnation_id
            node.node_epoch = cluster.next_node_epoch
            cluster.next_node_epoch += 1
            node.fenced = True
            await cluster.change(node)
        return pb.RegisterNodeResponse(
            node_epoch=cluster.nodes[node.node_id].node_epoch,
            session_timeout_ms=self.session_timeout_ms,
        )

    async def NodeSession(self, requests, context):  # noqa: N802
        async for beat in requests:
            yield await self._answer_to(beat)

    async def _answer_to(self, beat):
        cluster = self.cluster
        cluster.beats.append((self.node_id, beat))
        await cluster.tell()
        if not self.active:
            return pb.NodeHeartbeatResponse(status=status(ErrorCode.NOT_CONTROLLER))
        if self.heartbeat_codes:
            return pb.NodeHeartbeatResponse(status=status(self.heartbeat_codes.pop(0)))
        node = cluster.nodes.get(beat.node_id)
        if node is None:
            return pb.NodeHeartbeatResponse(status=status(ErrorCode.BROKER_ID_NOT_REGISTERED))
        if node.fenced:
            node.fenced = False
            await cluster.change(node)
        return pb.NodeHeartbeatResponse(drained=beat.want_drain and beat.node_id in cluster.drained)

    async def WatchMetadata(self, request, context):  # noqa: N802
        seen = request.from_metadata_offset
        while True:
            if seen == self.cluster.offset:
                await self.cluster.grown_beyond(seen)
            seen = self.cluster.offset
            yield self.cluster.update()

    async def CreateTopics(self, request, context):  # noqa: N802
        if not self.active:
            results = [pb.TopicResult(name=t.name, error_code=41) for t in request.topics]
            return pb.CreateTopicsResponse(results=results)
        self.created += [topic.name for topic in request.topics]
        return pb.CreateTopicsResponse(
            results=[pb.TopicResult(name=topic.name) for topic in request.topics]
        )


def status(error_code):
    return types.Status(error_code=error_code)


class Served:
    """A servicer on a port of its own, which can be taken away and brought back."""

    def __init__(self, servicer, service_name=CONTROLLER, limits=None):
        self.servicer = servicer
        self._service_name = service_name
        self._limits = limits or SessionLimits()
        self._port = 0
        self.server = None

    async def start(self):
        self.server = RpcServer("127.0.0.1", self._port, self._limits)
        self.server.served.add(self._service_name, self.servicer)
        await self.server.start()
        self._port = self.server.port
        return self

    async def stop(self):
        await self.server.stop(0)

    @property
    def address(self):
        return f"127.0.0.1:{self._port}"

    async def __aenter__(self):
        return await self.start()

    async def __aexit__(self, *_):
        await self.stop()
