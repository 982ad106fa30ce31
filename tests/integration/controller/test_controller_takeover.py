"""Several controllers on one real Postgres: who is active, takeover, deposed writers, and a database that goes away."""

import asyncio
import contextlib
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import create_engine, text
from tests.integration.controller.controller_at import allocate, create, followed, register

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.rpc.direct import DirectStub
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import build_controller

DEADLINE_S = 30


async def until(condition, deadline_s=DEADLINE_S):
    async with asyncio.timeout(deadline_s):
        while not (found := await condition()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return found


class Controller:
    """A controller whose port is open like that of a process; `kill` ends it as SIGKILL would, as far as others see."""

    def __init__(self, controller_id, database_url, **settings):
        self.controller_id = controller_id
        self._values = {"database_url": database_url, "lease_ms": 1000, **settings}

    async def start(self):
        self._accepted = []
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self.role = build_controller(
            ControllerSettings(
                controller_id=self.controller_id, rpc_address=self.address, **self._values
            )
        )
        await self.role.start()
        self.stub = DirectStub(self.role.servicer)
        return self

    def _accept(self, _reader, writer):
        self._accepted.append(writer)

    def close_port(self):
        self._server.close()
        for writer in self._accepted:
            writer.transport.abort()

    async def kill(self):
        """Nothing is released or told; the lease stays with it until it expires or a standby sees the closed port."""
        self.role._election._controller_epoch = None
        self.close_port()
        await self.role.stop()

    async def stop(self):
        await self.role.stop()
        self.close_port()

    async def describe(self):
        return await self.stub.DescribeController(pb.DescribeControllerRequest())


@asynccontextmanager
async def controllers(database_url, count=2, **settings):
    started = []
    try:
        for controller_id in range(1, count + 1):
            started.append(await Controller(controller_id, database_url, **settings).start())
        yield started
    finally:
        for controller in started:
            await controller.stop()


async def active_of(started):
    for controller in started:
        if (await controller.describe()).active:
            return controller
    return None


def test_one_is_active_and_a_standby_says_who(postgres_url):
    async def scenario():
        async with controllers(postgres_url) as (one, two):
            told = await two.describe()
            assert (told.node_id, told.active) == (2, False)
            assert (told.active_node_id, told.active_rpc_address) == (1, one.address)
            assert told.controller_epoch == (await one.describe()).controller_epoch == 1
            assert (await one.describe()).active
            for answer in (
                await register(two.stub),
                await allocate(two.stub, 0),
                await two.stub.NodeHeartbeat(pb.NodeHeartbeatRequest(node_id=1)),
                await two.stub.DrainNode(pb.DrainNodeRequest(node_id=1)),
            ):
                assert answer.status.error_code == ErrorCode.NOT_CONTROLLER
            request = pb.WatchMetadataRequest(node_id=1, from_metadata_offset=-1)
            assert [update async for update in two.stub.WatchMetadata(request)] == []

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["released", "killed", "silent"])
def test_a_standby_takes_over_and_goes_on_with_what_is_there(postgres_url, how):
    async def scenario():
        async with controllers(postgres_url) as (one, two):
            node_epoch = (await register(one.stub)).node_epoch
            made = await create(one.stub, "orders")
            first = (await allocate(one.stub, node_epoch)).first_producer_id
            async with followed(one.stub) as follower:
                await follower.wait_until(made.metadata_offset + 1)
                seen = follower.image
            if how == "released":
                await one.role.stop()
            elif how == "killed":
                await one.kill()
            else:
                one.role._election._loop.cancel()
            await until(lambda: active_of([two]))
            block = await until_answered(lambda: allocate(two.stub, node_epoch))
            assert block.first_producer_id == first + 1000
            async with followed(two.stub) as follower:
                follower.image = seen
                await follower.wait_until(seen.metadata_offset + 1)
                assert "orders" in follower.image.topics
                assert (follower.image.controller, follower.image.controller_epoch) == (2, 2)

    asyncio.run(scenario())


async def until_answered(ask):
    async def answered():
        answer = await ask()
        return answer if answer.status.error_code == ErrorCode.NONE else None

    return await until(answered)


def test_a_deposed_controller_writes_nothing_and_becomes_a_standby(postgres_url):
    async def scenario():
        async with controllers(postgres_url) as (one, two):
            node_epoch = (await register(one.stub)).node_epoch
            # It goes on as before, only its renewals stop: as after a pause that it did not notice.
            one.role._election._loop.cancel()
            await until(lambda: active_of([two]))
            assert (await one.describe()).active
            late = await allocate(one.stub, node_epoch)
            assert late.status.error_code == ErrorCode.NOT_CONTROLLER
            block = await until_answered(lambda: allocate(two.stub, node_epoch))
            assert block.first_producer_id == 0
            one.role._election._loop = asyncio.create_task(one.role._election._run())

            async def stood_down():
                told = await one.describe()
                return not told.active and told.active_node_id == 2

            await until(stood_down)

    asyncio.run(scenario())


def test_an_outage_of_the_database_is_no_failover(postgres_server, postgres_url):
    """The database refuses everything for longer than the lease; heartbeats and watchers are served all the while."""

    async def scenario():
        async with controllers(postgres_url) as (one, two), followed(one.stub) as follower:
            node_epoch = (await register(one.stub)).node_epoch
            await follower.wait_until(0)
            with refusing_connections(postgres_server, postgres_url):
                lost = await allocate(one.stub, node_epoch)
                assert ErrorCode(lost.status.error_code).is_retriable
                lease_over = asyncio.get_running_loop().time() + 2.5
                while asyncio.get_running_loop().time() < lease_over:
                    beat = await one.stub.NodeHeartbeat(
                        pb.NodeHeartbeatRequest(node_id=1, node_epoch=node_epoch)
                    )
                    assert beat.status.error_code == ErrorCode.NONE
                    refused = await allocate(one.stub, node_epoch)
                    assert ErrorCode(refused.status.error_code).is_retriable
                    assert (await one.describe()).active
                    await asyncio.sleep(0.05)
            block = await until_answered(lambda: allocate(one.stub, node_epoch))
            assert block.first_producer_id % 1000 == 0
            await follower.wait_until((await create(one.stub, "after")).metadata_offset)
            told = await one.describe()
            assert (told.active, told.controller_epoch) == (True, 1)
            assert not (await two.describe()).active

    asyncio.run(scenario())


@contextlib.contextmanager
def refusing_connections(server_url, url):
    """Ends every session of the database, and lets none begin until the block ends."""
    engine = create_engine(server_url, isolation_level="AUTOCOMMIT")
    name = url.rpartition("/")[2].partition("?")[0]
    with engine.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"),
            {"name": name},
        )
        try:
            yield
        finally:
            connection.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
    engine.dispose()
