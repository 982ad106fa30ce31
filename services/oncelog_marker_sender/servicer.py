"""The `MarkerSender` service: messages in and out, nothing decided here."""

from collections.abc import Sequence
from typing import ClassVar

from oncelog.api.v1 import marker_sender_pb2 as pb
from oncelog.api.v1 import storage_pb2
from oncelog.api.v1 import types_pb2 as types
from oncelog.ids import CoordinatorEpoch
from oncelog.rpc import plain
from oncelog_marker_sender.core.queues import Outcome, Refused
from oncelog_marker_sender.sender import MarkerSender

_OUTCOMES = {
    Outcome.DELIVERED: pb.DELIVERED,
    Outcome.FENCED: pb.FENCED,
    Outcome.CANCELLED: pb.CANCELLED,
}


class MarkerSenderServicer:
    """The handlers of the `MarkerSender` service, called as gRPC handlers are; `context` is None on a direct call."""

    direct_methods: ClassVar = {"DeliverAtOnce": "deliver_at_once"}

    def __init__(self, sender: MarkerSender) -> None:
        self._sender = sender

    async def DeliverMarkers(
        self, request: pb.DeliverMarkersRequest, context: object
    ) -> pb.DeliverMarkersResponse:
        ended = await self._sender.deliver(request.shard, request.markers, request.metadata_offset)
        if ended is None:
            return pb.DeliverMarkersResponse(outcome=pb.OVERLOADED)
        return pb.DeliverMarkersResponse(
            outcome=_OUTCOMES[ended.outcome],
            dropped=[
                types.TopicPartition(topic=partition.topic, partition=partition.partition)
                for partition in ended.dropped
            ],
            refused=[_refused(request.markers, one) for one in ended.refused],
        )

    def deliver_at_once(
        self, request: plain.DeliverMarkersRequest, context: object
    ) -> Sequence[bool]:
        return self._sender.deliver_at_once(request)

    async def CancelShard(
        self, request: pb.CancelShardRequest, context: object
    ) -> pb.CancelShardResponse:
        coordinator_epoch = CoordinatorEpoch(request.coordinator_epoch)
        cancelled = self._sender.cancel_shard(request.shard, coordinator_epoch)
        return pb.CancelShardResponse(cancelled=cancelled)

    async def DescribeDeliveries(
        self, request: pb.DescribeDeliveriesRequest, context: object
    ) -> pb.DescribeDeliveriesResponse:
        response = pb.DescribeDeliveriesResponse()
        for producer_id in request.producer_ids:
            missing = self._sender.missing(producer_id)
            if missing is not None:
                found = response.deliveries.add(producer_id=producer_id)
                for topic, partition in missing:
                    found.missing.add(topic=topic, partition=partition)
        return response

    async def DescribeQueues(
        self, request: pb.DescribeQueuesRequest, context: object
    ) -> pb.DescribeQueuesResponse:
        return pb.DescribeQueuesResponse(
            queues=[
                pb.DescribeQueuesResponse.Queue(
                    node_id=queue.node_id, depth=queue.depth, oldest_age_ms=queue.oldest_age_ms
                )
                for queue in self._sender.depths()
            ]
        )


def _refused(markers: Sequence[storage_pb2.TxnMarker], one: Refused) -> storage_pb2.MarkerResult:
    topic, partition = one.partition
    return storage_pb2.MarkerResult(
        producer_id=markers[one.marker].producer_id,
        partitions=[types.PartitionError(topic=topic, partition=partition, error_code=one.code)],
    )
