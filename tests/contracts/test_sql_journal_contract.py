"""`SqlJournal` on SQLite and on Postgres: order, durability, one winner among writers, snapshots, damage."""

# ruff: noqa: F401, F811  (fixtures are imported, and requested by their names)
import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from sqlalchemy import Engine, event, text
from tests.contracts.journal import JournalContract
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
async def journal_at(url):
    database = Database(url, timeout_ms=5000)
    await database.open()
    try:
        yield journal_of(database)
    finally:
        await database.close()


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


async def replayed(journal):
    return [found async for found in journal.replay()]


async def test_of_two_level_writers_one_wins_and_the_other_replays(database_url):
    async with journal_at(database_url) as one, journal_at(database_url) as other:
        await replayed(one)
        await replayed(other)
        outcomes = await asyncio.gather(
            one.append(["one"]), other.append(["other"]), return_exceptions=True
        )
        assert sorted(map(str, map(type, outcomes))) == sorted([str(int), str(AppendFailed)])
        loser = one if isinstance(outcomes[0], AppendFailed) else other
        (failure,) = [found for found in outcomes if isinstance(found, AppendFailed)]
        assert failure.error_code is ErrorCode.NOT_CONTROLLER
        assert len(await replayed(loser)) == 1
        assert await loser.append(["again"]) == 1


async def test_a_failed_append_leaves_nothing_of_its_records_behind(database_url):
    async with journal_at(database_url) as one, journal_at(database_url) as other:
        await replayed(one)
        await replayed(other)
        await one.append(["a", "b"])
        with pytest.raises(AppendFailed):
            await other.append(["x", "y", "z"])
        assert await replayed(other) == [(0, "a"), (1, "b")]


async def test_replay_begins_at_the_newest_snapshot(database_url):
    async with journal_at(database_url) as journal:
        await replayed(journal)
        await journal.append(["a", "snapshot 1", "b"])
        assert await replayed(journal) == [(1, "snapshot 1"), (2, "b")]
        await journal.append(["snapshot 2"])
        assert await replayed(journal) == [(3, "snapshot 2")]
        assert await journal.append(["c"]) == 4


async def test_a_writer_that_slept_through_a_snapshot_cannot_write(database_url):
    async with journal_at(database_url) as awake, journal_at(database_url) as asleep:
        await replayed(awake)
        await awake.append(["a"])
        await replayed(asleep)
        await awake.append(["b"])
        await awake.append(["snapshot"])
        # Row 1, where the sleeper would write, is free again; its write must fail all the same.
        with pytest.raises(AppendFailed) as caught:
            await asleep.append(["lost"])
        assert caught.value.error_code is ErrorCode.NOT_CONTROLLER
        assert await replayed(awake) == [(2, "snapshot")]


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


# ------------------------------------------------------------------------------------- fencing and the lease


@asynccontextmanager
async def leases_at(url, *controller_ids, lease_ms=60_000):
    """A lease and a way to make journals for each controller, each on a connection of its own."""
    async with AsyncExitStack() as stack:
        made = []
        for controller_id in controller_ids:
            database = Database(url, timeout_ms=5000)
            await database.open()
            stack.push_async_callback(database.close)
            made.append((Lease(database, controller_id, f"c{controller_id}:1", lease_ms), database))
        yield made


def fenced_journal(database, controller_epoch):
    return SqlJournal(
        database,
        SystemClock(),
        encode=lambda record: ("text", record),
        decode=lambda _type, body: body,
        block=lambda record: (int(record[1:]), int(record[1:]) + 10) if record[0] == "b" else None,
        controller_epoch=controller_epoch,
    )


async def test_a_deposed_writer_is_refused_wherever_the_table_ends(database_url):
    async with leases_at(database_url, 1, 2) as ((lease, one), (other_lease, two)):
        held = await lease.take_over(await lease.read())
        old = fenced_journal(one, held.controller_epoch)
        await replayed(old)
        await old.append(["a"])
        taken = await other_lease.take_over(await other_lease.read())
        assert taken.controller_epoch == held.controller_epoch + 1
        with pytest.raises(AppendFailed) as caught:
            await old.append(["late"])
        assert caught.value.error_code is ErrorCode.NOT_CONTROLLER
        new = fenced_journal(two, taken.controller_epoch)
        assert await replayed(new) == [(0, "a")]
        assert await new.append(["b0"]) == 1


async def test_of_two_that_see_a_free_lease_one_gets_it(database_url):
    async with leases_at(database_url, 1, 2) as ((one, _), (two, _)):
        seen = await one.read()
        assert seen.is_free
        views = await asyncio.gather(one.take_over(seen), two.take_over(seen))
        (winner,) = [view for view in views if view is not None]
        assert winner.holder == (await one.read()).holder
        assert 0 < (await two.read()).remaining_ms <= 60_000


async def test_a_renewal_is_one_statement(database_url):
    """A quiet cluster's controller does little else."""
    async with leases_at(database_url, 1) as [(lease, _)]:
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


async def test_a_lease_is_renewed_by_its_holder_only(database_url):
    async with leases_at(database_url, 1, 2, lease_ms=1) as ((one, _), (two, _)):
        held = await one.take_over(await one.read())
        async with asyncio.timeout(30):
            while (await two.read()).remaining_ms > 0:
                pass
        assert await one.renew(held.controller_epoch)
        assert not await two.renew(held.controller_epoch - 1)
        await one.release(held.controller_epoch)
        released = await two.read()
        assert released.is_free
        assert not await one.renew(held.controller_epoch)
        taken = await two.take_over(released)
        assert taken.controller_epoch == held.controller_epoch + 1
        # What was released by one who does not hold it any more stays with the holder.
        await one.release(held.controller_epoch)
        assert (await one.read()).holder == 2


async def test_a_block_that_was_given_away_is_refused(database_url):
    async with leases_at(database_url, 1) as ((_, database),):
        journal = fenced_journal(database, None)
        await replayed(journal)
        await journal.append(["b0", "x", "b10"])
        await journal.append(["b20"])
        with pytest.raises(AppendFailed, match="given away"):
            await journal.append(["b20"])
        restored = fenced_journal(database, None)
        assert [record for _, record in await replayed(restored)] == ["b0", "x", "b10", "b20"]
        assert restored.kept_producer_id == 30
