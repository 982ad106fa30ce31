"""The workloads of zombies: several live applications with one transactional id. They show that nobody sees what a
fenced producer writes.

    zombies   an application is replaced while it works, and goes on: in the middle of a transaction, or after a sleep
    hijack    live applications take the id from one another for ever, each as if it were the only one
"""

from functools import partial

from pydantic import Field

from oncelog_robustness.workloads.contract import ClientProcess, Lab, until_over
from oncelog_robustness.workloads.lives import live_on, outlive
from oncelog_robustness.workloads.parameters import (
    ClientCount,
    Partitions,
    Pause,
    Sends,
    Share,
    Watched,
)
from oncelog_robustness.workloads.reading import (
    DECIDED_LIMIT_MS,
    final_reads,
    make_topic,
    partitions_of,
    watchers,
)
from oncelog_robustness.workloads.transacting import OpenTransaction, Planned, Transactor


class ContendersParameters(Watched):
    partitions: Partitions = 3
    sends_max: Sends = 6
    """The most sends in a transaction."""
    abort_share: Share = 0.1
    dawdle_ms: Pause = 400
    """The longest sleep between two sends of a transaction, in milliseconds."""
    think_ms: Pause = 50


class ZombiesParameters(ContendersParameters):
    pairs: ClientCount = 2
    reign_ms: Pause = 3_000
    """The longest time after which another application is started with the same id, in milliseconds."""
    haunt_ms: Pause = 6_000
    """The longest time that an application lives on when it was replaced, in milliseconds."""


class HijackParameters(ContendersParameters):
    ids: ClientCount = 1
    contenders: int = Field(default=2, ge=2, le=16)
    """The number of applications that contend for each id."""


class _Contenders:
    def __init__(self, name: str, parameters: ContendersParameters) -> None:
        self.name = name
        self._given = parameters
        self.partitions = partitions_of(name, parameters.partitions)

    async def setup(self, lab: Lab) -> None:
        await make_topic(lab, self.name, self._given.partitions)

    async def check(self, lab: Lab) -> None:
        limit_ms = self._given.transaction_timeout_ms + DECIDED_LIMIT_MS
        await final_reads(lab, f"{self.name}-check", self.partitions, limit_ms)

    async def _live(
        self, lab: Lab, transactional_id: str, number: int, process: ClientProcess
    ) -> None:
        given = self._given
        clients = lab.clients[number % len(lab.clients)]
        client = Transactor(lab, process, clients, transactional_id, given.transaction_timeout_ms)
        await client.transact_on(
            partial(self._dawdle, client), abort_share=given.abort_share, pause_ms=given.think_ms
        )

    async def _dawdle(self, client: Transactor, opened: OpenTransaction) -> None:
        lab, draw = client.lab, client.lab.random
        left = draw.randint(1, self._given.sends_max)
        while left > 0:
            count = draw.randint(1, left)
            left -= count
            await opened.send_all(
                [Planned(draw.choice(self.partitions), client.unique()) for _ in range(count)]
            )
            await lab.sleep(draw.randint(0, self._given.dawdle_ms))


class Zombies(_Contenders):
    def __init__(self, name: str, parameters: ZombiesParameters) -> None:
        super().__init__(name, parameters)
        self.parameters = parameters

    async def start(self, lab: Lab) -> None:
        works = [self._succeed(lab, number) for number in range(self.parameters.pairs)]
        works += watchers(lab, self.name, self.partitions, self.parameters)
        await until_over(lab, works)

    async def _succeed(self, lab: Lab, pair: int) -> None:
        """Start one application after the other with the transactional id number `pair`, each while the one before
        still works. The older one lives on for a drawn time."""
        given, draw, number = self.parameters, lab.random, 0
        transactional_id = f"{self.name}-{pair}"
        old: ClientProcess | None = None
        while not lab.is_over:
            # The libraries take turns, so that one fences another.
            work = partial(self._live, lab, transactional_id, pair + number)
            new = lab.spawn(f"{transactional_id}-{'ab'[number % 2]}", work)
            number += 1
            if old is not None:
                await outlive(lab, old, draw.randint(0, given.haunt_ms))
            await lab.sleep(draw.randint(0, given.reign_ms))
            old = new
        if old is not None:
            await outlive(lab, old, None)


class Hijack(_Contenders):
    def __init__(self, name: str, parameters: HijackParameters) -> None:
        super().__init__(name, parameters)
        self.parameters = parameters

    async def start(self, lab: Lab) -> None:
        given = self.parameters
        works = watchers(lab, self.name, self.partitions, given)
        for number in range(given.ids):
            transactional_id = f"{self.name}-{number}"
            for contender in range(given.contenders):
                work = partial(self._live, lab, transactional_id, contender)
                name = f"{transactional_id}-{contender}"
                works.append(live_on(lab, name, work, life_ms=given.life_ms, rest_ms=given.rest_ms))
        await until_over(lab, works)
