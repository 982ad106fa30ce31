"""The part of the marker sender that does I/O, around the queues: it calls leaders, waits out backoffs, and tells the
callers how their deliveries ended.

A caller that finds a node without a request in flight sends to it in its own task, at once. Everything else goes
through the node's own task, which sleeps until something can be sent. Both take from the same queue, and the queue lets
only one request out.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol, cast

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, CoordinatorEpoch, NodeId, Partition
from oncelog.rpc import plain
from oncelog.rpc.deadline import answer_within
from oncelog.rpc.direct import takes_plain
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import GROUP, MetadataFollower, MetadataImage
from oncelog.rpc.stubs import GroupCoordinatorStub, StorageStub
from oncelog_marker_sender.core.queues import (
    HOLDING,
    Ended,
    MarkerQueues,
    NodeRequest,
    QueueDepth,
)
from oncelog_marker_sender.feed_events import MarkerEvents
from oncelog_marker_sender.messages import RequestMessage, SentMarker, partitions_of
from oncelog_marker_sender.traces import record_answered

_log = logging.getLogger(__name__)

_METADATA_WAIT_S: Final = 5.0
"""The most seconds to wait for metadata that the caller has already. After that the caller asks again, or asks
another sender."""

GROUP_COORDINATOR: Final = 2**31
"""The number that is added to a node's id to number the queue of that node's group coordinator.

