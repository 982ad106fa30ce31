"""The `MarkerSender` service: contract messages in and out, nothing decided here."""

from oncelog.api.v1 import marker_sender_pb2 as pb
from oncelog.api.v1 import types_pb2 as types
from oncelog.ids import CoordinatorEpoch
from oncelog_marker_sender.core.queues import Outcome
from oncelog_marker_sender.sender import MarkerSender

_OUTCOMES = {
    Outcome.DELIVERED: pb.DELIVERED,
    Outcome.FENCED: pb.FENCED,
    Outcome.CANCELLED: pb.CANCELLED,
}


class MarkerSenderServicer:
    """Answers as gRPC handlers do; `context` is None on a direct call."""

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
        )

    async def CancelShard(
        self, request: pb.CancelShardRequest, context: object
    ) -> pb.CancelShardResponse:
        coordinator_epoch = CoordinatorEpoch(request.coordinator_epoch)
        cancelled = self._sender.cancel_shard(request.shard, coordinator_epoch)
        return pb.CancelShardResponse(cancelled=cancelled)

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
