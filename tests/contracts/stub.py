"""What every stub obeys, whether it calls in this process or over a session to another."""

import asyncio

import pytest

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import OncelogError

DEADLINE_S = 90
BIG = 40_000_000


class ScriptedStorage:
    """Answers as told in the request's transactional.id, and counts what became of its calls."""

    def __init__(self):
        self.begun = self.cancelled = self.in_flight = self.in_flight_max = 0
        self._changed = asyncio.Condition()
        self.told = asyncio.Event()

    async def Produce(self, request, context):  # noqa: N802
        self.begun += 1
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        await self._tell()
        try:
            return await self._answer(request)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1
            await self._tell()

    async def Fetch(self, request, context):  # noqa: N802
        self.begun += 1
        await self._tell()
        records = b"r" * request.max_bytes
        return pb.FetchResponse(partitions=[pb.FetchedPartition(records=records)])

    async def _answer(self, request):
        match request.transactional_id:
            case "refused":
                raise OncelogError("the disk is full; make room")
            case "a bug":
                raise ValueError("not this way")
            case "waits":
                await asyncio.Event().wait()
            case "until told":
                await self.told.wait()
            case "turns":
                for _ in range(5):
                    await asyncio.sleep(0)
        length = sum(len(partition.records) for partition in request.partitions)
        return pb.ProduceResponse(partitions=[pb.PartitionProduced(base_offset=length)])

    async def _tell(self):
        async with self._changed:
            self._changed.notify_all()

    async def until(self, holds):
        async with asyncio.timeout(DEADLINE_S), self._changed:
            await self._changed.wait_for(holds)


def produce(what="", length=0):
    return pb.ProduceRequest(
        transactional_id=what, partitions=[pb.PartitionRecords(records=b"p" * length)]
    )


def length_of(response):
    return response.partitions[0].base_offset


class StubContract:
    """`world()` is an asynchronous context manager that yields a stub of Storage and the servicer behind it; `run`
    may be another loop's."""

    def in_world(self, scenario):
        async def run():
            async with (
                asyncio.timeout(3 * DEADLINE_S),
                self.world() as (self.stub, self.servicer),
            ):
                await scenario()

        self.run(run)

    def run(self, scenario):
        asyncio.run(scenario())

    async def test_answers(self):
        assert length_of(await self.stub.Produce(produce(length=3))) == 3
        assert length_of(await self.stub.Produce(produce("turns", 4), timeout=DEADLINE_S)) == 4

    async def test_many_at_once_each_get_their_own_answer(self):
        calls = [self.stub.Produce(produce("turns", n), timeout=DEADLINE_S) for n in range(2000)]
        answers = await asyncio.gather(*calls)
        assert [length_of(answer) for answer in answers] == list(range(2000))

    async def test_big_request_and_big_answer(self):
        assert length_of(await self.stub.Produce(produce(length=BIG), timeout=DEADLINE_S)) == BIG
        answer = await self.stub.Fetch(pb.FetchRequest(max_bytes=BIG), timeout=DEADLINE_S)
        assert len(answer.partitions[0].records) == BIG

    async def test_a_refusal_keeps_its_words(self):
        with pytest.raises(OncelogError, match=r"^the disk is full; make room$"):
            await self.stub.Produce(produce("refused"), timeout=DEADLINE_S)

    async def test_a_bug_ends_its_own_call_only(self):
        waits = asyncio.create_task(self.stub.Produce(produce("waits")))
        await self.servicer.until(lambda: self.servicer.in_flight == 1)
        with pytest.raises(Exception, match="not this way"):
            await self.stub.Produce(produce("a bug"), timeout=DEADLINE_S)
        assert not waits.done()
        assert length_of(await self.stub.Produce(produce(length=2))) == 2
        waits.cancel()

    async def test_the_deadline_ends_the_call_on_both_sides(self):
        with pytest.raises(TimeoutError):
            await self.stub.Produce(produce("waits"), timeout=0.05)
        await self.servicer.until(
            lambda: self.servicer.cancelled == 1 and self.servicer.in_flight == 0
        )

    async def test_cancelling_the_caller_cancels_the_call(self):
        call = asyncio.create_task(self.stub.Produce(produce("waits"), timeout=DEADLINE_S))
        await self.servicer.until(lambda: self.servicer.in_flight == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await self.servicer.until(
            lambda: self.servicer.cancelled == 1 and self.servicer.in_flight == 0
        )

    async def test_a_call_that_waits_does_not_hold_up_others(self):
        waits = asyncio.create_task(self.stub.Produce(produce("waits")))
        await self.servicer.until(lambda: self.servicer.in_flight == 1)
        assert length_of(await self.stub.Produce(produce(length=1), timeout=DEADLINE_S)) == 1
        assert not waits.done()
        waits.cancel()

    async def test_a_call_begins_when_it_is_awaited(self):
        call = self.stub.Produce(produce())
        assert self.servicer.begun == 0
        await call
        assert self.servicer.begun == 1

    async def test_an_unknown_method_is_an_attribute_error(self):
        with pytest.raises(AttributeError):
            _ = self.stub.Publish
