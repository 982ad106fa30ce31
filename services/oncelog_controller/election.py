"""The election of the active controller. One controller holds the lease and renews it; the others stand by for it.

A standby takes the lease when it was released, when its holder's port refuses connections, or when it has expired. It
leaves another's expired lease to its holder for one more whole lease, from when the standby last came back to the
database. After an outage of the database every lease has expired, but the holder is as well as before. The holder
renews an expired lease as long as no other took it, so an outage makes no failover.

The lease only says when another controller may start. A deposed holder can write nothing, because every append has the
controller epoch.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from oncelog.errors import OncelogError
from oncelog_controller.listening import refuses, until_gone
from oncelog_controller.metadata_store import (
    NOBODY,
    ControllerLease,
    LeaseView,
    MetadataWentBack,
)

_log = logging.getLogger(__name__)

STANDBY_POLL_S = 0.3
STANDBY_POLL_S_MAX = 2.0
"""The longest pause, in seconds, between two looks of a standby at the lease.

A long lease is looked at this seldom if the holder's port is watched, for the port tells the holder's end.
"""
RENEWALS_A_LEASE = 4
RELEASE_TIMEOUT_S = 2.0
STALL_S = 0.5
"""A standby that wakes up later than planned by more than this, in seconds, lets the holder renew first."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One controller's view of the lease: the active controller, and whether it is this one."""

    is_active: bool
    holder: int  # NOBODY: unknown
    rpc_address: str
    controller_epoch: int
    remaining_ms: int
    has_lease: bool = True

    @property
    def is_over(self) -> bool:
        """True if this controller's lease has expired by its own clock, before the database has said so."""
        return self.has_lease and not self.remaining_ms


