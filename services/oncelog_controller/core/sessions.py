"""The sessions of nodes: the last heartbeat of each, and the sessions that are over.

They are never journalled (ADR 0014).

A heartbeat, unary or on a stream, gives its node a whole session timeout from then on. When the last stream of a
process breaks, what is left of its session shrinks to the grace: a process that was killed does not come back within
it, one whose connection broke does. A controller that takes over knows nothing of streams, so every node gets a whole
session to appear.

Times are those of a clock that never jumps. `stalled` gives back the time in which this process did not run and could
receive no heartbeat.
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
    """The sessions of nodes, one for each: that of its newest process, as far as this controller knows."""

    def __init__(self, session_timeout_ms: int, session_grace_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._grace_ms = session_grace_ms
        self._sessions: dict[int, _Session] = {}

    def expect(self, nodes: Iterable[tuple[int, int]], now: Millis) -> None:
        """Begin sessions of processes that the journal knows, as (node id, node epoch).

        None has sent a heartbeat to this one.
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
        """Note that a stream ended. `expected`: the node is drained and stops, so nobody waits for its return."""
        session = self._sessions.get(node_id)
        if session is None or session.node_epoch != node_epoch:
            return
        session.stream_count = max(0, session.stream_count - 1)
        if session.stream_count == 0:
            self._break(session, now, 0 if expected else self._grace_ms)

    def is_missing(self, node_id: int, node_epoch: int) -> bool:
        """True if no stream of this process is open: its last one broke, or this controller never had one."""
        session = self._sessions.get(node_id)
        if session is None or session.node_epoch != node_epoch:
            return False
        return session.broken or not session.has_heartbeat

    def gone(self, node_id: int, node_epoch: int, now: Millis) -> None:
        """Note that nothing listens at the node's address any more.

        If the process is missing, its session ends at once.
        """
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
        """Return (node id, node epoch) of every session that is over. A session counts until it is forgotten."""
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
        """Give back `lost_ms` to every session: this process did not run, and could receive no heartbeat."""
        for session in self._sessions.values():
            session.expires_at_ms += lost_ms

    def clear(self) -> None:
        self._sessions.clear()

    def _of(self, node_id: int, node_epoch: int, now: Millis) -> _Session | None:
        """Return the session of this process, begun if it is new; None if a newer process has replaced it."""
        session = self._sessions.get(node_id)
        if session is None or session.node_epoch < node_epoch:
            session = _Session(node_epoch, now + self._timeout_ms)
            self._sessions[node_id] = session
        return session if session.node_epoch == node_epoch else None

    def _break(self, session: _Session, now: Millis, grace_ms: int) -> None:
        session.broken = True
        session.expires_at_ms = min(session.expires_at_ms, now + grace_ms)
