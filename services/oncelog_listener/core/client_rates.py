"""The quotas of clients: which quota holds for a client, what it has used, and how long its connection is not read
(KIP-13, KIP-124, KIP-599, KIP-612)."""

from typing import Final

from oncelog.ids import Millis
from oncelog.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    REQUEST_PERCENTAGE,
    Entity,
    QuotaKey,
    Quotas,
    ip_quota,
    quota_of,
)
from oncelog_listener.core.quota_rates import FULL_WINDOWS, WINDOW_MS, Rate, TokenBucket

RATES_MAX: Final = 10_000
"""The most rates that are kept, because clients choose their ids. Above it, silent ones are forgotten, then the
oldest."""
FOUND_MAX: Final = 10_000
_BOUNDED: Final = frozenset({REQUEST_PERCENTAGE, CONNECTION_CREATION_RATE})
"""The quotas for which Kafka holds a client at most one window."""


class ClientRates:
    """The bytes, time, connections and topic changes that clients have used in the last seconds. A client is (user,
    client id). They are counted by the user, client id or address that shares a quota. A changed quota holds at once:
    what was counted before still counts."""

    def __init__(self) -> None:
        self._rates: dict[tuple[Entity, QuotaKey], Rate] = {}
        self._buckets: dict[Entity, TokenBucket] = {}
        self._quotas: Quotas = {}
        self._found: dict[tuple[str, str, QuotaKey], tuple[Entity, float] | None] = {}

    def wait_ms(
        self, quotas: Quotas, client: tuple[str, str], key: QuotaKey, value: float, now: Millis
    ) -> int:
        """Add the value (bytes, or percent of time) to the rate of this client, a (user, client id). Return for how
        many milliseconds its connection must not be read.

        0: no quota holds, or it is not exceeded.
        """
        found = self._quota(quotas, client, key)
        if found is None:
            return 0
        entity, quota = found
        rate = self._rate(entity, key, now)
        rate.record(value, now)
        return _bounded(key, rate.wait_ms(quota, now))

    def connection_wait_ms(self, quotas: Quotas, address: str, now: Millis) -> int:
        """Count a new connection of this address, and return for how many milliseconds it must wait; 0: it is within
        the quota. A connection above the quota is not counted."""
        quota = ip_quota(quotas, address)
        if quota is None:
            return 0
        rate = self._rate(((IP, address),), CONNECTION_CREATION_RATE, now)
        rate.record(1, now)
        wait_ms = rate.wait_ms(quota, now)
        if wait_ms:
            rate.record(-1, now)
        return _bounded(CONNECTION_CREATION_RATE, wait_ms)

    def takes_changes(
        self, quotas: Quotas, client: tuple[str, str], count: int, now: Millis, *, is_strict: bool
    ) -> bool:
        """Count `count` created or deleted partitions against the quota of this client, a (user, client id). False:
        `is_strict`, and earlier changes exceeded the quota. Then nothing is counted, and the request is refused."""
        found = self._quota(quotas, client, CONTROLLER_MUTATION_RATE)
        if found is None:
            return True
        entity, quota = found
        bucket = self._buckets.get(entity)
        if bucket is None:
            if len(self._buckets) >= RATES_MAX:
                del self._buckets[next(iter(self._buckets))]
            bucket = self._buckets[entity] = TokenBucket()
        if is_strict and bucket.wait_ms(quota, now):
            return False
        bucket.take_tokens(count, quota, now)
        return True

    def changes_wait_ms(self, quotas: Quotas, client: tuple[str, str], now: Millis) -> int:
        found = self._quota(quotas, client, CONTROLLER_MUTATION_RATE)
        bucket = None if found is None else self._buckets.get(found[0])
        return 0 if found is None or bucket is None else bucket.wait_ms(found[1], now)

    def fetch_bytes_max(self, quotas: Quotas, client: tuple[str, str]) -> int | None:
        """Return the most bytes that one Fetch may take without exceeding the quota alone; None: no quota holds."""
        found = self._quota(quotas, client, CONSUMER_BYTE_RATE)
        return None if found is None else int(found[1] * FULL_WINDOWS * WINDOW_MS / 1000)

    def _quota(
        self, quotas: Quotas, client: tuple[str, str], key: QuotaKey
    ) -> tuple[Entity, float] | None:
        if quotas is not self._quotas:
            self._quotas = quotas
            self._found.clear()
        client_key = (*client, key)
        if client_key not in self._found:
            if len(self._found) >= FOUND_MAX:
                self._found.clear()
            self._found[client_key] = quota_of(quotas, *client_key)
        return self._found[client_key]

    def _rate(self, entity: Entity, key: QuotaKey, now: Millis) -> Rate:
        rate = self._rates.get((entity, key))
        if rate is None:
            if len(self._rates) >= RATES_MAX:
                self._make_room(now)
            rate = self._rates[entity, key] = Rate()
        return rate

    def _make_room(self, now: Millis) -> None:
        kept = {one: rate for one, rate in self._rates.items() if not rate.is_silent(now)}
        for one in list(kept)[: max(0, len(kept) - RATES_MAX * 9 // 10)]:
            del kept[one]
        self._rates = kept


def _bounded(key: QuotaKey, wait_ms: int) -> int:
    return min(wait_ms, WINDOW_MS) if key in _BOUNDED else wait_ms
