"""A controller that is started before its database, or beside one that is slow: it waits, says so, and ends in time."""

import asyncio
import logging

import pytest
from sqlalchemy import create_engine, make_url, text
from tests.integration.controller.controller_at import controller_at, register
from tests.integration.controller.sql_databases import (
    asking_for_a_password,
    execute,
    refusing_connections,
)
from tests.integration.controller.test_controller_takeover import Controller, active_of, until

from oncelog.errors import OncelogError

NOBODY_LISTENS = "postgresql+psycopg://nobody@127.0.0.1:1/nothing"
RETRIES = "oncelog_controller.database_retries"


def lines_of(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == RETRIES and record.levelno == logging.WARNING
    ]


async def until_told(caplog, count, words=""):
    async def is_logged():
        return len([line for line in lines_of(caplog) if words in line]) >= count

    await until(is_logged)


async def one_is_active(started):
    try:
        assert await until(lambda: active_of(started))
        standings = [(await one.describe()).active for one in started]
        assert sorted(standings) == [False] * (len(started) - 1) + [True]
        assert (await register(started[standings.index(True)].stub)).status.error_code == 0
    finally:
        for one in started:
            await one.stop()


async def test_two_controllers_wait_for_a_database_not_there_yet(
    postgres_server, postgres_url, caplog
):
    with refusing_connections(postgres_server, postgres_url):
        starts = [
            asyncio.create_task(Controller(number, postgres_url).start()) for number in (1, 2)
        ]
        await until_told(caplog, 2)
        assert not any(start.done() for start in starts)
    await one_is_active(await asyncio.gather(*starts))
    assert "not currently accepting connections" in lines_of(caplog)[0]
    assert "it is tried again for up to 60 s" in lines_of(caplog)[0]
    assert "\n" not in lines_of(caplog)[0]


async def test_migrations_may_take_longer_than_a_statement(postgres_url):
    """Two controllers start on an empty database: one makes the tables, the other one waits for that."""
    execute(
        postgres_url,
        "CREATE FUNCTION dawdle() RETURNS event_trigger LANGUAGE plpgsql "
        "AS 'BEGIN PERFORM pg_sleep(1.2); END'",
        "CREATE EVENT TRIGGER dawdles ON ddl_command_start WHEN TAG IN ('CREATE TABLE') "
        "EXECUTE FUNCTION dawdle()",
    )
    settings = {"database_timeout_ms": 1000, "database_start_timeout_ms": 15_000}
    starts = [Controller(number, postgres_url, **settings).start() for number in (1, 2)]
    await one_is_active(await asyncio.gather(*starts))


@pytest.mark.parametrize(
    ("table", "words"),
    [("metadata_journal", "cannot read the metadata journal"), ("controller_state", "lease")],
)
async def test_a_database_slow_later_in_a_start_is_waited_for(postgres_url, caplog, table, words):
    async with controller_at(postgres_url):
        pass
    engine = create_engine(postgres_url)
    with engine.connect() as connection:
        connection.execute(text(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
        start = asyncio.create_task(Controller(1, postgres_url, database_timeout_ms=300).start())
        await until_told(caplog, 1, words)
        assert not start.done()
    engine.dispose()
    await one_is_active([await start])


@pytest.mark.parametrize("timeout_ms", [0, 400])
async def test_retries_end(caplog, timeout_ms):
    with pytest.raises(OncelogError, match=r"Connection refused.*given up after") as caught:
        await Controller(1, NOBODY_LISTENS, database_start_timeout_ms=timeout_ms).start()
    assert "\n" not in str(caught.value)
    assert len(lines_of(caplog)) == (1 if timeout_ms else 0)


async def test_a_file_that_cannot_be_made_is_not_waited_for(tmp_path, caplog):
    with pytest.raises(OncelogError, match="unable to open database file"):
        async with controller_at(f"sqlite:///{tmp_path}/no-folder/c.db"):
            pass
    assert lines_of(caplog) == []


async def refused(url):
    """What is said by a controller that does not even try again."""
    with pytest.raises(OncelogError) as caught:
        await Controller(1, url).start()
    assert "\n" not in str(caught.value)
    assert "ONCELOG_CONTROLLER_DATABASE_URL" in str(caught.value)
    assert "given up" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"database": "of_nobody"}, 'database "of_nobody" does not exist'),
        ({"username": "nobody"}, 'role "nobody" does not exist'),
        ({"username": "pg_monitor"}, 'role "pg_monitor" is not permitted to log in'),
    ],
)
async def test_who_is_not_let_in_does_not_ask_again(postgres_server, caplog, wrong, words):
    url = make_url(postgres_server).set(**wrong).render_as_string(hide_password=False)
    assert words in await refused(url)
    assert lines_of(caplog) == []


async def test_a_wrong_password_is_not_tried_again(postgres_server, postgres_url, caplog):
    url = make_url(postgres_url).set(username="owner")
    with asking_for_a_password(postgres_server, "owner", "right"):
        for password, words in (("wrong", "authentication failed"), ("", "no password supplied")):
            said = await refused(url.set(password=password).render_as_string(hide_password=False))
            assert words in said
            assert "wrong" not in said
    assert lines_of(caplog) == []


async def test_a_server_with_too_many_sessions_is_waited_for(postgres_url, caplog):
    """It lets nobody in either, but that passes."""
    url = make_url(postgres_url).set(username="many").render_as_string(hide_password=False)
    execute(
        postgres_url,
        "CREATE ROLE many LOGIN CONNECTION LIMIT 0",
        "GRANT ALL ON SCHEMA public TO many",
    )
    try:
        start = asyncio.create_task(Controller(1, url).start())
        await until_told(caplog, 1, "too many connections")
        assert not start.done()
        execute(postgres_url, "ALTER ROLE many CONNECTION LIMIT -1")
        await one_is_active([await start])
    finally:
        execute(postgres_url, "DROP OWNED BY many", "DROP ROLE many")


async def test_a_controller_that_waits_can_be_told_to_stop(caplog):
    start = asyncio.create_task(Controller(1, NOBODY_LISTENS).start())
    await until_told(caplog, 1)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
