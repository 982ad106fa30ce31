"""An operator under simulation, who does what no Kafka client can while everything goes on, rightly and wrongly.
It ends transactions by force, drains and removes nodes, and changes the levels of features.

The request is drawn when the fault `operate` begins, and sent once. A drain or a changed level must be undone. From the
end of the fault on the operator asks for that, until a controller has done it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio

from oncelog.api.v1 import (
    controller_pb2,
    coordinator_pb2,
)
from oncelog.rpc.channel import PlainStub
from oncelog.rpc.contract import CONTROLLER, TRANSACTION_COORDINATOR
from oncelog_robustness.simulator.cluster import RPC_PORT, SimCluster
from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.network import SimNetwork
from oncelog_robustness.simulator.process import ProcessState
from oncelog_robustness.simulator.world import World

CALL_TIMEOUT_S: Final = 2.0
PAUSE_S: Final = 0.5
FEATURES: Final = {"transaction.version": 2, "group.version": 1}
"""The levels of features before anybody changes them."""
NOBODY: Final = 99
"""The id of a node that does not exist."""
LATE_S: Final = 5.0
"""Seconds for which a request whose connection broke may still be carried out. After them the operator undoes its
action a second time, in case such a request came after the first undoing."""


class Operator:
    def __init__(self, world: World, cluster: SimCluster, network: SimNetwork) -> None:
        self._world = world
        self._cluster = cluster
        self._network = network
        self._process = world.new_process("admin")

    def operate(self, draw: random.Random) -> Callable[[], object]:
        """Begin one action of the operator, chosen by `draw`, and return the function that ends it."""
        is_over = asyncio.Event()
        work = draw.choice(
            (
                self._terminate,
                self._terminate,
                self._drain,
                self._level,
                self._remove,
                self._mistake,
            )
        )
        self._process.spawn(work(draw, is_over), "operate")
        return is_over.set

    # ------------------------------------------------------------------------------------------- transactions

    async def _terminate(self, draw: random.Random, is_over: asyncio.Event) -> None:
        """End a transaction by force: one that a coordinator lists, in whatever state it is, or
        one that does not exist."""
        dice, names = draw.random(), []
        for name in self._cluster.names("coordinator"):
            request = coordinator_pb2.ListTransactionsRequest(duration_filter_ms=-1)
            answer = await self.ask_coordinator(name, "ListTransactions", request)
            if answer is not None:
                # Open transactions come first.
                open_first = sorted(answer.transactions, key=lambda one: one.state != "Ongoing")
                names += [one.transactional_id for one in open_first]
        wanted = names[int(dice * dice * len(names))] if names and dice < 0.95 else "of-nobody"
        self._world.trace("terminate-transaction", wanted)
        termination = coordinator_pb2.ForceTerminateTransactionRequest(transactional_id=wanted)
        for name in self._cluster.names("coordinator"):
            answer = await self.ask_coordinator(name, "ForceTerminateTransaction", termination)
            if answer is not None and not answer.error_code:
                self._world.effects[Effect.OPERATED] += 1
                return

    async def ask_coordinator(self, name: str, method: str, request: Any) -> Any:
        """Call a coordinator and return its response; None when it did not answer."""
        return await self._call(name, TRANSACTION_COORDINATOR, method, request)

    # -------------------------------------------------------------------------------------------------- nodes

    async def _drain(self, draw: random.Random, is_over: asyncio.Event) -> None:
        node_id = self._drawn_node(draw)
        self._world.trace("drain", node_id)
        is_cancel = draw.random() < 0.2
        request = controller_pb2.DrainNodeRequest(node_id=node_id, cancel=is_cancel)
        if await self._of_controllers("DrainNode", request):
            self._world.effects[Effect.OPERATED] += 1
        if node_id != NOBODY:
            back = controller_pb2.DrainNodeRequest(node_id=node_id, cancel=True)
            await self._taken_back(is_over, lambda: self._of_controllers("DrainNode", back))

    async def _remove(self, draw: random.Random, is_over: asyncio.Event) -> None:
        """Remove a node: one that does not run, if there is any. A removed node registers again when it
        starts again."""
        idle = [
            member.node_id
            for name, member in self._cluster.members.items()
            if self._cluster.process(name).state is not ProcessState.RUNNING
        ]
        node_id = draw.choice(idle) if idle else self._drawn_node(draw)
        self._world.trace("remove", node_id)
        if await self._of_controllers(
            "RemoveNode", controller_pb2.RemoveNodeRequest(node_id=node_id)
        ):
            self._world.effects[Effect.OPERATED] += 1

    async def _mistake(self, draw: random.Random, is_over: asyncio.Event) -> None:
        """Send a drawn wrong request: about a topic that does not exist, in the name of a node that does not,
        or an empty one."""
        config = {"retention.ms": "1"}
        method, request = draw.choice(
            (
                ("AlterConfigs", controller_pb2.AlterConfigsRequest(name="none", set=config)),
                ("AllocateProducerIds", controller_pb2.AllocateProducerIdsRequest(node_id=NOBODY)),
                ("AlterPartition", controller_pb2.AlterPartitionRequest(node_id=NOBODY)),
                ("RegisterNode", controller_pb2.RegisterNodeRequest()),
            )
        )
        self._world.trace("mistake", method)
        await self._of_controllers(method, request)

    def _drawn_node(self, draw: random.Random) -> int:
        return draw.choice([NOBODY, *(one.node_id for one in self._cluster.members.values())])

    # ----------------------------------------------------------------------------------------------- features

    async def _level(self, draw: random.Random, is_over: asyncio.Event) -> None:
        """Change the level of a feature; now and then to one that does not exist, or to its present one."""
        feature = draw.choice(("transaction.version", "group.version", "no.such.version"))
        level = draw.randint(0, 3)
        self._world.trace("level", feature, level)
        request = controller_pb2.UpdateFeaturesRequest(levels={feature: level})
        if await self._of_controllers("UpdateFeatures", request):
            self._world.effects[Effect.OPERATED] += 1
        back = controller_pb2.UpdateFeaturesRequest(levels=FEATURES)
        await self._taken_back(is_over, lambda: self._of_controllers("UpdateFeatures", back))

    async def _taken_back(self, is_over: asyncio.Event, ask: Callable[[], Awaitable[bool]]) -> None:
        await is_over.wait()
        for pause_s in (0.0, LATE_S):
            await asyncio.sleep(pause_s)
            while True:
                if await ask():
                    break
                await asyncio.sleep(PAUSE_S)

    async def _of_controllers(self, method: str, request: Any) -> bool:
        """Send a request to the controllers in turn.
        True if one of them, the active one, has done it or found it done."""
        for name in self._cluster.names("controller"):
            answer = await self._call(name, CONTROLLER, method, request)
            if answer is not None and not answer.status.error_code:
                return True
        return False

    async def _call(self, name: str, service: str, method: str, request: Any) -> Any:
        """Call a method of a process and return the response; None when it did not answer."""
        address = f"{self._network.address_of(name)}:{RPC_PORT}"
        async with grpc.aio.insecure_channel(address) as channel:
            try:
                call = getattr(PlainStub(channel, service), method)
                return await call(request, timeout=CALL_TIMEOUT_S)
            except grpc.aio.AioRpcError:
                return None