class Election:
    """One controller's part in the election of the active one: it renews its lease, or waits for another's.

    `start` returns once this controller is active or knows that another is. The election continues until `stop`.
    `begin_term(controller_epoch)` makes this controller active. It returns the controller epoch of the last term in the
    journal, or raises OncelogError. `end_term` is called when the lease is lost. `on_end` is called with the task of
    the election, when it ends.
    """

    def __init__(
        self,
        lease: ControllerLease,
        controller_id: int,
        rpc_address: str,
        lease_ms: int,
        silence_ms: int,
        begin_term: Callable[[int], Awaitable[int]],
        end_term: Callable[[], Awaitable[None]],
        on_end: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._lease = lease
        self._own = (controller_id, rpc_address)
        self._lease_s = lease_ms / 1000
        self._silence_s = silence_ms / 1000
        self._begin_term = begin_term
        self._end_term = end_term
        self._on_end = on_end
        self._controller_epoch: int | None = None  # of the lease we hold
        self._is_active = False
        self._term: asyncio.Task[None] | None = None
        self._view: LeaseView | None = None
        self._viewed_at = 0.0
        self._patient_since = 0.0
        self._newest_epoch = -1
        self._reachable = True
        self._loop: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._holder_gone = False
        self._wake = asyncio.Event()

    @property
    def standing(self) -> Standing:
        view = self._view
        if view is None:
            return Standing(self._is_active, NOBODY, "", -1, 0)
        elapsed_ms = int((time.monotonic() - self._viewed_at) * 1000)
        remaining_ms = max(0, view.remaining_ms - elapsed_ms)
        return Standing(
            self._is_active, view.holder, view.rpc_address, view.controller_epoch, remaining_ms
        )

    async def start(self) -> None:
        """Look at the lease, become active if it is free, and keep watching it from then on.

        Raises OncelogError when the database or, for the active one, its journal cannot be read.
        """
        await self._step()
        if self._term is not None:
            await self._term
        self._loop = asyncio.create_task(self._run(), name="controller election")
        self._loop.add_done_callback(self._on_end)

    async def stop(self) -> None:
        """End the election, and release the lease if this controller holds it, so that a standby takes over at once."""
        for task in (self._loop, self._watch, self._term):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._loop = self._watch = self._term = None
        controller_epoch, self._controller_epoch = self._controller_epoch, None
        if controller_epoch is None:
            return
        self._is_active = False
        await self._end_term()
        with contextlib.suppress(OncelogError, TimeoutError):
            # Without the release, the lease expires by itself.
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._lease.release(controller_epoch)

    def suspect(self) -> None:
        """Look at the lease at once: an append was refused, so another controller may have taken it."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            pause_s = self._lease_s / RENEWALS_A_LEASE
            if self._controller_epoch is None:
                pause_s = min(pause_s, STANDBY_POLL_S)
                if self._watch is not None:
                    left_s = self.standing.remaining_ms / 1000
                    pause_s = max(pause_s, min(left_s, STANDBY_POLL_S_MAX))
            paused_at = time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            self._wake.clear()
            if time.monotonic() - paused_at > pause_s + STALL_S:
                # This machine stood still, and its neighbours may have too: they get their chance to renew first.
                self._patient_since = time.monotonic()
            try:
                await self._step()
            except OncelogError as error:
                if self._reachable:
                    _log.warning("%s; it is tried again", error)
                self._reachable = False
                self._patient_since = time.monotonic()
                await self._step_down_if_blind()

    async def _step_down_if_blind(self) -> None:
        """Give up being active if the database did not answer for too long.

        Perhaps only this controller cannot reach it, and another one is active by now.
        """
        holds = self._controller_epoch is not None
        if holds and time.monotonic() - self._viewed_at > self._silence_s:
            _log.warning(
                "no database for too long: another controller may be active, this one stands by"
            )
            await self._step_down()

    async def _step(self) -> None:
        """Renew the lease, or try to take it. Raises OncelogError when the database does not answer."""
        if self._controller_epoch is not None:
            await self._hold(self._controller_epoch)
        else:
            await self._stand_by()
        if not self._reachable:
            _log.info("the controller's lease is within reach again")
        self._reachable = True

    async def _hold(self, controller_epoch: int) -> None:
        if await self._lease.renew(controller_epoch):
            if self._view is not None and self._controller_epoch == controller_epoch:
                view = replace(self._view, remaining_ms=int(self._lease_s * 1000))
                self._see(view)
                self._begin_again(view)
            return
        if self._controller_epoch != controller_epoch:
            return  # raised by the term that is beginning, meanwhile
        _log.warning(
            "controller epoch %d is over: another controller took the lease", controller_epoch
        )
        await self._step_down()

    async def _step_down(self) -> None:
        self._controller_epoch = None
        self._is_active = False
        self._view = None
        if self._term is not None:
            self._term.cancel()
            await asyncio.gather(self._term, return_exceptions=True)
            self._term = None
        await self._end_term()

    async def _stand_by(self) -> None:
        view = await self._lease.read()
        if view.controller_epoch < self._newest_epoch:
            raise MetadataWentBack(
                f"the lease in the database is of controller epoch {view.controller_epoch}, and was of"
                f" {self._newest_epoch}: the database was put back from an older copy. Stop everything and restore"
                " metadata and folders of all storage nodes from one backup, or bring the newer metadata back"
                " (docs/backup.md)"
            )
        now = time.monotonic()
        if self._view is None or view.controller_epoch != self._view.controller_epoch:
            self._patient_since = now
            self._watch_holder(view)
        self._see(view)
        if not await self._may_take(view, now):
            return
        taken = await self._lease.take_over(view)
        if taken is None:
            return
        _log.info("controller epoch %d begins", taken.controller_epoch)
        self._watch_holder(None)
        self._see(taken)
        self._controller_epoch = taken.controller_epoch
        self._term = asyncio.create_task(self._begin(taken), name="controller term")

    async def _may_take(self, view: LeaseView, now: float) -> bool:
        # A lease under our own id and address is that of an earlier process of ours. So is an expired one under the id
        # alone: a pod that is started again has another address.
        own_id, own_address = self._own
        is_expired = view.remaining_ms <= 0
        is_own = view.holder == own_id and (view.rpc_address == own_address or is_expired)
        if view.is_free or is_own or self._holder_gone:
            return True
        if not is_expired:
            return False
        return now - self._patient_since >= self._lease_s or await refuses(view.rpc_address)

    async def _begin(self, taken: LeaseView) -> None:
        controller_epoch = taken.controller_epoch
        last_epoch = await self._begin_term(controller_epoch)
        if last_epoch >= controller_epoch:
            # The journal is older than the lease's row: epochs go on from where the journal had them.
            raised = last_epoch + 1
            await self._end_term()
            if not await self._lease.renew(controller_epoch, raise_to=raised):
                return  # the loop finds out in a moment
            self._controller_epoch = raised
            self._see(replace(taken, controller_epoch=raised))
            await self._begin_term(raised)
        self._is_active = True

    def _begin_again(self, view: LeaseView) -> None:
        """Try again to make this controller active, if its journal could not be read at the first try.

        It may be readable by now, and the lease is still held.
        """
        term = self._term
        if self._is_active or term is None or not term.done():
            return
        failure = term.exception()
        if failure is not None and not isinstance(failure, OncelogError):
            raise failure
        _log.warning("controller epoch %d cannot begin yet: %s", view.controller_epoch, failure)
        self._term = asyncio.create_task(self._begin(view), name="controller term")

    def _watch_holder(self, view: LeaseView | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._holder_gone = False
        self._watch = None
        if view is not None and view.rpc_address and not view.is_free:
            self._watch = asyncio.create_task(
                self._await_end(view.rpc_address), name="controller holder watch"
            )

    async def _await_end(self, address: str) -> None:
        await until_gone(address)
        self._holder_gone = True
        self._wake.set()

    def _see(self, view: LeaseView) -> None:
        self._view, self._viewed_at = view, time.monotonic()
        self._newest_epoch = max(self._newest_epoch, view.controller_epoch)
