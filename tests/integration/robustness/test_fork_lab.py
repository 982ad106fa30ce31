"""Clients as processes: what a killed one had told is there, its last words are taken, and nothing else of it."""

import asyncio
import json
import os
import signal
import time

import pytest
from oncelog_robustness.chaos.lab import HISTORY, ForkLab, LabOrder, WorkloadFailed
from oncelog_robustness.history import History, WorkloadFact

DEADLINE_S = 20.0


@pytest.fixture
def order(tmp_path):
    return LabOrder(
        bootstrap="",
        client_config="",
        folder=str(tmp_path),
        seed=7,
        replicas=1,
        began_s=time.monotonic(),
        libraries=(),
        workloads=(),
        facts={"seed": "7"},
    )


def fact(facts, client="c"):
    return WorkloadFact(
        client=client, invoked_ms=1, completed_ms=None, kind="test", facts=str(facts)
    )


def run(order, scenario):
    """Returns what the history says afterwards, in its order."""

    async def bounded():
        lab = ForkLab(order, [])
        try:
            async with asyncio.timeout(DEADLINE_S):
                await scenario(lab)
        finally:
            lab.close()

    asyncio.run(bounded())
    with open(f"{order.folder}/{HISTORY}") as lines:
        history = History.from_lines(lines)
    assert history.facts == {"seed": "7"}
    return [one.facts for one in history.all(WorkloadFact)]


async def until(lab, condition):
    while not condition():
        lab.read_on()
        await asyncio.sleep(0.01)


def test_what_a_client_tells_is_in_the_history(order):
    async def scenario(lab):
        lab.record(fact("before"))

        async def work(process):
            lab.record(fact(process.name))
            process.last_word("key", fact("unsettled"))
            process.settle("key", fact("settled"))

        for _ in range(2):
            await lab.spawn("c", work).ended()

    assert run(order, scenario) == ["before", "c#1", "settled", "c#2", "settled"]


def test_last_words_of_a_killed_client_are_taken(order):
    async def scenario(lab):
        async def work(process):
            process.last_word("a", fact("first"))
            process.last_word("a", fact("last"))
            process.last_word("b", fact("other"))
            try:
                lab.record(fact("ready"))
                await asyncio.sleep(2 * DEADLINE_S)
            finally:
                lab.record(fact("finally"))

        process = lab.spawn("c", work)
        await until(lab, lambda: lab.counts["operations"] == 1)
        assert process.is_running
        process.kill()
        await process.ended()
        assert not process.is_running
        process.kill()

    assert run(order, scenario) == ["ready", "last", "other"]


def test_last_words_of_a_client_that_returned_are_taken_too(order):
    async def scenario(lab):
        async def work(process):
            process.last_word("a", fact("left open"))

        await lab.spawn("c", work).ended()

    assert run(order, scenario) == ["left open"]


def test_the_half_line_of_a_killed_client_is_left_out(order):
    async def scenario(lab):
        async def work(process):
            lab.record(fact("whole"))
            os.write(process._descriptor, b'{"kind": "record", "key"')
            os.kill(os.getpid(), signal.SIGKILL)

        process = lab.spawn("c", work)
        await process.ended()
        assert "ended with -9" in process.error

    assert run(order, scenario) == ["whole"]


def test_a_bug_of_a_workload_ends_the_run_with_its_traceback(order):
    async def scenario(lab):
        async def work(process):
            raise ZeroDivisionError("a bug")

        await lab.spawn("c", work).ended()
        with pytest.raises(WorkloadFailed, match="ZeroDivisionError: a bug"):
            lab.read_on()
        with pytest.raises(WorkloadFailed, match="a bug"):
            lab.spawn("d", work)

    assert run(order, scenario) == []


def test_clients_share_nothing_but_the_end(order):
    async def scenario(lab):
        seen = []

        async def work(process):
            seen.append(process.name)
            first = lab.random.random()
            while not lab.is_over:
                await lab.sleep(int(2 * DEADLINE_S * 1000))
            lab.record(fact(json.dumps([len(seen), first])))

        processes = [lab.spawn(name, work) for name in ("a", "b")]
        lab.end()
        for process in processes:
            await process.ended()
        assert seen == []

    found = [json.loads(one) for one in run(order, scenario)]
    assert [count for count, _ in found] == [1, 1]
    assert found[0][1] != found[1][1]


def test_one_of_those_that_run_is_killed_by_its_share(order):
    async def scenario(lab):
        assert lab.kill_one(0.5) == ""

        async def work(process):
            await lab.sleep(int(2 * DEADLINE_S * 1000))

        processes = [lab.spawn(name, work) for name in ("a", "b", "c")]
        assert [lab.kill_one(0.0), lab.kill_one(1.0)] == ["a#1", "c#1"]
        for process in (processes[0], processes[2]):
            await process.ended()
        assert lab.kill_one(0.99) == "b#1"
        await processes[1].ended()

    assert run(order, scenario) == []


def test_times_are_those_of_the_runner(order):
    async def scenario(lab):
        async def work(process):
            lab.record(fact(lab.now_ms()))

        before = lab.now_ms()
        await lab.spawn("c", work).ended()
        lab.record(fact(before))
        lab.record(fact(lab.now_ms()))

    child, before, after = (int(one) for one in run(order, scenario))
    assert before <= child <= after
