"""Faults that hold, delay or lose requests: EndTxn in the listener, and markers on their way to a partition's leader.

A held request goes on when its gate opens, even if its caller has given up meanwhile. So does a request that a network
delays.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.protocol.versions import END_TXN
from oncelog.rpc.contract import GROUP_COORDINATOR, STORAGE
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.sessions import PeerUnavailable
from oncelog_listener.call import AnyCall
from oncelog_listener.routes import ROUTES
from oncelog_server.faults.transactions import Transactions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import DataclassInstance

    from oncelog.rpc.stubs import GroupCoordinatorStub, StorageStub

    _WritesMarkers = StorageStub | GroupCoordinatorStub


class Gate(Protocol):
    """A gate that requests must pass while a fault lasts: it holds them or loses them."""

    met: int
    """The number of requests that the gate has held or lost."""

    async def passed(self) -> None:
        """Wait until the request may go on. Raises PeerUnavailable if the fault loses the request."""

    def open(self) -> None:
        """End the fault: held requests go on, and later ones pass."""


class HoldingGate:
    """A gate that holds each request for `seconds`; None: until the gate is opened."""

    def __init__(self, seconds: float | None) -> None:
        self.met = 0
        self._seconds = seconds
        self._opened = asyncio.Event()

    async def passed(self) -> None:
        self.met += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await self._opened.wait()

    def open(self) -> None:
        self._opened.set()


class LosingGate:
    """A gate that loses the first `count` requests: each fails as when a connection breaks."""

    def __init__(self, count: int) -> None:
        self.met = 0
        self._left = count

    async def passed(self) -> None:
        if self._left:
            self._left -= 1
            self.met += 1
            raise PeerUnavailable("a fault of the test lost the request")

    def open(self) -> None:
        self._left = 0


class EndTxnGates:
    """The gates that EndTxn requests must pass in the listener, by transactional id. While there are any, they replace
    the listener's handler.
    """

    def __init__(self) -> None:
        self._real = ROUTES[END_TXN]
        self._gates: dict[str, Gate] = {}

    def add(self, transactional_id: str, gate: Gate) -> None:
        self._gates[transactional_id] = gate
        ROUTES[END_TXN] = self._real._replace(handle=self._handle, at_a_glance=None)

    def remove(self, transactional_id: str) -> None:
        self._gates.pop(transactional_id).open()
        if not self._gates:
            ROUTES[END_TXN] = self._real

    async def _handle(self, call: AnyCall) -> DataclassInstance | None:
        gate = self._gates.get(call.request.transactional_id)
        if gate is not None:
            await gate.passed()
        return await self._real.handle(call)


class MarkerGates:
    """The gates that markers must pass on the way from the marker sender to the roles that write them, by transactional
    id.
    """

    def __init__(self, directory: LocalDirectory, transactions: Transactions) -> None:
        self._directory = directory
        self._transactions = transactions
        self._real: Mapping[str, _WritesMarkers] = {
            STORAGE: directory.storage(0),
            GROUP_COORDINATOR: directory.group_coordinator(0),
        }
        self._gates: dict[str, Gate] = {}
        self._producer_ids: dict[str, set[int]] = {}
        self._late: set[asyncio.Task[pb.WriteTxnMarkersResponse]] = set()

    def add(self, transactional_id: str, gate: Gate) -> None:
        self._gates[transactional_id] = gate
        self._producer_ids[transactional_id] = set()
        for name, stub in self._real.items():
            self._directory.put(name, _GatedStub(stub, self))

    def remove(self, transactional_id: str) -> None:
        self._gates.pop(transactional_id).open()
        if not self._gates:
            for name, stub in self._real.items():
                self._directory.put(name, stub)

    async def pass_on(
        self, stub: _WritesMarkers, request: pb.WriteTxnMarkersRequest
    ) -> pb.WriteTxnMarkersResponse:
        gates = [gate for name, gate in self._gates.items() if self._is_about(request, name)]

        async def go() -> pb.WriteTxnMarkersResponse:
            for gate in gates:
                await gate.passed()
            return await stub.WriteTxnMarkers(request)

        if not gates:
            return await go()
        task = asyncio.create_task(go(), name="markers that a fault met")
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        return await asyncio.shield(task)

    def _is_about(self, request: pb.WriteTxnMarkersRequest, transactional_id: str) -> bool:
        # The producer id of a transaction may change, and nobody knows it while the coordinator is down.
        known = self._producer_ids[transactional_id]
        known |= self._transactions.producer_ids(transactional_id)
        return any(
            marker.transactional_id == transactional_id or marker.producer_id in known
            for marker in request.markers
        )


class _GatedStub:
    """Replaces a stub of a role that writes markers. WriteTxnMarkers must pass the gates (faults that hold or lose
    requests) first; all other calls go through.
    """

    def __init__(self, stub: _WritesMarkers, gates: MarkerGates) -> None:
        self._stub = stub
        self._gates = gates

    def __getattr__(self, name: str) -> object:
        return getattr(self._stub, name)

    async def WriteTxnMarkers(  # noqa: N802
        self, request: pb.WriteTxnMarkersRequest
    ) -> pb.WriteTxnMarkersResponse:
        return await self._gates.pass_on(self._stub, request)
