"""Sessions of the console that were logged out: every gateway refuses them until they would have ended (ADR 0030).

Their number is bounded. When there are too many, the one that would end first is dropped. From then on every session
that would end no later counts as logged out. So too many logouts end other sessions, but never open one again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from oncelog.errors import ErrorCode
from oncelog_controller.core.events import EndConsoleSession, SecurityResult
from oncelog_controller.core.records import ConsoleSessionsEnded, Stored

SESSIONS_MAX: Final = 10_000
FORGOTTEN_AFTER_MS: Final = 3_600_000
"""A logged-out session is forgotten this long after the time when it would have ended, in ms.

Until then a gateway whose clock is late could take it for live.
"""

_SESSION_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(slots=True)
class EndedSessions:
    """The console sessions that were logged out, as the metadata records so far say."""

    ended: dict[str, int] = field(default_factory=dict)
    """The time in ms at which each session would have ended, by session id."""
    void_until_ms: int = 0

    def apply(self, record: ConsoleSessionsEnded) -> tuple[str, ...]:
        """Apply a committed record: add the sessions that it ends, and drop those that it forgets.

        Returns the ids of all these sessions.
        """
        self.ended.update(record.ended)
        for session_id in record.forgotten:
            del self.ended[session_id]
        self.void_until_ms = max(self.void_until_ms, record.void_until_ms)
        return (*(session_id for session_id, _ in record.ended), *record.forgotten)

    def to_state(self) -> dict[str, object]:
        parts = {
            "ended_sessions": tuple(self.ended.items()),
            "sessions_void_until_ms": self.void_until_ms,
        }
        return {name: part for name, part in parts.items() if part}

    @staticmethod
    def restored(state: Mapping[str, Stored]) -> "EndedSessions":
        return EndedSessions(
            dict(state.get("ended_sessions", ())), state.get("sessions_void_until_ms", 0)
        )

    def copy(self) -> "EndedSessions":
        return EndedSessions(dict(self.ended), self.void_until_ms)


def ended_session(
    known: EndedSessions, event: EndConsoleSession
) -> tuple[SecurityResult, tuple[ConsoleSessionsEnded, ...]]:
    """Return the answer to a logout, and the record that ends the session; no record if it is known as ended."""
    if not _SESSION_ID.fullmatch(event.session_id) or event.expires_ms <= 0:
        message = f"{event.session_id[:100]!r} with the end {event.expires_ms} is no session"
        return SecurityResult(ErrorCode.INVALID_REQUEST, message), ()
    if event.session_id in known.ended or event.expires_ms <= known.void_until_ms:
        return SecurityResult(), ()
    forgotten = [
        session_id
        for session_id, expires_ms in known.ended.items()
        if expires_ms + FORGOTTEN_AFTER_MS <= event.time_ms
    ]
    void_until_ms = 0
    if len(known.ended) - len(forgotten) >= SESSIONS_MAX:
        first = min(known.ended, key=lambda session_id: known.ended[session_id])
        forgotten, void_until_ms = [first], known.ended[first]
    record = ConsoleSessionsEnded(
        ((event.session_id, event.expires_ms),), tuple(forgotten), void_until_ms
    )
    return SecurityResult(), (record,)
