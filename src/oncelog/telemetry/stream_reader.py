"""Reads the live feed back: the Redis stream of all roles into the history of this process.

It reads the newest events first, then waits for more. While Redis is away the history says so and keeps what it has.
"""

import asyncio
import json
import logging
import random
from collections.abc import Mapping
from typing import Final, Protocol, cast

from oncelog.runtime.cancellation import end, was_cancelled
from oncelog.telemetry.events import Value, order_of
from oncelog.telemetry.feed import (
    BACKOFF_MAX_S,
    BACKOFF_S,
    EVENT_FIELD,
    LINGER_S,
    STREAM,
    check_redis_url,
)
from oncelog.telemetry.history import History

_log = logging.getLogger("oncelog.feed")

PAGE_EVENTS: Final = 500
BLOCK_MS: Final = 1_000
"""Milliseconds that one read waits for news. Then Redis is asked again, so a dead connection is noticed soon."""
CALL_TIMEOUT_S: Final = 5.0


_Entry = tuple[bytes, Mapping[bytes, bytes]]
"""An entry of a stream: its id and its fields."""


class _Stream(Protocol):
    """The commands of a Redis client that the reader uses, with undecoded answers."""

    async def xrevrange(self, name: str, max: str = "+", *, count: int) -> list[_Entry]: ...

    async def xread(
        self, streams: Mapping[str, bytes], count: int, block: int
    ) -> list[tuple[bytes, list[_Entry]]] | None: ...


class StreamReader:
    """A task that reads the Redis stream of events into a `History`. Call `start` in a running loop. It ends with
    `stop` and never by itself."""

    def __init__(self, redis_url: str, history: History, events_max: int, stream: str = STREAM):
        self._url = redis_url
        self._history = history
        self._events_max = events_max
        self._stream = stream
        self._task: asyncio.Task[None] | None = None
        history.away_reason = "nothing was read from Redis yet"

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="event stream reader")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            await end(task)

    async def _run(self) -> None:
        # Imported late: a gateway without a feed does not pay for it.
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError

        client = Redis.from_url(
            self._url,
            socket_timeout=CALL_TIMEOUT_S,
            socket_connect_timeout=CALL_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        # The package's types allow for every setting of a client. Ours decodes nothing.
        redis = cast(_Stream, client)
        backoff_s = BACKOFF_S
        last: bytes | None = None
        try:
            while not was_cancelled():
                try:
                    if last is None:
                        last = await self._read_newest(redis)
                    elif self._history.away_reason:
                        last = await self._still_there(redis, last)
                    last, is_more_there = await self._read_on(redis, last)
                    backoff_s = BACKOFF_S
                    self._history.away_reason = ""
                    if not is_more_there:
                        # Events that come meanwhile are then read as one page.
                        await asyncio.sleep(LINGER_S)
                except (RedisError, OSError, TimeoutError) as error:
                    if was_cancelled():
                        return
                    if not self._history.away_reason:
                        _log.warning("the event stream cannot be read: %r", error)
                    self._history.away_reason = f"Redis does not answer: {error}"
                    await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))
                    backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
        finally:
            await client.aclose()

    async def _read_newest(self, redis: _Stream) -> bytes:
        """Read the newest events of the stream. Return the id of the last one, after which `_read_on` continues."""
        pages: list[list[_Entry]] = []
        before, left = "+", self._events_max
        while left > 0:
            page = await redis.xrevrange(self._stream, max=before, count=min(left, PAGE_EVENTS))
            if not page:
                break
            pages.append(page)
            left -= len(page)
            before = f"({page[-1][0].decode()}"
        for page in reversed(pages):
            for event_id, fields in reversed(page):
                self._take(event_id, fields)
            await asyncio.sleep(0)
        return pages[0][0][0] if pages else b"0-0"

    async def _still_there(self, redis: _Stream, last: bytes) -> bytes:
        """Return the id after which to read: `last`, or the stream's start if Redis lost its stream and begins with
        lower ids."""
        newest = await redis.xrevrange(self._stream, count=1)
        is_below = newest and order_of(newest[0][0].decode()) < order_of(last.decode())
        return b"0-0" if is_below else last

    async def _read_on(self, redis: _Stream, last: bytes) -> tuple[bytes, bool]:
        """Wait for events after the id `last`, and add them. Return the new last id, and True if more events are there
        already."""
        count = 0
        answer = await redis.xread({self._stream: last}, count=PAGE_EVENTS, block=BLOCK_MS)
        for _, page in answer or ():
            for event_id, fields in page:
                self._take(event_id, fields)
                last = event_id
            count = len(page)
        return last, count >= PAGE_EVENTS

    def _take(self, event_id: bytes, fields: Mapping[bytes, bytes]) -> None:
        told = _decoded(fields)
        if told:
            self._history.add_event(told, event_id.decode())


def build_reader(redis_url: str, history: History, events_max: int) -> StreamReader | None:
    """Return the reader of the events in Redis; None when no Redis is configured. Raises OncelogError for a text that
    is no Redis URL."""
    if not redis_url:
        history.away_reason = "no Redis is configured (ONCELOG_GATEWAY_REDIS_URL)"
        return None
    check_redis_url(redis_url)
    return StreamReader(redis_url, history, events_max)


_TEXTS_OF_0_1: Final = frozenset(
    {"transactional_id", "client_id", "client_host", "topic", "names", "added", "origin"}
)
"""Fields of 0.1.0 that stay texts, also where they look like numbers."""


def _decoded(fields: Mapping[bytes, bytes]) -> dict[str, Value]:
    """Return the fields of the event in a stream entry; empty for an entry that no role has written."""
    if b"kind" in fields and b"role" in fields:
        return _decoded_of_0_1(fields)
    try:
        told = json.loads(fields[EVENT_FIELD.encode()])
    except (KeyError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _decoded_of_0_1(fields: Mapping[bytes, bytes]) -> dict[str, Value]:
    """Return the fields of an event from a role of version 0.1.0, which wrote each of them as a field of the stream
    entry (docs/upgrades.md)."""
    found: dict[str, Value] = {}
    for name_bytes, value_bytes in fields.items():
        name, value = name_bytes.decode(errors="replace"), value_bytes.decode(errors="replace")
        is_number = name not in _TEXTS_OF_0_1 and value.lstrip("-").isdecimal()
        found[name] = int(value) if is_number else value
    return found
