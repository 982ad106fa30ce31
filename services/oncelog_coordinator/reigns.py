"""Shards of one kind on this node: loaded when the metadata assigns them, dropped when it takes them away.

An assignment is a shard and a coordinator epoch; a greater epoch is a new reign even on the same node. Each reign has
its own journal, machine and driver. A machine that fails is dropped and replayed under the same reign; one that was
fenced is dropped and waits for the metadata to say who reigns now. A caller is told COORDINATOR_LOAD_IN_PROGRESS while
the shard loads and NOT_COORDINATOR when it is not ours (facts 8.1, 8.10).

An empty shard costs one fetch and two small objects: its task and its producer id come with its first record.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import CoordinatorEpoch, shard_of
from oncelog.journal import AppendFailed
from oncelog.process.figures import Histogram
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog.runtime import Driver
from oncelog_coordinator.backoff import Backoff
from oncelog_coordinator.settings import CoordinatorSettings

_log = logging.getLogger(__name__)

LOADS_MAX: Final = 8
"""Shards of one kind that load at once; a node that takes over a dead one's fifty must not fetch fifty logs at once."""


class ShardUnavailable(OncelogError):
    """No machine can answer now; `error_code` tells the client whether to wait or to look elsewhere."""

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(f"shard unavailable: {error_code.name}")
        self.error_code = error_code


async def _nothing_to_close(has_moved: bool) -> None:
    pass


class Life(NamedTuple):
    """One load of one shard. `close(has_moved)` ends what works for the driver, after it."""

    driver: Driver
    close: Callable[[bool], Awaitable[None]] = _nothing_to_close


class Reign:
    """One shard under one coordinator epoch on this node."""

    def __init__(self, shard: int, coordinator_epoch: CoordinatorEpoch) -> None:
        self.shard = shard
        self.coordinator_epoch = coordinator_epoch
        self.life: Life | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_over = False
        self.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    @property
    def driver(self) -> Driver | None:
        return None if self.life is None else self.life.driver


ReignT = TypeVar("ReignT", bound=Reign)


