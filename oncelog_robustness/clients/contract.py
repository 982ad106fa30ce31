"""The contract between a workload and any Kafka client. Each client library has one adapter, and none hides an error.

The adapters translate a library's exceptions. `Refused`: it did not happen and never will; `Fenced` (this producer is
dead) and `EndedByOthers` (its transaction is over) say more. `Unanswered`: nobody knows, or the library does not say.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from oncelog_robustness.history import Isolation, Partition, Read


class ClientError(Exception):
    """The base of all errors that a client's call raises."""


class Refused(ClientError):
    """The call was not done, and never will be. In a transaction: abort it."""


class Fenced(Refused):
    """The call was not done, and this producer can do nothing any more: a newer one has its transactional id."""


class EndedByOthers(Refused):
    """The call was not done, and never will be: somebody other than its producer has ended this transaction."""


class Unanswered(ClientError):
    """The call may have been done. In a transaction: its outcome is INFO, make a new producer."""


class Producer(Protocol):
    """A producer. The adapter's own settings bound every call in time; then it raises Unanswered."""

    protocol: str
    """The transaction version that the producer speaks, `TV1` or `TV2`."""

    sends_generation: bool
    """True if `send_offsets` sends the member's generation (KIP-447). Without it members of one group are not fenced
    from one another. Then exactly once takes one transactional id per input partition, or a group of one."""

    async def init_transactions(self) -> None: ...

    async def begin(self) -> None:
        """Begin a transaction. If this raises, make a new producer; the same holds for an abort that raises."""
        ...

    async def send(self, partition: Partition, value: str | None, key: str | None = None) -> int:
        """Send a record and return its offset, once acknowledged.
        Several sends may be under way at a time. `value` None is a tombstone of the key."""
        ...

    async def send_offsets(
        self, offsets: Mapping[Partition, int], consumer: "Consumer | str"
    ) -> None:
        """Add the next offsets to read to the transaction, for a member's group (with its generation,
        KIP-447) or a group by name."""
        ...

    async def commit(self) -> None: ...

    async def abort(self) -> None: ...

    async def close(self) -> None: ...


class Consumer(Protocol):
    """A consumer that reads what it was assigned or, in a group, what the group assigns."""

    group: str | None
    isolation: Isolation

    async def assign(self, positions: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets, and nothing else."""
        ...

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Read as a member of the group, from the committed offsets, or from the start where there is none."""
        ...

    async def poll(self, timeout_ms: int) -> Sequence[Read]: ...

    def take_new_positions(self) -> Mapping[Partition, int] | None:
        """Return, after a rebalance since the last call, every partition that the member has with
        its position; else None."""
        ...

    async def position(self, partition: Partition) -> int:
        """Return the offset to read next, behind the markers and aborted records that were skipped. At the end of a
        partition it equals the end that ListOffsets returns at this isolation level. No request is made for it."""
        ...

    async def commit(self, offsets: Mapping[Partition, int]) -> None: ...

    async def close(self) -> None: ...


class Admin(Protocol):
    async def create_topic(
        self, topic: str, partitions: int, replicas: int, config: Mapping[str, str]
    ) -> None:
        """Create a topic; one that exists already is no error."""
        ...

    async def bounds(
        self, partitions: Sequence[Partition], isolation: Isolation
    ) -> Mapping[Partition, tuple[int, int]]:
        """Return the start and end offset of each partition; the end is the LSO or the high watermark."""
        ...

    async def committed(
        self, group: str, partitions: Sequence[Partition]
    ) -> Mapping[Partition, int]:
        """Return the group's committed offsets, -1 for none. Only stable ones are fetched (RequireStable)."""
        ...

    async def add_partitions(self, topic: str, partitions: int) -> None:
        """Give the topic this many partitions; one that has them already is no error."""
        ...

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic; one that does not exist is no error."""
        ...

    async def delete_records(self, before: Mapping[Partition, int]) -> None:
        """Delete the records of each partition below its offset."""
        ...

    async def close(self) -> None: ...


class Clients(Protocol):
    """A factory of clients of one library against one target."""

    library: str
    """The library's name: `aiokafka`, `confluent-kafka`, `java`, `kafka-python` or `oncelog`."""
    bootstrap: Sequence[str]
    """The bootstrap addresses of the clients, each `host:port`."""

    async def producer(
        self, client: str, transactional_id: str | None, timeout_ms: int
    ) -> Producer:
        """Return a producer that is not initialised yet. `timeout_ms` is the transaction timeout."""
        ...

    async def consumer(self, client: str, isolation: Isolation, group: str | None) -> Consumer: ...

    async def admin(self, client: str) -> Admin: ...
