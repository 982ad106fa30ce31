"""The sessions of nodes: when each node's last heartbeat came, and whose session is over.

They are never journalled (ADR 0014).

A heartbeat, unary or on a stream, gives its node a whole session timeout from then on. When the last stream of a
process breaks, its session ends within the shorter grace time: a process that was killed does not come back within it,
one whose connection broke does. A controller that takes over knows nothing of streams, so every node gets a whole
session timeout to send a heartbeat.

Times are those of a clock that never jumps. While this process does not run it can receive no heartbeat: `stalled`
extends every session by that time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from oncelog.ids import Millis

NEVER_MS: Final = 2**63


@dataclass(slots=True)
class _Session:
    node_epoch: int
    expires_at_ms: int
    stream_count: int = 0
    has_heartbeat: bool = False
    broken: bool = False


class Sessions:
    """The sessions of all nodes, one for each node: that of its newest process, as far as this controller knows."""

    def __init__(self, session_timeout_ms: int, session_grace_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._grace_ms = session_grace_ms
        self._sessions: dict[int, _Session] = {}

    def expect(self, nodes: Iterable[tuple[int, int]], now: Millis) -> None:
        """Begin a session for each of these processes, given as (node id, node epoch).

        The journal knows them, but none has sent a heartbeat to this controller yet.
        """
        for node_id, node_epoch in nodes:
            self._sessions[node_id] = _Session(node_epoch, now + self._timeout_ms)

    def has(self, node_id: int, node_epoch: int) -> bool:
        session = self._sessions.get(node_id)
        return session is not None and session.node_epoch >= node_epoch

    def heartbeat_received(self, node_id: int, node_epoch: int, now: Millis) -> None:
        session = self._of(node_id, node_epoch, now)
        if session is not None:
            session.expires_at_ms = now + self._timeout_ms
            session.has_heartbeat = True
            session.broken = False

    def opened(self, node_id: int, node_epoch: int, now: Millis) -> None:
        self.heartbeat_received(node_id, node_epoch, now)
        session = self._of(node_id, node_epoch, now)
        if session is not None:
            session.stream_count += 1

    def closed(self, node_id: int, node_epoch: int, now: Millis, *, expected: bool) -> None:
        """Count one stream of a process less. After its last one, its session ends within the grace time.

        `expected`: the node is drained and stops, so its session ends at once.
        """
        session = self._sessions.get(node_id)
        if session is None or session.node_epoch != node_epoch:
            return
        session.stream_count = max(0, session.stream_count - 1)
        if session.stream_count == 0:
            self._break(session, now, 0 if expected else self._grace_ms)

    def is_missing(self, node_id: int, node_epoch: int) -> bool:
        """True if this process has no open stream: its last one broke, or no heartbeat of it ever came here."""
        session = self._sessions.get(node_id)
        if session is None or session.node_epoch != node_epoch:
            return False
        return session.broken or not session.has_heartbeat

    def gone(self, node_id: int, node_epoch: int, now: Millis) -> None:
        """End the session of a process at once, if it has no open stream: nothing listens at its address any more."""
        if self.is_missing(node_id, node_epoch):
            self._break(self._sessions[node_id], now, 0)

    def is_live(self, node_id: int, now: Millis) -> bool:
        """True if a heartbeat of the node came here, its streams are open, and its session is not over."""
        session = self._sessions.get(node_id)
        if session is None or session.broken or not session.has_heartbeat:
            return False
        return now < session.expires_at_ms

    @property
    def next_due(self) -> int:
        """The time in ms when the first session is over, unless a heartbeat comes; `NEVER_MS` without sessions."""
        return min((one.expires_at_ms for one in self._sessions.values()), default=NEVER_MS)

    def due(self, now: Millis) -> tuple[tuple[int, int], ...]:
        """Return (node id, node epoch) of every session that is over. The caller fences these nodes, then calls
        `forget`.
        """
        return tuple(
            (node_id, session.node_epoch)
            for node_id, session in sorted(self._sessions.items())
            if now >= session.expires_at_ms
        )

    def forget(self, node_id: int, node_epoch: int) -> None:
        session = self._sessions.get(node_id)
        if session is not None and session.node_epoch == node_epoch:
            del self._sessions[node_id]

    def stalled(self, lost_ms: int) -> None:
        """Extend every session by `lost_ms`: this process did not run for so long, and could receive no heartbeat."""
        for session in self._sessions.values():
            session.expires_at_ms += lost_ms

    def clear(self) -> None:
        self._sessions.clear()

    def _of(self, node_id: int, node_epoch: int, now: Millis) -> _Session | None:
        """Return the session of this process, created if it is new; None if a newer process of the node has replaced
        it.
        """
        session = self._sessions.get(node_id)
        if session is None or session.node_epoch < node_epoch:
            session = _Session(node_epoch, now + self._timeout_ms)
            self._sessions[node_id] = session
        return session if session.node_epoch == node_epoch else None

    def _break(self, session: _Session, now: Millis, grace_ms: int) -> None:
        session.broken = True
        session.expires_at_ms = min(session.expires_at_ms, now + grace_ms)
