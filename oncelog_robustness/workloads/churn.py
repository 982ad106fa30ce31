"""The workload `churn`: topics are created, get partitions and are deleted, and records are deleted. Meanwhile
transactions span these topics and one that stays. It shows that a deleted topic takes nothing else with it, and
that no transaction hangs on a partition that is gone.

The time alone decides which topics should exist, so that writers know it without messages. While a creation or
deletion is still under way, writers write to a topic that does not exist, and that is the point. A name is never
used again. So the target must not create topics by itself (`auto.create.topics.enable`): clients that ask for a
deleted topic would bring it back.
"""

from pydantic import Field

from oncelog_robustness.clients.contract import Admin, ClientError
from oncelog_robustness.history import Isolation, Partition
from oncelog_robustness.workloads.applications import run_writer
from oncelog_robustness.workloads.contract import Lab, until_over
from oncelog_robustness.workloads.lives import retried
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
    RETRY_TIMEOUT_MS,
    final_reads,
    make_topic,
    partitions_of,
    watchers,
)
from oncelog_robustness.workloads.transacting import OpenTransaction, Planned, Transactor


class ChurnParameters(Watched):
    writers: ClientCount = 3
    partitions: Partitions = 2
    """The partitions of each topic at its beginning. A topic that will be deleted gets one more at half its life."""
    topic_period_ms: int = Field(default=2_000, ge=200, le=600_000)
    """The time between the creations of two topics, in milliseconds."""
    topic_life_ms: int = Field(default=5_000, ge=200, le=600_000)
    sends_max: Sends = 6
    """The most sends in a transaction."""
    passing_share: Share = 0.4
    """The share of the sends that go to topics which will be deleted."""
    delete_pause_ms: Pause = 1_500
    """The longest time between two deletions of records, in milliseconds."""
    abort_share: Share = 0.15
    think_ms: Pause = 40


class Churn:
    def __init__(self, name: str, parameters: ChurnParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.steady = partitions_of(name, parameters.partitions)
        self._created = 0
        self._grown = 0
        self._deleted = 0
        self._over_ms = 0

    def passing(self, number: int) -> str:
        return f"{self.name}-passing-{number}"

    def due(self, now_ms: int) -> tuple[int, int, int]:
        """Return three counts of topics at this time: how many should have been created, how many of these enlarged by
        a partition, and how many of these deleted."""
        given = self.parameters
        steps = (0, given.topic_life_ms // 2, given.topic_life_ms)
        created, grown, deleted = (
            max(0, (now_ms - after_ms) // given.topic_period_ms + 1) for after_ms in steps
        )
        return created, grown, deleted

    async def setup(self, lab: Lab) -> None:
        await make_topic(lab, self.name, self.parameters.partitions)

    async def start(self, lab: Lab) -> None:
        works = [self._writer(lab, number) for number in range(self.parameters.writers)]
        works += watchers(lab, self.name, self.steady, self.parameters)
        works += [self._come_and_go(lab), self._delete_records(lab)]
        await until_over(lab, works)
        self._over_ms = lab.now_ms()

    async def check(self, lab: Lab) -> None:
        client = f"{self.name}-check"
        admin = await retried(lab, RETRY_TIMEOUT_MS, lambda: lab.clients[0].admin(client))
        due = self.due(self._over_ms)
        while await retried(lab, RETRY_TIMEOUT_MS, lambda: self._step(lab, admin, due)):
            continue
        await admin.close()
        partitions = list(self.steady)
        for number in range(self._deleted, self._created):
            is_grown = number < self._grown
            count = self.parameters.partitions + (1 if is_grown else 0)
            partitions += partitions_of(self.passing(number), count)
        limit_ms = self.parameters.transaction_timeout_ms + DECIDED_LIMIT_MS
        await final_reads(lab, client, partitions, limit_ms)

    async def _come_and_go(self, lab: Lab) -> None:
        admin: Admin | None = None
        while not lab.is_over:
            try:
                if admin is None:
                    admin = await lab.clients[0].admin(f"{self.name}-admin")
                has_done = await self._step(lab, admin, self.due(lab.now_ms()))
            except ClientError:
                has_done = False
            if not has_done:
                await lab.sleep(self.parameters.topic_period_ms // 4)
        if admin is not None:
            await admin.close()

    async def _step(self, lab: Lab, admin: Admin, due: tuple[int, int, int]) -> bool:
        """Make one of the changes that are due, the oldest topic's first. Returns False if none is due. If the
        change raises, it is still due, and the next call tries it again."""
        created, grown, deleted = due
        partitions = self.parameters.partitions
        if self._deleted < deleted and self._deleted < self._created:
            await admin.delete_topic(self.passing(self._deleted))
            self._deleted += 1
            self._grown = max(self._grown, self._deleted)
        elif self._grown < grown and self._grown < self._created:
            await admin.add_partitions(self.passing(self._grown), partitions + 1)
            self._grown += 1
        elif self._created < created:
            await admin.create_topic(
                self.passing(self._created), partitions, lab.replicas, {"retention.ms": "-1"}
            )
            self._created += 1
        else:
            return False
        return True

    async def _delete_records(self, lab: Lab) -> None:
        while not lab.is_over:
            await lab.sleep(lab.random.randint(0, self.parameters.delete_pause_ms))
            try:
                admin = await lab.clients[0].admin(f"{self.name}-deleter")
                partition = lab.random.choice(self.steady)
                bounds = await admin.bounds([partition], Isolation.READ_COMMITTED)
                await admin.delete_records({partition: lab.random.randint(*bounds[partition])})
                await admin.close()
            except ClientError:
                continue

    async def _writer(self, lab: Lab, number: int) -> None:
        given = self.parameters
        await run_writer(
            lab,
            f"{self.name}-writer-{number}",
            number,
            given,
            self._write,
            abort_share=given.abort_share,
            pause_ms=given.think_ms,
        )

    async def _write(self, client: Transactor, opened: OpenTransaction) -> None:
        draw = client.lab.random
        left = draw.randint(1, self.parameters.sends_max)
        while left > 0:
            count = draw.randint(1, left)
            left -= count
            await opened.send_all(
                [Planned(self._target(client.lab), client.unique()) for _ in range(count)]
            )

    def _target(self, lab: Lab) -> Partition:
        created, grown, deleted = self.due(lab.now_ms())
        if created == deleted or lab.random.random() >= self.parameters.passing_share:
            return lab.random.choice(self.steady)
        number = lab.random.randrange(deleted, created)
        count = self.parameters.partitions + (1 if number < grown else 0)
        return self.passing(number), lab.random.randrange(count)
