"""Consumers that record in the history what they received and where they began to read, and the last reads of a run."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from oncelog_robustness.clients.contract import Admin, ClientError, Clients, Consumer, Refused
from oncelog_robustness.history import (
    FinalRead,
    GroupOffsets,
    Isolation,
    OffsetsFetched,
    Partition,
    Poll,
    Positioned,
    Read,
)
from oncelog_robustness.workloads.contract import ClientProcess, Lab
from oncelog_robustness.workloads.lives import live_on, retried
from oncelog_robustness.workloads.parameters import Watched

POLL_MS: Final = 100
FINAL_READ_LIMIT_MS: Final = 60_000
"""The time limit for the last read of one partition, in milliseconds. If a consumer fails within it, another one
begins again."""
DECIDED_LIMIT_MS: Final = 60_000
"""The time after healing within which every transaction must be decided, in milliseconds. For transactions that
clients left open, their time-out is added."""
RETRY_TIMEOUT_MS: Final = 120_000
"""The time limit for the requests of `setup` and `check`, in milliseconds."""


class WrittenReader:
    """A consumer that records every poll and every new position in the history."""

    def __init__(self, lab: Lab, client: str, consumer: Consumer) -> None:
        self._lab = lab
        self._client = client
        self.consumer = consumer
        self.next: dict[Partition, int] = {}
        """The next offset to read in each partition, as far as this consumer has received records or was positioned."""

    async def assign(self, positions: Mapping[Partition, int]) -> None:
        invoked_ms = self._lab.now_ms()
        await self.consumer.assign(positions)
        self._positioned(positions, invoked_ms)

    def _positioned(self, positions: Mapping[Partition, int], invoked_ms: int) -> None:
        self.next = dict(positions)
        self._lab.record(
            Positioned(
                client=self._client,
                invoked_ms=invoked_ms,
                completed_ms=self._lab.now_ms(),
                positions=tuple((topic, number, at) for (topic, number), at in positions.items()),
                group=self.consumer.group,
            )
        )

    async def poll(self) -> Sequence[Read]:
        invoked_ms = self._lab.now_ms()
        reads = await self.consumer.poll(POLL_MS)
        positions = self.consumer.take_new_positions()
        if positions is not None:
            self._positioned(positions, invoked_ms)
        if reads:
            self._lab.record(
                Poll(
                    client=self._client,
                    invoked_ms=invoked_ms,
                    completed_ms=self._lab.now_ms(),
                    isolation=self.consumer.isolation,
                    reads=tuple(reads),
                    group=self.consumer.group,
                )
            )
        for read in reads:
            self.next[read.topic, read.partition] = read.offset + 1
        return reads

    async def close(self) -> None:
        await self.consumer.close()


def watchers(
    lab: Lab, name: str, partitions: Sequence[Partition], given: Watched
) -> list[Coroutine[Any, Any, None]]:
    """Return the readers of a workload, as coroutines that read until the run is over. `given` are the workload's
    parameters: `given.readers` readers of each isolation level. The client libraries take turns."""

    def watcher(number: int, isolation: Isolation) -> Coroutine[Any, Any, None]:
        clients = lab.clients[number % len(lab.clients)]
        return live_on(
            lab,
            f"{name}-reader-{number}-{isolation}",
            lambda process: read_on(lab, process, clients, isolation, partitions, given),
            life_ms=given.life_ms,
            rest_ms=given.rest_ms,
        )

    return [watcher(number, one) for number in range(given.readers) for one in Isolation]


async def read_on(
    lab: Lab,
    process: ClientProcess,
    clients: Clients,
    isolation: Isolation,
    partitions: Sequence[Partition],
    given: Watched,
) -> None:
    """Run one start of a reader, until the run is over or an error. It begins at the start of each partition or at a
    drawn offset. `given` are the workload's parameters: how often it seeks to another offset, and how long it pauses
    between two polls."""
    try:
        starts, ends = await bounds_of(clients, process.name, partitions, isolation)
        consumer = await clients.consumer(process.name, isolation, None)
        reader = WrittenReader(lab, process.name, consumer)
        begins = {
            one: lab.random.choice((starts[one], lab.random.randint(starts[one], ends[one])))
            for one in partitions
        }
        await reader.assign(begins)
        while not lab.is_over:
            for read in await reader.poll():
                place = read.topic, read.partition
                ends[place] = max(ends[place], read.offset + 1)
            if lab.random.random() < given.seek_share:
                place = lab.random.choice(partitions)
                target = lab.random.randint(starts[place], ends[place])
                await reader.assign({**reader.next, place: target})
            await lab.sleep(lab.random.randint(0, given.poll_pause_ms))
        await reader.close()
    except ClientError:
        return


async def bounds_of(
    clients: Clients, client: str, partitions: Sequence[Partition], isolation: Isolation
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    admin = await clients.admin(client)
    try:
        found = await admin.bounds(partitions, isolation)
    finally:
        await admin.close()
    return (
        {one: bounds[0] for one, bounds in found.items()},
        {one: bounds[1] for one, bounds in found.items()},
    )


async def fetch_offsets(
    lab: Lab,
    client: str,
    admin: Admin,
    group: str,
    partitions: Sequence[Partition],
    *,
    is_final: bool = False,
) -> dict[Partition, int]:
    """Fetch a group's committed offsets, record the fetch in the history, and return them. The offset is -1 where the
    group has none. `is_final`: this is after healing, with everything decided."""
    invoked_ms = lab.now_ms()
    found = await admin.committed(group, partitions)
    offsets = tuple((topic, number, at) for (topic, number), at in found.items())
    lab.record(
        OffsetsFetched(
            client=client,
            invoked_ms=invoked_ms,
            completed_ms=lab.now_ms(),
            fetched=GroupOffsets(group, offsets),
            is_final=is_final,
        )
    )
    return dict(found)


async def make_topic(
    lab: Lab,
    topic: str,
    partitions: int,
    config: Mapping[str, str] | None = None,
    replicas: int = 0,
) -> None:
    """Create a topic with `replicas` replicas, or for 0 with the usual number of this run.

    In half of all topics segments have a drawn size, so small that they are full all the time. Retention removes
    nothing, whatever the target's defaults are: a removed record would be taken for lost.
    """
    wanted = {
        "retention.ms": "-1",
        "retention.bytes": "-1",
        **lab.topic_config,
        **(config or {}),
    }
    if lab.random.random() < 0.5:
        wanted.setdefault("segment.bytes", str(2 ** lab.random.randint(11, 16)))
    admin = await retried(lab, RETRY_TIMEOUT_MS, lambda: lab.clients[0].admin("setup"))

    async def create() -> None:
        try:
            await admin.create_topic(topic, partitions, replicas or lab.replicas, wanted)
        except Refused:
            # Since KIP-1030 Apache Kafka has no segments below a megabyte.
            if wanted.pop("segment.bytes", None) is None:
                raise
            await admin.create_topic(topic, partitions, replicas or lab.replicas, wanted)

    await retried(lab, RETRY_TIMEOUT_MS, create)
    await admin.close()


def partitions_of(topic: str, count: int) -> list[Partition]:
    return [(topic, number) for number in range(count)]


async def await_decided(
    lab: Lab, admin: Admin, partitions: Sequence[Partition], limit_ms: int
) -> bool:
    """Wait until no transaction is open in these partitions, that is, until each last stable offset is the high
    watermark. Returns False if that is not so after `limit_ms`."""
    deadline_ms = lab.now_ms() + limit_ms
    while True:
        try:
            high = await admin.bounds(partitions, Isolation.READ_UNCOMMITTED)
            stable = await admin.bounds(partitions, Isolation.READ_COMMITTED)
            if all(stable[one][1] >= high[one][1] for one in partitions):
                return True
        except ClientError:
            pass
        if lab.now_ms() >= deadline_ms:
            return False
        await lab.sleep(200)


async def final_reads(
    lab: Lab, client: str, partitions: Sequence[Partition], decided_limit_ms: int
) -> list[FinalRead]:
    """Read every partition from its start to its end at both isolation levels, record these reads in the history and
    return them. Before that, wait up to `decided_limit_ms` until no transaction is open. The client libraries take
    turns."""
    admin = await retried(lab, RETRY_TIMEOUT_MS, lambda: lab.clients[0].admin(client))
    await await_decided(lab, admin, partitions, decided_limit_ms)
    found: list[FinalRead] = []
    for number, partition in enumerate(partitions):
        clients = lab.clients[number % len(lab.clients)]
        for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
            read = await read_to_end(lab, client, clients, admin, partition, isolation)
            lab.record(read)
            found.append(read)
    await admin.close()
    return found


async def read_to_end(
    lab: Lab,
    client: str,
    clients: Clients,
    admin: Admin,
    partition: Partition,
    isolation: Isolation,
) -> FinalRead:
    invoked_ms = lab.now_ms()
    bounds = await retried(lab, RETRY_TIMEOUT_MS, lambda: admin.bounds([partition], isolation))
    start, end = bounds[partition]
    deadline_ms = lab.now_ms() + FINAL_READ_LIMIT_MS
    reads: list[Read] = []
    is_complete = start >= end
    while not is_complete and lab.now_ms() < deadline_ms:
        reads = []
        try:
            consumer = await clients.consumer(client, isolation, None)
            await consumer.assign({partition: start})
            while not is_complete and lab.now_ms() < deadline_ms:
                reads += [one for one in await consumer.poll(POLL_MS) if one.offset < end]
                is_complete = await consumer.position(partition) >= end
            await consumer.close()
        except ClientError:
            await lab.sleep(200)
    return FinalRead(
        client=client,
        invoked_ms=invoked_ms,
        completed_ms=lab.now_ms(),
        isolation=isolation,
        topic=partition[0],
        partition=partition[1],
        start_offset=start,
        end_offset=end,
        reads=tuple(reads),
        is_complete=is_complete,
    )
