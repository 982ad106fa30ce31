"""The interface between a workload and any Kafka client. Each client library has one adapter.

An adapter translates the library's exceptions, and hides none. `Refused`: the call was not done and never will be.
Two kinds of it say more: `Fenced` (this producer can do nothing any more) and `EndedByOthers` (its transaction is
over). `Unanswered`: the call may have been done or not.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from oncelog_robustness.history import Isolation, Partition, Read


class ClientError(Exception):
    """The base of all errors that a client's call raises."""


class Refused(ClientError):
    """The call was not done, and never will be. In a transaction, the caller must abort."""


class Fenced(Refused):
    """The call was not done, and this producer can do nothing any more: a newer one has its transactional id."""


class EndedByOthers(Refused):
    """The call was not done, and never will be: somebody other than its producer has ended this transaction."""


class Unanswered(ClientError):
    """The call may have been done, now or later. In a transaction, its outcome in the history is INFO (unknown),
    and the caller must make a new producer."""


class Producer(Protocol):
    """A producer of any library. Each call ends in a bounded time, which the adapter sets; when that is over it
    raises Unanswered."""

    protocol: str
    """The transaction version that the producer speaks, `TV1` or `TV2`."""

    sends_generation: bool
    """True if `send_offsets` sends the group member's generation (KIP-447), so that a member that was replaced is
    fenced. Without it exactly once takes one transactional id per input partition, or a group of one member."""

    async def init_transactions(self) -> None: ...

    async def begin(self) -> None:
        """Begin a transaction. If this or an abort raises, the producer is of no more use, and the caller must make
        a new one."""
        ...

    async def send(self, partition: Partition, value: str | None, key: str | None = None) -> int:
        """Send a record and return its offset, once acknowledged.
        Several sends may be under way at a time. `value` None is a tombstone of the key."""
        ...

    async def send_offsets(
        self, offsets: Mapping[Partition, int], consumer: "Consumer | str"
    ) -> None:
        """Add the next offsets to read to the transaction. `consumer` is the member that read them, whose
        generation is sent (KIP-447), or the name of a group without members."""
        ...

    async def commit(self) -> None: ...

    async def abort(self) -> None: ...

    async def close(self) -> None: ...


class Consumer(Protocol):
    """A consumer of any library. It reads the partitions that the caller assigns or, as a member of a group, those
    that the group assigns."""

    group: str | None
    isolation: Isolation

    async def assign(self, positions: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets, and nothing else."""
        ...

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group and read these topics as a member, from the committed offsets, or from the start where
        there is none."""
        ...

    async def poll(self, timeout_ms: int) -> Sequence[Read]: ...

    def take_new_positions(self) -> Mapping[Partition, int] | None:
        """Return the positions of all partitions that the member has, if there was a rebalance since the last call;
        otherwise None. The caller records them in the history."""
        ...

    async def position(self, partition: Partition) -> int:
        """Return the next offset to read, behind markers and aborted records that were skipped. It sends no
        request.

        At the end of a partition it equals the end that ListOffsets returns at this isolation level.
        """
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
        """Return the start and the end offset of each partition. The end is the LSO at read_committed, and the high
        watermark at read_uncommitted."""
        ...

    async def committed(
        self, group: str, partitions: Sequence[Partition]
    ) -> Mapping[Partition, int]:
        """Return the group's committed offset of each partition, -1 where it has none. Offsets of open transactions
        are waited for (RequireStable)."""
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
    """A factory of producers, consumers and admin clients of one library, against one cluster."""

    library: str
    """The library's name: `aiokafka`, `confluent-kafka`, `java`, `kafka-python` or `oncelog`."""
    bootstrap: Sequence[str]
    """The bootstrap addresses of the clients, each `host:port`."""

    async def producer(
        self, client: str, transactional_id: str | None, timeout_ms: int
    ) -> Producer:
        """Return a producer. One with a transactional id is not initialised yet, and `timeout_ms` is its
        transaction timeout. None as the transactional id means an idempotent producer."""
        ...

    async def consumer(self, client: str, isolation: Isolation, group: str | None) -> Consumer: ...

    async def admin(self, client: str) -> Admin: ...
