"""A process of one role (storage, coordinator, listener, …): a node that registers, follows the metadata, and runs the
role on top.

Ready means ready: the node has registered, it has the newest metadata, the role has started (storage: every partition
is recovered, and its replicas are in sync again). Only then does the health service say SERVING. At the end it says
NOT_SERVING before anything else happens.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from pydantic_settings import BaseSettings

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1.process_pb2 import DescribeProcessResponse
from oncelog.process.logs import log_as_node
from oncelog.process.published_configs import published
from oncelog.process.role_metrics import RoleMetric
from oncelog.process.run import Program, Running, Settings, run
from oncelog.rpc.contract import PROCESS
from oncelog.rpc.node import Node, NodeHistory
from oncelog.rpc.node_settings import NamedNodeSettings, NodeSettings
from oncelog.rpc.process_servicer import ProcessServicer
from oncelog.rpc.role import Role

RoleSettingsT = TypeVar("RoleSettingsT", bound=BaseSettings)
RoleT = TypeVar("RoleT", bound=Role)


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """The address at which Kafka clients reach a listener. The node registers it, and other listeners tell it to
    clients."""

    host: str
    port: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """Further configs of the node's registration, under Kafka's names."""


@dataclass(frozen=True, slots=True)
class RoleProgram(Generic[RoleSettingsT, RoleT]):
    """The parts in which the programs of the roles differ: settings, how to build the role, its RPC services and
    metrics."""

    module: str
    summary: str
    role: pb.Role
    settings: type[RoleSettingsT]
    build: Callable[[RoleSettingsT, Node], RoleT]
    services: Callable[[RoleT], dict[str, object]] = lambda role: {}
    """A function that returns the servicers of the built role, by the name of their service."""
    kafka_address: Callable[[RoleSettingsT, NodeSettings], KafkaAddress] | None = None
    metrics: Callable[[RoleT], Iterable[RoleMetric]] = lambda role: ()
    """A function that returns the metrics of the built role, for `/metrics` of the process."""
    tell: Callable[[RoleT, DescribeProcessResponse], None] = lambda role, answer: None
    """A function that writes the built role's numbers into the answer for gateways that ask its process."""
    is_whole: Callable[[RoleT], Awaitable[None]] | None = None
    """Returns when the started role, whose node is alive, has caught up: only then is the process ready."""
    history: Callable[[RoleSettingsT], NodeHistory] | None = None
    """A function that reads a node's history from the role's data folder, for roles that have one."""
    node: type[NodeSettings] = NamedNodeSettings
    """The class of the node's settings. With `NodeSettings` the controller may give the node id, as the process has no
    state of its own."""

    def run(self) -> int:
        """Run the role's process from start to end, and return its exit code."""
        return run(self.program)

    @property
    def program(self) -> Program:
        """The program that `run` runs."""
        return Program(
            module=self.module,
            summary=self.summary,
            settings=(self.node, self.settings),
            node_id=lambda settings: settings[self.node].node_id,
            open=self._open,
        )

    @asynccontextmanager
    async def _open(self, settings: Settings) -> AsyncIterator[Running]:
        own = settings[self.settings]
        node = Node(settings[self.node], [self.role])
        configs = published(pb.Role.Name(self.role).removeprefix("ROLE_").lower(), own)
        if self.kafka_address is not None:
            address = self.kafka_address(own, settings[self.node])
            node.advertise_kafka(address.host, address.port)
            configs = {**configs, **address.configs}
        node.configs = configs
        if self.history is not None:
            node.history = self.history(own)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(node.stop)
            await node.claim()
            log_as_node(node.node_id)
            role = self.build(own, node)
            await node.start()
            # The services are added before the role starts: it may call its own services while it does.
            for name, servicer in self.services(role).items():
                node.serve(name, servicer)
            node.serve(PROCESS, ProcessServicer(node.node_id, partial(self.tell, role)))
            await role.start()
            stack.push_async_callback(role.stop)
            await node.ready(partial(self.is_whole, role) if self.is_whole else None)
            stack.push_async_callback(node.ready_no_more)
            yield Running(
                role,
                node.node_id,
                f"node {node.node_id} serves on {node.rpc_address}",
                lambda: node.server.is_ready,
                lambda: self.metrics(role),
                node.failure,
                node.drain,
            )
