"""One machine on one journal, replayed again whenever an append fails, with its watchers.

While there is no replayed machine (at start, and between a failed append and its replay) every request is answered
NOT_CONTROLLER or with the code of the failure, both of which clients retry.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

from oncelog.errors import ErrorCode, OncelogError
from oncelog.journal import AppendFailed, Journal
from oncelog.machine import Send
from oncelog.runtime import Clock, Driver
from oncelog_controller.core.events import MetadataEvent
from oncelog_controller.core.machine import MetadataMachine
from oncelog_controller.core.records import MetadataRecord
from oncelog_controller.watchers import Watchers

_log = logging.getLogger(__name__)

REPLAY_BACKOFF_MIN_S = 0.05
REPLAY_BACKOFF_MAX_S = 5.0


class MetadataLog:
    """`start` replays; `ask` decides an event and answers once it is durable; `stop` refuses what is left."""

    def __init__(
        self,
        machine: Callable[[], MetadataMachine],
        journal: Journal[MetadataRecord],
        clock: Clock,
        watchers: Watchers,
    ) -> None:
        self._new_machine = machine
        self._journal = journal
        self._clock = clock
        self._watchers = watchers
        self._driver: Driver | None = None
        self._failed = asyncio.Event()
        self._failure = ErrorCode.NOT_CONTROLLER
        self._replayer: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises OncelogError when the journal cannot be read."""
        await self._replay()
        self._replayer = asyncio.create_task(self._replay_after_failures(), name="metadata replay")

    async def stop(self) -> None:
        if self._replayer is not None:
            self._replayer.cancel()
            await asyncio.gather(self._replayer, return_exceptions=True)
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.stop(ErrorCode.NOT_CONTROLLER)

    async def ask(self, event: Callable[[int], MetadataEvent]) -> Any:
        """The answer to the event made for a request id. Raises DriverStopped when the outcome is unknown."""
        driver = self._driver
        if driver is None:
            raise MetadataUnavailable(self._failure)
        request_id = driver.request_id()
        return await driver.ask(event(request_id), request_id)

    async def _replay(self) -> None:
        machine = self._new_machine()
        driver = Driver(
            "metadata",
            machine,
            self._journal,
            self._clock,
            send=self._publish,
            on_failure=self._on_failure,
        )
        try:
            await driver.start()
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            raise OncelogError(
                f"the metadata journal does not fit together ({error!r}); restore it from a backup"
            ) from error
        self._watchers.reset(machine.image)
        self._driver = driver

    def _publish(self, send: Send) -> None:
        self._watchers.take(send.message)

    def _on_failure(self, failure: AppendFailed) -> None:
        self._driver = None
        self._failure = failure.error_code
        self._failed.set()

    async def _replay_after_failures(self) -> None:
        # Replaying is safe to repeat: it only reads. Without it nothing could be decided, so it goes on until it works.
        backoff_s = REPLAY_BACKOFF_MIN_S
        while True:
            await self._failed.wait()
            self._failed.clear()
            while self._driver is None:
                try:
                    await self._replay()
                    backoff_s = REPLAY_BACKOFF_MIN_S
                except OncelogError as error:
                    _log.warning("metadata cannot be replayed yet: %s", error)
                    await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))
                    backoff_s = min(REPLAY_BACKOFF_MAX_S, backoff_s * 2)


class MetadataUnavailable(OncelogError):
    """There is no replayed machine at the moment; nothing was decided."""

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(f"metadata is being replayed: {error_code.name}")
        self.error_code = error_code
