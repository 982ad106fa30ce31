"""What every metadata store must do, so that a controller may keep its journal and its lease there.

A test module subclasses `MetadataStoreContract`, says where its stores are, and runs with the rest. Each `opened` store
is the store of one controller, on a connection of its own.
"""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from oncelog.errors import ErrorCode
from oncelog.journal import AppendFailed
from oncelog_controller.core.records import ProducerIdsAllocated, Snapshot, TopicDeleted

LONG_MS = 60_000


def one(name):
    """A record that is like no other of its name."""
    return TopicDeleted(f"topic {name} ü\n\"'%s:x", name)


def block(first):
    return ProducerIdsAllocated(first, 10, 1, 1)


def snapshot(name):
    return Snapshot({"name": name})


async def replayed(journal):
    return [found async for found in journal.replay()]


class MetadataStoreContract:
    def store(self):
        """A store over the same database each time, not open yet."""
        raise AssertionError("a subclass makes a store")

    @asynccontextmanager
    async def opened(self, count=1):
        async with AsyncExitStack() as stack:
            stores = [self.store() for _ in range(count)]
            for store in stores:
                await store.open()
                stack.push_async_callback(store.close)
            yield stores

    @asynccontextmanager
    async def journals(self, count):
        """Of as many controllers without a lease, each replayed."""
        async with self.opened(count) as stores:
            found = [store.journal(None) for store in stores]
            for journal in found:
                await replayed(journal)
            yield found

    async def test_a_store_has_a_url_to_show_and_closes_twice(self):
        store = self.store()
        assert store.shown_url
        await store.close()
        await store.close()

    async def test_of_two_level_writers_one_wins_and_the_other_replays(self):
        async with self.journals(2) as (first, second):
            outcomes = await asyncio.gather(
                first.append([one("a")]), second.append([one("b")]), return_exceptions=True
            )
            assert sorted(map(str, map(type, outcomes))) == sorted([str(int), str(AppendFailed)])
            loser = first if isinstance(outcomes[0], AppendFailed) else second
            (failure,) = [found for found in outcomes if isinstance(found, AppendFailed)]
            assert failure.error_code is ErrorCode.NOT_CONTROLLER
            assert len(await replayed(loser)) == 1
            assert await loser.append([one("again")]) == 1

    async def test_a_failed_append_leaves_nothing_of_its_records_behind(self):
        async with self.journals(2) as (first, second):
            await first.append([one("a"), one("b")])
            with pytest.raises(AppendFailed):
                await second.append([one("x"), one("y"), one("z")])
            assert await replayed(second) == [(0, one("a")), (1, one("b"))]

    async def test_replay_begins_at_the_newest_snapshot(self):
        async with self.journals(1) as (journal,):
            await journal.append([one("a"), snapshot("1"), one("b")])
            assert await replayed(journal) == [(1, snapshot("1")), (2, one("b"))]
            await journal.append([snapshot("2")])
            assert await replayed(journal) == [(3, snapshot("2"))]
            assert await journal.append([one("c")]) == 4

    async def test_a_writer_that_slept_through_a_snapshot_cannot_write(self):
        async with self.opened(2) as (awake_store, asleep_store):
            awake, asleep = awake_store.journal(None), asleep_store.journal(None)
            await replayed(awake)
            await awake.append([one("a")])
            await replayed(asleep)
            await awake.append([one("b")])
            await awake.append([snapshot("1")])
            # Record 1, which the sleeper would write, is gone; its write must fail all the same.
            with pytest.raises(AppendFailed) as caught:
                await asleep.append([one("lost")])
            assert caught.value.error_code is ErrorCode.NOT_CONTROLLER
            assert await replayed(awake) == [(2, snapshot("1"))]

    async def test_a_block_that_was_given_away_is_refused(self):
        async with self.opened() as (store,):
            journal = store.journal(None)
            await replayed(journal)
            await journal.append([block(0), one("x"), block(10)])
            await journal.append([block(20)])
            with pytest.raises(AppendFailed, match="given away"):
                await journal.append([block(20)])
            again = store.journal(None)
            found = [record for _, record in await replayed(again)]
            assert found == [block(0), one("x"), block(10), block(20)]
            assert again.kept_producer_id == 30

    async def test_a_deposed_writer_is_refused_wherever_the_journal_ends(self):
        async with self.opened(2) as (old_store, new_store):
            lease, other = (
                store.lease(number, f"c{number}:1", LONG_MS)
                for number, store in enumerate((old_store, new_store), 1)
            )
            held = await lease.take_over(await lease.read())
            old = old_store.journal(held.controller_epoch)
            await replayed(old)
            await old.append([one("a")])
            assert await old.may_append()
            taken = await other.take_over(await other.read())
            assert taken.controller_epoch == held.controller_epoch + 1
            with pytest.raises(AppendFailed) as caught:
                await old.append([one("late")])
            assert caught.value.error_code is ErrorCode.NOT_CONTROLLER
            assert not await old.may_append()
            new = new_store.journal(taken.controller_epoch)
            assert await replayed(new) == [(0, one("a"))]
            assert await new.append([block(0)]) == 1

    async def test_of_two_that_see_a_free_lease_one_gets_it(self):
        async with self.opened(2) as (first, second):
            one_lease, other = first.lease(1, "c1:1", LONG_MS), second.lease(2, "c2:1", LONG_MS)
            seen = await one_lease.read()
            assert seen.is_free
            views = await asyncio.gather(one_lease.take_over(seen), other.take_over(seen))
            (winner,) = [view for view in views if view is not None]
            assert winner.holder == (await one_lease.read()).holder
            assert 0 < (await other.read()).remaining_ms <= LONG_MS

    async def test_a_lease_is_renewed_by_its_holder_only(self):
        async with self.opened(2) as (first, second):
            one_lease, other = first.lease(1, "c1:1", 1), second.lease(2, "c2:1", 1)
            held = await one_lease.take_over(await one_lease.read())
            async with asyncio.timeout(30):
                while (await other.read()).remaining_ms > 0:
                    pass
            assert await one_lease.renew(held.controller_epoch)
            assert not await other.renew(held.controller_epoch - 1)
            await one_lease.release(held.controller_epoch)
            released = await other.read()
            assert released.is_free
            assert not await one_lease.renew(held.controller_epoch)
            taken = await other.take_over(released)
            assert taken.controller_epoch == held.controller_epoch + 1
            # What was released by one who does not hold it any more stays with the holder.
            await one_lease.release(held.controller_epoch)
            assert (await one_lease.read()).holder == 2

    async def test_a_renewal_may_raise_the_controller_epoch(self):
        async with self.opened(1) as (store,):
            lease = store.lease(1, "c1:1", LONG_MS)
            held = await lease.take_over(await lease.read())
            assert await lease.renew(held.controller_epoch, held.controller_epoch + 7)
            assert (await lease.read()).controller_epoch == held.controller_epoch + 7
            assert not await lease.renew(held.controller_epoch)
