"""The queue of records that threads send to the I/O thread. One queue keeps the order of a thread's sends.

A record in the queue always finds room in the asyncio producer, which would otherwise refuse it. If there is no room, a
thread waits in `put`: first come, first served (S2-38, ADR 0044), `max.block.ms` at most.
"""

import asyncio
import contextlib
import threading
from collections import deque
from typing import NamedTuple

from oncelog.client.blocking.io_thread import IoThread
from oncelog.client.core.line import LINE_SHARE
from oncelog.client.core.producer_batch import Record, size_bound
from oncelog.client.delivery import Delivery, OnDelivery
from oncelog.client.errors import BufferExhaustedError, ClientError, IllegalStateError
from oncelog.client.producer import Producer


class _Sent(NamedTuple):
    record: Record
    delivery: Delivery
    on_delivery: OnDelivery | None
    size: int


class _Waiting:
    """A thread that waits in `put` until the buffer has room for its record."""

    def __init__(self, sent: _Sent) -> None:
        self.sent = sent
        self.has_ended = threading.Event()
        self.error: ClientError | None = None


class Intake:
    def __init__(self, io: IoThread, producer: Producer) -> None:
        self._io, self._producer = io, producer
        settings = producer.settings
        self._memory, self._block_ms = settings.buffer_memory, settings.max_block_ms
        self._lock = threading.Lock()
        self._queue: deque[_Sent] = deque()
        self._bytes = 0
        """Bytes of the records in the queue.
        They count until the producer has the records, so that none is overlooked on the way."""
        self._waiting: deque[_Waiting] = deque()
        self._is_coming = False
        """True if the I/O thread will look at the queue."""
        self._watcher: asyncio.Task[None] | None = None
        self._is_closed = False

    # ---------------------------------------------------------------------------------------------- any thread

    def put(self, record: Record, delivery: Delivery, on_delivery: OnDelivery | None) -> None:
        """Put a record into the queue, or wait for room.
        Raises BufferExhaustedError after `max.block.ms`, IllegalStateError once closed."""
        size = size_bound(record.key, record.value, record.headers)
        sent = _Sent(record, delivery, on_delivery, size)
        waiting = None
        with self._lock:
            if self._is_closed:
                raise _closed()
            if not self._is_coming:
                # First, and under the lock: a Ctrl-C behind it costs a look for nothing, and no record.
                if not self._io.post(self._drain):
                    raise _closed()
                self._is_coming = True
            if not self._waiting and self._has_room(size):
                self._queue.append(sent)
                self._bytes += size
            else:
                waiting = _Waiting(sent)
                self._waiting.append(waiting)
        if waiting is not None:
            self._wait(waiting)

    def _has_room(self, size: int) -> bool:
        used = self._bytes + self._producer.line.size_bytes
        return not used or used + size <= self._memory // LINE_SHARE

    def _wait(self, waiting: _Waiting) -> None:
        try:
            has_ended = waiting.has_ended.wait(self._block_ms / 1000)
        except BaseException:
            self._give_up(waiting)
            raise
        if not has_ended and self._give_up(waiting):
            self._io.post(self._count_exhausted)
            raise BufferExhaustedError(
                f"no room in buffer.memory={self._memory} within max.block.ms={self._block_ms}: brokers take records "
                "more slowly than they are sent, or not at all"
            )
        if waiting.error is not None:
            raise waiting.error

    def _count_exhausted(self) -> None:
        with contextlib.suppress(IllegalStateError):
            self._producer.line.exhausted_count += 1

    def _give_up(self, waiting: _Waiting) -> bool:
        """Stop waiting for room, because time ran out or the thread was interrupted. False: the record was taken, or
        refused, at the last moment."""
        with self._lock:
            if waiting not in self._waiting:
                return False
            self._waiting.remove(waiting)
            return True

    def close(self) -> None:
        """Refuse further records, and raise an error in the threads that wait. Records in the queue are still sent."""
        with self._lock:
            self._is_closed = True
            self._end_waiting(_closed())

    def _end_waiting(self, error: ClientError) -> None:
        while self._waiting:
            one = self._waiting.popleft()
            one.error = error
            one.has_ended.set()

    # ---------------------------------------------------------------------------------------------- the I/O thread

    def _drain(self) -> None:
        with self._lock:
            self._is_coming = False
        size = 0
        for _ in range(len(self._queue)):
            sent = self._queue.popleft()
            self._producer.take(sent.record, sent.delivery, sent.on_delivery)
            size += sent.size
        with self._lock:
            self._bytes -= size
            is_watched = self._watcher is not None and not self._watcher.done()
            if self._waiting and not is_watched:
                self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        """Run while threads wait: move their records into the queue as room comes."""
        while True:
            with self._lock:
                while self._waiting and self._has_room(self._waiting[0].sent.size):
                    one = self._waiting.popleft()
                    self._queue.append(one.sent)
                    self._bytes += one.sent.size
                    one.has_ended.set()
                if not self._waiting and not self._queue:
                    return
            self._drain()
            try:
                await self._producer.ready()
            except IllegalStateError:
                return  # `close` has told them.
            await asyncio.sleep(0)


def _closed() -> IllegalStateError:
    return IllegalStateError("the producer is closed, or was not started: use `with Producer(…)`")
