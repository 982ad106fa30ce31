"""The workload `plain`: idempotent producers outside transactions. It shows that an acknowledged record is in the
log once, any other at most once, and all are in order."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from oncelog_robustness.clients.contract import ClientError, Producer, Refused
from oncelog_robustness.history import Outcome, Partition, PlainSend, Send
from oncelog_robustness.workloads.contract import ClientProcess, Lab, until_over
from oncelog_robustness.workloads.lives import live_on
from oncelog_robustness.workloads.parameters import ClientCount, Partitions, Pause, Sends, Watched
from oncelog_robustness.workloads.reading import (
    DECIDED_LIMIT_MS,
    final_reads,
    make_topic,
    partitions_of,
    watchers,
)

TIMEOUT_MS: Final = 60_000
"""The transaction timeout, which these producers must give but never use, in milliseconds."""


class PlainParameters(Watched):
    writers: ClientCount = 3
    partitions: Partitions = 3
    burst_max: Sends = 10
    """The most sends under way at once."""
    think_ms: Pause = 50


class Plain:
    def __init__(self, name: str, parameters: PlainParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.topic = name
        self.partitions = partitions_of(name, parameters.partitions)

    async def setup(self, lab: Lab) -> None:
        await make_topic(lab, self.topic, self.parameters.partitions)

    async def start(self, lab: Lab) -> None:
        given = self.parameters
        works = [self._writer(lab, number) for number in range(given.writers)]
        works += watchers(lab, self.name, self.partitions, given)
        await until_over(lab, works)

    async def check(self, lab: Lab) -> None:
        await final_reads(lab, f"{self.name}-check", self.partitions, DECIDED_LIMIT_MS)

    async def _writer(self, lab: Lab, number: int) -> None:
        given = self.parameters
        bursts = Bursts(self.partitions, given.burst_max, given.think_ms)
        await run_plain_writer(lab, f"{self.name}-writer-{number}", number, given, bursts)


class Bursts(NamedTuple):
    """The pattern in which a writer sends: the partitions, the most records of a burst, and the longest pause between
    two bursts."""

    partitions: Sequence[Partition]
    sends_max: int
    """The most sends under way at once."""
    pause_ms: int
    """The longest pause between two bursts, in milliseconds."""


async def run_plain_writer(
    lab: Lab, name: str, number: int, given: Watched, bursts: Bursts
) -> None:
    """Start an idempotent writer again and again until the run is over. Its `number` selects the client library.
    `given` are the workload's parameters, which say how long each start lives."""

    async def work(process: ClientProcess) -> None:
        clients = lab.clients[number % len(lab.clients)]
        try:
            producer = await clients.producer(process.name, None, TIMEOUT_MS)
        except ClientError:
            return
        await _Writer(lab, process, producer).write_on(bursts)

    await live_on(lab, name, work, life_ms=given.life_ms, rest_ms=given.rest_ms)


class _Writer:
    """One start of an idempotent writer, with a producer of its own."""

    def __init__(self, lab: Lab, process: ClientProcess, producer: Producer) -> None:
        self._lab = lab
        self._process = process
        self._producer = producer
        self._sent = 0

    async def write_on(self, bursts: Bursts) -> None:
        """Send bursts of records until the run is over or a send is not acknowledged. Then the writer exits,
        because its producer may have lost sequences."""
        draw = self._lab.random
        while not self._lab.is_over:
            count = draw.randint(1, bursts.sends_max)
            burst = [draw.choice(bursts.partitions) for _ in range(count)]
            answers = await asyncio.gather(*[self.send(one) for one in burst])
            if not all(answers):
                return
            await self._lab.sleep(draw.randint(0, bursts.pause_ms))
        try:
            await self._producer.close()
        except ClientError:
            return

    async def send(self, partition: Partition) -> bool:
        self._sent += 1
        value = f"{self._process.name}/{self._sent}"
        operation = PlainSend(
            client=self._process.name,
            invoked_ms=self._lab.now_ms(),
            completed_ms=None,
            send=Send(*partition, value, None),
            outcome=Outcome.INFO,
            error="the process ended",
        )
        self._process.last_word(value, operation)
        offset, outcome, said = None, Outcome.OK, ""
        try:
            offset = await self._producer.send(partition, value)
        except ClientError as error:
            outcome = Outcome.FAIL if isinstance(error, Refused) else Outcome.INFO
            said = repr(error)
        settled = replace(
            operation,
            completed_ms=self._lab.now_ms(),
            send=Send(*partition, value, offset),
            outcome=outcome,
            error=said,
        )
        self._process.settle(value, settled)
        return outcome is Outcome.OK
