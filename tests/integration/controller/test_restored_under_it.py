"""A database that is put back from an older copy while controllers and nodes run on it (ADR 0039)."""

import asyncio
from contextlib import asynccontextmanager

from tests.integration.controller.controller_at import ALL_ROLES, create, followed, register
from tests.integration.controller.sql_databases import copied, put_back
from tests.integration.controller.test_controller_takeover import Controller, active_of, until

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, OncelogError
from oncelog.rpc.direct import DirectStub
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import build_controller

DEADLINE_S = 90


async def failure_of(role):
    async with asyncio.timeout(DEADLINE_S):
        failure = await role.failure()
    assert isinstance(failure, OncelogError)
    return str(failure)


@asynccontextmanager
async def role_at(database_url):
    role = build_controller(ControllerSettings(database_url=database_url))
    await role.start()
    try:
        yield role, DirectStub(role.servicer)
    finally:
        await role.stop()


async def test_an_active_controller_does_not_go_on_without_its_past(database_url):
    async with role_at(database_url) as (role, stub):
        await register(stub)
        older = copied(database_url)
        await create(stub, "orders")
        newer = copied(database_url)
        put_back(database_url, older)
        refused = await create(stub, "payments")
        assert refused.results[0].error_code == ErrorCode.NOT_CONTROLLER
        assert "docs/backup.md" in await failure_of(role)
        assert copied(database_url) == older
    put_back(database_url, newer)
    async with role_at(database_url) as (_, stub), followed(stub) as follower:
        await follower.wait_until(0)
        assert "orders" in follower.image.topics


async def test_an_empty_journal_is_waited_for_to_be_filled(database_url):
    """A restore that is no single transaction empties the table first."""
    async with role_at(database_url) as (_, stub):
        await register(stub)
        newer = copied(database_url)
        put_back(database_url, {**newer, "metadata_journal": []})
        refused = await create(stub, "orders")
        assert refused.results[0].error_code != ErrorCode.NONE
        put_back(database_url, newer)

        async def is_made():
            return (await create(stub, "orders")).results[0].error_code == ErrorCode.NONE

        await until(is_made)


async def test_a_lease_that_went_back_ends_holder_and_standby(postgres_url):
    one = await Controller(1, postgres_url).start()
    older = copied(postgres_url)
    await one.role.stop()
    two, three = [await Controller(number, postgres_url).start() for number in (2, 3)]
    try:

        async def both_know():
            found = [await each.describe() for each in (two, three)]
            return [one.controller_epoch for one in found] == [2, 2]

        await until(both_know)
        put_back(postgres_url, older)
        for controller in (two, three):
            assert "was put back from an older copy" in await failure_of(controller.role)
    finally:
        for controller in (one, two, three):
            await controller.stop()


async def test_a_watcher_of_another_history_gets_nothing(database_url):
    """Not even what comes after the older journal has grown beyond what the watcher saw."""
    async with role_at(database_url) as (_, stub), followed(stub) as follower:
        await register(stub)
        older = copied(database_url)
        await follower.wait_until((await create(stub, "orders")).metadata_offset)
        seen = follower.image
    put_back(database_url, older)
    async with role_at(database_url) as (_, stub), followed(stub) as other:
        await register(stub, "second")
        made = await create(stub, *(f"other-{number}" for number in range(9)))
        assert made.metadata_offset > seen.metadata_offset
        await other.wait_until(made.metadata_offset)
        request = pb.WatchMetadataRequest(
            node_id=1, from_metadata_offset=seen.metadata_offset, seen=seen.position
        )
        stream = stub.WatchMetadata(request)
        first = asyncio.ensure_future(anext(stream))
        await other.wait_until((await create(stub, "later")).metadata_offset)
        assert not first.done()
        first.cancel()
        beat = pb.NodeHeartbeatRequest(node_id=1, node_epoch=0, seen=seen.position)
        answer = await stub.NodeHeartbeat(beat)
        assert answer.status.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_deposed_controller_ends_no_node(postgres_url):
    """What its successor wrote is another history to it; it looks whether it is the active one before it says so."""
    one, two = [await Controller(number, postgres_url).start() for number in (1, 2)]
    try:
        node_epoch = (await register(one.stub, roles=ALL_ROLES)).node_epoch
        one.role._election._loop.cancel()
        await until(lambda: active_of([two]))
        async with followed(two.stub) as follower:
            await follower.wait_until((await create(two.stub, "orders")).metadata_offset)
            beat = pb.NodeHeartbeatRequest(
                node_id=1, node_epoch=node_epoch, seen=follower.image.position
            )
        assert (await one.describe()).active
        answer = await one.stub.NodeHeartbeat(beat)
        assert answer.status.error_code == ErrorCode.NOT_CONTROLLER
        assert (await two.stub.NodeHeartbeat(beat)).status.error_code == ErrorCode.NONE
    finally:
        for controller in (one, two):
            await controller.stop()
