"""One timer for many deadlines."""

import asyncio

from oncelog.rpc.deadline import DeadlineTimer


class Calls:
    """Deadlines that are still waited for, as a session keeps them."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.began = self.loop.time()
        self.open = {}
        self.ended = []
        self.sweeps = 0
        self.timer = DeadlineTimer(self.loop, self._sweep)
        self.all_ended = asyncio.Event()

    def add(self, name, after_s):
        self.open[name] = self.began + after_s
        self.timer.add(self.open[name])

    def _sweep(self, now):
        self.sweeps += 1
        # A busy machine may sweep all of them at once.
        met = sorted((deadline, name) for name, deadline in self.open.items() if deadline <= now)
        for _, name in met:
            del self.open[name]
            self.ended.append(name)
        if not self.open:
            self.all_ended.set()
        return min(self.open.values(), default=None)

    async def until_all_ended(self):
        async with asyncio.timeout(20):
            await self.all_ended.wait()


async def test_deadlines_are_met_in_their_order():
    calls = Calls()
    for name, after_s in (("third", 0.06), ("first", 0.02), ("second", 0.04)):
        calls.add(name, after_s)
    await calls.until_all_ended()
    assert calls.ended == ["first", "second", "third"]
    assert calls.loop.time() >= calls.began + 0.06


async def test_calls_that_end_in_time_cost_one_timer():
    calls = Calls()
    for number in range(1000):
        calls.add(number, 0.02 + number / 1e6)
        if number:
            del calls.open[number]
    await calls.until_all_ended()
    assert calls.ended == [0]
    assert calls.sweeps == 1


async def test_a_stopped_timer_does_nothing():
    calls = Calls()
    calls.add("stopped", 0.01)
    calls.timer.stop()
    calls.add("later", 0.02)
    del calls.open["stopped"]
    await calls.until_all_ended()
    assert calls.ended == ["later"]
