"""Watches the sessions of nodes in real time: heartbeats extend them, and the end of one becomes an event of the
metadata machine.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable

from oncelog.ids import Millis
from oncelog_controller.core.events import SessionsEnded
from oncelog_controller.core.image import Node
from oncelog_controller.core.sessions import Sessions
from oncelog_controller.listening import refuses
from oncelog_controller.metadata_log import MetadataLog

LOOK_MS_MIN = 50
LOOK_MS_MAX = 1000
"""The longest pause between two looks at the sessions, in ms. A node that goes away ends it."""
LOOK_AGAIN_S = 0.1
STALL_MS = 1000
"""A look that is late by more than this, in ms, shows that this process did not run.

It could receive no heartbeat then.
"""


class SessionWatch:
    """Keeps the sessions of nodes while this controller is active, between `begin` and `end`.

    It is told of heartbeats and streams by `heartbeat_received`, `opened` and `closed`. When a session is over, the
    state machine gets `SessionsEnded`.
    """

    def __init__(
        self,
        sessions: Sessions,
        log: MetadataLog,
        on_end: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._sessions = sessions
        self._log = log
        self._on_end = on_end
        self._ticker: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._look_now = asyncio.Event()
        """Set when a session became shorter, so that the sessions are looked at now."""

    def begin(self) -> None:
        """Begin a session for every node that is live according to the journal, and check whether its address still
        answers.
        """
        self._sessions.clear()
        expected = [
            node
            for node in self._log.image.nodes.values()
            if node.keeps_session and not _has_ended(node)
        ]
        self._sessions.expect(((node.node_id, node.node_epoch) for node in expected), now_ms())
        self._ticker = asyncio.create_task(self._run(expected), name="node sessions")
        self._ticker.add_done_callback(self._on_end)

    async def end(self) -> None:
        ticker, self._ticker = self._ticker, None
        if ticker is not None:
            ticker.cancel()
            await asyncio.gather(ticker, return_exceptions=True)
        self._sessions.clear()

    def heartbeat_received(self, node_id: int, node_epoch: int) -> None:
        if self._keeps_session(node_id):
            self._sessions.heartbeat_received(node_id, node_epoch, now_ms())

    def opened(self, node_id: int, node_epoch: int) -> bool:
        """Note that a node has opened a heartbeat stream, which counts as a heartbeat.

        False: no session is kept for this node, now or at all; then `closed` must not be called.
        """
        if not self._keeps_session(node_id):
            return False
        self._sessions.opened(node_id, node_epoch, now_ms())
        return True

    def closed(self, node_id: int, node_epoch: int) -> None:
        node = self._log.image.nodes.get(node_id)
        expected = node is not None and node.draining
        self._sessions.closed(node_id, node_epoch, now_ms(), expected=expected)
        self._look_now.set()
        # At the end of a term the streams end too, while the group does: it takes no more tasks.
        if node is not None and self._group is not None and self._ticker is not None:
            self._group.create_task(self._look_for(node))

    def is_live(self, node_id: int) -> bool:
        return self._sessions.is_live(node_id, now_ms())

    def _keeps_session(self, node_id: int) -> bool:
        node = self._log.image.nodes.get(node_id)
        return node is not None and node.keeps_session and self._ticker is not None

    async def _run(self, expected: list[Node]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for node in expected:
                    group.create_task(self._look_for(node))
                group.create_task(self._look())
        finally:
            self._group = None

    async def _look_for(self, node: Node) -> None:
        """Try to connect to a node as long as it has no open stream.

        If the connection is refused, the process is gone, and its session ends at once.
        """
        while self._sessions.is_missing(node.node_id, node.node_epoch):
            if await refuses(node.rpc_address):
                self._sessions.gone(node.node_id, node.node_epoch, now_ms())
                self._look_now.set()
                return
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _look(self) -> None:
        now = now_ms()
        while True:
            pause_ms = min(max(self._sessions.next_due - now, LOOK_MS_MIN), LOOK_MS_MAX)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000):
                    await self._look_now.wait()
            self._look_now.clear()
            before, now = now, now_ms()
            late_ms = now - before - pause_ms
            if late_ms > STALL_MS:
                self._sessions.stalled(late_ms)
            self._expect_given(now)
            self._end_due(now)

    def _expect_given(self, now: Millis) -> None:
        """Begin a session for each process whose node id the controller gave.

        If it never sends a heartbeat, the session ends and the id is free again.
        """
        for node in self._log.image.nodes.values():
            if node.given and not self._sessions.has(node.node_id, node.node_epoch):
                self._sessions.expect([(node.node_id, node.node_epoch)], now)

    def _end_due(self, now: Millis) -> None:
        ended = []
        for node_id, node_epoch in self._sessions.due(now):
            node = self._log.image.nodes.get(node_id)
            if node is None or node.node_epoch != node_epoch or _has_ended(node):
                self._sessions.forget(node_id, node_epoch)
            else:
                # Named again with every look until it is committed: a failed append must not lose it.
                ended.append((node_id, node_epoch))
        if ended:
            self._log.submit(SessionsEnded(tuple(ended)))


def _has_ended(node: Node) -> bool:
    """True if the node is fenced, so that it has no session to end.

    A node whose id the controller gave is fenced until its first heartbeat, too, and still has a session: its end
    removes the node.
    """
    return node.fenced and not node.given


def now_ms() -> Millis:
    """Return the time in ms of a clock that never jumps."""
    return Millis(time.monotonic_ns() // 1_000_000)
