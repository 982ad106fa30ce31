"""A controller pod that is started again has its old name and another address: callers must find it there at once. One
that takes over is found although no name is resolved in that moment.

gRPC waits 30 s between two resolutions of a name by one channel. A session has a channel for each stream, so that wait
never applies; a channel that outlived its stream would bring it back.
"""

import asyncio
import socket
import struct
from contextlib import asynccontextmanager

import pytest
from tests.integration.rpc.scripted_controller import (
    DEADLINE_S,
    Cluster,
    ScriptedController,
    Served,
)

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc import controller_stub
from oncelog.rpc.contract import CONTROLLER
from oncelog.rpc.controller_stub import ActiveControllerStub
from oncelog.rpc.node import Node
from oncelog.rpc.node_settings import NodeSettings
from oncelog.rpc.server import RpcServer
from oncelog.rpc.session_pool import SessionPool
from oncelog.rpc.sessions import PeerUnavailable, SessionLimits

FOUND_WITHIN_S = 15
"""Of a busy machine, and half of what gRPC would wait."""
TYPE_A = 1
FIRST_HOST, SECOND_HOST = "127.0.0.1", "127.0.0.2"


class NameServer(asyncio.DatagramProtocol):
    """Answers every question for an IPv4 address with `host`, as a name server that caches nothing."""

    host = FIRST_HOST
    is_away = False

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        if self.is_away:
            return
        header_bytes, type_and_class_bytes = 12, 4
        end = data.index(b"\0", header_bytes) + 1 + type_and_class_bytes
        (asked_type,) = struct.unpack("!H", data[end - 4 : end - 2])
        answers = []
        if asked_type == TYPE_A:
            record = struct.pack("!HHHIH", 0xC00C, TYPE_A, 1, 1, 4)
            answers.append(record + socket.inet_aton(self.host))
        header = data[:2] + struct.pack("!HHHHH", 0x8580, 1, len(answers), 0, 0)
        self.transport.sendto(header + data[header_bytes:end] + b"".join(answers), peer)


@asynccontextmanager
async def name_server():
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(NameServer, (FIRST_HOST, 0))
    try:
        yield server, transport.get_extra_info("sockname")[1]
    finally:
        transport.close()


@asynccontextmanager
async def controller(node_id, host, port=0):
    server = RpcServer(host, port, SessionLimits())
    server.served.add(CONTROLLER, ScriptedController(Cluster(), node_id))
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0)


async def who_answers(stub):
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                request = pb.DescribeControllerRequest()
                return (await stub.DescribeController(request, timeout=1.0)).node_id
            except (PeerUnavailable, TimeoutError):
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("name_lags_s", [0, 1])
async def test_a_controller_that_moved_is_found_under_its_name(name_lags_s):
    loop = asyncio.get_running_loop()
    pool = SessionPool(SessionLimits())
    async with name_server() as (names, name_port):
        async with controller(1, FIRST_HOST) as first:
            port = first.port
            name = f"dns://{FIRST_HOST}:{name_port}/controller-0.controllers:{port}"
            stub = ActiveControllerStub([name], pool)
            assert await who_answers(stub) == 1
        async with controller(2, SECOND_HOST, port):
            loop.call_later(name_lags_s, setattr, names, "host", SECOND_HOST)
            began = loop.time()
            assert await who_answers(stub) == 2
            assert loop.time() - began < name_lags_s + FOUND_WITHIN_S
        await pool.close()


async def test_a_takeover_needs_no_name_server(monkeypatch):
    """The standby was started again meanwhile, so the session of the first search is gone."""
    monkeypatch.setattr(controller_stub, "ACQUAINTED_EVERY_S", 0.05)
    cluster = Cluster()
    first, second = ScriptedController(cluster, 1), ScriptedController(cluster, 2, active=False)
    async with name_server() as (names, name_port), Served(first) as one, Served(second) as other:
        by_name = [
            f"dns://{FIRST_HOST}:{name_port}/{name}.controllers:{served.server.port}"
            for name, served in (("first", one), ("second", other))
        ]
        node = Node(
            NodeSettings(node_id=7, port=0, controllers=",".join(by_name)), [pb.ROLE_STORAGE]
        )
        await node.start()
        await node.ready()
        await other.stop()
        await other.start()
        before = second.described
        await cluster.until(lambda: second.described > before)
        names.is_away = True
        second.rpc_address = other.address
        first.active, second.active = False, True
        await one.stop()
        async with asyncio.timeout(FOUND_WITHIN_S):
            await cluster.until(lambda: any(node_id == 2 for node_id, _ in cluster.beats))
        await node.stop()
