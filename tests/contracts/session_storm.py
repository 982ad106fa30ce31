"""Many callers with short deadlines and cancellations, tight bounds, and a server that goes and comes back.

Whatever happens, every call ends once, an answer belongs to its question, and nothing is executed twice. A call that is
told to have had no effect had none. Afterwards neither side holds anything.

A subclass names its `medium`, as of `SessionContract`.
"""

import asyncio
import contextlib
import random
from collections import Counter

import pytest
from tests.contracts.stub import DEADLINE_S
from tests.integration.rpc.scripted_controller import Served

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.rpc.contract import STORAGE
from oncelog.rpc.session_client import PeerSession, SessionStub
from oncelog.rpc.sessions import PeerUnavailable, SessionLimits

CALLERS = 40
CALLS_EACH = 60
ANSWERS_EACH = 2
"""A caller calls on until it has them, however many of its calls found no server."""
NUMBERS_EACH = 100_000


class CountingStorage:
    """Answers with the question's number after a while, and counts how often each was executed."""

    def __init__(self, dice):
        self._dice = dice
        self.executed = Counter()
        self.is_reached = asyncio.Event()
        """By a call since the last start."""

    async def Produce(self, request, context):  # noqa: N802
        number = request.timeout_ms
        self.executed[number] += 1
        self.is_reached.set()
        for _ in range(self._dice.choice((0, 0, 1, 5))):
            await asyncio.sleep(self._dice.choice((0, 0, 0.001, 0.01)))
        padding = "p" * self._dice.choice((0, 100, 30_000))
        return pb.ProduceResponse(
            partitions=[pb.PartitionProduced(base_offset=number, topic=padding)]
        )


async def call(stub, servicer, dice, number, outcomes):
    records = b"r" * dice.choice((0, 100, 20_000))
    request = pb.ProduceRequest(
        timeout_ms=number, partitions=[pb.PartitionRecords(records=records)]
    )
    timeout = dice.choice((None, 0.002, 0.05, DEADLINE_S))
    task = asyncio.create_task(stub.Produce(request, timeout=timeout))
    if dice.random() < 0.1:
        await asyncio.sleep(dice.choice((0, 0.001, 0.005)))
        task.cancel()
    try:
        response = await task
    except PeerUnavailable as error:
        outcomes[number] = "lost" if error.was_sent else "not begun"
        # A busy machine starts a server slowly: nobody spends all of its calls on one that is away.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(dice.uniform(0, 0.5)):
                await servicer.is_reached.wait()
    except TimeoutError:
        outcomes[number] = "late"
    except asyncio.CancelledError:
        outcomes[number] = "cancelled"
    else:
        assert response.partitions[0].base_offset == number
        outcomes[number] = "answered"


async def caller(stub, servicer, dice, first, outcomes):
    answers = 0
    for number in range(first, first + NUMBERS_EACH):
        assert number not in outcomes
        await call(stub, servicer, dice, number, outcomes)
        answers += outcomes[number] == "answered"
        if number >= first + CALLS_EACH - 1 and answers >= ANSWERS_EACH:
            return


async def restarts(served, servicer, dice, is_over):
    """Whole rounds: a server that is cancelled in its stop is neither running nor stopped. Each hears a call."""
    while not is_over.is_set():
        if not servicer.is_reached.is_set():
            await asyncio.sleep(0.005)
            continue
        await asyncio.sleep(dice.uniform(0.02, 0.2))
        if dice.random() < 0.5:
            await served.server.stop(0.05)
        await served.stop()
        servicer.is_reached.clear()
        await served.start()


class SessionStormContract:
    def in_world(self, scenario):
        self.medium.in_world(scenario)

    @pytest.mark.parametrize("seed", range(4))
    async def test_every_call_ends_once_and_nothing_is_left(self, seed):
        dice = random.Random(seed)
        limits = SessionLimits(
            calls_max=dice.choice((1, 8, 1000)),
            bytes_max=dice.choice((1000, 100_000)),
            frame_bytes=dice.choice((1, 10_000)),
        )
        servicer = CountingStorage(dice)
        outcomes = {}
        async with Served(servicer, STORAGE, limits) as served:
            session = PeerSession(served.address, limits)
            stub = SessionStub(session, STORAGE)
            is_over = asyncio.Event()
            storm = asyncio.create_task(restarts(served, servicer, dice, is_over))
            async with asyncio.TaskGroup() as group:
                for number in range(CALLERS):
                    first = 1 + number * NUMBERS_EACH
                    group.create_task(caller(stub, servicer, dice, first, outcomes))
            is_over.set()
            await storm
            assert len(outcomes) >= CALLERS * CALLS_EACH
            assert max(servicer.executed.values()) == 1
            for number, outcome in outcomes.items():
                if outcome == "answered":
                    assert servicer.executed[number] == 1
                if outcome == "not begun":
                    assert servicer.executed[number] == 0
            assert Counter(outcomes.values())["answered"] >= CALLERS * ANSWERS_EACH
            assert session.calls_in_flight == 0
            await session.close()
            await served.server.stop(DEADLINE_S)
            assert served.server.calls_in_flight == 0
