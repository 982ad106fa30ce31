"""`answer_within` keeps the promises of `asyncio.timeout` and arms no timer for what does not wait."""

import asyncio

import pytest

from oncelog.rpc.deadline import answer_within


async def at_once():
    return "now"


async def later(steps=2):
    for _ in range(steps):
        await asyncio.sleep(0.001)
    return "later"


async def with_its_own_deadline():
    async with asyncio.timeout(5):
        return await later()


async def failing():
    await asyncio.sleep(0)
    raise ValueError("broken")


class Endless:
    """A call that never ends, and knows whether it was cleaned up."""

    def __init__(self):
        self.was_cleaned = False

    async def call(self):
        try:
            await asyncio.Event().wait()
        finally:
            self.was_cleaned = True


@pytest.mark.parametrize(
    ("call", "answer"), [(at_once, "now"), (later, "later"), (with_its_own_deadline, "later")]
)
def test_answer_comes_back(call, answer):
    assert asyncio.run(answer_within(call(), 5)) == answer


async def test_a_future_may_be_given_too():
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, 7)
    assert await answer_within(future, 5) == 7


def test_error_of_the_call_is_raised():
    with pytest.raises(ValueError, match="broken"):
        asyncio.run(answer_within(failing(), 5))


def test_deadline_ends_the_call_and_lets_it_clean_up():
    endless = Endless()
    with pytest.raises(TimeoutError):
        asyncio.run(answer_within(endless.call(), 0.01))
    assert endless.was_cleaned


async def test_cancelling_the_caller_cancels_the_call():
    endless = Endless()

    task = asyncio.create_task(answer_within(endless.call(), 5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert endless.was_cleaned
