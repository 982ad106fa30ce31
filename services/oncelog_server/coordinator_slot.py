"""The place of the coordinator in one process. The coordinator may be built more than once: a fault ends it and
starts the next.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.rpc.direct import DirectStub

if TYPE_CHECKING:
    from oncelog_coordinator.wiring import CoordinatorRole


class CoordinatorSlot:
    """An `oncelog.rpc.role.Role`. Each start builds a coordinator, which replays its shards' logs, and binds the
    stubs to it.
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
