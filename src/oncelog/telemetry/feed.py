"""The live feed of events about transactions, for all that watch, through a capped Redis stream.

```
publish(event) ──▶ bounded queue ──▶ one task ──▶ XADD … MAXLEN ~ (a batch in one round trip) ──▶ Redis
                     │ full: count                    │ away: keep, reconnect after a backoff
                     └──▶ a hole with its count, in its place in the order
```

The feed is only for watching: no role depends on it. `publish` never waits and never raises; while Redis is away the
newest events are counted instead of kept, and stand in the stream as one `hole` event when it is back. An event says
what a role decided or wrote at that moment; the decision's commit may still fail, and then the shard's later events
tell the true story.

A batch whose answer was lost is sent again, so an event may stand twice: `origin` (a start of a process) and `number`
(gapless per origin, holes counted) name it once and for all.
"""

import asyncio
import json
import logging
import random
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.runtime.cancellation import end, was_cancelled
from oncelog.telemetry.events import HOLE, Value

if TYPE_CHECKING:  # Loaded where a Redis is named.
    from redis.asyncio import Redis

_log = logging.getLogger("oncelog.feed")

STREAM: Final = "oncelog:events"
EVENT_FIELD: Final = "event"
"""The field of a stream entry that holds the whole event, as JSON."""
STREAM_EVENTS_MAX: Final = 100_000
"""The number of events that Redis keeps, approximately; about 30 MB."""
QUEUE_EVENTS_MAX: Final = 10_000
BATCH_EVENTS_MAX: Final = 500
LINGER_S: Final = 0.05
"""Seconds that events wait for others: Redis calls one by one would cost a busy coordinator an eighth of its time."""
TEXT_CHARS_MAX: Final = 256
"""The most characters of one field: a transactional.id may be 32 KB long, and a queue of those would not be small."""
CALL_TIMEOUT_S: Final = 2.0
BACKOFF_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0
STOP_TIMEOUT_S: Final = 1.0


class Feed(Protocol):
    """The feed that a role publishes its events to: an `EventFeed` to Redis, or a `LocalFeed` in the process of the
    gateway."""

    def publish(self, kind: str, **fields: Value) -> None: ...

    def start(self) -> None: ...

    async def stop(self) -> None: ...


class _Hole:
    """A place in the queue for events that were dropped because it was full, with their count."""

    __slots__ = ("count", "first_number", "time_ms")

    def __init__(self, first_number: int, time_ms: int) -> None:
        self.first_number = first_number
        self.time_ms = time_ms
        self.count = 1

    def fields(self) -> dict[str, Value]:
        return {
            "kind": HOLE,
            "time_ms": self.time_ms,
            "number": self.first_number,
            "count": self.count,
        }


