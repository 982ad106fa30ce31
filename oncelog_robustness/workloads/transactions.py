"""The workload `transactions`: writers put unique values into several partitions by transactions that end in every
possible way, while readers of both isolation levels watch. It shows that a transaction is seen whole or not at all,
once and in order, by all readers."""

from collections.abc import Sequence

from oncelog_robustness.clients.contract import ClientError
from oncelog_robustness.history import Ending, Isolation, Partition
from oncelog_robustness.workloads.applications import run_application
from oncelog_robustness.workloads.contract import Lab, until_over
from oncelog_robustness.workloads.parameters import (
    ClientCount,
    Partitions,
    Pause,
    Replicas,
    Sends,
    Share,
    Watched,
)
from oncelog_robustness.workloads.reading import (
    DECIDED_LIMIT_MS,
    WrittenReader,
    bounds_of,
    final_reads,
    make_topic,
    partitions_of,
    watchers,
)
from oncelog_robustness.workloads.transacting import OpenTransaction, Planned, Transactor


class TransactionsParameters(Watched):
    writers: ClientCount = 4
    topics: Partitions = 2
    partitions: Partitions = 3
    """The number of partitions of each topic."""
    replicas: Replicas = 0
    """The replicas of each topic; 0: the usual number of this run. A partition with one replica has no leader while
    its node is down."""
    sends_max: Sends = 6
    """The most sends in a transaction."""
    abort_share: Share = 0.2
    abandon_share: Share = 0.02
    """The share of the transactions that a client leaves open and exits. Its next start ends them."""
    stall_share: Share = 0.01
    """The share of the transactions in which the client sleeps until the time-out has passed, and then goes on."""
    reading_share: Share = 0.3
    """The share of the transactions in which the writer reads between begin and end."""
    think_ms: Pause = 50


class Transactions:
    def __init__(self, name: str, parameters: TransactionsParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.topics = [f"{name}-{number}" for number in range(parameters.topics)]
        self.partitions: Sequence[Partition] = [
            one for topic in self.topics for one in partitions_of(topic, parameters.partitions)
        ]

    async def setup(self, lab: Lab) -> None:
        for topic in self.topics:
            await make_topic(
                lab, topic, self.parameters.partitions, replicas=self.parameters.replicas
            )

    async def start(self, lab: Lab) -> None:
        works = [self._writer(lab, number) for number in range(self.parameters.writers)]
        works += watchers(lab, self.name, self.partitions, self.parameters)
        await until_over(lab, works)

    async def check(self, lab: Lab) -> None:
        limit_ms = self.parameters.transaction_timeout_ms + DECIDED_LIMIT_MS
        await final_reads(lab, f"{self.name}-check", self.partitions, limit_ms)

    async def _writer(self, lab: Lab, number: int) -> None:
        given = self.parameters

        async def life(client: Transactor) -> None:
            await _Writer(client, given, self.partitions).live()

        await run_application(lab, f"{self.name}-writer-{number}", number, given, life)


class _Writer:
    """One start of a writer, which makes transactions with a producer of its own."""

    def __init__(
        self, client: Transactor, given: TransactionsParameters, partitions: Sequence[Partition]
    ) -> None:
        self._client = client
        self._given = given
        self._partitions = partitions
        self._lab = client.lab
        self._random = client.lab.random
        self._reader: WrittenReader | None = None

    async def live(self) -> None:
        try:
            await self._client.open()
            while not self._lab.is_over:
                ended = await self._client.transact(self._body, self._ending())
                if not ended.is_usable:
                    # The client exits as it is, without closing or ending anything.
                    return
                await self._lab.sleep(self._random.randint(0, self._given.think_ms))
            await self._client.close()
            if self._reader is not None:
                await self._reader.close()
        except ClientError:
            return

    def _ending(self) -> Ending:
        dice = self._random.random()
        if dice < self._given.abandon_share:
            return Ending.NONE
        if dice < self._given.abandon_share + self._given.abort_share:
            return Ending.ABORT
        return Ending.COMMIT

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
        return Planned(self._random.choice(self._partitions), self._client.unique())

    async def _own_reader(self) -> WrittenReader:
        """Return this writer's own read_committed consumer. It begins at the ends of the partitions, and so reads
        what other clients commit meanwhile."""
        if self._reader is None:
            clients, name = self._client.clients, self._client.process.name
            isolation = Isolation.READ_COMMITTED
            _, ends = await bounds_of(clients, name, self._partitions, isolation)
            consumer = await clients.consumer(name, isolation, None)
            self._reader = WrittenReader(self._lab, name, consumer)
            await self._reader.assign(ends)
        return self._reader
