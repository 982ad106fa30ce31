"""What every journal must do. A test module subclasses `JournalContract`, says how to open one, and runs with the rest.

`open()` returns a journal over the same storage each time: opening again is a restart.
"""


async def read_all(journal):
    return [(offset, record) async for offset, record in journal.replay()]


class JournalContract:
    def world(self):
        """Fresh storage."""
        raise AssertionError("a subclass makes the storage")

    def open(self, world):
        """A journal over this storage, as after a restart."""
        raise AssertionError("a subclass opens a journal")

    def record(self, number):
        """The number-th record: all different."""
        raise AssertionError("a subclass makes records")

    async def test_an_empty_journal_replays_nothing(self):
        journal = self.open(self.world())
        assert await read_all(journal) == []
        assert journal.next_offset == 0

    async def test_append_returns_the_first_records_offset(self):
        journal = self.open(self.world())
        await read_all(journal)
        assert await journal.append([self.record(0), self.record(1)]) == 0
        assert await journal.append([self.record(2)]) == 2
        assert journal.next_offset == 3

    async def test_a_restart_replays_every_record_in_order(self):
        world = self.world()
        journal = self.open(world)
        await read_all(journal)
        records = [self.record(number) for number in range(25)]
        for at in range(0, 25, 5):
            await journal.append(records[at : at + 5])
        again = self.open(world)
        assert await read_all(again) == list(enumerate(records))
        assert again.next_offset == 25
        assert await again.append([self.record(25)]) == 25

    async def test_replay_twice_gives_the_same(self):
        world = self.world()
        journal = self.open(world)
        await read_all(journal)
        await journal.append([self.record(number) for number in range(3)])
        again = self.open(world)
        assert await read_all(again) == await read_all(again)

    async def test_many_records_in_one_append(self):
        """A journal in a database replays them in two pages."""
        world = self.world()
        journal = self.open(world)
        await read_all(journal)
        records = [self.record(number) for number in range(2_000)]
        assert await journal.append(records) == 0
        assert [record for _, record in await read_all(self.open(world))] == records
