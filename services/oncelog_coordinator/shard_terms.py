"""The shards of one kind on this node: loaded when the metadata assigns them, dropped when it takes them away.

An assignment is a shard and a coordinator epoch. A greater epoch is a new term even on the same node. Each term has its
own journal, state machine and driver, which feeds events to the machine and writes its records. A machine that fails is
dropped and replayed in the same term. One that was fenced is dropped and waits for the metadata to say who coordinates
the shard now. A caller is told COORDINATOR_LOAD_IN_PROGRESS while the shard loads and NOT_COORDINATOR when it is not
ours (docs/kafka-facts.md, 8.1, 8.10).

An empty shard costs one fetch and two small objects: its task and its producer id come with its first record.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import CoordinatorEpoch, shard_of
from oncelog.journal import AppendFailed
from oncelog.process.role_metrics import Histogram
from oncelog.rpc.backoff import Backoff
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog.runtime import Driver
from oncelog_coordinator.settings import CoordinatorSettings

_log = logging.getLogger(__name__)

LOADS_MAX: Final = 8
"""The most shards of one kind that load at once. A node that takes over a dead one's fifty must not fetch fifty logs
at once."""


class ShardUnavailable(OncelogError):
    """The shard has no state machine that could answer now; `error_code` tells the client whether to wait or to look
    elsewhere.
    """

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(f"shard unavailable: {error_code.name}")
        self.error_code = error_code


async def _nothing_to_close(has_moved: bool) -> None:
    pass


Answer: TypeAlias = Any
"""A machine's reply. Its class follows from the event, so the caller writes down which one it is."""


class LoadedShard(NamedTuple):
    """A shard with the driver that runs its state machine. `close(has_moved)` stops its helpers, such as the marker
    client.
    """

    driver: Driver
    close: Callable[[bool], Coroutine[object, object, None]] = _nothing_to_close


class ShardTerm:
    """One shard (a partition of `__transaction_state` or `__consumer_offsets`) on this node under one coordinator
    epoch.

    It is loading, loaded or over.
    """

    def __init__(self, shard: int, coordinator_epoch: CoordinatorEpoch) -> None:
        self.shard = shard
        self.coordinator_epoch = coordinator_epoch
        self.loaded: LoadedShard | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_over = False
        self.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    @property
    def driver(self) -> Driver | None:
        return None if self.loaded is None else self.loaded.driver


TermT = TypeVar("TermT", bound=ShardTerm)


