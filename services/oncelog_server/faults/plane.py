"""The faults that a test has begun in its `oncelog up` (`oncelog.faults`). Each has a number, by which it is ended."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

from oncelog.errors import OncelogError
from oncelog.rpc.sessions import PeerUnavailable
from oncelog_server.composition import EmbeddedLog
from oncelog_server.faults.full_disk import FullDisk
from oncelog_server.faults.held_requests import (
    EndTxnGates,
    Gate,
    HoldingGate,
    LosingGate,
    MarkerGates,
)
from oncelog_server.faults.moved_clock import MovedClock
from oncelog_server.faults.transactions import Transactions

_DEAD_COORDINATOR: Final = "the killed coordinator"
_FULL_DISK: Final = "the full disk"


class _Met(Protocol):
    """The part of a fault that requests or calls run into. `met` counts them, so a test can tell that its fault had an
    effect.
    """

    met: int


@dataclass(frozen=True, slots=True)
class _Fault:
    name: str
    """The fault and whom it affects, in words. Only of the moved clock there may be several at a time."""
    end: Callable[[], Awaitable[None]]
    stands: _Met | None = None
    """The object that counts the requests or calls that run into the fault; None: nothing can run into it."""
    must_be_met: bool = False
    """True if the fault has no effect until something meets it."""


class FaultPlane:
    """Begins and ends the faults of one log; a method that begins one returns its number. Every method raises
    OncelogError, one line with the way out.
    """

    def __init__(self, log: EmbeddedLog, clock: MovedClock) -> None:
        roles = log.roles
        self._clock = clock
        self._slot = roles.coordinator
        self._maintenance = roles.storage.maintenance
        self._transactions = Transactions(roles.coordinator)
        self._end_txns = EndTxnGates()
        self._markers = MarkerGates(roles.marker_directory, self._transactions)
        self._faults: dict[int, _Fault] = {}
        self._numbers = count(1)

    # ------------------------------------------------------------------------------------------------ beginning

    def hold_end_txn(self, transactional_id: str, seconds: float | None) -> int:
        return self._stop_requests(self._end_txns, "EndTxn", transactional_id, HoldingGate(seconds))

    def hold_markers(self, transactional_id: str, seconds: float | None) -> int:
        return self._stop_requests(
            self._markers, "the markers", transactional_id, HoldingGate(seconds)
        )

    def drop_markers(self, transactional_id: str, count: int) -> int:
        return self._stop_requests(
            self._markers, "the markers", transactional_id, LosingGate(count)
        )

    def _stop_requests(
        self, gates: EndTxnGates | MarkerGates, what: str, transactional_id: str, gate: Gate
    ) -> int:
        name = f"a fault of {what} of {transactional_id!r}"
        self._refuse_second(name)
        gates.add(transactional_id, gate)

        async def end() -> None:
            gates.remove(transactional_id)

        return self._begun(_Fault(name, end, gate, must_be_met=True))

    def disk_full(self) -> int:
        self._refuse_second(_FULL_DISK)
        disk = FullDisk()

        async def end() -> None:
            disk.free()

        return self._begun(_Fault(_FULL_DISK, end, disk, must_be_met=True))

    async def kill_coordinator(self) -> int:
        self._refuse_second(_DEAD_COORDINATOR)
        dead = _Dead()
        for stub in (self._slot.stub, self._slot.group_stub):
            stub.bind(dead)
        number = self._begun(_Fault(_DEAD_COORDINATOR, self._slot.restart, dead))
        await self._slot.stop()
        return number

    def move_clock(self, seconds: float) -> int:
        moved_ms = round(seconds * 1000)

        async def end() -> None:
            self._clock.ahead_ms -= moved_ms

        self._clock.ahead_ms += moved_ms
        self._transactions.fire_timers()
        self._maintenance.expire_producers()
        return self._begun(_Fault("the moved clock", end))

    def _refuse_second(self, name: str) -> None:
        if self._has(name):
            raise OncelogError(f"there is {name} already: release that first")

    def _has(self, name: str) -> bool:
        return any(fault.name == name for fault in self._faults.values())

    def _begun(self, fault: _Fault) -> int:
        number = next(self._numbers)
        self._faults[number] = fault
        return number

    # ------------------------------------------------------------------------------------------------ acting once

    async def expire_transaction(self, transactional_id: str) -> None:
        self._refuse_dead_coordinator()
        await self._transactions.expire(transactional_id)

    async def fence_producer(self, transactional_id: str) -> None:
        self._refuse_dead_coordinator()
        await self._transactions.fence(transactional_id)

    def _refuse_dead_coordinator(self) -> None:
        if self._has(_DEAD_COORDINATOR):
            raise OncelogError("the coordinator was killed: release that fault first")

    # ------------------------------------------------------------------------------------------------ ending

    def met(self, number: int) -> int:
        """Return how many requests or calls ran into this fault so far; 0 for an unknown number."""
        fault = self._faults.get(number)
        return 0 if fault is None or fault.stands is None else fault.stands.met

    async def release(self, number: int) -> None:
        """End a fault. If nothing ran into one that should have had an effect, it is ended all the same, and
        OncelogError is raised: the test would show nothing.
        """
        fault = self._faults.pop(number, None)
        if fault is None:
            return
        await fault.end()
        if fault.must_be_met and fault.stands is not None and not fault.stands.met:
            known = f"; {self._transactions.known()}" if fault.name.startswith("a fault") else ""
            raise OncelogError(f"nothing met {fault.name}, so the test shows nothing of it{known}")

    async def clear(self) -> None:
        """End every fault, the newest first. Raises OncelogError for those that nothing ran into."""
        unmet: list[str] = []
        for number in sorted(self._faults, reverse=True):
            try:
                await self.release(number)
            except OncelogError as error:
                unmet.append(str(error))
        if unmet:
            raise OncelogError("; ".join(unmet))


class _Dead:
    """Stands in for the coordinator after a fault has killed it: every call fails as to a process that is not there."""

    def __init__(self) -> None:
        self.met = 0

    def __getattr__(self, name: str) -> Callable[[object, object], Awaitable[None]]:
        async def refuse(_request: object, _context: object) -> None:
            self.met += 1
            raise PeerUnavailable("a fault of the test has killed the coordinator", was_sent=False)

        return refuse
