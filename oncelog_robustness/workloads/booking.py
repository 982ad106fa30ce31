"""The clients of the workload `prepared`: an application that books payments in a database and in a topic, and a
tool that ends what such an application left behind.

    begin, send, prepare ─▶ write, commit in the database ─▶ end in the topic
    a successor          ─▶ init (fences) ─▶ take over the database's row (fences) ─▶ end what was left

A blow (the process is killed or frozen, or a process of the cluster is killed) may be planned for each start of an
application. It comes before, during or after one of these steps.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field

from oncelog.errors import KafkaError
from oncelog_robustness.clients.contract import ClientError
from oncelog_robustness.clients.oncelog import OncelogClients
from oncelog_robustness.clients.transaction_calls import TV2_END, TransactionCalls
from oncelog_robustness.clients.wire import Brokers, Lost, Unreachable
from oncelog_robustness.history import Ending, Outcome, Partition
from oncelog_robustness.workloads.contract import ClientProcess, Lab
from oncelog_robustness.workloads.parameters import (
    ClientCount,
    Partitions,
    Pause,
    Sends,
    Share,
    Watched,
)
from oncelog_robustness.workloads.payments import NotAnswered, Overtaken, PaymentsDatabase
from oncelog_robustness.workloads.transacting import OpenTransaction, Planned

ResultT = TypeVar("ResultT")


class Step(StrEnum):
    INIT = "init"
    TAKE_OVER = "take over"
    RECOVER = "recover"
    BEGIN = "begin"
    SEND = "send"
    PREPARE = "prepare"
    WRITE = "write"
    COMMIT = "commit"
    END = "end"


class Moment(StrEnum):
    BEFORE = "before"
    UNDER_WAY = "under way"
    AFTER = "after"


class Harm(StrEnum):
    KILL = "kill"
    FREEZE = "freeze"
    COORDINATOR = "coordinator"
    STORAGE = "storage"
    LISTENER = "listener"
    MARKER_SENDER = "marker-sender"
    CONTROLLER = "controller"


_Harms = Annotated[
    tuple[Harm, ...], BeforeValidator(lambda names: tuple(map(Harm, names))), Field(min_length=1)
]
_Steps = Annotated[
    tuple[Step, ...], BeforeValidator(lambda names: tuple(map(Step, names))), Field(min_length=1)
]


class BookingParameters(Watched):
    partitions: Partitions = 3
    applications: ClientCount = 2
    sends_max: Sends = 4
    """The most sends in a transaction."""
    think_ms: Pause = 400
    blow_share: Share = 0.85
    """The share of an application's starts that get a blow: the application is killed or frozen, or a process of
    the cluster is killed."""
    nth_max: int = Field(default=3, ge=1, le=100)
    """A blow comes in one of the first `nth_max` transactions after a start; which one is drawn."""
    harms: _Harms = (*[Harm.KILL, Harm.FREEZE] * 5, *Harm)
    """The kinds of harm from which that of a blow is drawn; one that stands here twice is drawn twice as often."""
    steps: _Steps = tuple(Step)
    tool_share: Share = 0.12
    """The share of an application's starts that are replaced by a start of the recovery tool, which ends what was
    left."""
    tool_ms: Pause = 3_000
    freeze_ms: Pause = 12_000
    outage_ms: Pause = 4_000
    """The longest outage of a process of the cluster that a blow kills, in milliseconds."""
    operator_ms: Pause = 6_000
    """The longest time after which the operator looks for an open transaction again, in milliseconds; 0: there is
    no operator."""
    abort_share: Share = 0.1
    late_share: Share = 0.06
    """The share of calls to the database that arrive or are answered late."""
    lost_share: Share = 0.03


@dataclass(frozen=True, slots=True)
class Blow:
    step: Step
    moment: Moment
    harm: Harm
    nth: int
    """The number of the transaction, since the start, in which the blow comes; 0 for steps that come before the
    first one."""


@dataclass(slots=True)
class Orders:
    """The state that one start of an application shares with its starter: the blow (a kill or freeze at a chosen step)
    that is planned for it. At that step the application sets `is_struck`, and waits until the starter sets
    `goes_on`."""

    blow: Blow | None
    is_struck: asyncio.Event = field(default_factory=asyncio.Event)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    is_recovered: bool = False

    async def at(self, step: Step, moment: Moment, nth: int) -> None:
        """Tell the starter if the blow (a kill or freeze) is planned for this step and moment of the `nth` transaction.
        Then wait until the starter lets the application go on, unless the blow comes while the step is under way."""
        blow = self.blow
        if blow is None or self.is_struck.is_set():
            return
        if (blow.step, blow.moment, blow.nth) == (step, moment, nth):
            self.is_struck.set()
            if moment is not Moment.UNDER_WAY:
                await self.goes_on.wait()

    async def during(self, step: Step, call: Coroutine[Any, Any, ResultT], nth: int = 0) -> ResultT:
        """Await `call`, which is this step, and return its result. If a blow (a kill or freeze) is planned for this
        step, it comes before, during or after `call`."""
        await self.at(step, Moment.BEFORE, nth)
        await self.at(step, Moment.UNDER_WAY, nth)
        answer = await call
        await self.at(step, Moment.AFTER, nth)
        return answer


@dataclass(frozen=True, slots=True)
class Place:
    """The objects that an application and its recovery tool work with: the lab (clients, chance, history), the
    parameters, the topic's partitions and the database."""

    lab: Lab
    given: BookingParameters
    partitions: Sequence[Partition]
    database: PaymentsDatabase
    application: str
    """The application's transactional id, which is also the name of its row in the database."""