class Reigns(ABC, Generic[ReignT]):
    """Call `start` in a running loop. A kind of shard says what a life is made of."""

    def __init__(
        self, kind: int, node_id: int, metadata: MetadataFollower, settings: CoordinatorSettings
    ) -> None:
        self._kind: Final = kind
        self._node_id = node_id
        self._metadata = metadata
        self._settings = settings
        self._reigns: dict[int, ReignT] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._loads = asyncio.Semaphore(LOADS_MAX)
        self._is_running = False
        self.labels: Counter[str] = Counter()
        self.load_times = Histogram()
        """How often each kind of decision was taken, over all shards."""
        metadata.on_change(self._on_metadata)

    @abstractmethod
    def _new_reign(self, shard: int, coordinator_epoch: CoordinatorEpoch) -> ReignT: ...

    @abstractmethod
    def _new_life(self, reign: ReignT) -> Life:
        """A fresh machine with its journal and driver, not yet started."""

    def _tell(self, reign: ReignT, state: str) -> None:
        """The live feed hears what becomes of a shard."""

    @abstractmethod
    def _is_empty(self, driver: Driver) -> bool: ...

    def start(self) -> None:
        """Begin to load what the image assigns; `wait_until_loaded` tells when that is done."""
        self._is_running = True
        self._reconcile(self._metadata.image)

    async def wait_until_loaded(self) -> None:
        """Returns when every shard assigned at this moment has been loaded. The caller sets the limit."""
        tasks = [reign.task for reign in self._reigns.values() if reign.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def stop(self) -> None:
        self._is_running = False
        for shard in tuple(self._reigns):
            self._end(shard, has_moved=False)
        await asyncio.gather(*self._ending, return_exceptions=True)

    # ------------------------------------------------------------------------------------------------ calls

    def _reign_for(self, name: str) -> ReignT:
        number = self._shard_number(name)
        if number is None:
            raise ShardUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        reign = self._reigns.get(number)
        if reign is None:
            raise ShardUnavailable(ErrorCode.NOT_COORDINATOR)
        return reign

    @property
    def loading_count(self) -> int:
        """Shards assigned to this node that do not answer yet."""
        return sum(reign.driver is None for reign in self._reigns.values())

    def _shard_number(self, name: str) -> int | None:
        """As `MetadataImage.shard_for` finds it. None: no shard exists yet."""
        count = self._metadata.image.shard_count(self._kind)
        return shard_of(self._hashed_name(name), count) if count else None

    def _hashed_name(self, name: str) -> str:
        return name

    def reign_of(self, name: str) -> ReignT | None:
        number = self._shard_number(name)
        return None if number is None else self._reigns.get(number)

    def drivers(self) -> list[tuple[ReignT, Driver]]:
        """Every shard of this node that holds something. Raises ShardUnavailable while one is loading (facts 3)."""
        loaded: list[tuple[ReignT, Driver]] = []
        for reign in self._reigns.values():
            if reign.driver is None:
                raise ShardUnavailable(reign.unavailable)
            if not self._is_empty(reign.driver):
                loaded.append((reign, reign.driver))
        return loaded

    def active(self) -> Iterator[tuple[ReignT, Driver]]:
        """Every shard that is loaded and answers, for whoever looks inside."""
        return (
            (reign, reign.driver) for reign in self._reigns.values() if reign.driver is not None
        )

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
        for number, reign in tuple(self._reigns.items()):
            if assigned.get(number) != reign.coordinator_epoch:
                self._end(number, has_moved=number not in assigned)
        for number, coordinator_epoch in assigned.items():
            if number not in self._reigns:
                reign = self._new_reign(number, coordinator_epoch)
                self._reigns[number] = reign
                self._tell(reign, "loading")
                self._load_soon(reign)

    def _load_soon(self, reign: ReignT) -> None:
        reign.task = asyncio.create_task(self._load(reign), name=f"load shard {reign.shard}")

    async def _load(self, reign: ReignT) -> None:
        # Loading only reads, so repeating it is safe; it goes on until it works or the shard is taken away.
        settings = self._settings
        backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        began = time.monotonic()
        while not reign.is_over:
            image = self._metadata.image
            life = self._new_life(reign)
            try:
                async with self._loads:
                    await life.driver.start()
            except OncelogError as error:
                self._tell(reign, f"not loaded yet: {error}")
                _log.warning("%s is not loaded yet: %s", life.driver.name, error)
            except Exception:
                _log.exception("%s cannot be loaded; trying again", life.driver.name)
            else:
                if not reign.is_over:
                    reign.life = life
                    self.load_times.observe(time.monotonic() - began)
                    self._tell(reign, "loaded")
                    return
            await life.driver.stop()
            await life.close(False)
            await backoff.pause_or_news(self._metadata, image)

    def _count(self, label: str) -> None:
        self.labels[label] += 1

    def _on_failure(self, reign: ReignT, failure: AppendFailed) -> None:
        """Called by the driver in its last breath: its machine is lost."""
        life, reign.life = reign.life, None
        self._tell(reign, f"lost, an append failed: {failure}")
        if life is not None:
            self._own(life.close(False))
        if reign.is_over or not self._is_running:
            return
        if failure.error_code is ErrorCode.NOT_COORDINATOR:
            # Someone newer may write here. If the metadata does not say so soon, this was a passing fault.
            reign.unavailable = ErrorCode.NOT_COORDINATOR
        reign.task = asyncio.create_task(
            self._load_after_pause(reign), name=f"reload shard {reign.shard}"
        )

    async def _load_after_pause(self, reign: ReignT) -> None:
        backoff = Backoff(self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms)
        await backoff.pause_or_news(self._metadata, self._metadata.image)
        reign.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await self._load(reign)

    def _end(self, shard: int, *, has_moved: bool) -> None:
        reign = self._reigns.pop(shard)
        reign.is_over = True
        self._tell(reign, "moved away" if has_moved else "ended")
        life, reign.life = reign.life, None
        self._own(_finish(reign.task, life, has_moved))

    def _own(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _finish(load: asyncio.Task[None] | None, life: Life | None, has_moved: bool) -> None:
    if load is not None and not load.done():
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
    if life is not None:
        await life.driver.stop(ErrorCode.NOT_COORDINATOR)
        await life.close(has_moved)
