"""The choice of the connection that a small HTTP server closes when it has too many: fair, and never one being served.

A connection *waits* while the next step is its client's: the rest of a request, the next request, reading an answer.
When `count_max` are open and one more comes, one is closed: of the address with the most connections, the one that has
waited longest. So 200 half-sent requests of one client cost that client its own connections. A request that arrives
whole is served before its connection is the oldest.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Connections(Generic[K]):
    """The open connections of a small server, by any key. `now` may come from any clock that does not go back."""

    def __init__(self, count_max: int) -> None:
        assert count_max > 0, count_max
        self._count_max = count_max
        self._addresses: dict[K, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting_since: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def opened(self, key: K, address: str, now: float) -> K | None:
        """Add a new connection. Return the one to close because there are too many, perhaps the new one itself; None:
        there is room."""
        self._addresses[key] = address
        self._counts[address] += 1
        self._waiting_since[key] = now
        if len(self._addresses) <= self._count_max:
            return None
        others = (one for one in self._waiting_since if one != key)
        return max(others, key=self._rank, default=key)

    def waits(self, key: K, now: float) -> None:
        """Record that a connection waits for its client from now on. One that waits already keeps its time."""
        if key in self._addresses:
            self._waiting_since.setdefault(key, now)

    def is_served(self, key: K) -> None:
        self._waiting_since.pop(key, None)

    def closed(self, key: K) -> None:
        """Remove a closed connection; a second call is harmless."""
        address = self._addresses.pop(key, None)
        if address is None:
            return
        self._waiting_since.pop(key, None)
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    def _rank(self, key: K) -> tuple[int, float]:
        return self._counts[self._addresses[key]], -self._waiting_since[key]
