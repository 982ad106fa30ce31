"""The commit gate: nothing is said before it is durable, and a machine ahead of its journal is dropped."""

import asyncio
from dataclasses import dataclass

import pytest
from tests.contracts.memory_journal import MemoryJournal
from tests.contracts.shard_storage import until

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog.journal import AppendFailed
from oncelog.machine import CancelTimer, Decision, Reply, Send, SetTimer
from oncelog.runtime import Driver, DriverStopped, SystemClock
from oncelog.runtime import driver as driver_module


@dataclass(frozen=True)
class Add:
    request_id: int
    number: int


@dataclass(frozen=True)
class Read:
    request_id: int


@dataclass(frozen=True)
class Refuse:
    request_id: int


@dataclass(frozen=True)
class Ring:
    after_ms: int


@dataclass(frozen=True)
class Mute:
    pass


@dataclass(frozen=True)
class Fired:
    pass


@dataclass(frozen=True)
class Spring:
    """A timer whose event breaks `decide` as often as `times` says."""

    times: int


@dataclass(frozen=True)
class Sprung:
    pass


class Counting:
    """Sums what was added; tells the world of each sum."""

    def __init__(self):
        self.total = 0
        self.breaks = 0

    def decide(self, event, now):
        match event:
            case Add():
                if event.number == 13:
                    raise ValueError("13 is bad luck")
                total = self.total + event.number
                return Decision(
                    (event.number,), (Reply(event.request_id, total), Send("w", total)), "added"
                )
            case Read():
                return Decision((), (Reply(event.request_id, self.total),), "read")
            case Refuse():
                no = Reply(event.request_id, "no")
                return Decision((), (no,), "refused", needs_confirmation=True)
            case Ring():
                return Decision((), (SetTimer("ring", event.after_ms, Fired()),), "set")
            case Spring():
                self.breaks = event.times
                return Decision((), (SetTimer("spring", 1, Sprung()),), "set")
            case Sprung():
                self.breaks -= 1
                if self.breaks >= 0:
                    raise ValueError("not yet")
                return Decision((1,), (), "sprung")
            case Mute():
                return Decision((), (CancelTimer("ring"),), "cancelled")
            case Fired():
                return Decision((1,), (), "fired")
        raise AssertionError(event)

    def apply(self, offset, record):
        assert record != 99, "99 does not fit"
        self.total += record

    def resume(self, now):
        return [Send("resumed", self.total)]


class GatedJournal(MemoryJournal):
    def __init__(self, records=()):
        super().__init__(records)
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure = None
        self.appends = []

    async def append(self, records):
        self.appends.append(list(records))
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return await super().append(records)


class World:
    def __init__(self, records=(), **options):
        self.journal = GatedJournal(records)
        self.sent, self.failures, self.labels = [], [], []
        self.driver = Driver(
            "test",
            Counting(),
            self.journal,
            SystemClock(),
            send=lambda send: self.sent.append((send.destination, send.message)),
            on_failure=self.failures.append,
            on_label=self.labels.append,
            **options,
        )

    def ask(self, event, *arguments):
        request_id = self.driver.request_id()
        return asyncio.ensure_future(self.driver.ask(event(request_id, *arguments), request_id))


@pytest.fixture
async def world():
    """It has started, and nothing was sent yet."""
    world = World()
    await world.driver.start()
    world.sent.clear()
    yield world
    await world.driver.stop()


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_start_replays_and_resumes():
    world = World([1, 2, 3])
    assert world.driver.stopped is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await world.driver.start()
    assert world.sent == [("resumed", 6)]
    assert await world.ask(Read) == 6
    await world.driver.stop()


async def test_before_start_events_are_refused():
    with pytest.raises(DriverStopped):
        World().driver.submit(Ring(1))


async def test_no_reply_and_no_send_leaves_before_its_append(world):
    world.journal.gate.clear()
    reply = world.ask(Add, 5)
    await turns()
    assert (reply.done(), world.sent, world.journal.records) == (False, [], [])
    world.journal.gate.set()
    assert await reply == 5
    assert world.sent == [("w", 5)]


