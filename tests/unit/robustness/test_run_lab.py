"""A client of `RunLab` dies as by SIGKILL: nothing of it runs any more, and the history has its last words."""

import asyncio
import gc

import pytest
from aiokafka.errors import ProducerFenced
from oncelog_robustness.history import WorkloadFact
from oncelog_robustness.workloads.run_lab import RunLab, run_on_killing_loop


def fact(fact):
    return WorkloadFact(client="c#1", invoked_ms=0, completed_ms=None, kind="test", facts=fact)


def in_lab(main, duration_ms=60_000):
    lab = RunLab([], seed=1, duration_ms=duration_ms)
    run_on_killing_loop(main(lab))
    return lab


def facts(lab):
    return [one.facts for one in lab.history.operations]


def test_nothing_of_a_killed_client_runs_any_more():
    traces = []

    async def background():
        try:
            await asyncio.sleep(0.01)
            traces.append("background went on")
        finally:
            traces.append("background cleaned up")

    async def work(process):
        task = asyncio.get_running_loop().create_task(background())
        try:
            await task
        finally:
            traces.append("work cleaned up")

    async def main(lab):
        process = lab.spawn("client", work)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        process.kill()
        await process.ended()
        await asyncio.sleep(0.05)
        assert not process.is_running

    in_lab(main)
    assert traces == []


def test_last_words_stand_unless_they_were_settled():
    async def work(process):
        process.last_word("first", fact("first was open"))
        process.last_word("second", fact("second was open"))
        process.settle("first", fact("first is done"))
        process.last_word("second", fact("second was asked"))
        await asyncio.sleep(60)

    async def main(lab):
        process = lab.spawn("client", work)
        await asyncio.sleep(0.01)
        process.kill()

    assert facts(in_lab(main)) == ["first is done", "second was asked"]


def test_a_connection_of_a_killed_client_closes():
    closed = asyncio.Event()

    async def serve(reader, writer):
        assert await reader.read() == b""
        closed.set()
        writer.close()

    async def main(lab):
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def work(process):
            await asyncio.open_connection("127.0.0.1", port)
            opened.set()
            await asyncio.sleep(60)

        opened = asyncio.Event()
        process = lab.spawn("client", work)
        async with asyncio.timeout(20):
            await opened.wait()
            process.kill()
            await closed.wait()
        server.close()

    in_lab(main)


def test_what_a_client_raises_fails_the_run():
    async def work(process):
        raise LookupError("not foreseen")

    async def main(lab):
        process = lab.spawn("client", work)
        await process.ended()
        lab.spawn("another", work)

    with pytest.raises(LookupError, match="not foreseen"):
        in_lab(main)


def test_the_next_incarnation_has_the_next_number():
    names = []

    async def work(process):
        names.append(process.name)

    async def main(lab):
        await lab.spawn("client", work).ended()
        await lab.spawn("client", work).ended()

    in_lab(main)
    assert names == ["client#1", "client#2"]


@pytest.mark.parametrize(
    ("error", "is_told"), [(ProducerFenced(), False), (ValueError("a bug"), True)]
)
def test_only_the_client_librarys_lost_futures_are_passed_over(error, is_told, caplog):
    async def main(lab):
        asyncio.get_running_loop().create_future().set_exception(error)

    in_lab(main)
    gc.collect()
    assert ("never retrieved" in caplog.text) == is_told
