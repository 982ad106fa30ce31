"""The simulated metadata database under the controller's real code: its time, its faults, and killed controllers."""

import asyncio

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import OperationalError
from tests.simulation.small_world import in_small_world

from oncelog.errors import ErrorCode, OncelogError
from oncelog.journal import AppendFailed
from oncelog.runtime import SystemClock
from oncelog_controller.database import Database
from oncelog_controller.lease import Lease
from oncelog_controller.schema import metadata_journal
from oncelog_controller.sql_journal import SqlJournal

LEASE_MS = 3000
TIMEOUT_MS = 5000


async def opened(small):
    database = Database(small.database.url, TIMEOUT_MS)
    await database.open()
    return database


async def lease_of(small, controller_id):
    database = await opened(small)
    return Lease(database, controller_id, f"controller-{controller_id}:1", LEASE_MS)


def journal_on(database):
    return SqlJournal(
        database,
        SystemClock(),
        encode=lambda record: ("note", record),
        decode=lambda _record_type, body: body,
    )


async def as_process(small, name, coroutine):
    return await small.world.new_process(name).spawn(coroutine, "test")


def test_time_in_the_database_is_the_true_time_of_the_simulation():
    async def steps(small):
        process = small.world.new_process("controller-1")
        process.clock_skew_ms = 999_999

        async def hold():
            lease = await lease_of(small, 1)
            taken = await lease.take_over(await lease.read())
            await asyncio.sleep(1)
            seen = await lease.read()
            await asyncio.sleep(3)
            return taken.controller_epoch, seen.remaining_ms, (await lease.read()).remaining_ms

        return await process.spawn(hold(), "hold")

    epoch, after_one_second, after_four = in_small_world(1, steps)
    assert (epoch, after_four) == (1, 0)
    assert 1900 < after_one_second <= 2000


def test_a_controller_killed_at_any_moment_leaves_no_lock():
    async def steps(small):
        async def write_for_ever():
            database = await opened(small)
            journal = journal_on(database)
            async for _ in journal.replay():
                pass
            while True:
                await journal.append(["one", "two"])

        async def count():
            database = await opened(small)
            found = [record async for _, record in journal_on(database).replay()]
            await database.close()
            return len(found)

        counts = []
        for _ in range(30):
            process = small.world.new_process("controller-1")
            process.spawn(write_for_ever(), "write")
            await asyncio.sleep(small.world.streams.stream("kill").uniform(0, 0.05))
            process.end()
            counts.append(await as_process(small, "controller-2", count()))
        return counts, small.digest

    counts, digest = in_small_world(1, steps)
    assert counts == sorted(counts)
    assert counts[-1] > 20
    assert not any(count % 2 for count in counts)
    assert (counts, digest) == in_small_world(1, steps)
    assert digest != in_small_world(2, steps)[1]


@pytest.mark.parametrize("is_silent", [False, True])
def test_outage_fails_every_call_until_it_ends(is_silent):
    async def steps(small):
        async def work():
            loop = small.world.loop
            lease = await lease_of(small, 1)
            small.database.begin_outage(is_silent=is_silent)
            began = loop.time()
            with pytest.raises(OncelogError, match="cannot be reached"):
                await lease.read()
            took_s = loop.time() - began
            with pytest.raises(OncelogError, match="cannot open"):
                await opened(small)
            small.database.end_outage()
            assert (await lease.read()).is_free
            return took_s

        return await as_process(small, "controller-1", work())

    took_s = in_small_world(1, steps)
    if is_silent:
        assert took_s == pytest.approx(TIMEOUT_MS / 1000, abs=0.001)
    else:
        assert took_s < 0.1


def test_outage_of_one_controller_is_not_the_others():
    async def steps(small):
        small.database.begin_outage("controller-1")
        with pytest.raises(OncelogError):
            await as_process(small, "controller-1", opened(small))
        await as_process(small, "controller-2", opened(small))
        small.database.heal()
        await as_process(small, "controller-1", opened(small))

    in_small_world(1, steps)


def test_lost_answer_leaves_a_record_told_of_as_a_failure():
    async def steps(small):
        async def work():
            database = await opened(small)
            journal = journal_on(database)
            await journal.append(["first"])
            small.database.lose_answers("controller-1")
            with pytest.raises(AppendFailed) as caught:
                await journal.append(["unknown"])
            assert caught.value.error_code is ErrorCode.REQUEST_TIMED_OUT
            # A caller that goes on without a replay is refused rather than let write twice.
            with pytest.raises(AppendFailed):
                await journal.append(["third"])
            return [record async for _, record in journal_on(database).replay()]

        return await as_process(small, "controller-1", work())

    assert in_small_world(1, steps) == ["first", "unknown"]


def test_restart_cuts_off_what_is_under_way_around_its_commit():
    async def steps(small):
        async def work():
            database = await opened(small)
            journal = journal_on(database)
            small.database.slow(0.1)
            appending = asyncio.ensure_future(journal.append(["record"]))
            await asyncio.sleep(0.05)
            small.database.restart(0.5)
            with pytest.raises(AppendFailed):
                await appending
            await asyncio.sleep(1)
            small.database.heal()
            return [record async for _, record in journal_on(database).replay()]

        try:
            return await as_process(small, "controller-1", work())
        except pytest.fail.Exception:
            # It was answered before the restart came.
            return "answered"

    seen = [in_small_world(seed, steps) for seed in range(30)]
    assert [] in seen
    assert ["record"] in seen


def test_failed_function_is_rolled_back():
    async def steps(small):
        async def work():
            database = await opened(small)
            row = {
                "metadata_offset": 0,
                "record_type": "note",
                "body": "",
                "written_at_ms": 0,
            }

            def fail(connection):
                connection.execute(insert(metadata_journal), [row])
                small.database.begin_outage()
                raise OperationalError("x", {}, Exception("broke"))

            with pytest.raises(OperationalError, match="broke"):
                await database.run(fail)
            small.database.heal()
            return await database.run(lambda c: len(c.execute(select(metadata_journal)).all()))

        return await as_process(small, "controller-1", work())

    assert in_small_world(1, steps) == 0
