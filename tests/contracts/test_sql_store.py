"""The metadata store on SQLite and on Postgres: the contracts, and what only SQL can do wrong."""

# ruff: noqa: F401, F811  (fixtures are imported, and requested by their names)
import asyncio
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import Engine, event, text
from tests.contracts.journal import JournalContract
from tests.contracts.metadata_store import MetadataStoreContract, replayed
from tests.integration.controller.sql_databases import (
    database_url,
    postgres_server,
    postgres_url,
    sqlite_url,
)

from oncelog.errors import ErrorCode, OncelogError
from oncelog.journal import AppendFailed
from oncelog.runtime import SystemClock
from oncelog_controller.database import Database
from oncelog_controller.lease import Lease
from oncelog_controller.sql_journal import SqlJournal
from oncelog_controller.sql_store import SqlStore


def journal_of(database, kind=SqlJournal):
    """A journal of strings; one that begins with "snapshot" is a snapshot."""
    return kind(
        database,
        SystemClock(),
        encode=lambda record: ("text", record),
        decode=lambda _type, body: body,
        is_snapshot=lambda record: record.startswith("snapshot"),
    )


@asynccontextmanager
async def opened(url):
    database = Database(url, timeout_ms=5000)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def journal_at(url):
    async with opened(url) as database:
        yield journal_of(database)


class OpenedByReplay(SqlJournal):
    """Opens its database when it is replayed, as the shared contract opens nothing."""

    is_open = False

    async def replay(self):
        if not self.is_open:
            self.is_open = True
            await self._database.open()
        async for found in super().replay():
            yield found


class TestSqlJournal(JournalContract):
    """The contract that every journal of oncelog obeys."""

    @pytest.fixture(autouse=True)
    def databases(self, database_url):
        self.url = database_url
        self.opened = []
        yield
        for database in self.opened:
            asyncio.run(database.close())

    def world(self):
        return self.url

    def open(self, world):
        database = Database(world, timeout_ms=5000)
        self.opened.append(database)
        return journal_of(database, OpenedByReplay)

    def record(self, number):
        return f"record {number} ü\n\"'%s:x"


class TestSqlStore(MetadataStoreContract):
    """What a controller needs besides."""

    @pytest.fixture(autouse=True)
    def database(self, database_url):
        self.url = database_url

    def store(self):
        return SqlStore(self.url, 5000, SystemClock())


async def test_a_gap_is_told_and_not_skipped(database_url):
    async with journal_at(database_url) as journal:
        await replayed(journal)
        await journal.append(["a", "b", "c"])
        await journal._database.run(
            lambda connection: connection.execute(
                text("DELETE FROM metadata_journal WHERE metadata_offset = 1")
            )
        )
        with pytest.raises(OncelogError, match="no row 1"):
            await replayed(journal)


async def test_a_lost_table_is_a_failed_append_told_in_one_line(database_url):
    async with journal_at(database_url) as journal:
        await replayed(journal)
        await journal._database.run(
            lambda connection: connection.execute(text("DROP TABLE metadata_journal"))
        )
        with pytest.raises(AppendFailed) as caught:
            await journal.append(["a"])
        assert caught.value.error_code is ErrorCode.REQUEST_TIMED_OUT
        with pytest.raises(OncelogError) as failure:
            await replayed(journal)
        assert "\n" not in str(failure.value)


async def test_a_renewal_is_one_statement(database_url):
    """A quiet cluster's controller does little else."""
    async with opened(database_url) as database:
        lease = Lease(database, 1, "c1:1", 60_000)
        held = await lease.take_over(await lease.read())
        seen = []

        def executed(_connection, _cursor, statement, *_rest):
            if not statement.startswith("BEGIN"):
                seen.append(statement)

        event.listen(Engine, "before_cursor_execute", executed)
        try:
            assert await lease.renew(held.controller_epoch)
        finally:
            event.remove(Engine, "before_cursor_execute", executed)
        assert len(seen) == 1
        assert 59_000 < (await lease.read()).remaining_ms <= 60_000
