"""The metadata log: the metadata machine with its journal, replayed again whenever an append fails, and its watchers.

It serves while this controller is active: from `begin`, with the controller epoch of the lease, to `end`, when the
lease is lost. Outside of that, and between a failed append and its replay, there is no machine. Nothing can be decided
then: requests are answered NOT_CONTROLLER or with the code of the failure, and clients retry both. Committed metadata
are still served after a failed append: the watchers' image stays, and a database that is away stops neither streams nor
heartbeats.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from oncelog.errors import ErrorCode, OncelogError
from oncelog.journal import AppendFailed
from oncelog.machine import Send
from oncelog.runtime import Clock, Driver, DriverStopped
from oncelog_controller.core.events import Committed, MetadataEvent
from oncelog_controller.core.history import not_in_this_journal
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.machine import MetadataMachine
from oncelog_controller.metadata_store import NO_BLOCK_YET, MetadataJournal, MetadataWentBack
from oncelog_controller.watchers import Watchers

_log = logging.getLogger(__name__)

REPLAY_BACKOFF_MIN_S = 0.05
REPLAY_BACKOFF_MAX_S = 1.0
"""The longest pause between two tries of a replay, in seconds.

It is short, because nothing is decided meanwhile, and a database that came back must be noticed.
"""


Answer: TypeAlias = Any
"""The machine's reply. Its class follows from the event, so the caller writes down which one it is."""


class MetadataLog:
    """Runs the metadata machine of an active controller.

    `begin` replays the journal. `ask` sends the machine an event, and returns its reply once that is durable. `end`
    refuses the events that wait.

    `machine` and `journal` make new ones for each replay, for a controller epoch (None: there is no lease). `on_end` is
    called with the task that replays after failures, when it ends.
    """

    def __init__(
        self,
        machine: Callable[[int | None], MetadataMachine],
        journal: Callable[[int | None], MetadataJournal],
        clock: Clock,
        watchers: Watchers,
        on_end: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._new_machine = machine
        self._new_journal = journal
        self._clock = clock
        self._watchers = watchers
        self._on_end = on_end
        self._journal: MetadataJournal | None = None
        self._controller_epoch: int | None = None
        self._driver: Driver | None = None
        self._failed = asyncio.Event()
        self._failure = ErrorCode.NOT_CONTROLLER
        self._replayer: asyncio.Task[None] | None = None
        self.labels: Counter[str] = Counter()
        """The number of decisions of each kind, for metrics."""
        self.on_lost_race: Callable[[], None] = lambda: None
        """The callback for an append that was refused because another controller writes."""

    @property
    def is_serving(self) -> bool:
        """True while this controller is active: committed metadata are served. Decisions may be impossible for the
        moment.
        """
        return self._replayer is not None

    @property
    def image(self) -> ClusterImage:
        """The committed metadata. The caller must not change it."""
        return self._watchers.image

    async def begin(self, controller_epoch: int | None = None) -> None:
        """Replay the journal, and serve under this controller epoch (None: there is no lease).

        Raises OncelogError when the journal cannot be read, or MetadataWentBack; then it does not serve.
        """
        assert self._replayer is None, "a term begins after the last one's end"
        self._controller_epoch = controller_epoch
        self._failed.clear()
        await self._replay()
        self._replayer = asyncio.create_task(self._replay_after_failures(), name="metadata replay")
        self._replayer.add_done_callback(self._on_end)

    async def end(self) -> None:
        """Stop serving, because the lease was lost or the process ends. It does nothing if `begin` was not called."""
        replayer, self._replayer = self._replayer, None
        self._failure = ErrorCode.NOT_CONTROLLER
        self._watchers.close()
        if replayer is not None:
            replayer.cancel()
            await asyncio.gather(replayer, return_exceptions=True)
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.stop(ErrorCode.NOT_CONTROLLER)

    async def ask(self, event: Callable[[int], MetadataEvent]) -> Answer:
        """Send the state machine the event that `event(request id)` makes; return its answer once its records are
        durable.

        Raises DriverStopped when the outcome is unknown, MetadataUnavailable when nothing was decided.
        """
        driver = self._driver
        if driver is None:
            raise MetadataUnavailable(self._failure)
        request_id = driver.request_id()
        return await driver.ask(event(request_id), request_id)

    async def may_write(self) -> bool:
        """True if the database says that no other controller has taken the lease from this one."""
        return self._journal is not None and await self._journal.may_append()

    def submit(self, event: MetadataEvent) -> bool:
        """Send the state machine an event that needs no answer. False if that is impossible now."""
        if self._driver is None:
            return False
        try:
            self._driver.submit(event)
        except DriverStopped:
            return False
        return True

    async def _replay(self) -> None:
        machine = self._new_machine(self._controller_epoch)
        journal = self._new_journal(self._controller_epoch)
        driver = Driver(
            "metadata",
            machine,
            journal,
            self._clock,
            send=self._publish,
            on_failure=self._on_failure,
            on_label=self._count,
        )
        try:
            await driver.start()
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            raise OncelogError(
                f"the metadata journal does not fit together ({error!r}); restore it from a backup"
            ) from error
        try:
            _check_producer_ids(machine.image, journal.kept_producer_id)
            _check_history(machine.image, self._watchers.image)
        except (OncelogError, MetadataWentBack):
            await driver.stop(ErrorCode.UNKNOWN_SERVER_ERROR)
            raise
        self._watchers.reset(machine.image)
        self._driver = driver
        self._journal = journal

    def _publish(self, send: Send) -> None:
        assert isinstance(send.message, Committed), send
        self._watchers.add_committed(send.message)

    def _count(self, label: str) -> None:
        self.labels[label] += 1

    def _on_failure(self, failure: AppendFailed) -> None:
        self._driver = None
        self._failure = failure.error_code
        self._failed.set()
        if failure.error_code is ErrorCode.NOT_CONTROLLER:
            self.on_lost_race()

    async def _replay_after_failures(self) -> None:
        # Replaying is safe to repeat: it only reads. Without it nothing could be decided, so it goes on until it works.
        while True:
            await self._failed.wait()
            self._failed.clear()
            backoff_s = REPLAY_BACKOFF_MIN_S
            last_logged = ""
            while self._driver is None:
                try:
                    await self._replay()
                except OncelogError as error:
                    if str(error) != last_logged:
                        last_logged = str(error)
                        _log.warning("metadata cannot be replayed yet: %s", last_logged)
                    await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))
                    backoff_s = min(REPLAY_BACKOFF_MAX_S, backoff_s * 2)


class MetadataUnavailable(OncelogError):
    """There is no metadata machine now, because the journal is being replayed or this controller is not active.

    Nothing was decided.
    """

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(f"metadata is being replayed: {error_code.name}")
        self.error_code = error_code


def _check_producer_ids(image: ClusterImage, kept: int) -> None:
    if kept not in (NO_BLOCK_YET, image.next_producer_id):
        raise OncelogError(
            f"the next producer id is {image.next_producer_id} by metadata_journal and {kept} by controller_state: "
            "one of these tables was restored without the other. Restore both from one backup; "
            "ids given away twice would let one producer's records pass for another's"
        )


def _check_history(image: ClusterImage, told: ClusterImage) -> None:
    """Check that the journal has all metadata that this process has published before (`told`).

    Raises MetadataWentBack if not; OncelogError for an empty journal, which may be filled just now.
    """
    if image.has(told.position):
        return
    reason = not_in_this_journal("this controller", told.position)
    if image.metadata_offset < 0:
        # Perhaps it is being filled just now.
        raise OncelogError(f"the metadata journal is empty: {reason}")
    raise MetadataWentBack(reason)
