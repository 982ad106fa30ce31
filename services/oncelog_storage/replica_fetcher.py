"""The follower's side of replication: one task for each node whose partitions this node follows.

A request names the partitions whose position changed since the last; the answer brings records, the leader's high
watermark and log start, or the place where the two histories part. Any failure of a request ends the session, and the
next request opens a new one that names every partition.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import KafkaError, OncelogError, error_code_of
from oncelog.ids import Partition
from oncelog.rpc.directory import Directory
from oncelog_storage.core.follower import FollowerSession
from oncelog_storage.follower import FollowerReplica
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.settings import StorageSettings

_log = logging.getLogger(__name__)

_ANSWER_TIMEOUT_S: Final = 10.0
"""The time to wait for an answer beyond the long poll, in seconds. A busy leader should not be given up."""


class ReplicaFetcher:
    def __init__(
        self,
        leader_node: int,
        node_id: int,
        node_epoch: Callable[[], int],
        settings: StorageSettings,
        directory: Directory,
        open_log: Callable[[HostedPartition], FollowerReplica],
    ) -> None:
        self._leader_node = leader_node
        self._node_id = node_id
        self._node_epoch = node_epoch
        self._settings = settings
        self._directory = directory
        self._open_log = open_log
        self._session = FollowerSession[FollowerReplica](settings.replica_fetch_backoff_ms / 1000)
        self._task: asyncio.Task[None] | None = None
        self._call: asyncio.Task[pb.ReplicaFetchResponse] | None = None
        """The request that is under way."""
        self._is_interrupted = False
        self._wanted = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"replicas of node {self._leader_node}")
        self._task.add_done_callback(_log_failure)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def follow(self, hosted: HostedPartition) -> None:
        """Fetch this partition from now on, in the leader epoch it has now."""
        self._session.follow(hosted.partition, self._open_log(hosted))
        self._interrupt()

    def unfollow(self, partition: Partition) -> None:
        self._session.unfollow(partition)

    def _interrupt(self) -> None:
        """End the long poll of the other partitions, so that a new partition does not wait for it."""
        self._wanted.set()
        if self._call is not None:
            self._is_interrupted = True
            self._call.cancel()

    async def _run(self) -> None:
        while True:
            if self._session.is_empty:
                self._wanted.clear()
                await self._wanted.wait()
            if await self._fetch_once():
                self._session.succeeded()
                continue
            backoff_s = self._session.failed()
            self._wanted.clear()
            try:
                async with asyncio.timeout(backoff_s * random.uniform(0.5, 1.0)):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _fetch_once(self) -> bool:
        """Do one round of fetching. False: the round failed, which ends the session."""
        self._is_interrupted = False
        self._call = asyncio.create_task(self._answer(self._request()))
        try:
            response = await self._call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Only the call was cancelled: by `_interrupt`, for a new partition, or by the leader's own end.
            self._session.end()
            return self._is_interrupted
        except (TimeoutError, OSError, OncelogError, KeyError) as error:
            _log.info("cannot fetch from node %d: %r", self._leader_node, error)
            return False
        finally:
            self._call = None
        if response.error_code:
            name = error_code_of(response.error_code).name
            _log.info("node %d refuses this follower: %s", self._leader_node, name)
            return False
        self._session.continue_session(response.session_id)
        for part in response.partitions:
            await self._take(part)
        return True

    async def _answer(self, request: pb.ReplicaFetchRequest) -> pb.ReplicaFetchResponse:
        stub = self._directory.storage(self._leader_node)
        timeout_s = request.max_wait_ms / 1000 + _ANSWER_TIMEOUT_S
        return await stub.ReplicaFetch(request, timeout=timeout_s)

    def _request(self) -> pb.ReplicaFetchRequest:
        ask = self._session.next_request(asyncio.get_running_loop().time())
        request = pb.ReplicaFetchRequest(
            node_id=self._node_id,
            node_epoch=self._node_epoch(),
            max_wait_ms=self._settings.replica_fetch_wait_max_ms,
            min_bytes=1,
            max_bytes=self._settings.replica_fetch_bytes_max,
        )
        ask.fill(request, self._settings.replica_fetch_backoff_ms)
        return request

    async def _take(self, part: pb.ReplicaFetchedPartition) -> None:
        partition, now = Partition(part.topic, part.partition), asyncio.get_running_loop().time()
        receiver = self._session.receiver(partition, part.error_code, now)
        if receiver is None:
            return
        replica, before = receiver
        waits: Awaitable[None] | None = None
        try:
            waits = replica.apply_fetched(part)
            if waits is not None:
                await waits
        except KafkaError as error:
            _log.info("%s: %s", partition, error)
            if self._session.is_received_by(partition, replica):
                self._session.refuse(partition, asyncio.get_running_loop().time())
            return
        self._session.took(partition, replica, before)


def _log_failure(task: "asyncio.Task[None]") -> None:
    """Log that the task failed, which is a defect.

    This node follows that leader no more until the process is restarted.
    """
    if not task.cancelled() and task.exception() is not None:
        _log.critical("%s: stopped", task.get_name(), exc_info=task.exception())