async def test_a_read_waits_for_what_it_saw(world):
    world.journal.gate.clear()
    added, read = world.ask(Add, 5), world.ask(Read)
    await turns()
    assert not read.done()
    world.journal.gate.set()
    assert (await added, await read) == (5, 5)


async def test_what_queues_during_an_append_goes_into_the_next_one(world):
    world.journal.gate.clear()
    first = world.ask(Add, 1)
    await turns()
    rest = [world.ask(Add, number) for number in (2, 3, 4)]
    await turns()
    world.journal.gate.set()
    assert [await reply for reply in (first, *rest)] == [1, 3, 6, 10]
    assert world.journal.appends == [[1], [2, 3, 4]]


async def test_what_is_appended_at_once_is_told_in_the_same_step():
    taken = []
    world = World(append_at_once=lambda records: taken.append(records) is None)
    await world.driver.start()
    world.sent.clear()
    with pytest.raises(StopIteration) as answered:
        world.driver.ask(Add(1, 5), 1).send(None)
    assert (answered.value.value, world.sent, taken) == (5, [("w", 5)], [(5,)])
    assert world.journal.appends == []


async def test_what_is_not_appended_at_once_is_appended():
    offered = []
    world = World(append_at_once=lambda records: offered.append(records) is not None)
    await world.driver.start()
    world.journal.gate.clear()
    first = world.ask(Add, 1)
    await turns()
    second = world.ask(Add, 2)
    await turns()
    world.journal.gate.set()
    assert (await first, await second) == (1, 3)
    assert offered == [(1,)], "nothing overtakes an append under way"
    assert world.journal.appends == [[1], [2]]
    await world.driver.stop()


async def test_an_append_at_once_that_breaks_stops_the_machine():
    def breaks(records):
        raise RuntimeError("our fault")

    world = World(append_at_once=breaks)
    await world.driver.start()
    with pytest.raises(DriverStopped) as refused:
        await world.ask(Add, 1)
    assert refused.value.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (len(world.failures), world.journal.appends) == (1, [])
    with pytest.raises(DriverStopped):
        await world.ask(Read)


class Owner:
    """Confirms when it may."""

    def __init__(self):
        self.gate, self.failure, self.calls = asyncio.Event(), None, 0

    async def confirm(self):
        self.calls += 1
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure


async def test_a_refusal_waits_until_the_owner_is_confirmed():
    owner = Owner()
    world = World(append_at_once=lambda records: True, confirm=owner.confirm)
    await world.driver.start()
    refused = world.ask(Refuse)
    await turns()
    later = [world.ask(Read), world.ask(Refuse)]
    await turns()
    assert not any(reply.done() for reply in (refused, *later)), "and nothing overtakes it"
    owner.gate.set()
    assert [await reply for reply in (refused, *later)] == ["no", 0, "no"]
    assert owner.calls == 2, "those that queued are confirmed together"
    await world.driver.stop()


async def test_an_append_confirms_the_refusals_beside_it():
    owner = Owner()
    world = World(confirm=owner.confirm)
    await world.driver.start()
    world.journal.gate.clear()
    replies = [world.ask(Add, 1)]
    await turns()
    replies += [world.ask(Add, 2), world.ask(Refuse)]
    await turns()
    world.journal.gate.set()
    assert [await reply for reply in replies] == [1, 3, "no"]
    assert owner.calls == 0
    await world.driver.stop()


async def test_a_refusal_of_a_machine_that_was_deposed_is_not_told():
    owner = Owner()
    owner.gate.set()
    owner.failure = AppendFailed(ErrorCode.NOT_COORDINATOR)
    world = World(confirm=owner.confirm)
    await world.driver.start()
    with pytest.raises(DriverStopped) as told:
        await world.ask(Refuse)
    assert told.value.error_code is ErrorCode.NOT_COORDINATOR
    assert world.failures == [owner.failure]


