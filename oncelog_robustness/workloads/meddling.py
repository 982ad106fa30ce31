"""The workload `meddling`: transactions, and other clients that meddle with them. It shows that a client without
the right changes nothing, and that a late write is written nowhere.

Meddlers ask about everything, and send requests in the name of producers that they are not or are no more. They
write when their transaction is over, and change a topic's configuration. They make the calls about a Spark sink's
attempts (tries to write a micro-batch) in every wrong order.

Meddlers have transactional ids, sinks and attempts of their own. In a writer's name they only use identities that
never existed, or are over.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from oncelog.errors import KafkaError
from oncelog_robustness.clients.transaction_calls import (
    TV1_END,
    TV2_END,
    Identity,
    TransactionCalls,
)
from oncelog_robustness.clients.wire import Brokers, Lost, Unreachable
from oncelog_robustness.history import Ending, Outcome, Partition, Send, Transaction
from oncelog_robustness.workload_facts import ProducerReady, note
from oncelog_robustness.workloads.applications import run_writer
from oncelog_robustness.workloads.contract import ClientProcess, Lab, until_over
from oncelog_robustness.workloads.lives import live_on
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
from oncelog_robustness.workloads.sink_meddling import SinkMeddler
from oncelog_robustness.workloads.transacting import OpenTransaction, Planned, Transactor

CONFIGS: Final = (
    ("file.delete.delay.ms", "1000"),
    ("file.delete.delay.ms", "2000"),
    ("no.such.config", "1"),
    ("retention.ms", "soon"),
)
"""Configurations that a meddler sets; none changes what readers see."""


class MeddlingParameters(Watched):
    partitions: Partitions = 3
    writers: ClientCount = 2
    meddlers: ClientCount = 2
    sends_max: Sends = 4
    """The most sends in a transaction."""
    abort_share: Share = 0.2
    think_ms: Pause = 1_000
    meddle_ms: Pause = 500
    """The longest time between two things that a meddler does, in milliseconds."""


class Meddling:
    def __init__(self, name: str, parameters: MeddlingParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.partitions = partitions_of(name, parameters.partitions)

    def writer(self, number: int) -> str:
        """Return the transactional id of a writer."""
        return f"{self.name}-writer-{number}"

    async def setup(self, lab: Lab) -> None:
        await make_topic(lab, self.name, self.parameters.partitions)

    async def start(self, lab: Lab) -> None:
        given = self.parameters
        works = watchers(lab, self.name, self.partitions, given)
        works += [self._write(lab, number) for number in range(given.writers)]
        for number in range(given.meddlers):
            name, work = f"{self.name}-meddler-{number}", partial(self._meddle, lab)
            works.append(live_on(lab, name, work, life_ms=given.life_ms, rest_ms=given.rest_ms))
        await until_over(lab, works)

    async def check(self, lab: Lab) -> None:
        limit_ms = self.parameters.transaction_timeout_ms + DECIDED_LIMIT_MS
        await final_reads(lab, f"{self.name}-check", self.partitions, limit_ms)

    async def _write(self, lab: Lab, number: int) -> None:
        given = self.parameters

        async def body(client: Transactor, opened: OpenTransaction) -> None:
            for _ in range(lab.random.randint(1, given.sends_max)):
                target = lab.random.choice(self.partitions)
                await opened.send_all([Planned(target, client.unique())])
                await lab.sleep(lab.random.randint(0, given.meddle_ms))

        await run_writer(
            lab,
            self.writer(number),
            number,
            given,
            body,
            abort_share=given.abort_share,
            pause_ms=given.think_ms,
        )

    async def _meddle(self, lab: Lab, process: ClientProcess) -> None:
        meddler = _Meddler(self, lab, process)
        sinks = SinkMeddler(lab, process.name, f"{self.name}-sink", self.writer(0))
        while not lab.is_over:
            work = sinks.step if lab.random.random() < 0.5 else meddler.step
            await work()
            await lab.sleep(lab.random.randint(0, self.parameters.meddle_ms))
        meddler.close()


class _Meddler:
    """One start of a meddler: a client that sends requests which it has no right to send, or at the wrong time."""

    def __init__(self, workload: Meddling, lab: Lab, process: ClientProcess) -> None:
        self._lab = lab
        self._process = process
        self._topic = workload.name
        self._partitions = workload.partitions
        self._timeout_ms = workload.parameters.transaction_timeout_ms
        self._victims = [workload.writer(one) for one in range(workload.parameters.writers)]
        self._brokers = Brokers(lab.clients[0].bootstrap, process.name)
        self._calls = TransactionCalls(self._brokers)
        self._ids = 0

    def close(self) -> None:
        self._brokers.close()

    async def step(self) -> None:
        """Make one drawn request, or a short series of them. Any response is fine, and none."""
        draw, calls = self._lab.random, self._calls
        sink = f"{self._topic}-sink"
        steps: Sequence[Callable[[], Awaitable[object]]] = (
            partial(calls.listed, draw.choice(((), ("Ongoing",), ("NoSuchState",)))),
            partial(calls.described, draw.choice((*self._victims, "of-nobody"))),
            partial(calls.producers, self._partition()),
            partial(calls.alter, self._topic, *draw.choice(CONFIGS)),
            partial(calls.init, sink, self._timeout_ms),
            self._be_somebody_else,
            self._be_somebody_else,
            self._end_nothing,
            self._end_twice,
            self._write_late,
        )
        try:
            await draw.choice(steps)()
        except (Lost, Unreachable, KafkaError):
            self._brokers.forget()

    def _partition(self) -> Partition:
        return self._lab.random.choice(self._partitions)

    def _own_id(self) -> str:
        """Return a transactional id for this meddler alone, which no client ever had or will have."""
        self._ids += 1
        return f"{self._process.name}-{self._ids}"

    async def _be_somebody_else(self) -> None:
        """Send a request in the name of a writer, with a producer id that does not exist or a producer epoch that
        is over. It must be refused."""
        draw, calls = self._lab.random, self._calls
        victim = draw.choice(self._victims)
        its = await calls.described(victim)
        strangers = [its._replace(producer_id=its.producer_id + 1_000_000)]
        if its.producer_epoch > 1:
            strangers.append(its._replace(producer_epoch=its.producer_epoch - 2))
        me, partition = draw.choice(strangers), self._partition()
        version = draw.choice((TV1_END, TV2_END))
        steps: Sequence[Callable[[], Awaitable[object]]] = (
            partial(self._open_as, victim, me),
            partial(calls.add, victim, me, partition),
            partial(calls.end, victim, me, is_commit=draw.random() < 0.5, version=version),
        )
        await draw.choice(steps)()

    async def _open_as(self, victim: str, me: Identity) -> None:
        """Send InitProducerId in the name of the victim, with the identity `me`. It is refused, and yet it may end
        what the victim has open. The reason: Kafka compares the epoch only when nothing is open
        (`prepareInitProducerIdTransit`).

        So the history has this call as a producer that was never answered.
        """
        fact = ProducerReady(transactional_id=victim, protocol="TV1")
        client, now_ms = self._process.name, self._lab.now_ms()
        self._lab.record(note(fact, client=client, invoked_ms=now_ms, completed_ms=None))
        await self._calls.init(victim, self._timeout_ms, me)

    async def _end_nothing(self) -> None:
        mine = self._own_id()
        me = await self._calls.init(mine, self._timeout_ms)
        for is_commit in (True, False):
            await self._end(mine, me, is_commit, self._lab.random.choice((TV1_END, TV2_END)))

    async def _end(self, mine: str, me: Identity, is_commit: bool, version: int) -> Identity:
        """Send EndTxn for a transaction of this meddler. Return the identity that the response has, or `me` if the
        request is refused."""
        try:
            return await self._calls.end(mine, me, is_commit=is_commit, version=version)
        except KafkaError:
            return me

    async def _end_twice(self) -> None:
        """End a transaction three times: each further EndTxn has the identity that the one before returned, while
        markers are still on their way."""
        mine = self._own_id()
        me = await self._calls.init(mine, self._timeout_ms)
        await self._calls.add(mine, me, self._partition())
        for _ in range(3):
            me = await self._end(mine, me, self._lab.random.random() < 0.5, TV2_END)

    async def _write_late(self) -> None:
        """Add a partition to a transaction, end it, and only then write to the partition. No leader may accept that
        record (KIP-890); if one does, this raises AssertionError."""
        mine, partition = self._own_id(), self._partition()
        me = await self._calls.init(mine, self._timeout_ms)
        await self._calls.add(mine, me, partition)
        is_commit = self._lab.random.random() < 0.7
        await self._calls.end(mine, me, is_commit=is_commit, version=TV1_END)
        late = Transaction(
            client=self._process.name,
            invoked_ms=self._lab.now_ms(),
            completed_ms=None,
            transactional_id=mine,
            protocol="TV1",
            ending=Ending.NONE,
            outcome=Outcome.FAIL,
            sends=(Send(*partition, f"{mine}/late", None),),
            error="sent when it was decided",
        )
        self._lab.record(late)
        await self._calls.produce(mine, me, partition, f"{mine}/late")
        raise AssertionError(f"{partition} took a batch of {mine}, which was decided before")
