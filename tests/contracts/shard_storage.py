# ruff: noqa: N802 (the method names are the contract's)
"""A storage node in memory, as far as a coordinator's shard needs one: Append and Fetch, with faults on demand.

It keeps the promises of `storage.proto`: appends are fenced by coordinator epoch and by the expected offset, and an
identical batch sent again is answered for the first one. `MetadataFollower` and `LocalDirectory` are the real ones.
"""

import asyncio
from collections import defaultdict, deque

from oncelog.api.v1 import controller_pb2, marker_sender_pb2, storage_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog.record.batch import read_header, stamp
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataFollower

NODE = 1


class AnswerLost(ConnectionError):
    """The call took effect and its answer never came."""


class FakeLog:
    def __init__(self):
        self.batches = []
        self.end = 0
        self.high_watermark = None
        self.coordinator_epoch = -1
        self.appended = {}


class FakeStorage:
    """`faults` holds what happens to the next appends: an error code, "lost" (after the effect), or "cut" (before)."""

    def __init__(self):
        self.logs = defaultdict(FakeLog)
        self.faults = deque()
        self.append_calls = 0
        self.fetch_error = ErrorCode.NONE
        self.gate = None
        self.order = []

    async def Append(self, request, context=None):
        self.append_calls += 1
        if self.gate is not None:
            await self.gate.wait()
        fault = self.faults.popleft() if self.faults else None
        if fault == "cut":
            raise ConnectionError("connection cut")
        if isinstance(fault, ErrorCode):
            return storage_pb2.AppendResponse(error_code=fault, base_offset=-1)
        answer = self._append(request)
        if fault == "lost":
            raise AnswerLost("answer lost")
        return answer

    def _append(self, request):
        log = self.logs[request.partition.topic, request.partition.partition]
        if request.coordinator_epoch < log.coordinator_epoch:
            return _refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        log.coordinator_epoch = request.coordinator_epoch
        header = read_header(request.records)
        key = (
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_sequence,
        )
        if header.base_sequence >= 0 and key in log.appended:
            return storage_pb2.AppendResponse(base_offset=log.appended[key])
        if request.HasField("expected_base_offset") and request.expected_base_offset != log.end:
            if header.base_sequence < 0 and _is_last(log, request):
                return storage_pb2.AppendResponse(base_offset=request.expected_base_offset)
            return _refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        batch = bytearray(request.records)
        stamp(batch, log.end, 0)
        log.batches.append(bytes(batch))
        log.appended[key] = log.end
        log.end += header.record_count
        self.order.append("append")
        return storage_pb2.AppendResponse(base_offset=log.end - header.record_count)

    async def Fetch(self, request, context=None):
        fetched = request.partitions[0]
        log = self.logs[fetched.topic, fetched.partition]
        assert request.read_to_log_end
        log.coordinator_epoch = max(log.coordinator_epoch, request.coordinator_epoch)
        answer = storage_pb2.FetchedPartition(
            topic=fetched.topic,
            partition=fetched.partition,
            error_code=self.fetch_error,
            high_watermark=log.end if log.high_watermark is None else log.high_watermark,
        )
        if not self.fetch_error:
            answer.records = b"".join(
                batch
                for batch in log.batches
                if read_header(batch).next_offset > fetched.fetch_offset
            )[: fetched.max_bytes]
        return storage_pb2.FetchResponse(partitions=[answer])


def _is_last(log, request):
    """Everything behind what a leader stamps is the same."""
    last = read_header(log.batches[-1]) if log.batches else None
    return (
        last is not None
        and last.base_offset == request.expected_base_offset
        and log.batches[-1][16:] == request.records[16:]
    )


def _refused(error_code):
    return storage_pb2.AppendResponse(error_code=error_code, base_offset=-1)


