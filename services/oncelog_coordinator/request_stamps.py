"""Reads the stamps of TV1 requests, and remembers which connections were told to come again (ADR 0018).

What is remembered is only a courtesy to a client that goes on using an older connection: lost with the process, such a
client is asked to repeat once more.
"""

from typing import Any, Final

from oncelog_coordinator.core.stamp import Stamp

REFUSED_MAX: Final = 1_000
"""Remembered refusals; each is a fault of a network, so there are few."""


class RequestStamps:
    def __init__(self, is_enabled: bool) -> None:
        self._is_enabled = is_enabled
        self._refused: dict[str, tuple[Stamp, int]] = {}

    def of(self, transactional_id: str, request: Any) -> "StampedRequest":
        if not self._is_enabled or not request.HasField("stamp") or not request.stamp.listener:
            return StampedRequest(self._refused, transactional_id, None, 0)
        stamp = Stamp(request.stamp.listener, request.stamp.connection)
        return StampedRequest(self._refused, transactional_id, stamp, request.stamp.request)


class StampedRequest:
    __slots__ = ("_name", "_refused", "_request", "marks")

    def __init__(
        self,
        refused: dict[str, tuple[Stamp, int]],
        transactional_id: str,
        stamp: Stamp | None,
        request: int,
    ) -> None:
        self._refused = refused
        self._name = transactional_id
        self._request = request
        before = refused.get(transactional_id) if stamp is not None else None
        # A later request of the same connection: its client has read the refusal.
        insists = before is not None and before[0] == stamp and before[1] < request
        self.marks: tuple[Stamp | None, bool] = (stamp, insists)
        """For the event: the stamp, and whether this connection was refused before."""

    def answered(self, is_delayed: bool) -> None:
        stamp = self.marks[0]
        if not is_delayed or stamp is None:
            return
        self._refused.pop(self._name, None)
        if len(self._refused) >= REFUSED_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[self._name] = (stamp, self._request)
