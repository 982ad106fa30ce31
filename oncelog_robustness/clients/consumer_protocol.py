"""A consumer in a group of the new consumer protocol (KIP-848), which no Python client speaks without threads of C.

This code sends the heartbeats, which report the partitions it has and tell which it may have. Another library's
consumer reads the records. A heartbeat is sent only when the consumer is polled. Between two polls its application
ends what it read, so partitions are given up with no transaction open. Offsets are committed with the member epoch
of the poll that returned them.

    the answer was lost                     it says everything anew with the epoch it had
    FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID  it gives up all and joins again
    UNRELEASED_INSTANCE_ID                  its predecessor is not known to be gone: it waits
    FENCED_INSTANCE_ID                      its successor is there: Refused
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from oncelog.errors import ErrorCode, KafkaError
from oncelog_robustness.clients.contract import Clients, Consumer, Refused
from oncelog_robustness.clients.group_calls import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    GroupCalls,
    HeartbeatAnswer,
    Said,
)
from oncelog_robustness.clients.membership import Membership
from oncelog_robustness.clients.wire import Brokers, Lost, Unreachable
from oncelog_robustness.history import Isolation, Partition, Read

REBALANCE_TIMEOUT_MS: Final = 20_000
"""The time that a member has to give up partitions that must move, in milliseconds. Its application ends what it
read from them in that time."""
PAUSE_S: Final = 0.2
"""The pause after a failure, in seconds."""
_OUT: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class ProtocolConsumer:
    """A `Consumer` that is a member of a group of the consumer protocol (KIP-848), and a `Member`, so that it can
    commit offsets in transactions."""

    def __init__(
        self, calls: GroupCalls, reader: Consumer, member_id: str, instance_id: str | None
    ) -> None:
        self.group: str | None = calls.group
        self.isolation = reader.isolation
        self._calls = calls
        self._reader = reader
        self._member_id = member_id
        self._instance_id = instance_id
        self._topics: tuple[str, ...] = ()
        self._epoch = JOINS
        self._assigned: frozenset[Partition] = frozenset()
        """The partitions that the coordinator last assigned."""
        self._next: dict[Partition, int] = {}
        """The partitions that the member has, each with the next offset to read."""
        self._says_all = True
        self._due_s = 0.0
        self._new_positions: Mapping[Partition, int] | None = None

    @classmethod
    async def open(
        cls,
        clients: Clients,
        client: str,
        isolation: Isolation,
        group: str,
        instance_id: str | None = None,
    ) -> "ProtocolConsumer":
        """Return a consumer that has not joined yet. `client` is its member id, which no other start of the client
        may have."""
        reader = await clients.consumer(client, isolation, None)
        calls = GroupCalls(Brokers(clients.bootstrap, client), group)
        return cls(calls, reader, client, instance_id)

    async def subscribe(self, topics: Sequence[str]) -> None:
        self._topics = tuple(topics)

    async def assign(self, positions: Mapping[Partition, int]) -> None:
        raise AssertionError("its group says what it reads")

    @property
    def membership(self) -> Membership | None:
        if self._epoch == JOINS:
            return None
        return Membership(self._epoch, self._member_id, self._instance_id)

    def check_member(self) -> None:
        if self._epoch == JOINS:
            raise Refused("it was put out of its group since it read")

    async def poll(self, timeout_ms: int) -> Sequence[Read]:
        if time.monotonic() >= self._due_s:
            await self._say()
        if self._assigned != self._next.keys() and not await self._take_over():
            await asyncio.sleep(timeout_ms / 1000)
            return ()
        if not self._next:
            await asyncio.sleep(timeout_ms / 1000)
            return ()
        reads = await self._reader.poll(timeout_ms)
        for read in reads:
            self._next[(read.topic, read.partition)] = read.offset + 1
        return reads

    async def _say(self) -> None:
        """Send one heartbeat, and take the new epoch and assignment from the response. Raises Refused when another
        process has this instance id."""
        is_join = self._epoch == JOINS
        said = Said(self._epoch, owned=frozenset(self._next))
        if is_join or self._says_all:
            said.topics = self._topics
            said.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
        try:
            answer = await self._calls.say(self._member_id, self._instance_id, said)
        except (Lost, Unreachable) as error:
            self._failed(error)
        except KafkaError as error:
            self._failed(error)
            if error.error_code in _OUT:
                await self._put_out()
            elif error.error_code is ErrorCode.UNRELEASED_INSTANCE_ID:
                return
            elif not error.error_code.is_retriable:
                raise Refused(str(error)) from error
        else:
            self._take(answer)

    def _take(self, answer: HeartbeatAnswer) -> None:
        self._epoch = answer.epoch
        self._says_all = False
        if answer.assigned is not None:
            self._assigned = answer.assigned
        self._due_s = time.monotonic() + answer.interval_ms / 1000

    def _failed(self, error: Exception) -> None:
        self._calls.brokers.forget()
        self._says_all = True
        self._due_s = time.monotonic() + PAUSE_S

    async def _put_out(self) -> None:
        self._epoch = JOINS
        self._assigned = frozenset()
        await self._read_on({})

    async def _take_over(self) -> bool:
        """Make the partitions that are read equal to those assigned. Give up partitions that are no longer assigned,
        and report that at once. Then fetch the committed offsets of newly assigned ones, and begin to read them at
        these offsets.

        Returns False if that did not work; the next poll tries again.
        """
        kept = {one: at for one, at in self._next.items() if one in self._assigned}
        if len(kept) < len(self._next):
            await self._read_on(kept)
            await self._say()
        new = sorted(self._assigned - self._next.keys())
        if not new or self._epoch == JOINS:
            return self._epoch != JOINS
        me = Membership(self._epoch, self._member_id)
        try:
            found = await self._calls.committed_to(me, new)
        except (Lost, Unreachable, KafkaError):
            # A pending offset is no offset yet; whatever else it is, the next heartbeat tells.
            self._calls.brokers.forget()
            return False
        await self._read_on({**self._next, **{one: max(at, 0) for one, at in found.items()}})
        self._due_s = 0.0
        return True

    async def _read_on(self, positions: Mapping[Partition, int]) -> None:
        await self._reader.assign(positions)
        self._next = dict(positions)
        self._new_positions = dict(positions)

    def take_new_positions(self) -> Mapping[Partition, int] | None:
        taken, self._new_positions = self._new_positions, None
        return taken

    async def position(self, partition: Partition) -> int:
        return await self._reader.position(partition)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        raise AssertionError("offsets go into a transaction, or by GroupCalls")

    async def close(self) -> None:
        """Leave the group; a static member (one with an instance id) leaves it only for a while. If the request is
        lost, the coordinator removes the member after the session timeout."""
        if self._epoch != JOINS:
            leaving = LEAVES if self._instance_id is None else LEAVES_FOR_A_WHILE
            with suppress(Lost, Unreachable, KafkaError):
                await self._calls.say(self._member_id, self._instance_id, Said(leaving))
        self._epoch = JOINS
        self._calls.brokers.close()
        await self._reader.close()
