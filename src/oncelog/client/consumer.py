"""A consumer on asyncio, of given partitions or as the member of a group (KIP-848). By default it reads committed
records.

    async with Consumer("localhost:9092", group_id="books", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["payments"])
        async for record in consumer:
            print(record.partition, record.offset, record.value)

Callbacks about assignments and errors come inside the program's own calls for records. A partition is given up between
two such calls, so no record of it is being processed then. Offsets are committed there, too: those of the records
before the call. A program that crashes while it processes a record reads that record again.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import fields
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack

from oncelog.client.core.consumer_record import ConsumerRecord, Deserializer, Deserializers
from oncelog.client.core.consumer_settings import ConsumerSettings, consumer_settings
from oncelog.client.core.hand import Hand
from oncelog.client.core.log_places import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_UNCOMMITTED
from oncelog.client.core.partition_state import PartitionState
from oncelog.client.core.transaction_calls import GroupMember, OffsetToCommit
from oncelog.client.errors import ClientError, IllegalStateError, TimedOutError
from oncelog.client.group_offsets import GroupOffsets
from oncelog.client.metrics import hide, of_consumer, show
from oncelog.client.network.consumer_loop import ConsumerLoop
from oncelog.client.network.log_offsets import OffsetAtTime, offsets_at
from oncelog.client.options import ConsumerOptions
from oncelog.client.reaching import split_settings
from oncelog.client.rebalances import Rebalances, Told
from oncelog.errors import ErrorCode
from oncelog.ids import Partition

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger(__name__)

CONSUMER_NAMES: Final = tuple(one.name for one in fields(ConsumerSettings))


class Consumer:
    """An asynchronous consumer. Use it with `async with`, or call `start` and `close`, in one event loop and one task.

    `config` takes Kafka's names (`{"fetch.min.bytes": 1}`), and a login; keywords are the same with underscores. Raises
    ConfigError.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        config: Mapping[str, object] | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        metrics: "CollectorRegistry | None" = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        given, self._network = split_settings(bootstrap_servers, config, options, CONSUMER_NAMES)
        self.settings = consumer_settings(given)
        self._deserializers = None
        if key_deserializer is not None or value_deserializer is not None:
            self._deserializers = Deserializers(key_deserializer, value_deserializer)
        self._metrics = metrics
        self._run: ConsumerLoop | None = None
        self._group: GroupOffsets | None = None
        self._rebalances: Rebalances | None = None
        self._is_closed = False
        self._is_subscribed = False
        self._hand = Hand()
        self._is_reading = False

    # ---------------------------------------------------------------------------------------------- begin and end

    async def start(self) -> Self:
        """Reach the cluster within 30 s. Otherwise close the consumer, and raise the reason why it cannot."""
        if self._run is not None:
            return self
        run = self._run = ConsumerLoop(self.settings, self._network, self._deserializers)
        show(self._metrics, self, lambda: of_consumer(run))
        self._group = GroupOffsets(run)
        self._rebalances = Rebalances(run, self._hand, self._group)
        try:
            await run.brokers.reach(self.settings.default_api_timeout_ms)
        except BaseException:
            self._is_closed = True
            hide(self._metrics, self)
            await run.close()
            raise
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the consumer. After an exception nothing is committed: the last record may not have been processed."""
        await self.close(commits=error is None)

    async def close(self, *, commits: bool = True) -> None:
        """Commit offsets if `enable.auto.commit` says so, call `on_revoked`, and leave the group.

        A static member leaves for a while only: its partitions wait for it for the group's session time-out.
        """
        run = self._run
        if run is None or self._is_closed:
            return
        try:
            assert self._rebalances is not None
            await self._rebalances.leave(commits=commits)
        finally:
            self._is_closed = True
            hide(self._metrics, self)
            await run.close()

    # ---------------------------------------------------------------------------------------------- what is read

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Told | None = None,
        on_revoked: Told | None = None,
        on_lost: Told | None = None,
    ) -> None:
        """Join the group, and read what it assigns: partitions of these topics, or of topics that `pattern` matches.

        The pattern is RE2's, and the broker matches whole names. A callback is awaited inside the program's next call
        for records. `on_revoked` comes before others get the partitions. `on_lost` comes when they have them already;
        without it `on_revoked` is called.
        """
        run = self._started()
        if self.settings.group_id is None:
            raise IllegalStateError("subscribe() needs a group: give group_id, or call assign()")
        if run.core.partitions and not self._is_subscribed:
            raise IllegalStateError("partitions are assigned by hand: call unsubscribe() before")
        if isinstance(topics, str):
            raise IllegalStateError(f"topics is {topics!r}: give a list of names")
        if (topics is None) == (pattern is None):
            raise IllegalStateError("give topics, or a pattern")
        names = None if topics is None else tuple(dict.fromkeys(topics))
        told = self._rebalances
        assert told is not None
        told.on_assigned, told.on_revoked, told.on_lost = on_assigned, on_revoked, on_lost
        self._is_subscribed = True
        run.needs_all_topics = pattern is not None
        run.brokers.need(names or ())
        text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
        run.membership.subscribe(names, text)
        run.wake()

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions and no others; no group assigns them. One that was read before keeps its position."""
        run = self._started()
        if self._is_subscribed:
            raise IllegalStateError("this consumer is subscribed: call unsubscribe() before")
        wanted = [Partition(*one) for one in partitions]
        if self._hand.last is not None and self._hand.last.topic_partition not in wanted:
            self._hand.drop()
        run.core.assign(wanted)
        run.brokers.need({one.topic for one in wanted})
        run.wake()

    async def unsubscribe(self) -> None:
        """Leave the group, or give up the partitions that `assign` set."""
        run = self._started()
        if self._is_subscribed and self._rebalances is not None:
            await self._rebalances.leave(commits=True)
        self._is_subscribed = False
        self._hand.drop()
        run.core.assign(())

    @property
    def assignment(self) -> frozenset[Partition]:
        """The partitions that this consumer reads now."""
        return frozenset(self._started().core.partitions)

    def group_metadata(self) -> GroupMember:
        """Return this consumer's identity in its group, for `send_offsets_to_transaction`. It changes with each
        rebalance, so call this each time."""
        if self.settings.group_id is None:
            raise IllegalStateError("this consumer has no group: give group_id")
        return self._started().member

    # ---------------------------------------------------------------------------------------------- records

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        return self.next_in_hand() or await self._next()

    def next_in_hand(self) -> ConsumerRecord | None:
        """Return the next record if it is fetched already, without a wait; None: `poll` would have to wait. Any thread
        may call it."""
        run = self._run
        if run is not None and not run.needs_attention and not self._is_closed:
            hand = self._hand
            for record in hand.rest:
                hand.last = record
                run.was_polled = True
                return record
        return None

    async def _next(self) -> ConsumerRecord:
        run = self._started()
        if run.needs_attention:
            await self._attend()
        record = self._hand.next()
        if record is not None:
            return record
        return self._hand.walk(await self._read(run, None, self.settings.max_poll_records))

    async def poll(
        self, timeout_s: float | None = None, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        """Return up to `max_records` records; an empty list when `timeout_s` is over. None waits as long as it takes.

        Records of one partition are in order. After a cancellation nothing is lost.
        """
        run = self._started()
        count = max_records or self.settings.max_poll_records
        found = self._hand.take(count)
        if not found:
            found = await self._read(run, timeout_s, count)
        while found and len(found) < count:
            try:
                more = run.core.take(count - len(found))
            except ClientError:
                break  # The next call raises the error.
            if not more:
                break
            found = found + more
        run.wake()
        return found

    async def batches(self, max_records: int | None = None) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield lists of records without an end. Each list is of one partition, and in order."""
        count = max_records or self.settings.max_poll_records
        while True:
            run = self._started()
            yield self._hand.take(count) or await self._read(run, None, count)

    async def read_until_decided(
        self, partitions: Iterable[Partition] | None = None, timeout_s: float | None = None
    ) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield the committed records below the present high watermarks, in lists; end when all are decided.

        It serves programs that restore their state from a topic. To stop at the last stable offset would miss records
        of a transaction that is still open, and is committed a moment later. This call waits until each such
        transaction has ended. Without partitions: all that are assigned. Raises TimedOutError that names a partition
        which stays undecided.
        """
        run = self._started()
        if not self.settings.reads_committed:
            raise IllegalStateError("read_until_decided() needs isolation_level='read_committed'")
        wanted = tuple(self.assignment if partitions is None else map(_partition, partitions))
        for partition in wanted:
            self._state(partition)
        self._hand.put_back(run.core)
        marks = await self._offsets(dict.fromkeys(wanted, LATEST_TIMESTAMP), READ_UNCOMMITTED)
        ends = {one: at.offset for one, at in marks.items() if at is not None}
        deadline = None if timeout_s is None else run.loop.time() + timeout_s
        while left := {one: end for one, end in ends.items() if self._lies_before(one, end)}:
            time_left = None if deadline is None else deadline - run.loop.time()
            batch = await self._read(run, time_left, self.settings.max_poll_records, left)
            if batch:
                kept = self._cut(batch, left)
                if kept:
                    yield kept
            elif deadline is not None and run.loop.time() >= deadline:
                one, end = next(iter(left.items()))
                raise self._state(one).undecided(end, timeout_s)

    def _lies_before(self, partition: Partition, end: int) -> bool:
        state = self._started().core.state(partition)
        return state is not None and state.position < end

    def _cut(
        self, batch: list[ConsumerRecord], ends: Mapping[Partition, int]
    ) -> list[ConsumerRecord]:
        """Return the batch's records below the partition's end. The others are given back, and the next call reads them
        again."""
        partition = batch[0].topic_partition
        end = ends[partition]
        if batch[-1].offset < end:
            return batch
        self._started().core.seek(partition, end, batch[0].leader_epoch)
        return [record for record in batch if record.offset < end]

    async def _read(
        self,
        run: ConsumerLoop,
        timeout_s: float | None,
        count: int,
        ends: Mapping[Partition, int] | None = None,
    ) -> list[ConsumerRecord]:
        """Return records of one partition. An empty list: the time is over, or with `ends` a partition has reached its
        end."""
        if self._is_reading:
            raise IllegalStateError("another task reads from this consumer: use one for each task")
        self._is_reading = True
        run.core.only = None if ends is None else frozenset(ends)
        deadline = None if timeout_s is None else run.loop.time() + timeout_s
        try:
            # The event loop gets a turn for each list, so that answers are taken while the program works.
            await asyncio.sleep(0)
            while True:
                if run.needs_attention:
                    await self._attend()
                run.was_polled = True
                found = run.core.take(count)
                run.take_turn()
                if found:
                    return found
                self._started()
                if ends and not all(self._lies_before(one, end) for one, end in ends.items()):
                    return []
                left_s = None if deadline is None else deadline - run.loop.time()
                if left_s is not None and left_s <= 0:
                    return []
                await run.changed(left_s)
                self._started()
        finally:
            self._is_reading = False

    # ---------------------------------------------------------------------------------------------- positions

    def pause(self, *partitions: Partition) -> None:
        """Return no records of these partitions until `resume`."""
        self._pause(partitions, True)

    def resume(self, *partitions: Partition) -> None:
        self._pause(partitions, False)

    def _pause(self, partitions: Iterable[Partition], is_paused: bool) -> None:
        for partition in partitions:
            self._state(partition).is_paused = is_paused
            if is_paused and self._hand.is_of(partition):
                self._hand.put_back(self._started().core)
        self._started().wake()

    @property
    def paused(self) -> frozenset[Partition]:
        core = self._started().core
        return frozenset(one for one in core.partitions if self._state(one).is_paused)

    def seek(self, partition: Partition, offset: int | OffsetToCommit) -> None:
        """Continue reading the partition at this offset."""
        at = offset if isinstance(offset, OffsetToCommit) else OffsetToCommit(offset)
        if at.offset < 0:
            raise IllegalStateError(f"the offset is {at.offset}: give 0 or more")
        self._moved(partition)
        self._started().core.seek(_partition(partition), at.offset, at.leader_epoch)
        self._started().wake()

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Continue reading at the start of the log; without partitions, of all that are assigned."""
        self._seek_to(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: Partition) -> None:
        """Continue reading at the end: at read_committed that is the last stable offset."""
        self._seek_to(partitions, LATEST_TIMESTAMP)

    def _seek_to(self, partitions: Iterable[Partition], timestamp_ms: int) -> None:
        run = self._started()
        for partition in tuple(partitions) or run.core.partitions:
            self._moved(partition)
            run.core.seek_to(_partition(partition), timestamp_ms)
        run.wake()

    def _moved(self, partition: Partition) -> None:
        self._state(partition)
        self._offsets_of_group().forget((_partition(partition),))
        if self._hand.is_of(partition):
            self._hand.drop()

    async def position(self, partition: Partition, timeout_s: float | None = None) -> int:
        """Return the offset of the next record to read, behind markers and aborted records. Raises TimedOutError."""
        run, limit_s = self._started(), self._limit_s(timeout_s)
        deadline = run.loop.time() + limit_s
        while (offset := self._hand.position(self._state(partition))) < 0:
            state = self._state(partition)
            if state.error is not None:
                raise state.error
            if run.loop.time() >= deadline:
                raise TimedOutError(f"the position of {partition} is not known after {limit_s:g} s")
            run.wake()
            await run.changed(min(0.05, deadline - run.loop.time()))
        return offset

    def current_lag(self, partition: Partition) -> int | None:
        """Return how many offsets the position lies before the partition's end; None before the first answer.

        The end is where reading ends now: at read_committed the last stable offset.
        """
        state = self._state(partition)
        return state.lag(self._hand.position(state), self.settings.reads_committed)

    @property
    def failing(self) -> dict[Partition, ErrorCode]:
        """The partitions that cannot be read now, each with its error. The consumer asks for them again and again."""
        states = map(self._state, self._started().core.partitions)
        return {one.partition: one.failing for one in states if one.failing}

    # ---------------------------------------------------------------------------------------------- offsets

    async def commit(self, offsets: Mapping[Partition, int | OffsetToCommit] | None = None) -> None:
        """Commit the given offsets (the next to read), or the positions behind the records returned so far.

        In `async for` the current record counts as processed. Raises RefusedError if the consumer is no member any
        more: others may have its partitions.
        """
        group = self._offsets_of_group()
        assert self._rebalances is not None
        wanted = self._rebalances.positions()
        if offsets is not None:
            wanted = {
                _partition(one): at if isinstance(at, OffsetToCommit) else OffsetToCommit(at)
                for one, at in offsets.items()
            }
        await group.commit(wanted)

    async def committed(
        self, partitions: Iterable[Partition]
    ) -> dict[Partition, OffsetToCommit | None]:
        """Return the offset that the group has committed for each partition; None where it has committed none."""
        return await self._offsets_of_group().committed(map(_partition, partitions))

    async def offsets_for_times(
        self, times_ms: Mapping[Partition, int]
    ) -> dict[Partition, OffsetAtTime | None]:
        """Return the offset of the first record since a time in ms, for each partition; None: nothing is that new."""
        return await self._offsets(times_ms, self.settings.isolation)

    async def beginning_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return await self._ends(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset where reading ends now, for each partition: at read_committed the last stable offset."""
        return await self._ends(partitions, LATEST_TIMESTAMP)

    async def _ends(
        self, partitions: Iterable[Partition], timestamp_ms: int
    ) -> dict[Partition, int]:
        wanted = dict.fromkeys(map(_partition, partitions), timestamp_ms)
        found = await self._offsets(wanted, self.settings.isolation)
        return {one: -1 if at is None else at.offset for one, at in found.items()}

    async def _offsets(
        self, wanted: Mapping[Partition, int], isolation: int
    ) -> dict[Partition, OffsetAtTime | None]:
        brokers = self._started().brokers
        limit_ms = self.settings.default_api_timeout_ms
        return await offsets_at(
            brokers, isolation, {_partition(one): at for one, at in wanted.items()}, limit_ms
        )

    # ---------------------------------------------------------------------------------------------- inside

    def _started(self) -> ConsumerLoop:
        if self._run is None or self._is_closed:
            raise IllegalStateError(
                "the consumer is closed, or was not started: use `async with Consumer(…)`"
            )
        return self._run

    async def _attend(self) -> None:
        """Do what is due between two records: call the program's callbacks of a rebalance, commit offsets, raise
        errors."""
        assert self._rebalances is not None
        await self._rebalances.attend()

    def _offsets_of_group(self) -> GroupOffsets:
        self._started()
        assert self._group is not None
        return self._group

    def _state(self, partition: Partition) -> PartitionState:
        state = self._started().core.state(_partition(partition))
        if state is None:
            raise IllegalStateError(f"{_partition(partition)} is not assigned to this consumer")
        return state

    def _limit_s(self, timeout_s: float | None) -> float:
        return self.settings.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s


def _partition(given: Partition) -> Partition:
    return given if isinstance(given, Partition) else Partition(*given)
