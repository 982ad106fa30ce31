"""Fetch: whole batches up to the HW or the LSO, and the long poll for more.

`core.fetching` decides the response; this module reads the logs, and waits for new records. A fetch that finds too
little registers with its partitions; an append, a moved LSO or its deadline wakes it. A waiting fetch
counts the bytes that appends add, so it reads again only when there is enough.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Final, TypeVar

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import KafkaError
from oncelog_storage import direct_answers
from oncelog_storage.core.fetching import (
    AdmitLoader,
    Fetching,
    FindAborted,
    Found,
    Need,
    ReadBatches,
)
from oncelog_storage.core.walks import run_walk
from oncelog_storage.files import NotInMemory, StorageFailed
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.segment_reader import SegmentReader
from oncelog_storage.settings import StorageSettings

_WAIT_MS_MAX = 3_600_000
_TURN_PARTITIONS: Final = 200
"""One step of the event loop reads at most this many partitions, in one or two milliseconds.

A larger fetch lets others go on between steps.
"""


_Reading = Fetching[HostedPartition]
ResponseT = TypeVar("ResponseT", pb.FetchResponse, direct_answers.FetchResponse)


class _Waiter:
    """A Fetch request that waits: its future is done when `missing_bytes` have been appended."""

    def __init__(self, missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def notify(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0 and not self.future.done():
            self.future.set_result(None)


class FetchHandler:
    def __init__(
        self, settings: StorageSettings, replica_manager: ReplicaManager, reader: SegmentReader
    ) -> None:
        self._settings = settings
        self._replica_manager = replica_manager
        self._reader = reader
        self._is_stopping = False
        self._waiters: dict[_Waiter, None] = {}

    def stop(self) -> None:
        """Answer every waiting fetch with the records there are; later fetches do not wait."""
        self._is_stopping = True
        for waiter in tuple(self._waiters):
            waiter.notify(2**62)

    async def fetch(self, request: pb.FetchRequest, response_type: type[ResponseT]) -> ResponseT:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(request.max_wait_ms, _WAIT_MS_MAX) / 1000
        if len(request.partitions) > _TURN_PARTITIONS:
            return await self._fetch_in_turns(request, deadline, response_type)
        try:
            response, reading = self._read_all(request, response_type)
        except NotInMemory:
            return await self._fetch_in_turns(request, deadline, response_type)
        if (
            reading.is_enough
            or request.max_wait_ms <= 0
            or not request.partitions
            or self._is_stopping
            or len(self._waiters) >= self._settings.fetch_waiters_max
        ):
            reading.count_given()
            return response
        # A response that is too small is read again later, and must not stay in memory until then.
        del response
        return await self._wait(request, reading, deadline, response_type)

    async def _wait(
        self,
        request: pb.FetchRequest,
        reading: _Reading,
        deadline: float,
        response_type: type[ResponseT],
    ) -> ResponseT:
        loop = asyncio.get_running_loop()
        watched = self._all_led(request)
        while True:
            waiter = _Waiter(reading.missing_bytes)
            self._waiters[waiter] = None
            for hosted in watched:
                hosted.watch(waiter.notify)
            timer = loop.call_at(deadline, waiter.notify, 2**62)
            try:
                await waiter.future
            finally:
                timer.cancel()
                self._waiters.pop(waiter, None)
                for hosted in watched:
                    hosted.unwatch(waiter.notify)
            try:
                response, reading = self._read_all(request, response_type)
            except NotInMemory:
                return await self._fetch_in_turns(request, deadline, response_type)
            if reading.is_enough or loop.time() >= deadline or self._is_stopping:
                reading.count_given()
                return response
            del response

    async def _fetch_in_turns(
        self, request: pb.FetchRequest, deadline: float, response_type: type[ResponseT]
    ) -> ResponseT:
        """Answer a fetch of many partitions, or one whose records must be read from the disk. Some partitions are read
        at a time, and other tasks run in between.

        Partitions grow while others are read, so each is watched before it is read.
        """
        loop = asyncio.get_running_loop()
        missing_bytes = 1
        while True:
            waiter = _Waiter(missing_bytes)
            watched: list[HostedPartition] = []
            response, reading = response_type(), self._reading(request)
            try:
                for start in range(0, len(request.partitions), _TURN_PARTITIONS):
                    turn = request.partitions[start : start + _TURN_PARTITIONS]
                    for part in turn:
                        with contextlib.suppress(KafkaError):  # Reading it says which.
                            watched.append(self._replica_manager.led(part.topic, part.partition))
                            watched[-1].watch(waiter.notify)
                    for part in turn:
                        await self._reader.read(partial(self._read_one, part, reading, response))
                    await asyncio.sleep(0)
                if (
                    reading.is_enough
                    or loop.time() >= deadline
                    or self._is_stopping
                    or len(self._waiters) >= self._settings.fetch_waiters_max
                ):
                    reading.count_given()
                    return response
                del response
                missing_bytes = reading.missing_bytes
                self._waiters[waiter] = None
                timer = loop.call_at(deadline, waiter.notify, 2**62)
                try:
                    await waiter.future
                finally:
                    timer.cancel()
            finally:
                self._waiters.pop(waiter, None)
                for hosted in watched:
                    hosted.unwatch(waiter.notify)

    def _all_led(self, request: pb.FetchRequest) -> Sequence[HostedPartition]:
        """Return the partitions of a request, all of which this node leads. Raises KafkaError."""
        return [
            self._replica_manager.led(part.topic, part.partition) for part in request.partitions
        ]

    def _reading(self, request: pb.FetchRequest) -> _Reading:
        return Fetching(
            request,
            self._replica_manager,
            self._settings.fetch_bytes_max,
            is_committed_only=request.isolation_level == types_pb2.READ_COMMITTED,
        )

    def _read_all(
        self, request: pb.FetchRequest, response_type: type[ResponseT]
    ) -> tuple[ResponseT, _Reading]:
        """Read all partitions in one step of the event loop. Raises NotInMemory."""
        response, reading = response_type(), self._reading(request)

        def read() -> None:
            for part in request.partitions:
                self._read_one(part, reading, response)

        self._reader.at_once(read)
        return response, reading

    def _read_one(
        self,
        part: pb.FetchPartition,
        reading: _Reading,
        response: pb.FetchResponse | direct_answers.FetchResponse,
    ) -> None:
        """Read one partition into the response. Raises NotInMemory, and then the response is as before."""
        if reading.is_known(part):
            return
        answer = response.partitions.add(topic=part.topic, partition=part.partition)
        try:
            size_bytes = run_walk(reading.read(part, answer), self._found, (KafkaError,))
        except NotInMemory:
            del response.partitions[-1]
            raise
        if not reading.is_news(part, answer, size_bytes):
            del response.partitions[-1]

    def _found(self, need: Need[HostedPartition]) -> Found:
        """Return what the generator `Fetching.read` asks for: batches, aborted transactions, or None after AdmitLoader.

        Raises KafkaError, NotInMemory.
        """
        log = need.hosted.log
        try:
            match need:
                case ReadBatches(offset=offset, upper=upper, bytes_max=bytes_max):
                    return log.read(offset, upper, bytes_max)
                case FindAborted(offset=offset, upper=upper):
                    return log.aborted_transactions(offset, upper)
                case AdmitLoader(led, coordinator_epoch):
                    self._replica_manager.admit_loader(led, coordinator_epoch)
                    return None
        except StorageFailed as failure:
            raise need.hosted.take_offline(failure) from failure
