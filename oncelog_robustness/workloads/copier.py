"""The workload `copier` (consume, transform, produce): groups copy an input topic into outputs, with the offsets in
the same transaction, while members die, join and leave. It shows that each committed input is once in each output,
and that the group's offsets agree.

Each client library has a group and an output of its own. Some producers send their consumer's generation to the
group coordinator (KIP-447), which fences members that were replaced. Their group has several members, each with its
transactional id. Groups of other libraries have one member, whose transactional id alone does the fencing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from oncelog_robustness.clients.consumer_protocol import ProtocolConsumer
from oncelog_robustness.clients.contract import Admin, ClientError, Clients, Consumer
from oncelog_robustness.history import Ending, FinalRead, Isolation, Partition, Read
from oncelog_robustness.workload_facts import Copier as CopierFact
from oncelog_robustness.workload_facts import GroupProgress, copy_partition, copy_value, note
from oncelog_robustness.workloads.applications import run_writer
from oncelog_robustness.workloads.contract import ClientProcess, Lab, until_over
from oncelog_robustness.workloads.lives import kill, live_on, retried
from oncelog_robustness.workloads.parameters import (
    ClientCount,
    Partitions,
    Pause,
    Sends,
    Share,
    Timeout,
    Watched,
)
from oncelog_robustness.workloads.plain import Bursts, run_plain_writer
from oncelog_robustness.workloads.reading import (
    DECIDED_LIMIT_MS,
    RETRY_TIMEOUT_MS,
    WrittenReader,
    fetch_offsets,
    final_reads,
    make_topic,
    partitions_of,
    watchers,
)
from oncelog_robustness.workloads.transacting import OpenTransaction, Planned, Transactor

IDLE_POLLS: Final = 20
"""The number of polls in a row without a record after which a member checks whether anything is left."""


class CopierParameters(Watched):
    readers: ClientCount = 0
    input_partitions: Partitions = 4
    output_partitions: Partitions = 2
    plain_writers: ClientCount = 1
    writers: ClientCount = 1
    """The number of writers that use transactions."""
    writes_max: Sends = 5
    """The most records of an input writer in one transaction or, without transactions, under way at once."""
    write_pause_ms: Pause = 100
    members: ClientCount = 3
    """The number of members of a group whose library sends the generation (KIP-447). Other groups have one."""
    batch_max: Sends = 50
    """The most copies in a transaction."""
    abort_share: Share = 0.1
    consumer_protocol: bool = False
    """True if members speak the new consumer protocol (KIP-848) by our own code, whatever protocol their library
    speaks."""
    static_share: Share = 0.0
    """The share of static members, where `consumer_protocol` is true. A static member that comes back under its
    name gets the partitions that it had."""
    finish_limit_ms: Timeout = 180_000
    """The time after healing for a group to read its input to the end, in milliseconds. Sessions and transactions
    of dead members must time out first."""


@dataclass(frozen=True)
class _Group:
    """The consumer group of one client library, with its output topic and the number of its members."""

    name: str
    output: str
    clients: Clients
    members: int


class Copier:
    def __init__(self, name: str, parameters: CopierParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.input = f"{name}-in"
        self.inputs = partitions_of(self.input, parameters.input_partitions)
        self.groups: list[_Group] = []

    async def setup(self, lab: Lab) -> None:
        given = self.parameters
        await make_topic(lab, self.input, given.input_partitions)
        for clients in lab.clients:
            probe = await clients.producer(f"{self.name}-probe", f"{self.name}-probe", 10_000)
            members = given.members if probe.sends_generation else min(given.members, 1)
            await probe.close()
            name = f"{self.name}-{clients.library}"
            group = _Group(name, f"{name}-out", clients, members)
            await make_topic(lab, group.output, given.output_partitions)
            self.groups.append(group)
            fact = CopierFact(input_topic=self.input, output_topic=group.output, group=group.name)
            at_ms = lab.now_ms()
            lab.record(note(fact, client=self.name, invoked_ms=at_ms, completed_ms=at_ms))

    async def start(self, lab: Lab) -> None:
        given = self.parameters
        works = [self._plain_writer(lab, number) for number in range(given.plain_writers)]
        works += [self._writer(lab, number) for number in range(given.writers)]
        works += watchers(lab, self.name, self._all_partitions(), given)
        for group in self.groups:
            for number in range(group.members):
                name = f"{group.name}-member-{number}"
                work = partial(self._copy, lab, group, name, None)
                works.append(live_on(lab, name, work, life_ms=given.life_ms, rest_ms=given.rest_ms))
        await until_over(lab, works)

    async def check(self, lab: Lab) -> None:
        client = f"{self.name}-check"
        limit_ms = self.parameters.transaction_timeout_ms + DECIDED_LIMIT_MS
        inputs = await final_reads(lab, client, self.inputs, limit_ms)
        goal = _goal(inputs)
        admin = await retried(lab, RETRY_TIMEOUT_MS, lambda: lab.clients[0].admin(client))
        for group in self.groups:
            await self._finish(lab, admin, group, goal)
        await admin.close()
        outputs = self._all_partitions()[len(self.inputs) :]
        await final_reads(lab, client, outputs, limit_ms)

    def _all_partitions(self) -> list[Partition]:
        found = list(self.inputs)
        for group in self.groups:
            found += partitions_of(group.output, self.parameters.output_partitions)
        return found

    async def _plain_writer(self, lab: Lab, number: int) -> None:
        given = self.parameters
        bursts = Bursts(self.inputs, given.writes_max, given.write_pause_ms)
        await run_plain_writer(lab, f"{self.name}-plain-{number}", number, given, bursts)

    async def _writer(self, lab: Lab, number: int) -> None:
        given = self.parameters
        name = f"{self.name}-writer-{number}"

        async def body(client: Transactor, opened: OpenTransaction) -> None:
            count = lab.random.randint(1, given.writes_max)
            await opened.send_all(
                [Planned(lab.random.choice(self.inputs), client.unique()) for _ in range(count)]
            )

        await run_writer(
            lab, name, number, given, body, abort_share=0.3, pause_ms=given.write_pause_ms
        )

    async def _copy(
        self,
        lab: Lab,
        group: _Group,
        name: str,
        goal: Mapping[Partition, int] | None,
        process: ClientProcess,
    ) -> None:
        client = Transactor(
            lab, process, group.clients, name, self.parameters.transaction_timeout_ms
        )
        member = _Member(self.input, group.name, group.output, self.parameters, client, goal)
        try:
            await member.live()
        except ClientError:
            return

    async def _finish(
        self, lab: Lab, admin: Admin, group: _Group, goal: Mapping[Partition, int]
    ) -> None:
        """Let a group read its input until it has committed the offsets in `goal`, and record how far it got. Members
        that died are started again, to end what their predecessors began. None is killed before all is read or the time
        is up."""
        client, began_ms = f"{self.name}-check", lab.now_ms()
        running: list[ClientProcess] = []
        while True:
            running = [one for one in running if one.is_running]
            for number in range(group.members - len(running)):
                name = f"{group.name}-member-{number}"
                if not any(one.name.startswith(f"{name}#") for one in running):
                    running.append(lab.spawn(name, partial(self._copy, lab, group, name, goal)))
            found = await retried(
                lab, RETRY_TIMEOUT_MS, lambda: admin.committed(group.name, self.inputs)
            )
            is_done = all(found[one] >= goal[one] for one in self.inputs)
            if is_done or lab.now_ms() - began_ms > self.parameters.finish_limit_ms:
                break
            await lab.sleep(500)
        for process in running:
            kill(lab, process)
        progress = GroupProgress(
            group=group.name,
            waited_ms=lab.now_ms() - began_ms,
            partitions=tuple((*one, found[one], goal[one]) for one in self.inputs),
        )
        lab.record(note(progress, client=client, invoked_ms=began_ms, completed_ms=lab.now_ms()))
        await retried(
            lab,
            RETRY_TIMEOUT_MS,
            lambda: fetch_offsets(lab, client, admin, group.name, self.inputs, is_final=True),
        )


def _goal(inputs: Sequence[FinalRead]) -> dict[Partition, int]:
    """Return, for each partition, the least committed offset which means that all of it was read: behind the last
    record. Markers at the end need not be passed. An empty partition has -1."""
    stable = [one for one in inputs if one.isolation is Isolation.READ_COMMITTED]
    return {
        (one.topic, one.partition): one.reads[-1].offset + 1 if one.reads else -1 for one in stable
    }


class _Member:
    """One start of a member of a copying group, from `open` to its death or the end of its work."""

    def __init__(
        self,
        topic: str,
        group: str,
        output: str,
        given: CopierParameters,
        client: Transactor,
        goal: Mapping[Partition, int] | None,
    ) -> None:
        self._topic = topic
        self._group = group
        self._outputs = partitions_of(output, given.output_partitions)
        self._given = given
        self._client = client
        self._lab = client.lab
        self._goal = goal
        """The offsets that the group must commit before the member ends; None: it works until the run is over."""

    async def live(self) -> None:
        await self._client.open()
        while await self._goes_on():
            consumer = await self._consumer()
            await consumer.subscribe([self._topic])
            reader = WrittenReader(self._lab, self._client.process.name, consumer)
            is_usable = await self._copy_on(reader)
            # The member leaves the group, so that its reads are repeated from the committed offsets.
            await reader.close()
            if not is_usable:
                return
        await self._client.close()

    async def _consumer(self) -> Consumer:
        clients, name = self._client.clients, self._client.process.name
        if not self._given.consumer_protocol:
            return await clients.consumer(name, Isolation.READ_COMMITTED, self._group)
        is_static = self._lab.random.random() < self._given.static_share
        return await ProtocolConsumer.open(
            clients,
            name,
            Isolation.READ_COMMITTED,
            self._group,
            self._client.transactional_id if is_static else None,
        )

    async def _goes_on(self) -> bool:
        if self._goal is None:
            return not self._lab.is_over
        admin = await self._client.clients.admin(self._client.process.name)
        found = await admin.committed(self._group, list(self._goal))
        await admin.close()
        return any(found[one] < wanted for one, wanted in self._goal.items())

    async def _copy_on(self, reader: WrittenReader) -> bool:
        """Copy records until a transaction is not committed, or nothing is left to copy. Returns False when the
        producer can do nothing more, and this member must exit."""
        draw, idle = self._lab.random, 0
        while self._goal is not None or not self._lab.is_over:
            reads = await reader.poll()
            if not reads:
                idle += 1
                if idle % IDLE_POLLS == 0 and not await self._goes_on():
                    return True
                continue
            for batch in _batches(reads, self._given.batch_max):
                aborts = draw.random() < self._given.abort_share
                ending = Ending.ABORT if aborts else Ending.COMMIT
                ended = await self._client.transact(partial(self._take, reader, batch), ending)
                if not ended.is_committed:
                    return ended.is_usable
        return True

    async def _take(
        self, reader: WrittenReader, reads: Sequence[Read], opened: OpenTransaction
    ) -> None:
        opened.reads += reads
        await opened.send_all(
            [
                Planned(
                    self._outputs[copy_partition(one.offset, len(self._outputs))],
                    copy_value(self._client.unique(), one.value or ""),
                )
                for one in reads
            ]
        )
        ends = {(one.topic, one.partition): one.offset + 1 for one in reads}
        await opened.send_offsets(self._group, ends, reader.consumer)


def _batches(reads: Sequence[Read], most: int) -> list[Sequence[Read]]:
    return [reads[at : at + most] for at in range(0, len(reads), most)]
