"""The limits on connections: how many one address may open, and how many may be open before their clients have logged
in.

A connection is unproven until its TLS handshake and its login are done. On a listener with neither it is proven at
once.
"""

from collections import Counter
from typing import Final

from oncelog_listener.security_settings import SecuritySettings

FULL: Final = "too many connections are open from this address"
UNPROVEN: Final = "too many connections have not logged in yet"


class Admission:
    def __init__(self, settings: SecuritySettings) -> None:
        self._settings = settings
        self._open: Counter[str] = Counter()
        self._unproven: Counter[str] = Counter()
        self.unproven_count = 0

    def refusal(self, host: str, address_max: int | None) -> str:
        """Return why one more connection from this address is refused; an empty text means that it is accepted."""
        settings = self._settings
        if address_max is not None and self._open[host] >= address_max:
            return FULL
        if (
            self.unproven_count >= settings.unauthenticated_max
            or self._unproven[host] >= settings.unauthenticated_per_address_max
        ):
            return UNPROVEN
        return ""

    def opened(self, host: str) -> "Admitted":
        self._open[host] += 1
        self._unproven[host] += 1
        self.unproven_count += 1
        return Admitted(self, host)

    def _proven(self, host: str) -> None:
        self.unproven_count -= 1
        _less(self._unproven, host)

    def _closed(self, host: str) -> None:
        _less(self._open, host)


class Admitted:
    """One accepted connection in the counts of `Admission`: it counts as open until closed, and as unproven until
    logged in."""

    __slots__ = ("_admission", "_host", "_is_open", "is_proven")

    def __init__(self, admission: Admission, host: str) -> None:
        self._admission = admission
        self._host = host
        self._is_open = True
        self.is_proven = False

    def proven(self) -> None:
        if not self.is_proven:
            self.is_proven = True
            self._admission._proven(self._host)

    def closed(self) -> None:
        if self._is_open:
            self._is_open = False
            self.proven()
            self._admission._closed(self._host)


def _less(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
