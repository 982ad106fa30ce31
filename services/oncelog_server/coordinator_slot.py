"""Holds the coordinator of an `oncelog up`, which may be replaced while the process runs: a fault of a test ends it and
starts the next one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.rpc.direct import DirectStub

if TYPE_CHECKING:
    from oncelog_coordinator.wiring import CoordinatorRole


class CoordinatorSlot:
    """The coordinator as a role that can be started again (`oncelog.rpc.role.Role`). Each restart builds a new
    coordinator, which replays its shards' logs, and connects the other roles to it.
    """

    def __init__(
        self, build: Callable[[], "CoordinatorRole"], stub: DirectStub, group_stub: DirectStub
    ) -> None:
        self._build = build
        self.stub = stub
        self.group_stub = group_stub
        self.role: CoordinatorRole
        """The coordinator that runs, or the last one that ran."""
        self._take()

    def _take(self) -> None:
        self.role = self._build()
        self.stub.bind(self.role.servicer)
        self.group_stub.bind(self.role.group_servicer)

    async def start(self) -> None:
        await self.role.start()

    async def stop(self) -> None:
        await self.role.stop()

    async def restart(self) -> None:
        """Build and start a new coordinator, after `stop`."""
        self._take()
        await self.role.start()
