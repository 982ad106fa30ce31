"""Writers put unique values into several partitions by transactions that end in every possible way; readers of both
isolation levels watch. What it shows: all or none, once, in order, to everybody."""

import random
from collections.abc import Sequence

from robustness.clients.contract import ClientError, Clients, Producer
from robustness.history import Ending, Isolation, Partition
from robustness.workloads.contract import ClientProcess, Lab, until_over
from robustness.workloads.lives import live_on
from robustness.workloads.parameters import (
    ClientCount,
    Lifetime,
    Parameters,
    Partitions,
    Pause,
    Sends,
    Share,
    Timeout,
)
from robustness.workloads.reading import WrittenReader, final_reads, make_topic, read_on
from robustness.workloads.transacting import (
    OpenTransaction,
    Planned,
    open_producer,
    transact,
)


class TransactionsParameters(Parameters):
    writers: ClientCount = 4
    readers: ClientCount = 1
    """Of each isolation level."""
    topics: Partitions = 2
    partitions: Partitions = 3
    """Of each topic."""
    sends_max: Sends = 6
    """In a transaction."""
    abort_share: Share = 0.2
    abandon_share: Share = 0.02
    """Of the transactions: left open by a client that exits, for its successor to end."""
    stall_share: Share = 0.01
    """Of the transactions: the client sleeps until its transaction has timed out, and then goes on."""
    reading_share: Share = 0.3
    """Of the transactions: the writer reads between begin and end."""
    seek_share: Share = 0.05
    """Of the polls of readers."""
    think_ms: Pause = 50
    poll_pause_ms: Pause = 50
    life_ms: Lifetime = 8_000
    rest_ms: Pause = 2_000
    transaction_timeout_ms: Timeout = 10_000


class Transactions:
    def __init__(self, name: str, parameters: TransactionsParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.partitions: Sequence[Partition] = [
            (f"{name}-{topic}", number)
            for topic in range(parameters.topics)
            for number in range(parameters.partitions)
        ]

    async def setup(self, lab: Lab) -> None:
        for topic in range(self.parameters.topics):
            await make_topic(lab, f"{self.name}-{topic}", self.parameters.partitions)

    async def start(self, lab: Lab) -> None:
        given = self.parameters
        works = [self._writer(lab, number) for number in range(given.writers)]
        for number in range(given.readers):
            works += [self._reader(lab, number, isolation) for isolation in Isolation]
        await until_over(lab, works)

    async def check(self, lab: Lab) -> None:
        await final_reads(
            lab,
            f"{self.name}-check",
            self.partitions,
            decided_limit_ms=self.parameters.transaction_timeout_ms + 60_000,
        )

    async def _writer(self, lab: Lab, number: int) -> None:
        given = self.parameters
        clients = lab.clients[number % len(lab.clients)]
        name = f"{self.name}-writer-{number}"
        await live_on(
            lab,
            name,
            lambda process: _Writer(lab, process, clients, name, self).live(),
            life_ms=given.life_ms,
            rest_ms=given.rest_ms,
        )

    async def _reader(self, lab: Lab, number: int, isolation: Isolation) -> None:
        given = self.parameters
        clients = lab.clients[number % len(lab.clients)]
        await live_on(
            lab,
            f"{self.name}-reader-{number}-{isolation}",
            lambda process: read_on(
                lab,
                process,
                clients,
                isolation,
                self.partitions,
                seek_share=given.seek_share,
                pause_ms=given.poll_pause_ms,
            ),
            life_ms=given.life_ms,
            rest_ms=given.rest_ms,
        )


class _Writer:
    """One incarnation."""

    def __init__(
        self,
        lab: Lab,
        process: ClientProcess,
        clients: Clients,
        transactional_id: str,
        workload: Transactions,
    ) -> None:
        self._lab = lab
        self._process = process
        self._clients = clients
        self._transactional_id = transactional_id
        self._given = workload.parameters
        self._partitions = workload.partitions
        self._written = 0
        self._reader: WrittenReader | None = None

    @property
    def _random(self) -> random.Random:
        return self._lab.random

    async def live(self) -> None:
        try:
            producer = await open_producer(
                self._lab,
                self._process,
                self._clients,
                self._transactional_id,
                self._given.transaction_timeout_ms,
            )
            while not self._lab.is_over and await self._one(producer):
                await self._lab.sleep(self._random.randint(0, self._given.think_ms))
            await producer.close()
            if self._reader is not None:
                await self._reader.close()
        except ClientError:
            return

    async def _one(self, producer: Producer) -> bool:
        ending = Ending.COMMIT
        dice = self._random.random()
        if dice < self._given.abandon_share:
            ending = Ending.NONE
        elif dice < self._given.abandon_share + self._given.abort_share:
            ending = Ending.ABORT
        return await transact(
            self._lab, self._process, producer, self._transactional_id, self._body, ending
        )

    async def _body(self, opened: OpenTransaction) -> None:
        left = self._random.randint(1, self._given.sends_max)
        reads = self._random.random() < self._given.reading_share
        while left > 0:
            count = self._random.randint(1, left)
            left -= count
            await opened.send_all([self._planned() for _ in range(count)])
            if reads:
                opened.reads += await (await self._own_reader()).poll()
        if self._random.random() < self._given.stall_share:
            await self._lab.sleep(self._given.transaction_timeout_ms * 3 // 2)

    def _planned(self) -> Planned:
        self._written += 1
        return Planned(
            self._random.choice(self._partitions), f"{self._process.name}/{self._written}"
        )

    async def _own_reader(self) -> WrittenReader:
        """From the ends on: what others commit meanwhile."""
        if self._reader is None:
            isolation = Isolation.READ_COMMITTED
            admin = await self._clients.admin(self._process.name)
            bounds = await admin.bounds(self._partitions, isolation)
            await admin.close()
            consumer = await self._clients.consumer(self._process.name, isolation, None)
            reader = WrittenReader(self._lab, self._process.name, consumer)
            await reader.assign({one: found[1] for one, found in bounds.items()})
            self._reader = reader
        return self._reader
