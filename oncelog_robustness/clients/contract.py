"""What a workload needs of a Kafka client, whichever it is. One adapter a client library; none hides an error.

The adapters translate a library's exceptions. `Refused`: it did not happen and never will; `Fenced` (this producer is
dead) and `EndedByOthers` (its transaction is over) say more. `Unanswered`: nobody knows, or the library does not say.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from oncelog_robustness.history import Isolation, Partition, Read


class ClientError(Exception):
    """One of those below."""


class Refused(ClientError):
    """Not done, and never will be. In a transaction: abort it."""


class Fenced(Refused):
    """Not done, and this producer can do nothing any more: a newer one has its transactional id."""


class EndedByOthers(Refused):
    """Not done, and never will be: this transaction is over, and it was not its own producer who ended it."""


class Unanswered(ClientError):
    """It may have happened. In a transaction: its outcome is INFO, make a new producer."""


class Producer(Protocol):
    """Every call is bounded in time by the adapter's own settings and then raises Unanswered."""

    protocol: str
    """`TV1` or `TV2`."""

    sends_generation: bool
    """`send_offsets` tells the member's generation (KIP-447). Without it members of one group are not fenced from one
    another: exactly once takes one transactional id per input partition, or a group of one."""

    async def init_transactions(self) -> None: ...

    async def begin(self) -> None:
        """Whatever it raises, this producer is of no more use: make a new one. So it is after an abort that raises."""
        ...

    async def send(self, partition: Partition, value: str | None, key: str | None = None) -> int:
        """The offset, once acknowledged. Several may be under way at a time. No value: a tombstone of the key."""
        ...

    async def send_offsets(
        self, offsets: Mapping[Partition, int], consumer: "Consumer | str"
    ) -> None:
        """Next offsets to read, for a group member's group (with its generation, KIP-447) or a group by name."""
        ...

    async def commit(self) -> None: ...

    async def abort(self) -> None: ...

    async def close(self) -> None: ...


class Consumer(Protocol):
    """Reads what it was assigned or, with a group, what the group gives it."""

    group: str | None
    isolation: Isolation

    async def assign(self, positions: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets, and nothing else."""
        ...

    async def subscribe(self, topics: Sequence[str]) -> None:
        """As a member of its group, from the committed offsets, or from the start where there is none."""
        ...

    async def poll(self, timeout_ms: int) -> Sequence[Read]: ...

    def take_new_positions(self) -> Mapping[Partition, int] | None:
        """After a rebalance since the last call: every partition it has now with where it reads on; else None."""
        ...

    async def position(self, partition: Partition) -> int:
        """The offset it reads next, behind the markers and the aborted records that it passed over: at the end of a
        partition it is what ListOffsets calls the end at this isolation level. No request is made for it."""
        ...

    async def commit(self, offsets: Mapping[Partition, int]) -> None: ...

    async def close(self) -> None: ...


class Admin(Protocol):
    async def create_topic(
        self, topic: str, partitions: int, replicas: int, config: Mapping[str, str]
    ) -> None:
        """Done when it exists, also when it did before."""
        ...

    async def bounds(
        self, partitions: Sequence[Partition], isolation: Isolation
    ) -> Mapping[Partition, tuple[int, int]]:
        """Start and end offset; the end is the LSO or the high watermark."""
        ...

    async def committed(
        self, group: str, partitions: Sequence[Partition]
    ) -> Mapping[Partition, int]:
        """-1 for none. Stable ones only (RequireStable)."""
        ...

    async def add_partitions(self, topic: str, partitions: int) -> None:
        """Done when it has as many, also when it had before."""
        ...

    async def delete_topic(self, topic: str) -> None:
        """Done when it is gone, also when it was before."""
        ...

    async def delete_records(self, before: Mapping[Partition, int]) -> None:
        """No partition begins below that offset any more."""
        ...

    async def close(self) -> None: ...


class Clients(Protocol):
    """Makes clients of one library against one target."""

    library: str
    """`aiokafka`, `confluent-kafka`, `oncelog`."""
    bootstrap: Sequence[str]
    """Where its clients begin, each `host:port`."""

    async def producer(
        self, client: str, transactional_id: str | None, timeout_ms: int
    ) -> Producer:
        """`timeout_ms` is the transaction timeout. Not initialised yet."""
        ...

    async def consumer(self, client: str, isolation: Isolation, group: str | None) -> Consumer: ...

    async def admin(self, client: str) -> Admin: ...
