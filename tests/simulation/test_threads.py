"""Work for threads on the simulated loop: when it happens, what cancelling and shutting down do to it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from oncelog_robustness.simulator.process import ProcessKilled
from tests.simulation.small_world import in_small_world


def test_work_happens_between_its_beginning_and_its_answer():
    async def steps(small):
        loop, done_at, answered_at = small.world.loop, [], []
        small.world.executor_delay_s = lambda _executor: 1.0
        executor = ThreadPoolExecutor(1)
        for number in range(20):
            given = loop.time()
            await loop.run_in_executor(executor, lambda: done_at.append(loop.time()))
            answered_at.append(loop.time())
            assert given <= done_at[number] <= answered_at[number]
            # Every turn of the loop takes a microsecond.
            assert answered_at[number] == pytest.approx(given + 1.0, abs=0.001)
        return [at - number for number, at in enumerate(done_at)]

    moments = in_small_world(1, steps)
    assert min(moments) < 0.2
    assert max(moments) > 0.8
    assert moments == in_small_world(1, steps)
    assert moments != in_small_world(2, steps)


def test_one_executor_works_in_order_and_one_after_the_other():
    async def steps(small):
        loop, done = small.world.loop, []
        small.world.executor_delay_s = lambda _executor: 1.0
        executor = ThreadPoolExecutor(1)
        await asyncio.gather(
            *(loop.run_in_executor(executor, done.append, number) for number in range(5))
        )
        return done, loop.time()

    done, took_s = in_small_world(1, steps)
    assert done == [0, 1, 2, 3, 4]
    assert took_s == pytest.approx(5.0, abs=0.001)


def test_cancelled_work_is_done_only_if_it_had_begun():
    async def steps(small):
        loop, done = small.world.loop, []
        small.world.executor_delay_s = lambda _executor: 1.0
        executor = ThreadPoolExecutor(1)
        begun, queued = (loop.run_in_executor(executor, done.append, name) for name in "ab")
        begun.cancel()
        queued.cancel()
        await asyncio.sleep(5)
        return done

    assert in_small_world(1, steps) == ["a"]


def test_shutdown_waits_for_what_was_given_and_takes_no_more():
    async def steps(small):
        loop, done = small.world.loop, []
        executor = ThreadPoolExecutor(1)
        futures = [loop.run_in_executor(executor, done.append, name) for name in "abc"]
        executor.shutdown(wait=True)
        at_once = list(done)
        with pytest.raises(RuntimeError, match="after shutdown"):
            loop.run_in_executor(executor, done.append, "d")
        await asyncio.gather(*futures)
        return at_once, done

    assert in_small_world(1, steps) == (["a", "b", "c"], ["a", "b", "c"])


def test_work_of_a_killed_process_is_never_answered():
    async def steps(small):
        calls = []
        process = small.world.new_process("storage-1")

        def work():
            process.end()
            raise ProcessKilled

        async def run():
            try:
                await asyncio.to_thread(work)
            finally:
                calls.append("finally")

        process.spawn(run(), "run")
        await asyncio.sleep(1)
        return calls

    assert in_small_world(1, steps) == []
