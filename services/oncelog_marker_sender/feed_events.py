"""The events that a marker sender publishes in the live feed: markers that are queued, sent, and failed
(docs/events.md)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import NodeId, Partition
from oncelog.rpc import plain
from oncelog.telemetry.feed import Feed, names_of
from oncelog_marker_sender.messages import SentMarker, partitions_of

_NODE_MASK: Final = 2**31 - 1
"""The mask that takes a node id from a queue's number. A node's group coordinator has its own queue, with one bit
more."""


class MarkerEvents:
    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def queued(self, shard: int, markers: Sequence[pb.TxnMarker]) -> None:
        for marker in markers:
            self._publish("marker_queued", marker, partitions_of(marker), shard=shard)

    def sent_at_once(self, node_id: NodeId, marker: plain.TxnMarker) -> None:
        self._publish("marker_queued", marker, marker.partitions, shard=marker.shard)
        self._publish("marker_sent", marker, marker.partitions, to_node=node_id, attempt=1)

    def sent(self, node_id: NodeId, markers: Iterable[SentMarker]) -> None:
        for one in markers:
            self._tried("marker_sent", node_id, one)

    def failed(self, node_id: NodeId, markers: Iterable[SentMarker], error: str) -> None:
        """Publish an event for each marker of a request to a node that failed as a whole. The markers will be sent
        again.
        """
        for one in markers:
            self._tried("marker_failed", node_id, one, error=error)

    def refused(
        self,
        node_id: NodeId,
        markers: Iterable[SentMarker],
        codes: Mapping[tuple[int, int, Partition], ErrorCode],
    ) -> None:
        """Publish an event for each of these markers that the partition's leader answered with an error, or not at all.

        `codes` are by (delivery id, position of marker, partition).
        """
        for one in markers:
            for entry in one.entries:
                code = codes.get((one.delivery_id, one.position, entry.partition))
                if code is not ErrorCode.NONE:
                    error = "no answer" if code is None else code.name
                    self._tried(
                        "marker_failed", node_id, one._replace(entries=[entry]), error=error
                    )

    def _tried(self, kind: str, node_id: NodeId, one: SentMarker, **more: str) -> None:
        to_node = node_id & _NODE_MASK
        self._publish(
            kind, one.marker, one.partitions, to_node=to_node, attempt=one.attempt, **more
        )

    def _publish(
        self,
        kind: str,
        marker: pb.TxnMarker | plain.TxnMarker,
        partitions: Sequence[Partition],
        **more: str | int,
    ) -> None:
        self._feed.publish(
            kind,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            outcome="commit" if marker.commit else "abort",
            partitions=len(partitions),
            names=names_of(partitions),
            **more,
        )