class FakeController:
    def __init__(self, block_size=1000):
        self.block_size = block_size
        self.next_id = 0
        self.faults = deque()
        self.calls = 0

    async def AllocateProducerIds(self, request, context=None):
        self.calls += 1
        fault = self.faults.popleft() if self.faults else None
        if isinstance(fault, ErrorCode):
            answer = controller_pb2.AllocateProducerIdsResponse()
            answer.status.error_code = fault
            return answer
        if isinstance(fault, tuple):
            first, count = fault
            return controller_pb2.AllocateProducerIdsResponse(
                first_producer_id=first, producer_id_count=count
            )
        first, self.next_id = self.next_id, self.next_id + self.block_size
        return controller_pb2.AllocateProducerIdsResponse(
            first_producer_id=first, producer_id_count=self.block_size
        )


class FakeMarkerSender:
    """Delivers at once unless `gate` is set. `outcomes` holds what happens to the next deliveries."""

    def __init__(self):
        self.requests = []
        self.outcomes = deque()
        self.cancelled = []
        self.gate = None
        self.order = []

    async def DeliverMarkers(self, request, context=None):
        self.requests.append(request)
        self.order.append("markers")
        if self.gate is not None:
            await self.gate.wait()
        outcome = self.outcomes.popleft() if self.outcomes else marker_sender_pb2.DELIVERED
        if isinstance(outcome, Exception):
            raise outcome
        return marker_sender_pb2.DeliverMarkersResponse(outcome=outcome)

    async def DescribeDeliveries(self, request, context=None):
        """A delivery that it holds back misses all of its markers: nothing is known of it here."""
        return marker_sender_pb2.DescribeDeliveriesResponse()

    async def CancelShard(self, request, context=None):
        self.cancelled.append((request.shard, request.coordinator_epoch))
        return marker_sender_pb2.CancelShardResponse()


def topic(name, count, internal=False):
    return controller_pb2.Topic(
        name=name,
        internal=internal,
        partitions=[
            controller_pb2.Partition(
                partition=number, leader=NODE, leader_epoch=0, replicas=[NODE], isr=[NODE]
            )
            for number in range(count)
        ],
    )


def shards(coordinator=NODE, coordinator_epoch=0, count=4, kind=TRANSACTION):
    return [
        controller_pb2.Shard(
            kind=kind, shard=n, coordinator=coordinator, coordinator_epoch=coordinator_epoch
        )
        for n in range(count)
    ]


class Cluster:
    """Everything around a coordinator."""

    def __init__(self, shard_count=4, transaction_version=2, block_size=1000):
        self.storage = FakeStorage()
        self.controller = FakeController(block_size)
        self.marker_sender = FakeMarkerSender()
        self.marker_sender.order = self.storage.order
        self.directory = LocalDirectory(
            storage=DirectStub(self.storage),
            coordinator=None,
            marker_sender=DirectStub(self.marker_sender),
            controller=DirectStub(self.controller),
        )
        self.metadata = MetadataFollower(NODE, None)
        self._metadata_offset = 0
        self.metadata.apply_update(
            controller_pb2.MetadataUpdate(
                metadata_offset=0,
                snapshot=controller_pb2.MetadataSnapshot(
                    nodes=[controller_pb2.Node(node_id=NODE, node_epoch=1)],
                    topics=[
                        topic(TRANSACTION_STATE_TOPIC, shard_count, internal=True),
                        topic(CONSUMER_OFFSETS_TOPIC, 4, internal=True),
                        topic("orders", 3),
                        topic("refunds", 1),
                    ],
                    shards=[*shards(count=shard_count), *shards(kind=GROUP)],
                    features=controller_pb2.Features(
                        features_epoch=1, levels={"transaction.version": transaction_version}
                    ),
                ),
            )
        )

    def change(self, **delta):
        self._metadata_offset += 1
        self.metadata.apply_update(
            controller_pb2.MetadataUpdate(
                metadata_offset=self._metadata_offset, delta=controller_pb2.MetadataDelta(**delta)
            )
        )


async def until(condition, timeout_s=30.0):
    """Wait for a condition; fails after the deadline."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
