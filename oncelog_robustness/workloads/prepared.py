"""The workload `prepared`: applications book payments in a database and in a topic, both or neither, by prepared
transactions (KIP-939, ADR 0043).

`booking` has their steps. At one of them a blow kills or freezes the application, or kills a process of the
cluster. A frozen application goes on later, when a successor has taken over. Meanwhile an operator decides open
transactions by what the database holds.

Only the simulator runs this workload, because the database lives in the memory of one process.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, Protocol, cast

from oncelog.client.admin import Admin
from oncelog.client.errors import ClientError as AdminError
from oncelog_robustness.clients.contract import Unanswered
from oncelog_robustness.clients.transaction_calls import Identity
from oncelog_robustness.workload_facts import PaymentsBooked, note
from oncelog_robustness.workloads.booking import (
    Blow,
    BookingParameters,
    Harm,
    Incarnation,
    Moment,
    Orders,
    Place,
    Recoverer,
    Step,
)
from oncelog_robustness.workloads.contract import ClientProcess, Lab, until_over
from oncelog_robustness.workloads.lives import kill, retried
from oncelog_robustness.workloads.payments import NotAnswered, PaymentsDatabase
from oncelog_robustness.workloads.reading import (
    DECIDED_LIMIT_MS,
    RETRY_TIMEOUT_MS,
    final_reads,
    make_topic,
    partitions_of,
    watchers,
)

FEATURE: Final = {"two.phase.commit.version": 1}
_UNDER_WAY_MS: Final = 30
"""The longest time after the beginning of a call at which a blow that comes during the call falls, in milliseconds."""
_LAST_WAIT_MS: Final = 60_000
"""The time in which an application that was frozen must end by itself when it goes on again, in milliseconds; then
it is killed."""
_NAMES: Final = 3
"""The number of client names that an application's starts take in turn: a frozen start may live on beside two
successors."""


class Hands(Protocol):
    """The actions of this workload on the cluster, besides those of a client: kill one of a role's processes, or act as
    the cluster's operator."""

    async def kill_one_of(self, role: str, lasts_ms: int) -> None: ...

    async def open_transaction(self, transactional_id: str) -> Identity | None: ...

    async def complete_prepared(
        self, transactional_id: str, transaction: Identity, *, is_commit: bool
    ) -> bool: ...


class FreezableProcess(ClientProcess, Protocol):
    def freeze(self) -> None:
        """Stop the process as SIGSTOP does."""
        ...

    def thaw(self) -> None: ...


class HandsOn(Protocol):
    """A lab (a workload's surroundings) that also has `hands`, by which the workload acts on the cluster. Only the
    simulator's lab has them."""

    hands: Hands | None