class ShardTerms(ABC, Generic[TermT]):
    """All shards of one kind that this node coordinates: partitions of `__transaction_state`, or of
    `__consumer_offsets`.

    Call `start` in a running loop. A subclass makes the machines.
    """

    def __init__(
        self, kind: int, node_id: int, metadata: MetadataFollower, settings: CoordinatorSettings
    ) -> None:
        self._kind: Final = kind
        self._node_id = node_id
        self._metadata = metadata
        self._settings = settings
        self._terms: dict[int, TermT] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._loads = asyncio.Semaphore(LOADS_MAX)
        self._is_running = False
        self.labels: Counter[str] = Counter()
        self.load_times = Histogram()
        """The seconds that each load of a shard took. `labels` counts the decisions of each kind, over all shards."""
        metadata.on_change(self._on_metadata)

    @abstractmethod
    def _new_term(self, shard: int, coordinator_epoch: CoordinatorEpoch) -> TermT: ...

    @abstractmethod
    def _new_loaded_shard(self, term: TermT) -> LoadedShard:
        """Return a fresh state machine with its journal and its driver (which feeds it events), not yet started."""

    def _report(self, term: TermT, state: str) -> None:
        """Publish in the live feed whether a shard is loading, loaded, lost or moved away."""

    @abstractmethod
    def _is_empty(self, driver: Driver) -> bool: ...

    def start(self) -> None:
        """Start to load the shards that the metadata assigns to this node; `wait_until_loaded` waits until they are
        loaded.
        """
        self._is_running = True
        self._reconcile(self._metadata.image)

    async def wait_until_loaded(self) -> None:
        """Return when every shard that is assigned now has been loaded. It waits without limit, so the caller sets
        one.
        """
        tasks = [term.task for term in self._terms.values() if term.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def stop(self) -> None:
        self._is_running = False
        for shard in tuple(self._terms):
            self._end(shard, has_moved=False)
        await asyncio.gather(*self._ending, return_exceptions=True)

    # ------------------------------------------------------------------------------------------------ calls

    def _term_for(self, name: str) -> TermT:
        number = self._shard_number(name)
        if number is None:
            raise ShardUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        term = self._terms.get(number)
        if term is None:
            raise ShardUnavailable(ErrorCode.NOT_COORDINATOR)
        return term

    @property
    def loading_count(self) -> int:
        """The number of shards assigned to this node that do not answer yet."""
        return sum(term.driver is None for term in self._terms.values())

    def _shard_number(self, name: str) -> int | None:
        """Return the number of the shard (the partition of the internal topic) that keeps this group or
        transactional.id.

        None: there are no shards yet.
        """
        count = self._metadata.image.shard_count(self._kind)
        return shard_of(self._hashed_name(name), count) if count else None

    def _hashed_name(self, name: str) -> str:
        return name

    def term_of(self, name: str) -> TermT | None:
        number = self._shard_number(name)
        return None if number is None else self._terms.get(number)

    def drivers(self) -> list[tuple[TermT, Driver]]:
        """Return every shard of this node that has any state, with the driver that runs its state machine.

        Raises ShardUnavailable while one is loading (docs/kafka-facts.md, 3).
        """
        found: list[tuple[TermT, Driver]] = []
        for term in self._terms.values():
            if term.driver is None:
                raise ShardUnavailable(term.unavailable)
            if not self._is_empty(term.driver):
                found.append((term, term.driver))
        return found

    def active(self) -> Iterator[tuple[TermT, Driver]]:
        """Yield every loaded shard with the driver that runs its state machine. The simulator reads them."""
        return ((term, term.driver) for term in self._terms.values() if term.driver is not None)

    # ------------------------------------------------------------------------------------------------ assignment

    def _on_metadata(self, old: MetadataImage, new: MetadataImage) -> None:
        if self._is_running and old.shards is not new.shards:
            self._reconcile(new)

    def _reconcile(self, image: MetadataImage) -> None:
        assigned = {
            shard.shard: CoordinatorEpoch(shard.coordinator_epoch)
            for (kind, _), shard in image.shards.items()
            if kind == self._kind and shard.coordinator == self._node_id
        }
        for number, term in tuple(self._terms.items()):
            if assigned.get(number) != term.coordinator_epoch:
                self._end(number, has_moved=number not in assigned)
        for number, coordinator_epoch in assigned.items():
            if number not in self._terms:
                term = self._new_term(number, coordinator_epoch)
                self._terms[number] = term
                self._report(term, "loading")
                self._load_soon(term)

    def _load_soon(self, term: TermT) -> None:
        term.task = asyncio.create_task(self._load(term), name=f"load shard {term.shard}")

    async def _load(self, term: TermT) -> None:
        # Loading only reads, so repeating it is safe; it goes on until it works or the shard is taken away.
        settings = self._settings
        backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        began = time.monotonic()
        while not term.is_over:
            image = self._metadata.image
            loaded = self._new_loaded_shard(term)
            try:
                async with self._loads:
                    await loaded.driver.start()
            except OncelogError as error:
                self._report(term, f"not loaded yet: {error}")
                _log.warning("%s is not loaded yet: %s", loaded.driver.name, error)
            except Exception:
                _log.exception("%s cannot be loaded; trying again", loaded.driver.name)
            else:
                if not term.is_over:
                    term.loaded = loaded
                    self.load_times.observe(time.monotonic() - began)
                    self._report(term, "loaded")
                    return
            await loaded.driver.stop()
            await loaded.close(False)
            await backoff.pause_or_news(self._metadata, image)

    def _count(self, label: str) -> None:
        self.labels[label] += 1

    def _on_failure(self, term: TermT, failure: AppendFailed) -> None:
        """Load the shard again after an append failed and its state machine was dropped.

        The driver that ran the machine calls this last.
        """
        loaded, term.loaded = term.loaded, None
        self._report(term, f"lost, an append failed: {failure}")
        if loaded is not None:
            self._own(loaded.close(False))
        if term.is_over or not self._is_running:
            return
        if failure.error_code is ErrorCode.NOT_COORDINATOR:
            # Someone newer may write here. If the metadata does not say so soon, this was a passing fault.
            term.unavailable = ErrorCode.NOT_COORDINATOR
        term.task = asyncio.create_task(
            self._load_after_pause(term), name=f"reload shard {term.shard}"
        )

    async def _load_after_pause(self, term: TermT) -> None:
        backoff = Backoff(self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms)
        await backoff.pause_or_news(self._metadata, self._metadata.image)
        term.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await self._load(term)

    def _end(self, shard: int, *, has_moved: bool) -> None:
        term = self._terms.pop(shard)
        term.is_over = True
        self._report(term, "moved away" if has_moved else "ended")
        loaded, term.loaded = term.loaded, None
        self._own(_finish(term.task, loaded, has_moved))

    def _own(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _finish(
    load: asyncio.Task[None] | None, loaded: LoadedShard | None, has_moved: bool
) -> None:
    if load is not None and not load.done():
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
    if loaded is not None:
        await loaded.driver.stop(ErrorCode.NOT_COORDINATOR)
        await loaded.close(has_moved)
