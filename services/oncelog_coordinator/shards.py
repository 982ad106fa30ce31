"""The shards this node coordinates: loaded when the metadata assigns them, dropped when it takes them away.

An assignment is a shard and a coordinator epoch; a greater epoch is a new reign even on the same node. Each reign has
its own journal, machine, driver and marker client. A machine that fails is dropped and replayed under the same reign;
one that was fenced is dropped and waits for the metadata to say who reigns now. A call finds its driver by
transactional.id and is told COORDINATOR_LOAD_IN_PROGRESS while the shard loads and NOT_COORDINATOR when it is not
ours (facts 8.1, 8.10).

An empty shard costs one fetch and two small objects: its task and its producer id come with its first record.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import (
    TRANSACTION_STATE_TOPIC,
    CoordinatorEpoch,
    Millis,
    Partition,
    shard_name_of,
    shard_of,
)
from oncelog.journal import AppendFailed
from oncelog.machine import Decision
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import TRANSACTION, MetadataFollower, MetadataImage
from oncelog.runtime import Clock, Driver, DriverStopped
from oncelog_coordinator.backoff import Backoff
from oncelog_coordinator.core.markers import MarkersDelivered
from oncelog_coordinator.core.shard_machine import ShardConfig, ShardEvent, ShardMachine
from oncelog_coordinator.core.sink_events import JoinAttempt
from oncelog_coordinator.core.txn import TxnConfig
from oncelog_coordinator.core.txn_events import ForceTerminate, InitProducerId, TxnTimedOut
from oncelog_coordinator.marker_client import MarkerClient
from oncelog_coordinator.producer_ids import ProducerIds
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.shard_log import ShardLog
from oncelog_coordinator.story import Story, StoryStep

_log = logging.getLogger(__name__)

_NEEDS_LEVEL: Final = (InitProducerId, TxnTimedOut, ForceTerminate)
"""Events by which the server itself may abort: how, the cluster's transaction.version decides (facts 2.1)."""

RECORD_BYTES_SHARE: Final = 0.9
"""Of max.message.bytes, what one transaction's record may take."""


class ShardUnavailable(OncelogError):
    """No machine can answer now; `error_code` tells the client whether to wait or to look elsewhere."""

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(f"shard unavailable: {error_code.name}")
        self.error_code = error_code


class Reign:
    """One shard under one coordinator epoch on this node."""

    def __init__(self, shard: int, coordinator_epoch: CoordinatorEpoch, steps_max: int) -> None:
        self.shard = shard
        self.coordinator_epoch = coordinator_epoch
        self.story = Story(steps_max)
        self.driver: Driver | None = None
        self.markers: MarkerClient | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_over = False
        self.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._completions: dict[str, asyncio.Future[None]] = {}

    def observe(self, event: Any, decision: Decision[Any], now: Millis) -> None:
        """The driver tells of each decision."""
        self.story.observe(event, decision, now)
        if self._completions and isinstance(event, MarkersDelivered) and decision.records:
            completion = self._completions.pop(event.decision_key.name, None)
            if completion is not None and not completion.done():
                completion.set_result(None)

    async def completion(self, transactional_id: str, deadline: float) -> None:
        """Returns when this prepared transaction is complete. Raises TimeoutError at `deadline` of the loop's clock."""
        completion = self._completions.get(transactional_id)
        if completion is None:
            completion = asyncio.get_running_loop().create_future()
            self._completions[transactional_id] = completion
        async with asyncio.timeout_at(deadline):
            await asyncio.shield(completion)


