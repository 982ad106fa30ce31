"""The follower's side of replication: one task for each node that leads something this node follows.

A request names the partitions whose position changed since the last; the answer brings records, the leader's high
watermark and log start, or the place where the two histories part. Any failure of a request ends the session, and the
next request opens a new one that names every partition.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode, KafkaError, OncelogError, error_code_of
from oncelog.ids import Partition
from oncelog.rpc.directory import Directory
from oncelog_storage.follower import FollowedLog, Position
from oncelog_storage.partition import PartitionLeader
from oncelog_storage.settings import StorageSettings

_log = logging.getLogger(__name__)

_ANSWER_TIMEOUT_S: Final = 10.0
"""Beyond the wait: a leader that is only busy should not be given up."""
_BACKOFF_MAX_S: Final = 1.0


class ReplicaFetcher:
    def __init__(
        self,
        leader_node: int,
        node_id: int,
        node_epoch: Callable[[], int],
        settings: StorageSettings,
        directory: Directory,
        open_log: Callable[[PartitionLeader], FollowedLog],
    ) -> None:
        self._leader_node = leader_node
        self._node_id = node_id
        self._node_epoch = node_epoch
        self._settings = settings
        self._directory = directory
        self._open_log = open_log
        self._followed: dict[Partition, FollowedLog] = {}
        # The position that the session was told last, and of which log: what comes, begins there.
        self._asked: dict[Partition, tuple[FollowedLog, Position]] = {}
        # Whose position the session does not know; and those that were refused, with the time to ask again.
        self._changed: dict[Partition, None] = {}
        self._refused: dict[Partition, float] = {}
        self._forgotten: dict[Partition, None] = {}
        self._session_id = 0
        self._session_epoch = -1
        self._task: asyncio.Task[None] | None = None
        self._is_waiting = False
        self._was_interrupted = False
        self._wanted = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"replicas of node {self._leader_node}")
        self._task.add_done_callback(_tell_failure)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def follow(self, leader: PartitionLeader) -> None:
        """Fetch this partition from now on, in the leader epoch it has now."""
        partition = leader.partition
        self._followed[partition] = self._open_log(leader)
        self._refused.pop(partition, None)
        self._changed[partition] = None
        self._forgotten.pop(partition, None)
        self._interrupt()

    def unfollow(self, partition: Partition) -> None:
        if self._followed.pop(partition, None) is not None:
            self._changed.pop(partition, None)
            self._refused.pop(partition, None)
            self._asked.pop(partition, None)
            self._forgotten[partition] = None

    def _interrupt(self) -> None:
        """A new partition does not wait for the long poll of the others."""
        self._wanted.set()
        if self._is_waiting and self._task is not None and not self._was_interrupted:
            self._was_interrupted = True
            self._task.cancel()

    async def _run(self) -> None:
        backoff_s = 0.0
        while True:
            if not self._followed:
                self._wanted.clear()
                await self._wanted.wait()
            if await self._fetch_once():
                backoff_s = 0.0
                continue
            self._forget_session()
            backoff_s = min(
                max(backoff_s * 2, self._settings.replica_fetch_backoff_ms / 1000), _BACKOFF_MAX_S
            )
            self._wanted.clear()
            try:
                async with asyncio.timeout(backoff_s * random.uniform(0.5, 1.0)):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _fetch_once(self) -> bool:
        """One round; False after a failure, which ends the session."""
        request = self._request()
        try:
            response = await self._call(request)
        except asyncio.CancelledError:
            if not self._was_interrupted:
                raise
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            self._was_interrupted = False
            self._forget_session()
            return True
        except (TimeoutError, OSError, OncelogError, KeyError) as error:
            _log.info("cannot fetch from node %d: %r", self._leader_node, error)
            return False
        if response.error_code:
            name = error_code_of(response.error_code).name
            _log.info("node %d refuses this follower: %s", self._leader_node, name)
            return False
        self._session_id = response.session_id
        for part in response.partitions:
            await self._take(part)
        return True

    async def _call(self, request: pb.ReplicaFetchRequest) -> pb.ReplicaFetchResponse:
        stub = self._directory.storage(self._leader_node)
        timeout_s = request.max_wait_ms / 1000 + _ANSWER_TIMEOUT_S
        self._is_waiting = True
        try:
            response: Any = await stub.ReplicaFetch(request, timeout=timeout_s)
        finally:
            self._is_waiting = False
        if self._was_interrupted:
            # The answer and the interruption came together.
            raise asyncio.CancelledError
        assert isinstance(response, pb.ReplicaFetchResponse)
        return response

    def _forget_session(self) -> None:
        self._session_id, self._session_epoch = 0, -1

    def _request(self) -> pb.ReplicaFetchRequest:
        self._session_epoch += 1
        is_new = self._session_epoch == 0
        if is_new:
            self._changed = {each: None for each in self._followed if each not in self._refused}
            self._forgotten.clear()
        now = asyncio.get_running_loop().time()
        for partition in [each for each, due in self._refused.items() if due <= now]:
            del self._refused[partition]
            self._changed[partition] = None
        for partition in [each for each in self._changed if not self._is_tellable(each)]:
            del self._changed[partition]
            self._refuse(partition)
        wait_ms = self._settings.replica_fetch_wait_max_ms
        if self._refused:
            # Mostly one of the two nodes has not seen the newest metadata yet: ask again soon, but not at once.
            wait_ms = min(wait_ms, self._settings.replica_fetch_backoff_ms)
        request = pb.ReplicaFetchRequest(
            node_id=self._node_id,
            node_epoch=self._node_epoch(),
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._settings.replica_fetch_bytes_max,
            session_id=0 if is_new else self._session_id,
            session_epoch=self._session_epoch,
        )
        for partition in self._changed:
            followed = self._followed[partition]
            if not followed.is_failed:
                self._asked[partition] = followed, followed.position
                followed.fill(request.partitions.add())
        for topic, index in self._forgotten:
            request.forgotten.append(types_pb2.TopicPartition(topic=topic, partition=index))
        self._changed = {}
        self._forgotten.clear()
        return request

    def _is_tellable(self, partition: Partition) -> bool:
        followed = self._followed[partition]
        return followed.is_failed or followed.is_durable

    def _refuse(self, partition: Partition) -> None:
        pause_s = self._settings.replica_fetch_backoff_ms / 1000
        self._refused[partition] = asyncio.get_running_loop().time() + pause_s

    async def _take(self, part: pb.ReplicaFetchedPartition) -> None:
        partition = Partition(part.topic, part.partition)
        followed = self._followed.get(partition)
        if followed is None:
            return
        if part.error_code and part.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            self._refuse(partition)
            return
        before = followed.position
        if self._asked.get(partition) != (followed, before):
            # It was emptied, cut or opened again meanwhile: behind its end now, these records would leave a hole.
            self._changed[partition] = None
            return
        waits: Awaitable[None] | None = None
        try:
            waits = followed.take(part)
            if waits is not None:
                await waits
        except KafkaError as error:
            _log.info("%s: %s", partition, error)
            if self._followed.get(partition) is followed:
                self._refuse(partition)
            return
        if self._followed.get(partition) is followed and followed.position != before:
            self._changed[partition] = None


def _tell_failure(task: "asyncio.Task[None]") -> None:
    """A defect: this node follows that leader no more until it is started again."""
    if not task.cancelled() and task.exception() is not None:
        _log.critical("%s: stopped", task.get_name(), exc_info=task.exception())
