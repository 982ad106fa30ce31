"""Quotas of clients: a client above its quota is answered at once, told for how long to be silent, and not read
meanwhile (KIP-219).

Each listener counts for itself, as each broker does in Kafka.
"""

import time
from collections.abc import Awaitable, Generator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from oncelog.ids import Millis
from oncelog.protocol.versions import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    FETCH,
    PRODUCE,
)
from oncelog.rpc.metadata import MetadataFollower
from oncelog.security.quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Quotas,
)
from oncelog_listener.core.client_rates import ClientRates

T = TypeVar("T")

_STRICT_FROM: Final[Mapping[int, int]] = {CREATE_TOPICS: 6, DELETE_TOPICS: 5, CREATE_PARTITIONS: 3}
"""The version from which an API may answer THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


class ThrottledSession(Protocol):
    """The connection of a client, as far as quotas need it: its principal, and the time for which it is not read."""

    throttle_ms: int

    @property
    def principal(self) -> str: ...


class ThrottledCall(Protocol):
    """A request that counts for quotas: one of Kafka's, or a private one of oncelog's."""

    @property
    def api_key(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def session(self) -> ThrottledSession: ...


class VersionedCall(ThrottledCall, Protocol):
    """A request of Kafka's protocol, with the version that tells if the client expects a strict quota."""

    @property
    def version(self) -> int: ...


class Throttling:
    def __init__(self, metadata: MetadataFollower) -> None:
        self._metadata = metadata
        self._rates = ClientRates()

    @property
    def is_on(self) -> bool:
        """True if any quota is set. Otherwise nothing is counted or measured."""
        return bool(self._metadata.image.security.quotas)

    async def held(self, call: ThrottledCall, request_bytes: int, work: Awaitable[T]) -> T:
        """Await the handler's `work`, and return its response. If the client is above a quota, put the wait into the
        session, and into the response if it has the field."""
        timed = _Timed(work)
        response = await timed
        quotas, client, now = self._quotas, _client(call), _now()
        percent = timed.seconds * 100
        wait_ms = self._rates.wait_ms(quotas, client, REQUEST_PERCENTAGE, percent, now)
        if call.api_key == PRODUCE:
            wanted = self._rates.wait_ms(quotas, client, PRODUCER_BYTE_RATE, request_bytes, now)
            wait_ms = max(wait_ms, wanted)
        elif call.api_key == FETCH:
            size = _fetched_bytes(response)
            wanted = self._rates.wait_ms(quotas, client, CONSUMER_BYTE_RATE, size, now)
            wait_ms = max(wait_ms, wanted)
        elif call.api_key in _STRICT_FROM:
            wait_ms = max(wait_ms, self._rates.changes_wait_ms(quotas, client, now))
        if not wait_ms:
            return response
        call.session.throttle_ms = wait_ms
        if not hasattr(response, "throttle_time"):
            return response
        throttled: Any = response
        throttle_time = timedelta(milliseconds=min(wait_ms, 2**31 - 1))
        held: T = replace(throttled, throttle_time=throttle_time)
        return held

    def fetch_bytes_max(self, call: ThrottledCall) -> int | None:
        """Return the most bytes that a Fetch may answer with; None: no quota bounds it."""
        return self._rates.fetch_bytes_max(self._quotas, _client(call)) if self.is_on else None

    def takes_changes(self, call: VersionedCall, count: int) -> bool:
        """Count `count` partitions to create or delete. False: the quota refuses them. Clients of older versions are
        never refused, and are not read for a while afterwards."""
        if not self.is_on:
            return True
        is_strict = call.version >= _STRICT_FROM[call.api_key]
        return self._rates.takes_changes(
            self._quotas, _client(call), count, _now(), is_strict=is_strict
        )

    def connection_wait_ms(self, host: str) -> int:
        """Return how long this address must wait, in milliseconds, before it opens one more connection; 0: not at
        all."""
        return self._rates.connection_wait_ms(self._quotas, host, _now()) if self.is_on else 0

    @property
    def _quotas(self) -> Quotas:
        return self._metadata.image.security.quotas


class _Timed(Generic[T]):
    """An awaitable that measures for how long the event loop ran the work it awaits: waits for other roles do not
    count.

    asyncio tells only when a task began and ended, so this drives and times each step. That costs 0.8 µs where the
    answer is there at once, and only while a quota is set.
    """

    def __init__(self, work: Awaitable[T]) -> None:
        self._work = work
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        step = steps.__next__
        while True:
            began = time.perf_counter()
            try:
                awaited = step()
            except StopIteration as end:
                found: T = end.value
                return found
            finally:
                self.seconds += time.perf_counter() - began
            step = steps.__next__
            try:
                yield awaited
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                step = partial(steps.throw, error)


def _client(call: ThrottledCall) -> tuple[str, str]:
    """Return the user and the client id, which quotas name."""
    return call.session.principal.partition(":")[2], call.client_id or ""


def _fetched_bytes(response: Any) -> int:
    return sum(
        len(partition.records or b"")
        for topic in response.responses
        for partition in topic.partitions
    )


def _now() -> Millis:
    return Millis(int(time.monotonic() * 1000))