class EventFeed:
    """Publishes the events of one role to Redis, in the background. `start` returns at once whether Redis answers or
    not."""

    def __init__(
        self,
        redis_url: str,
        role: str,
        node_id: int,
        *,
        stream: str = STREAM,
        queue_events_max: int = QUEUE_EVENTS_MAX,
    ) -> None:
        self._url = redis_url
        self._stream = stream
        self._queue_events_max = queue_events_max
        self._common = {
            "role": role,
            "node": node_id,
            "origin": f"{role}-{node_id}-{random.getrandbits(48):012x}",
        }
        self._queue: deque[dict[str, Value] | _Hole] = deque()
        self._number = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.sent = 0
        self.dropped = 0

    @property
    def queued(self) -> int:
        return len(self._queue)

    def publish(self, kind: str, **fields: Value) -> None:
        """Queue this event for sending. If the queue is full the event is only counted. It never waits and never
        raises."""
        now_ms = time.time_ns() // 1_000_000
        number, self._number = self._number, self._number + 1
        queue = self._queue
        if len(queue) >= self._queue_events_max:
            self.dropped += 1
            last = queue[-1]
            if isinstance(last, _Hole):
                last.count += 1
            else:
                queue.append(_Hole(number, now_ms))
            return
        queue.append({"kind": kind, "time_ms": now_ms, "number": number, **_cut(fields)})
        if len(queue) == 1:
            self._wake.set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="event feed")

    async def stop(self) -> None:
        """Send the events that still wait, if that takes at most STOP_TIMEOUT_S, and end."""
        task, self._task = self._task, None
        if task is None:
            return
        deadline = asyncio.get_running_loop().time() + STOP_TIMEOUT_S
        while self._queue and not task.done() and asyncio.get_running_loop().time() < deadline:
            await asyncio.wait([task], timeout=0.01)
        await end(task)

    async def _run(self) -> None:
        # Imported late: a log without a feed does not pay for it.
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError

        # One try a call: whether and when to repeat is decided here.
        redis = Redis.from_url(
            self._url,
            socket_timeout=CALL_TIMEOUT_S,
            socket_connect_timeout=CALL_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        backoff_s = BACKOFF_S
        try:
            while not was_cancelled():
                self._wake.clear()
                if not self._queue:
                    await self._wake.wait()
                    continue
                try:
                    if len(self._queue) < BATCH_EVENTS_MAX:
                        await asyncio.sleep(LINGER_S)
                    await self._send_batch(redis)
                    if backoff_s > BACKOFF_S:
                        _log.info("the event feed is back")
                    backoff_s = BACKOFF_S
                except (RedisError, OSError, TimeoutError) as error:
                    if was_cancelled():
                        return
                    if backoff_s == BACKOFF_S:
                        _log.warning(
                            "the event feed is away: %r; events are kept, then counted", error
                        )
                    await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))
                    backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
        finally:
            await redis.aclose()

    async def _send_batch(self, redis: "Redis") -> None:
        batch = [self._queue[index] for index in range(min(len(self._queue), BATCH_EVENTS_MAX))]
        holes = [(one, one.count) for one in batch if isinstance(one, _Hole)]
        pipeline = redis.pipeline(transaction=False)
        for one in batch:
            fields = one.fields() if isinstance(one, _Hole) else one
            # The event is one field: Redis and its client in Python take each field of an entry apart.
            told = json.dumps({**self._common, **fields}, separators=(",", ":"))
            pipeline.xadd(
                self._stream, {EVENT_FIELD: told}, maxlen=STREAM_EVENTS_MAX, approximate=True
            )
        await pipeline.execute()
        for _ in batch:
            self._queue.popleft()
        self.sent += len(batch)
        for hole, count_sent in holes:
            # Events that were lost while its batch was under way: the hole goes on.
            if hole.count > count_sent:
                rest = _Hole(hole.first_number + count_sent, hole.time_ms)
                rest.count = hole.count - count_sent
                self._queue.appendleft(rest)


def _cut(fields: Mapping[str, Value]) -> Mapping[str, Value]:
    if not any(isinstance(value, str) and len(value) > TEXT_CHARS_MAX for value in fields.values()):
        return fields
    return {
        name: value[:TEXT_CHARS_MAX] if isinstance(value, str) else value
        for name, value in fields.items()
    }


def names_of(partitions: Iterable[Partition]) -> str:
    """Return the partitions as text, `orders-0,orders-1`: as many whole names as fit into a field of an event."""
    names: list[str] = []
    left = TEXT_CHARS_MAX
    for topic, partition in partitions:
        name = f"{topic}-{partition}"
        left -= len(name) + 1
        if left < 0:
            break
        names.append(name)
    return ",".join(names)


def build_feed(redis_url: str, role: str, node_id: int) -> EventFeed | None:
    """Return the feed of a role; None when no Redis is configured. Raises OncelogError for a text that is no Redis
    URL."""
    if not redis_url:
        return None
    check_redis_url(redis_url)
    return EventFeed(redis_url, role, node_id)


def check_redis_url(redis_url: str) -> None:
    """Raise OncelogError for a text that is no Redis URL."""
    if not redis_url.startswith(("redis://", "rediss://", "unix://")):
        raise OncelogError(
            f"{redis_url!r} is no Redis URL; write redis://host:6379/0, or leave it empty for no feed"
        )