async def test_a_failed_append_refuses_all_that_waits():
    world = World([7])
    await world.driver.start()
    world.sent.clear()
    world.journal.gate.clear()
    world.journal.failure = AppendFailed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    waiting = [world.ask(Add, 1), world.ask(Add, 2), world.ask(Read)]
    await turns()
    world.journal.gate.set()
    for reply in waiting:
        with pytest.raises(DriverStopped) as refused:
            await reply
        assert refused.value.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(DriverStopped):
        await world.ask(Read)
    assert (len(world.failures), world.sent) == (1, [])
    again = World(world.journal.records)
    await again.driver.start()
    assert await again.ask(Read) == 7
    await again.driver.stop()


async def test_an_event_that_breaks_decide_is_lost_alone(world):
    with pytest.raises(DriverStopped) as refused:
        await world.ask(Add, 13)
    assert refused.value.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert await world.ask(Add, 1) == 1
    assert world.failures == []


async def test_a_record_that_does_not_fit_stops_the_machine(world):
    with pytest.raises(DriverStopped):
        await world.ask(Add, 99)
    assert len(world.failures) == 1
    assert world.journal.appends == []
    with pytest.raises(DriverStopped):
        await world.ask(Read)


async def test_a_machine_that_stopped_by_itself_leaves_no_task_behind(world):
    await world.ask(Add, 1)
    with pytest.raises(DriverStopped):
        await world.ask(Add, 99)
    await turns()
    assert "test journal" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_a_journal_that_breaks_its_contract_stops_the_machine(world):
    world.journal.failure = RuntimeError("not an AppendFailed")
    with pytest.raises(DriverStopped):
        await world.ask(Add, 1)
    assert len(world.failures) == 1


async def test_a_caller_that_goes_away_takes_nothing_with_it(world):
    world.journal.gate.clear()
    reply = world.ask(Add, 5)
    await turns()
    reply.cancel()
    world.journal.gate.set()
    assert await world.ask(Read) == 5


async def test_timers_fire_are_replaced_and_are_cancelled(world):
    world.driver.submit(Ring(60_000))
    world.driver.submit(Ring(1))
    await until(lambda: "fired" in world.labels)
    world.driver.submit(Ring(5))
    world.driver.submit(Mute())
    await asyncio.sleep(0.02)
    assert world.labels.count("fired") == 1


async def test_a_timer_whose_event_breaks_decide_goes_off_again(world, monkeypatch):
    monkeypatch.setattr(driver_module, "TIMER_RETRY_MS", Millis(1))
    world.driver.submit(Spring(2))
    await until(lambda: "sprung" in world.labels)
    assert world.failures == []


async def test_events_are_enriched_right_before_they_are_decided():
    seen = []

    def enrich(event):
        seen.append(type(event).__name__)
        return event

    world = World(enrich=enrich)
    await world.driver.start()
    world.driver.submit(Ring(1))
    await until(lambda: "fired" in world.labels)
    assert seen == ["Ring", "Fired"]
    await world.driver.stop()


async def test_stop_refuses_what_waits_and_lets_the_append_end(world):
    world.journal.gate.clear()
    reply = world.ask(Add, 5)
    await turns()
    stopping = asyncio.ensure_future(world.driver.stop(ErrorCode.NOT_COORDINATOR))
    await turns()
    world.journal.gate.set()
    await stopping
    with pytest.raises(DriverStopped) as refused:
        await reply
    assert refused.value.error_code is ErrorCode.NOT_COORDINATOR
    assert (world.journal.records, world.sent, world.failures) == ([5], [], [])


async def test_an_idle_driver_owns_no_task():
    before = len(asyncio.all_tasks())
    world = World()
    await world.driver.start()
    await world.ask(Read)
    assert len(asyncio.all_tasks()) == before
    await world.driver.stop()
