"""A consumer for threads. One thread at a time reads from it; any thread may close it."""

import functools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack

from oncelog.client import consumer
from oncelog.client.blocking.io_thread import in_caller
from oncelog.client.blocking.shell import Shell, does, waits
from oncelog.client.core.consumer_record import ConsumerRecord, Deserializer
from oncelog.client.core.consumer_settings import ConsumerSettings
from oncelog.client.options import ConsumerOptions
from oncelog.errors import ErrorCode
from oncelog.ids import Partition

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

Told = Callable[[frozenset[Partition]], None]
"""A program's callback for a rebalance, run in the thread that reads. It may seek and commit."""
_Inner: Final = consumer.Consumer


class Consumer(Shell[consumer.Consumer]):
    """A blocking consumer. Use it with `with`, or call `start` and `close`.

    Its parameters are those of `oncelog.client.Consumer`.
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
        inner = _Inner(
            bootstrap_servers,
            config,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            metrics=metrics,
            **options,
        )
        super().__init__(inner, "consumer")

    @property
    def settings(self) -> ConsumerSettings:
        return self._inner.settings

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the consumer. After an exception nothing is committed: the last record may not have been processed."""
        self.close(commits=error is None)

    def close(self, *, commits: bool = True) -> None:
        """Commit offsets if `enable.auto.commit` says so, call `on_revoked`, and leave the group.
        Any thread may call it."""
        self._end(functools.partial(self._inner.close, commits=commits))

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

        The callbacks are called as those of `oncelog.client.Consumer`, in the thread that reads.
        """
        self._io.do(
            lambda: self._inner.subscribe(
                topics,
                pattern=pattern,
                on_assigned=_in_reader(on_assigned),
                on_revoked=_in_reader(on_revoked),
                on_lost=_in_reader(on_lost),
            )
        )

    @property
    def assignment(self) -> frozenset[Partition]:
        """The partitions that this consumer reads now."""
        return self._io.do(lambda: self._inner.assignment)

    @property
    def paused(self) -> frozenset[Partition]:
        return self._io.do(lambda: self._inner.paused)

    @property
    def failing(self) -> dict[Partition, ErrorCode]:
        """The partitions that cannot be read now, each with its error. The consumer asks for them again and again."""
        return self._io.do(lambda: self._inner.failing)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        return self._inner.next_in_hand() or self._io.wait(self._inner.__anext__)

    def batches(self, max_records: int | None = None) -> Iterator[list[ConsumerRecord]]:
        """Yield lists of records without an end. Each list is of one partition, and in order."""
        return self._lists(lambda: self._inner.batches(max_records))

    def read_until_decided(
        self, partitions: Iterable[Partition] | None = None, timeout_s: float | None = None
    ) -> Iterator[list[ConsumerRecord]]:
        """Yield the committed records below the present high watermarks, in lists; end when no transaction below them
        is open.

        It serves programs that restore their state from a topic. Without partitions: all that are assigned. Raises
        TimedOutError that names a partition which stays undecided.
        """
        return self._lists(lambda: self._inner.read_until_decided(partitions, timeout_s))

    def _lists(
        self, begin: Callable[[], AsyncIterator[list[ConsumerRecord]]]
    ) -> Iterator[list[ConsumerRecord]]:
        lists = begin()

        async def next_one() -> list[ConsumerRecord] | None:
            return await anext(lists, None)

        while (found := self._io.wait(next_one)) is not None:
            yield found

    assign = does(_Inner.assign)
    unsubscribe = waits(_Inner.unsubscribe)
    group_metadata = does(_Inner.group_metadata)
    poll = waits(_Inner.poll)
    pause = does(_Inner.pause)
    resume = does(_Inner.resume)
    seek = does(_Inner.seek)
    seek_to_beginning = does(_Inner.seek_to_beginning)
    seek_to_end = does(_Inner.seek_to_end)
    position = waits(_Inner.position)
    current_lag = does(_Inner.current_lag)
    commit = waits(_Inner.commit)
    committed = waits(_Inner.committed)
    offsets_for_times = waits(_Inner.offsets_for_times)
    beginning_offsets = waits(_Inner.beginning_offsets)
    end_offsets = waits(_Inner.end_offsets)


def _in_reader(told: Told | None) -> Callable[[frozenset[Partition]], Awaitable[None]] | None:
    if told is None:
        return None
    call = told

    async def tell(partitions: frozenset[Partition]) -> None:
        await in_caller(lambda: call(partitions))

    return tell
