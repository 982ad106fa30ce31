"""The proxy on real sockets: partition, one way, delay, clog, ghost, reset, and what it is told of who calls whom."""

import asyncio
import socket
from contextlib import asynccontextmanager, closing

import pytest
from oncelog_robustness.chaos.links import ANYBODY, CLIENTS, AfterHold, Effect, Rule, both_ways
from oncelog_robustness.chaos.network import ClusterNetwork, ProxyProcess
from oncelog_robustness.chaos.proxy import CONNECT_BYTES_MAX, QUEUED_BYTES_MAX, Frontend, Proxy
from tests.free_ports import free_block
from tests.loops import UvLoopOfATest
from tests.targets import cluster_folder

from oncelog_server.cluster import plan
from oncelog_server.cluster.plan import HOST, ClusterShape, FreePorts, plan_members, ports_of
from oncelog_server.cluster.state_file import ClusterState

DEADLINE_S = 90


@pytest.fixture
def anyio_backend():
    """The proxies of a run of chaos are on uvloop."""
    return "asyncio", {"loop_factory": UvLoopOfATest}


class Server:
    """Answers each line with itself, and keeps what it was told."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ends = 0
        self._changed = asyncio.Event()

    async def serve(self, reader, writer):
        writer.write(b"hello\n")
        try:
            while line := await reader.readline():
                self.lines.append(line)
                self._changed.set()
                writer.write(line)
        except ConnectionError:
            pass
        self.ends += 1
        self._changed.set()
        writer.close()

    async def until(self, condition):
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Caller:
    def __init__(self, reader, writer) -> None:
        self.reader, self.writer = reader, writer

    async def line(self) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            return await self.reader.readline()

    async def ask(self, line: bytes) -> bytes:
        self.writer.write(line)
        return await self.line()

    async def hears_nothing(self) -> None:
        """A probe through another connection has gone all the way meanwhile; see its callers."""
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await self.reader.read(1)

    async def is_reset(self) -> None:
        with pytest.raises(ConnectionResetError):
            await self._rest()

    async def _rest(self) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            return await self.reader.read()


class Net:
    """Three parties: `a` and `b` call by CONNECT, clients through a frontend with one target; `s` serves them."""

    def __init__(
        self, proxy: Proxy, server: Server, frontends: dict[str, str], address: str
    ) -> None:
        self.proxy, self.server, self.address = proxy, server, address
        self.frontends = frontends
        self.callers: list[Caller] = []

    async def dial(self, sender: str) -> Caller:
        host, _, port = self.frontends[sender].rpartition(":")
        caller = Caller(*await asyncio.open_connection(host, int(port)))
        self.callers.append(caller)
        if sender != CLIENTS:
            caller.writer.write(f"CONNECT {self.address} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return caller

    async def call(self, sender: str) -> Caller:
        caller = await self.dial(sender)
        if sender != CLIENTS:
            assert await caller.line() == b"HTTP/1.1 200 OK\r\n"
            assert await caller.line() == b"\r\n"
        assert await caller.line() == b"hello\n"
        return caller


@asynccontextmanager
async def net():
    ports, server = FreePorts(), Server()
    frontends = {sender: f"{HOST}:{ports.next_port()}" for sender in ("a", "b", CLIENTS)}
    listening = await asyncio.start_server(server.serve, HOST, ports.next_port())
    host, port = listening.sockets[0].getsockname()
    address = f"{host}:{port}"
    proxy = Proxy()
    proxy.names[address] = "s"
    await proxy.open(
        [
            Frontend("a", frontends["a"]),
            Frontend("b", frontends["b"]),
            Frontend(CLIENTS, frontends[CLIENTS], "s", address),
        ]
    )
    found = Net(proxy, server, frontends, address)
    try:
        yield found
    finally:
        for caller in found.callers:
            caller.writer.close()
        proxy.close()
        listening.close()


async def test_bytes_pass_both_ways_and_so_does_the_end():
    async with net() as world:
        for sender in ("a", CLIENTS):
            caller = await world.call(sender)
            assert await caller.ask(b"x\n") == b"x\n"
            ends = world.server.ends
            caller.writer.close()
            await world.server.until(lambda ends=ends: world.server.ends == ends + 1)


async def test_more_than_a_queue_holds_passes():
    async with net() as world:
        caller = await world.call("a")
        world.proxy.put("f", both_ways("a", "s", Effect.DELAY, delay_ms=5))
        line = b"x" * 60_000 + b"\n"
        count = 2 * QUEUED_BYTES_MAX // len(line) + 1
        caller.writer.writelines([line] * count)
        for _ in range(count):
            assert await caller.line() == line


async def test_a_partition_holds_everything_and_breaks_what_waited():
    async with net() as world:
        caught, idle, other = [await world.call(one) for one in ("a", "a", "b")]
        world.proxy.put("f", both_ways("a", ANYBODY, Effect.HOLD, after=AfterHold.BREAK))
        caught.writer.write(b"lost\n")
        late = await world.dial("a")
        assert await other.ask(b"passes\n") == b"passes\n"
        await caught.hears_nothing()
        await late.hears_nothing()
        world.proxy.lift("f")
        await caught.is_reset()
        assert await late.line() == b"HTTP/1.1 200 OK\r\n"
        assert await idle.ask(b"idle\n") == b"idle\n"
        assert b"lost\n" not in world.server.lines


async def test_one_way_lets_the_other_direction_pass():
    async with net() as world:
        caller = await world.call("a")
        world.proxy.put("f", (Rule("s", ANYBODY, Effect.HOLD, after=AfterHold.BREAK),))
        caller.writer.write(b"arrives\n")
        await world.server.until(lambda: b"arrives\n" in world.server.lines)
        await caller.hears_nothing()
        world.proxy.lift("f")
        await caller.is_reset()


async def test_a_pair_is_parted_from_each_other_only():
    async with net() as world:
        first, other = await world.call("a"), await world.call("b")
        world.proxy.put("f", both_ways("a", "s", Effect.HOLD, after=AfterHold.BREAK))
        first.writer.write(b"x\n")
        assert await other.ask(b"y\n") == b"y\n"
        await first.hears_nothing()


async def test_a_clog_lets_everything_go_at_last():
    async with net() as world:
        caller, other = await world.call("a"), await world.call("b")
        world.proxy.put("f", both_ways("a", ANYBODY, Effect.HOLD))
        caller.writer.write(b"1\n")
        caller.writer.write(b"2\n")
        assert await other.ask(b"y\n") == b"y\n"
        await caller.hears_nothing()
        world.proxy.lift("f")
        assert [await caller.line(), await caller.line()] == [b"1\n", b"2\n"]


async def test_even_an_end_is_held():
    async with net() as world:
        caller, other = await world.call("a"), await world.call("b")
        world.proxy.put("f", both_ways("a", ANYBODY, Effect.HOLD))
        caller.writer.write(b"last\n")
        caller.writer.close()
        assert await other.ask(b"y\n") == b"y\n"
        assert world.server.ends == 0
        world.proxy.lift("f")
        await world.server.until(lambda: world.server.ends == 1)
        assert world.server.lines == [b"y\n", b"last\n"]


async def test_delay_is_at_least_what_was_asked_for_and_keeps_order():
    async with net() as world:
        caller = await world.call("a")
        world.proxy.put("f", both_ways("a", ANYBODY, Effect.DELAY, delay_ms=60))
        loop = asyncio.get_running_loop()
        began = loop.time()
        caller.writer.write(b"1\n")
        caller.writer.write(b"2\n")
        assert [await caller.line(), await caller.line()] == [b"1\n", b"2\n"]
        # Clocks of loops count milliseconds.
        assert loop.time() - began >= 0.11
        world.proxy.lift("f")
        assert await caller.ask(b"3\n") == b"3\n"


async def test_a_ghost_arrives_after_its_sender_was_told_it_is_gone():
    async with net() as world:
        caller, other = await world.call(CLIENTS), await world.call("b")
        world.proxy.put("f", (Rule(CLIENTS, "s", Effect.HOLD, after=AfterHold.GHOST),))
        caller.writer.write(b"ghost\n")
        assert await other.ask(b"y\n") == b"y\n"
        world.proxy.lift("f")
        await caller.is_reset()
        await world.server.until(lambda: b"ghost\n" in world.server.lines)
        await world.server.until(lambda: world.server.ends == 1)


async def test_a_reset_breaks_every_connection_of_a_party_at_both_ends():
    async with net() as world:
        callers = [await world.call("a"), await world.call("a")]
        other = await world.call("b")
        assert world.proxy.reset("a") == 2
        for caller in callers:
            await caller.is_reset()
        await world.server.until(lambda: world.server.ends == 2)
        assert await other.ask(b"y\n") == b"y\n"
        assert world.proxy.reset("s") == 1


async def test_two_faults_at_once_end_each_for_itself():
    async with net() as world:
        caller, other = await world.call("a"), await world.call("b")
        world.proxy.put("f", both_ways("a", ANYBODY, Effect.HOLD))
        world.proxy.put("g", both_ways("s", "a", Effect.HOLD))
        caller.writer.write(b"1\n")
        world.proxy.lift("f")
        assert await other.ask(b"y\n") == b"y\n"
        await caller.hears_nothing()
        world.proxy.lift("g")
        assert await caller.line() == b"1\n"


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
        b"x" * (CONNECT_BYTES_MAX + 1),
    ],
)
async def test_who_asks_for_nobody_it_knows_is_reset(head):
    async with net() as world:
        host, _, port = world.frontends["a"].rpartition(":")
        caller = Caller(*await asyncio.open_connection(host, int(port)))
        world.callers.append(caller)
        caller.writer.write(head)
        await caller.is_reset()


async def test_nobody_listening_is_a_refusal_at_once():
    async with net() as world:
        world.proxy.names[f"{HOST}:1"] = "dead"
        world.address = f"{HOST}:1"
        caller = await world.dial("a")
        await caller.is_reset()
        assert world.proxy.refused_count == 1


def test_a_frontend_takes_no_port_that_the_cluster_will_use(monkeypatch):
    """There are just as many as are needed, so a frontend that takes another one's port is found out."""
    members = plan_members(ClusterShape(), FreePorts(), port=0, gateway_port=0)
    frontends = len(members) + 2 + 1  # calls; listeners; gateway
    block = free_block(len(ports_of(members)) + frontends)
    monkeypatch.setattr(plan, "FREE_PORTS", block)
    ports = FreePorts()
    members = plan_members(ClusterShape(), ports, port=0, gateway_port=0)
    state = ClusterState(members)
    # Paths of sockets have 107 bytes at most: pytest's own folders are too deep.
    with cluster_folder() as folder, closing(ProxyProcess(folder / "proxy.log")) as proxy:
        ClusterNetwork(folder, proxy).take_in(state)
        planned = set(ports_of(state.members))
        for port in block:
            with socket.socket() as tried:
                is_frontend = tried.connect_ex((HOST, port)) == 0
            assert is_frontend != (port in planned), port
