"""The workload `compaction`: transactions update and delete keys in a compacted topic of tiny segments, which is
cleaned all the time. It shows that the newest committed value of each key stays, and that no aborted record
appears.

A key belongs to one writer and one partition, so its newest value is the last one that its writer committed.
Tombstones outlive a run (`delete.retention.ms` is a day), so a key without a record and without a tombstone was
lost.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from pydantic import Field

from oncelog_robustness.history import Partition
from oncelog_robustness.workloads.applications import run_writer
from oncelog_robustness.workloads.contract import Lab, until_over
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

CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": "2048",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
}


class CompactionParameters(Watched):
    writers: ClientCount = 3
    partitions: Partitions = 2
    keys: int = Field(default=5, ge=1, le=10_000)
    """The number of keys of each writer."""
    sends_max: Sends = 8
    """The most sends in a transaction."""
    tombstone_share: Share = 0.15
    """The share of the transactions whose last send is a tombstone."""
    abort_share: Share = 0.2
    think_ms: Pause = 30


class Compaction:
    def __init__(self, name: str, parameters: CompactionParameters) -> None:
        self.name = name
        self.parameters = parameters
        self.partitions = partitions_of(name, parameters.partitions)

    async def setup(self, lab: Lab) -> None:
        await make_topic(lab, self.name, self.parameters.partitions, CONFIG)

    async def start(self, lab: Lab) -> None:
        works = [self._writer(lab, number) for number in range(self.parameters.writers)]
        works += watchers(lab, self.name, self.partitions, self.parameters)
        await until_over(lab, works)

    async def check(self, lab: Lab) -> None:
        limit_ms = self.parameters.transaction_timeout_ms + DECIDED_LIMIT_MS
        await final_reads(lab, f"{self.name}-check", self.partitions, limit_ms)

    async def _writer(self, lab: Lab, number: int) -> None:
        given = self.parameters
        await run_writer(
            lab,
            f"{self.name}-writer-{number}",
            number,
            given,
            partial(self._update, number),
            abort_share=given.abort_share,
            pause_ms=given.think_ms,
        )

    async def _update(self, writer: int, client: Transactor, opened: OpenTransaction) -> None:
        given, draw = self.parameters, client.lab.random
        left = draw.randint(1, given.sends_max)
        while left > 0:
            count = draw.randint(1, left)
            left -= count
            planned = []
            for _ in range(count):
                partition, key = self._key(writer, draw.randrange(given.keys))
                planned.append(Planned(partition, client.unique(), key))
            await opened.send_all(planned)
        if draw.random() < given.tombstone_share:
            await opened.delete_key(*self._key(writer, draw.randrange(given.keys)))

    def _key(self, writer: int, number: int) -> tuple[Partition, str]:
        return self.partitions[number % len(self.partitions)], f"key-{writer}-{number}"
