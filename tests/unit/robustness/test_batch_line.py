"""Who may go when, of the batches of one producer to one partition."""

import asyncio

import pytest
from oncelog_robustness.clients.batch_line import BatchLine, GivenUp


class Sender:
    """One batch: it goes when its turn comes, and then does what it is told."""

    def __init__(self, line):
        self.went = []
        self._told = asyncio.Queue()
        self.task = asyncio.create_task(self._run(line))

    async def _run(self, line):
        with line.place() as place:
            while True:
                await place.turn()
                self.went.append(place.went_first)
                match await self._told.get():
                    case "again":
                        place.is_under_way = False
                    case "given up":
                        raise OSError
                    case _:
                        return place.sequence

    async def told(self, what):
        self._told.put_nowait(what)
        await settled()


async def settled():
    for _ in range(20):
        await asyncio.sleep(0)


async def under_way(count):
    line = BatchLine()
    senders = [Sender(line) for _ in range(count)]
    await settled()
    return line, senders


def gone(senders):
    return [len(one.went) for one in senders]


def test_five_are_under_way_and_the_sixth_waits_for_the_first():
    async def scenario():
        _, senders = await under_way(7)
        assert gone(senders) == [1, 1, 1, 1, 1, 0, 0]
        await senders[2].told("done")
        # The leader still knows the first one, and it must when that is sent again.
        assert gone(senders)[5:] == [1, 0]
        await senders[0].told("done")
        assert gone(senders)[5:] == [1, 1]
        for one in senders:
            await one.told("done")
        assert [await one.task for one in senders] == list(range(7))

    asyncio.run(scenario())


def test_one_goes_again_when_all_before_it_are_answered():
    async def scenario():
        _, (first, second, third) = await under_way(3)
        await second.told("again")
        await third.told("again")
        assert gone((first, second, third)) == [1, 1, 1]
        await first.told("done")
        assert gone((second, third)) == [2, 1]
        assert (second.went, third.went) == ([False, True], [False])
        await second.told("done")
        assert third.went == [False, True]
        await third.told("done")

    asyncio.run(scenario())


def test_nobody_new_passes_one_that_goes_again():
    async def scenario():
        line, (first, second) = await under_way(2)
        await second.told("again")
        third = Sender(line)
        await settled()
        assert gone((third,)) == [0]
        await first.told("done")
        assert gone((second, third)) == [2, 1]
        await second.told("done")
        await third.told("done")

    asyncio.run(scenario())


def test_behind_one_that_was_given_up_nothing_goes():
    async def scenario():
        line, (first, second, third) = await under_way(3)
        await first.told("done")
        await second.told("given up")
        await third.told("again")
        fourth = Sender(line)
        await settled()
        for one in (third, fourth):
            with pytest.raises(GivenUp):
                await one.task
        with pytest.raises(OSError):
            await second.task
        assert await first.task == 0

    asyncio.run(scenario())