Markers for `__consumer_offsets` go to the group coordinator (ADR 0015). It is another service than the node's storage,
so it has a queue of its own.
"""


class WritesMarkersAtOnce(Protocol):
    """A storage service in this process that writes markers in a plain call, without a wait.

    `oncelog.rpc.direct.takes_plain` is True for a stub of such a service.
    """

    def WriteMarkersAtOnce(self, request: plain.WriteTxnMarkersRequest) -> Sequence[bool]: ...  # noqa: N802


class MarkerSender:
    """Brings transaction markers to the leaders of their partitions, and sends them again until they are written.

    `deliver` returns when every partition has its markers. After `stop` callers must ask another sender.
    """

    def __init__(
        self,
        queues: MarkerQueues,
        metadata: MetadataFollower,
        directory: Directory,
        request_timeout_ms: int,
        events: MarkerEvents | None = None,
    ) -> None:
        self._events = events
        self._queues = queues
        self._metadata = metadata
        self._directory = directory
        self._request_timeout_s = request_timeout_ms / 1000
        self._markers: dict[int, Sequence[pb.TxnMarker]] = {}
        self._queued_ns: dict[int, int] = {}
        self._waiting: dict[int, asyncio.Future[Ended | None]] = {}
        self._borrowed: dict[int, asyncio.Timeout] = {}
        self._unanswered: dict[NodeId, tuple[NodeRequest, asyncio.Timeout]] = {}
        self._wakes: dict[NodeId, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._running = False

    def start(self) -> None:
        self._running = True
        self._metadata.on_change(self._on_change)

    async def stop(self) -> None:
        self._running = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for delivery_id, future in tuple(self._waiting.items()):
            self._queues.cancel(delivery_id)
            self._let_go(delivery_id)
            if not future.done():
                future.set_result(None)

    async def deliver(
        self, shard: int, markers: Sequence[pb.TxnMarker], metadata_offset: int = 0
    ) -> Ended | None:
        """Bring the markers of one decision to their partitions, and return how that ended. None: the caller must ask
        again, here or another sender.

        None means that this sender stops, that there is no room, or that this process's metadata stay older than
        `metadata_offset`, the caller's. A partition that older metadata lack may be new, and only a deleted one needs
        no marker.

        When the caller's task is cancelled, the delivery is cancelled too: the caller will ask again.
        """
        if max(self._metadata.image.metadata_offset, 0) < metadata_offset:
            try:
                await self._metadata.wait_until(metadata_offset, _METADATA_WAIT_S)
            except TimeoutError:
                return None
        if not self._running:
            return None
        coordinator_epoch = CoordinatorEpoch(
            max((marker.coordinator_epoch for marker in markers), default=-1)
        )
        added = self._queues.add(
            shard,
            coordinator_epoch,
            [partitions_of(marker) for marker in markers],
            self._leader_of,
            self._now_ms(),
        )
        if added is None:
            return None
        delivery_id, ended = added
        if ended:
            return ended[0]
        future: asyncio.Future[Ended | None] = asyncio.get_running_loop().create_future()
        self._waiting[delivery_id] = future
        self._markers[delivery_id] = markers
        self._queued_ns[delivery_id] = time.time_ns()
        if self._events is not None:
            self._events.queued(shard, markers)
        try:
            await self._send_at_once(delivery_id)
            return await future
        finally:
            self._waiting.pop(delivery_id, None)
            self._markers.pop(delivery_id, None)
            self._queued_ns.pop(delivery_id, None)
            self._queues.cancel(delivery_id)

    def deliver_at_once(self, request: plain.DeliverMarkersRequest) -> list[bool]:
        """Return for each marker if the leader of its partitions is in this process and has written it without a wait.

        The caller uses `deliver` for the markers that are False. That may write a marker again, which changes nothing.
        """
        delivered = [False] * len(request.markers)
        if not self._running or self._metadata.image.metadata_offset < request.metadata_offset:
            return delivered
        of_node: dict[NodeId, list[int]] = {}
        for position, marker in enumerate(request.markers):
            nodes = {self._leader_of(partition) for partition in marker.partitions}
            node_id = nodes.pop()
            if not nodes and node_id is not None and 0 <= node_id < GROUP_COORDINATOR:
                of_node.setdefault(node_id, []).append(position)
        for node_id, positions in of_node.items():
            try:
                storage = self._stub(node_id)
            except KeyError:
                continue
            if not takes_plain(storage, "WriteMarkersAtOnce"):
                continue
            to_node = plain.WriteTxnMarkersRequest(
                [request.markers[at] for at in positions], partial(self._sent_at_once, node_id)
            )
            written = cast(WritesMarkersAtOnce, storage).WriteMarkersAtOnce(to_node)
            for at, is_written in zip(positions, written, strict=True):
                delivered[at] = is_written
        return delivered

    def _sent_at_once(self, node_id: NodeId, marker: plain.TxnMarker) -> None:
        if self._events is not None:
            self._events.sent_at_once(node_id, marker)

    def cancel_shard(self, shard: int, coordinator_epoch: CoordinatorEpoch) -> int:
        """Cancel what this shard's coordinators up to `coordinator_epoch` asked for; return how many deliveries that
        were.

        A shard is a partition of `__transaction_state`. The callers of these deliveries are told CANCELLED.
        """
        ended = self._queues.cancel_shard(shard, coordinator_epoch)
        self._end_deliveries(ended)
        return len(ended)

    def depths(self) -> tuple[QueueDepth, ...]:
        """Return the depths of the queues. A node that both leads partitions and coordinates groups has two rows."""
        return tuple(
            replace(depth, node_id=NodeId(depth.node_id - GROUP_COORDINATOR))
            if depth.node_id >= GROUP_COORDINATOR
            else depth
            for depth in self._queues.depths(self._now_ms())
        )

    def missing(self, producer_id: int) -> list[Partition] | None:
        """Return the partitions that still lack this producer's marker; None: none of its markers is under way here."""
        found: dict[Partition, None] | None = None
        for delivery_id, markers in self._markers.items():
            of_producer = [one.producer_id == producer_id for one in markers]
            if any(of_producer):
                missing = self._queues.missing(delivery_id)
                found = (found or {}) | {each: None for at, each in missing if of_producer[at]}
        return None if found is None else list(found)

    # ------------------------------------------------------------------------------------------------ sending

    async def _send_at_once(self, delivery_id: int) -> None:
        """Send a delivery to one node without a request in flight, from its caller's task; wake the tasks of all other
        nodes.
        """
        own: NodeRequest | None = None
        for node_id in self._queues.nodes_of(delivery_id):
            if own is None:
                own = self._queues.request_for_node(node_id, self._now_ms())
            if own is None or own.node_id != node_id:
                self._wake(node_id)
        if own is not None:
            await self._send(own, delivery_id)
            if self._queues.next_ready_ms(own.node_id) is not None:
                self._wake(own.node_id)

    def _wake(self, node_id: NodeId) -> None:
        if not self._running:
            return
        wake = self._wakes.get(node_id)
        if wake is None:
            wake = self._wakes[node_id] = asyncio.Event()
            name = f"markers to node {node_id}"
            self._tasks.append(asyncio.create_task(self._run(node_id, wake), name=name))
        wake.set()

    async def _run(self, node_id: NodeId, wake: asyncio.Event) -> None:
        while True:
            wake.clear()
            request = self._queues.request_for_node(node_id, self._now_ms())
            if request is not None:
                await self._send(request)
                continue
            ready_ms = self._queues.next_ready_ms(node_id)
            delay_s = None if ready_ms is None else max(1, ready_ms - self._now_ms()) / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await wake.wait()

    async def _send(self, request: NodeRequest, borrowed_from: int | None = None) -> None:
        """Send a request to a node, and hand its answer to the queues. A failed request is queued again: a marker that
        is written already changes nothing (docs/kafka-facts.md, 8.11).

        `borrowed_from` is the delivery in whose waiting caller's task this runs. When that delivery ends meanwhile, its
        caller does not wait for the answer.
        """
        message = RequestMessage(request, self._markers)
        if self._events is not None:
            self._events.sent(request.node_id, message.sent)
        try:
            answer = await self._call(request, message.message, borrowed_from)
        except asyncio.CancelledError:
            self._give_up(request)
            raise
        except (OncelogError, OSError, TimeoutError, KeyError) as error:
            if borrowed_from is not None and self._waiting[borrowed_from].done():
                self._give_up(request)
                return
            _log.warning("markers to node %d go again: %r", request.node_id, error)
            self._send_again(request, message, error)
        except Exception as error:
            # Not swallowed: the decision is durable and its markers are owed whatever went wrong, so they go again.
            _log.exception(
                "markers to node %d go again after an unforeseen failure", request.node_id
            )
            self._send_again(request, message, error)
        else:
            self._take_answer(request, message, message.codes(answer))

    async def _call(
        self, request: NodeRequest, message: pb.WriteTxnMarkersRequest, borrowed_from: int | None
    ) -> pb.WriteTxnMarkersResponse:
        def borrow(deadline: asyncio.Timeout) -> None:
            self._unanswered[request.node_id] = (request, deadline)
            if borrowed_from is not None:
                self._borrowed[borrowed_from] = deadline

        call = self._stub(request.node_id).WriteTxnMarkers(message)
        try:
            answer: pb.WriteTxnMarkersResponse = await answer_within(
                call, self._request_timeout_s, borrow
            )
            return answer
        finally:
            self._unanswered.pop(request.node_id, None)
            if borrowed_from is not None:
                self._borrowed.pop(borrowed_from, None)

    def _stub(self, node_id: NodeId) -> StorageStub | GroupCoordinatorStub:
        """Return the stub of a node, or of its group coordinator. Raises KeyError for a node that is not known yet."""
        if node_id >= GROUP_COORDINATOR:
            return self._directory.group_coordinator(node_id - GROUP_COORDINATOR)
        return self._directory.storage(node_id)

    def _give_up(self, request: NodeRequest) -> None:
        """Queue the markers of a request again, because the task that sent it was cancelled or has no reason to wait.

        The request also has markers of other deliveries, which other tasks then send.
        """
        self._end_deliveries(self._queues.given_up(request, self._leader_of))
        self._wake_all()

    def _under_way(self, message: RequestMessage) -> list[SentMarker]:
        """Return the markers of the request whose delivery has not ended."""
        return [one for one in message.sent if one.delivery_id in self._markers]

    def _send_again(
        self, request: NodeRequest, message: RequestMessage, error: BaseException
    ) -> None:
        if self._events is not None:
            reason = str(error) or type(error).__name__
            self._events.failed(request.node_id, self._under_way(message), reason)
        self._end_deliveries(
            self._queues.unanswered(request, self._leader_of, self._now_ms(), random.random())
        )
        self._wake_all()

    def _take_answer(
        self,
        request: NodeRequest,
        message: RequestMessage,
        codes: Mapping[tuple[int, int, Partition], ErrorCode],
    ) -> None:
        record_answered(request, codes, self._markers, self._queued_ns)
        if self._events is not None:
            self._events.refused(request.node_id, self._under_way(message), codes)
        answered = self._queues.settle_request(
            request, codes, self._leader_of, self._now_ms(), random.random()
        )
        for bug in answered.bugs:
            _log.error("%s; the marker goes again", bug)
        self._end_deliveries(answered.ended)
        self._wake_all(except_node=request.node_id)

    # ----------------------------------------------------------------------------------------------- metadata

    def _leader_of(self, partition: Partition) -> NodeId | None:
        image = self._metadata.image
        if image.metadata_offset < 0:
            return HOLDING  # nothing is known yet, so nothing is known to be gone
        found = image.partition(partition)
        if found is None:
            return None
        if partition.topic == CONSUMER_OFFSETS_TOPIC:
            shard = image.shards.get((GROUP, partition.partition))
            if shard is None or shard.coordinator < 0:
                return HOLDING
            return NodeId(GROUP_COORDINATOR + shard.coordinator)
        return NodeId(found.leader) if found.leader >= 0 else HOLDING

    def _on_change(self, old: MetadataImage, new: MetadataImage) -> None:
        if not self._running or (
            new.topics is old.topics and new.nodes == old.nodes and new.shards == old.shards
        ):
            return
        for node_id, (request, deadline) in tuple(self._unanswered.items()):
            leads_any = any(self._leader_of(one.partition) == node_id for one in request.entries)
            if not leads_any and not deadline.expired():
                # A node that froze does not answer; its successors can take these markers now.
                deadline.reschedule(asyncio.get_running_loop().time())
        self._end_deliveries(self._queues.reroute(self._leader_of))
        self._wake_all()

    def _wake_all(self, except_node: NodeId = HOLDING) -> None:
        for node_id in self._queues.nodes():
            if node_id != except_node:
                self._wake(node_id)

    def _end_deliveries(self, ended: Sequence[Ended]) -> None:
        for found in ended:
            self._let_go(found.delivery_id)
            future = self._waiting.get(found.delivery_id)
            if future is not None and not future.done():
                future.set_result(found)

    def _let_go(self, delivery_id: int) -> None:
        """Let the delivery's caller wait no longer for an answer, if a request is being sent from its task."""
        deadline = self._borrowed.pop(delivery_id, None)
        if deadline is not None and not deadline.expired():
            deadline.reschedule(asyncio.get_running_loop().time())

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)