class Recoverer:
    """A tool that ends the transaction which a dead application left prepared, as the database's row says. Its
    InitProducerId asks for a transaction time-out, though the application's prepared transaction has none."""

    def __init__(self, place: Place, orders: Orders, process: ClientProcess) -> None:
        self._place = place
        self._orders = orders
        self._brokers = Brokers(place.lab.clients[0].bootstrap, process.name)

    async def live(self) -> None:
        with contextlib.suppress(NotAnswered, Lost, Unreachable, KafkaError):
            await self._recover()
        self._brokers.close()

    async def _recover(self) -> None:
        place, calls = self._place, TransactionCalls(self._brokers)
        name, given = place.application, place.given
        keep = calls.keep(name, given.transaction_timeout_ms)
        me, left = await self._orders.during(Step.INIT, keep)
        taken = await self._orders.during(Step.TAKE_OVER, place.database.take_over(name))
        if left is None:
            return
        # A person takes time to look at the transaction before deciding.
        await place.lab.sleep(place.lab.random.randint(0, given.tool_ms))
        is_commit = taken.stored == str(left)
        end = calls.end(name, me, is_commit=is_commit, version=TV2_END)
        await self._orders.during(Step.RECOVER, end)


class Incarnation:
    """One start of an application, with a producer of its own. It books payments until a call fails, or the run is
    over."""

    def __init__(self, place: Place, orders: Orders, process: ClientProcess) -> None:
        self._lab = place.lab
        self._given = place.given
        self._partitions = place.partitions
        self._database = place.database
        self._name = place.application
        self._orders = orders
        self._process = process
        clients = next(one for one in self._lab.clients if isinstance(one, OncelogClients))
        self._producer = clients.two_phase_producer(process.name, self._name)
        self._generation = -1
        self._nth = 0
        self._values = 0

    async def live(self, *, is_last: bool) -> None:
        """End what the predecessor left, then book payments until an error or the end of the run. After an error it
        exits as it is, and leaves the rest to its successor. `is_last`: book nothing."""
        try:
            await self._step(Step.INIT, self._producer.init_transactions())
            await self._recover()
            self._orders.is_recovered = True
            while not (is_last or self._lab.is_over):
                self._nth += 1
                if not await self._pay():
                    return
                await self._lab.sleep(self._lab.random.randint(0, self._given.think_ms))
            await self._producer.close()
        except ClientError:
            return

    async def _step(self, step: Step, call: Coroutine[Any, Any, ResultT]) -> ResultT:
        return await self._orders.during(step, call, self._nth)

    async def _recover(self) -> None:
        """End the transaction that the predecessor left prepared, as the database's row says. The producer is
        initialised before that, so nobody else can end what this reads as undecided."""
        taken = await self._step(Step.TAKE_OVER, self._database.take_over(self._name))
        self._generation = taken.generation
        await self._step(Step.RECOVER, self._producer.complete(taken.stored))

    async def _pay(self) -> bool:
        """Make one transaction, with its payments in the database. Returns False when this start of the application
        can do nothing more, and must exit."""
        await self._step(Step.BEGIN, self._producer.begin())
        opened = OpenTransaction(
            self._lab,
            self._process,
            self._producer,
            OncelogClients.library,
            self._name,
            self._given.transaction_timeout_ms,
        )
        opened.update_last_word()
        draw = self._lab.random
        planned = [
            Planned(self._drawn_partition(), self._unique())
            for _ in range(draw.randint(1, self._given.sends_max))
        ]
        dice = draw.random()
        try:
            await self._step(Step.SEND, opened.send_all(planned))
            if dice < self._given.abort_share / 2:
                return await self._give_up(opened, self._producer.abort(), "changed its mind")
            prepared = await self._step(Step.PREPARE, self._producer.prepare())
        except ClientError as error:
            if draw.random() < 0.3:
                opened.settle(Outcome.FAIL, f"left open: {error!r}")
                return False
            return await self._give_up(opened, self._producer.abort(), repr(error))
        if dice < self._given.abort_share:
            return await self._give_up(opened, self._producer.complete(""), "changed its mind")
        return await self._book(opened, prepared, [one.value for one in planned])

    async def _book(self, opened: OpenTransaction, prepared: str, values: list[str]) -> bool:
        database, name = self._database, self._name
        try:
            await self._step(Step.WRITE, database.write(name, self._generation))
            opened.asks(Ending.COMMIT)
            commit = database.commit(name, self._generation, prepared, values)
            await self._step(Step.COMMIT, commit)
        except Overtaken as error:
            # Nobody can book it any more. Its own producer may still abort it, or leave that to the next one.
            if self._lab.random.random() < 0.5:
                opened.settle(Outcome.FAIL, repr(error))
                return False
            await self._give_up(opened, self._producer.complete(""), repr(error))
            return False
        except NotAnswered as error:
            opened.settle(Outcome.INFO, repr(error))
            if self._lab.random.random() < 0.5:
                return False
            # As at the start, the row tells the outcome once it is taken over.
            await self._recover()
            return True
        try:
            await self._step(Step.END, self._producer.complete(prepared))
        except ClientError as error:
            opened.settle(Outcome.INFO, repr(error))
            return False
        opened.settle(Outcome.OK)
        return True

    async def _give_up(
        self, opened: OpenTransaction, call: Coroutine[Any, Any, Any], reason: str
    ) -> bool:
        opened.asks(Ending.ABORT)
        try:
            await self._step(Step.END, call)
        except ClientError as error:
            opened.settle(Outcome.FAIL, f"{reason} {error!r}")
            return False
        opened.settle(Outcome.OK, reason)
        return True

    def _drawn_partition(self) -> Partition:
        return self._lab.random.choice(self._partitions)

    def _unique(self) -> str:
        self._values += 1
        return f"{self._process.name}/{self._values}"