class Prepared:
    def __init__(self, name: str, parameters: BookingParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.partitions = partitions_of(name, parameters.partitions)
        self._database: PaymentsDatabase | None = None

    @property
    def database(self) -> PaymentsDatabase:
        assert self._database is not None, "setup() comes first"
        return self._database

    def application(self, number: int) -> str:
        """Return the transactional id of an application, which is also the name of its row in the database."""
        return f"{self.name}-app-{number}"

    async def setup(self, lab: Lab) -> None:
        given = self.parameters
        self._database = PaymentsDatabase(
            lab.random, lab.now_ms, given.late_share, given.lost_share
        )
        await make_topic(lab, self.name, given.partitions)
        await retried(lab, RETRY_TIMEOUT_MS, lambda: _allow_two_phase_commit(lab))

    async def start(self, lab: Lab) -> None:
        given = self.parameters
        works: list[Coroutine[Any, Any, None]] = [
            _Application(lab, self, number).live_on() for number in range(given.applications)
        ]
        if given.operator_ms:
            works.append(self._operate(lab))
        works += watchers(lab, self.name, self.partitions, given)
        await until_over(lab, works)

    async def check(self, lab: Lab) -> None:
        client, invoked_ms = f"{self.name}-check", lab.now_ms()
        await final_reads(lab, client, self.partitions, DECIDED_LIMIT_MS)
        booked = PaymentsBooked(
            topic=self.name,
            partitions=len(self.partitions),
            payments=tuple(
                (one.value, one.application, one.stored, one.at_ms)
                for one in self.database.payments.values()
            ),
        )
        lab.record(note(booked, client=client, invoked_ms=invoked_ms, completed_ms=lab.now_ms()))

    async def _operate(self, lab: Lab) -> None:
        """Act as an operator now and then: commit an open transaction if the database has its text, and abort it
        otherwise. The operator takes the row over first, as a restarted application does, so that nobody can book
        the payment afterwards."""
        hands = hands_of(lab)
        while not lab.is_over:
            await lab.sleep(lab.random.randint(0, self.parameters.operator_ms))
            application = self.application(lab.random.randrange(self.parameters.applications))
            found = await hands.open_transaction(application)
            if found is None or lab.is_over:
                continue
            try:
                taken = await self.database.take_over(application)
            except NotAnswered:
                continue
            is_commit = taken.stored == str(found)
            await hands.complete_prepared(application, found, is_commit=is_commit)


def hands_of(lab: Lab) -> Hands:
    hands = cast(HandsOn, lab).hands
    assert hands is not None, "the simulator's lab has them from its begin on"
    return hands


async def _allow_two_phase_commit(lab: Lab) -> None:
    try:
        async with Admin(list(lab.clients[0].bootstrap)) as admin:
            await admin.update_features(FEATURE, allows_data_loss=True)
    except AdminError as error:
        raise Unanswered(str(error)) from error


class _Application:
    """One application: it is started again and again until the run is over. After that it is started to end what
    was left, until one start has succeeded in that."""

    def __init__(self, lab: Lab, workload: Prepared, number: int) -> None:
        self._lab = lab
        self._given = workload.parameters
        self._name = workload.application(number)
        self._place = Place(
            lab, workload.parameters, workload.partitions, workload.database, self._name
        )
        self._count = 0

    async def live_on(self) -> None:
        lab = self._lab
        async with asyncio.TaskGroup() as group:
            while not lab.is_over:
                orders = Orders(self._drawn_blow())
                process = self._spawn(orders, is_last=False)
                await self._outlive(process, orders, group)
                await lab.sleep(lab.random.randint(0, self._given.rest_ms))
        while True:
            orders = Orders(None)
            process = self._spawn(orders, is_last=True)
            await process.ended()
            if orders.is_recovered:
                return
            await lab.sleep(500)

    def _spawn(self, orders: Orders, *, is_last: bool) -> FreezableProcess:
        name = f"{self._name}-{'abc'[self._count % _NAMES]}"
        self._count += 1
        is_tool = not is_last and self._lab.random.random() < self._given.tool_share
        work = partial(self._recover if is_tool else self._work, orders, is_last)
        return cast(FreezableProcess, self._lab.spawn(name, work))

    async def _work(self, orders: Orders, is_last: bool, process: ClientProcess) -> None:
        await Incarnation(self._place, orders, process).live(is_last=is_last)

    async def _recover(self, orders: Orders, _is_last: bool, process: ClientProcess) -> None:
        await Recoverer(self._place, orders, process).live()

    def _drawn_blow(self) -> Blow | None:
        draw = self._lab.random
        if draw.random() >= self._given.blow_share:
            return None
        step = draw.choice(self._given.steps)
        is_of_start = step in (Step.INIT, Step.TAKE_OVER, Step.RECOVER)
        return Blow(
            step,
            draw.choice(list(Moment)),
            draw.choice(self._given.harms),
            0 if is_of_start else draw.randint(1, self._given.nth_max),
        )

    async def _outlive(
        self, process: FreezableProcess, orders: Orders, group: asyncio.TaskGroup
    ) -> None:
        """Wait until the application may be started again: its process has ended, was killed, or was frozen. If a
        blow (a kill or freeze at a chosen step) is planned, deal it when the process gets there."""
        lab, blow = self._lab, orders.blow
        struck = asyncio.ensure_future(orders.is_struck.wait())
        ended = asyncio.ensure_future(process.ended())
        await asyncio.wait((struck, ended), return_when=asyncio.FIRST_COMPLETED)
        struck.cancel()
        if ended.done() or blow is None:
            return
        if blow.moment is Moment.UNDER_WAY:
            await asyncio.sleep(lab.random.randint(0, _UNDER_WAY_MS) / 1000)
        if blow.harm is Harm.KILL:
            kill(lab, process)
        elif blow.harm is Harm.FREEZE:
            process.freeze()
            group.create_task(self._haunt(process, orders))
            return
        elif not lab.is_over:
            await hands_of(lab).kill_one_of(
                blow.harm, lab.random.randint(100, max(100, self._given.outage_ms))
            )
        orders.goes_on.set()
        await ended

    async def _haunt(self, process: FreezableProcess, orders: Orders) -> None:
        """Let a frozen process go on after a drawn time, as if nothing had happened. Wait for its end, and kill it
        if it does not end in time."""
        await self._lab.sleep(self._lab.random.randint(0, self._given.freeze_ms))
        process.thaw()
        orders.goes_on.set()
        try:
            async with asyncio.timeout(_LAST_WAIT_MS / 1000):
                while not (self._lab.is_over or not process.is_running):
                    await self._lab.sleep(200)
                await process.ended()
        except TimeoutError:
            kill(self._lab, process)