class Shards:
    """Call `start` in a running loop; `ask` is the way in."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataFollower,
        directory: Directory,
        producer_ids: ProducerIds,
        clock: Clock,
        settings: CoordinatorSettings,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._directory = directory
        self._producer_ids = producer_ids
        self._clock = clock
        self._settings = settings
        self._reigns: dict[int, Reign] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(settings.deliveries_max)
        self._is_running = False
        self.labels: Counter[str] = Counter()
        """How often each kind of decision was taken, over all shards."""
        metadata.on_change(self._on_metadata)

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
            self._end(shard, tell_marker_sender=False)
        await asyncio.gather(*self._ending, return_exceptions=True)

    # ------------------------------------------------------------------------------------------------ calls

    async def ask(self, transactional_id: str, event: Callable[[int], ShardEvent]) -> Any:
        """The answer to the event made for a request id, once committed. Raises ShardUnavailable or DriverStopped.

        A transaction is usually complete a moment after EndTxn was answered, and clients that are told
        CONCURRENT_TRANSACTIONS sleep for 20 to 100 ms. So that answer is held back for `concurrent_wait_ms`, and the
        event decided again when the transaction is complete.
        """
        reign = self._reign_for(transactional_id)
        driver = reign.driver
        if driver is None:
            raise ShardUnavailable(reign.unavailable)
        request_id = driver.request_id()
        answer = await driver.ask(event(request_id), request_id)
        if answer.error_code is ErrorCode.CONCURRENT_TRANSACTIONS:
            return await self._ask_until_complete(reign, driver, transactional_id, event, answer)
        return answer

    async def _ask_until_complete(
        self,
        reign: Reign,
        driver: Driver,
        transactional_id: str,
        event: Callable[[int], ShardEvent],
        answer: Any,
    ) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.concurrent_wait_ms / 1000
        while answer.error_code is ErrorCode.CONCURRENT_TRANSACTIONS and loop.time() < deadline:
            machine = driver.machine
            assert isinstance(machine, ShardMachine), machine
            txn = machine.txn.transaction(transactional_id)
            if txn is None:
                break
            if txn.state.is_prepared:
                try:
                    await reign.completion(transactional_id, deadline)
                except TimeoutError:
                    break
            request_id = driver.request_id()
            answer = await driver.ask(event(request_id), request_id)
        return answer

    def _reign_for(self, transactional_id: str) -> Reign:
        number = self._shard_number(transactional_id)
        if number is None:
            raise ShardUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        reign = self._reigns.get(number)
        if reign is None:
            raise ShardUnavailable(ErrorCode.NOT_COORDINATOR)
        return reign

    def _shard_number(self, transactional_id: str) -> int | None:
        """As `MetadataImage.shard_for` finds it. None: no shard exists yet."""
        count = self._metadata.image.shard_count(TRANSACTION)
        return shard_of(shard_name_of(transactional_id), count) if count else None

    def drivers(self) -> list[tuple[Reign, Driver]]:
        """Every shard of this node that holds something. Raises ShardUnavailable while one is loading (facts 3)."""
        loaded: list[tuple[Reign, Driver]] = []
        for reign in self._reigns.values():
            if reign.driver is None:
                raise ShardUnavailable(reign.unavailable)
            if not _is_empty(reign.driver):
                loaded.append((reign, reign.driver))
        return loaded

    def reign_of(self, transactional_id: str) -> Reign | None:
        number = self._shard_number(transactional_id)
        return None if number is None else self._reigns.get(number)

    def story(self, transactional_id: str) -> Iterator[StoryStep]:
        """The latest decisions about this id on this node, oldest first."""
        reign = self.reign_of(transactional_id)
        return iter(()) if reign is None else reign.story.steps(transactional_id)

    # ------------------------------------------------------------------------------------------------ assignment

    def _on_metadata(self, old: MetadataImage, new: MetadataImage) -> None:
        if self._is_running and old.shards is not new.shards:
            self._reconcile(new)

    def _reconcile(self, image: MetadataImage) -> None:
        assigned = {
            shard.shard: CoordinatorEpoch(shard.coordinator_epoch)
            for (kind, _), shard in image.shards.items()
            if kind == TRANSACTION and shard.coordinator == self._node_id
        }
        for number, reign in tuple(self._reigns.items()):
            if assigned.get(number) != reign.coordinator_epoch:
                self._end(number, tell_marker_sender=number not in assigned)
        for number, coordinator_epoch in assigned.items():
            if number not in self._reigns:
                reign = Reign(number, coordinator_epoch, self._settings.story_steps_max)
                self._reigns[number] = reign
                self._load_soon(reign)

    def _load_soon(self, reign: Reign) -> None:
        reign.task = asyncio.create_task(self._load(reign), name=f"load shard {reign.shard}")

    async def _load(self, reign: Reign) -> None:
        # Loading only reads, so repeating it is safe; it goes on until it works or the shard is taken away.
        settings = self._settings
        backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        while not reign.is_over:
            driver, markers = self._new_driver(reign)
            try:
                await driver.start()
            except OncelogError as error:
                _log.warning("shard %d is not loaded yet: %s", reign.shard, error)
            except Exception:
                _log.exception("shard %d cannot be loaded; trying again", reign.shard)
            else:
                if not reign.is_over:
                    reign.markers = markers
                    reign.driver = driver
                    return
            await driver.stop()
            await markers.stop()
            await backoff.pause()

    def _new_driver(self, reign: Reign) -> tuple[Driver, MarkerClient]:
        machine = ShardMachine(self._machine_config())
        driver: Driver

        def feed_back(event: MarkersDelivered) -> None:
            try:
                driver.submit(event)
            except DriverStopped:
                # The shard's next life sends these markers again.
                return

        def stamp(event: Any) -> Any:
            if isinstance(event, _NEEDS_LEVEL):
                level = self._metadata.image.transaction_version
                if event.cluster_transaction_version != level:
                    event = replace(event, cluster_transaction_version=level)
            if machine.wants_producer_id(event):
                claimed = self._producer_ids.claim()
                if isinstance(event, JoinAttempt):
                    return replace(event, producer_id=claimed)
                return replace(event, new_producer_id=claimed)
            return event

        markers = MarkerClient(
            reign.shard,
            reign.coordinator_epoch,
            self._directory,
            self._settings,
            self._slots,
            feed_back,
        )
        driver = Driver(
            f"shard {reign.shard}",
            machine,
            ShardLog(
                Partition(TRANSACTION_STATE_TOPIC, reign.shard),
                reign.coordinator_epoch,
                self._metadata,
                self._directory,
                self._producer_ids.claim_when_ready,
                self._clock,
                self._settings,
            ),
            self._clock,
            send=markers.send,
            on_failure=lambda failure: self._on_failure(reign, failure),
            on_label=self._count,
            stamp=stamp,
            observe=reign.observe,
        )
        return driver, markers

    def _machine_config(self) -> ShardConfig:
        settings = self._settings
        topic = self._metadata.image.topic_config(TRANSACTION_STATE_TOPIC)
        return ShardConfig(
            TxnConfig(
                transactional_id_expiration_ms=Millis(settings.transactional_id_expiration_ms),
                expire_interval_ms=Millis(settings.expire_ids_interval_ms),
                record_bytes_max=int(topic.max_message_bytes * RECORD_BYTES_SHARE),
            )
        )

    def _count(self, label: str) -> None:
        self.labels[label] += 1

    def _on_failure(self, reign: Reign, failure: AppendFailed) -> None:
        """Called by the driver in its last breath: its machine is lost."""
        markers, reign.driver, reign.markers = reign.markers, None, None
        if markers is not None:
            self._own(markers.stop())
        if reign.is_over or not self._is_running:
            return
        if failure.error_code is ErrorCode.NOT_COORDINATOR:
            # Someone newer may write here. If the metadata does not say so soon, this was a passing fault.
            reign.unavailable = ErrorCode.NOT_COORDINATOR
        reign.task = asyncio.create_task(
            self._load_after_pause(reign), name=f"reload shard {reign.shard}"
        )

    async def _load_after_pause(self, reign: Reign) -> None:
        await Backoff(self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms).pause()
        reign.unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await self._load(reign)

    def _end(self, shard: int, *, tell_marker_sender: bool) -> None:
        reign = self._reigns.pop(shard)
        reign.is_over = True
        driver, markers, reign.driver = reign.driver, reign.markers, None
        self._own(_finish(reign.task, driver, markers, tell_marker_sender))

    def _own(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _is_empty(driver: Driver) -> bool:
    assert isinstance(driver.machine, ShardMachine), driver.machine
    return driver.machine.is_empty


async def _finish(
    load: asyncio.Task[None] | None,
    driver: Driver | None,
    markers: MarkerClient | None,
    tell_marker_sender: bool,
) -> None:
    if load is not None and not load.done():
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
    if driver is not None:
        await driver.stop(ErrorCode.NOT_COORDINATOR)
    if markers is not None:
        await markers.stop()
        if tell_marker_sender:
            await markers.cancel_at_sender()
