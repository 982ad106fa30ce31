"""What a marker sender tells the live feed: markers that are queued, sent, and sent in vain (docs/events.md)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.telemetry.feed import Feed, names_of
from oncelog_marker_sender.core.queues import NodeRequest
from oncelog_marker_sender.messages import partitions_of

_NODE_MASK: Final = 2**31 - 1
"""A node's group coordinator has a queue of its own, under a number with one bit more."""


class MarkerEvents:
    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def queued(self, shard: int, markers: Sequence[pb.TxnMarker]) -> None:
        for marker in markers:
            self._publish("marker_queued", marker, partitions_of(marker), shard=shard)

    def sent(
        self, request: NodeRequest, markers_of: Callable[[int], Sequence[pb.TxnMarker]]
    ) -> None:
        for marker, partitions, attempt in _of_request(request, markers_of):
            self._publish(
                "marker_sent",
                marker,
                partitions,
                to_node=request.node_id & _NODE_MASK,
                attempt=attempt,
            )

    def failed(
        self,
        request: NodeRequest,
        markers_of: Callable[[int], Sequence[pb.TxnMarker]],
        error: str,
    ) -> None:
        """The whole request; its markers go again."""
        for marker, partitions, attempt in _of_request(request, markers_of):
            self._publish(
                "marker_failed",
                marker,
                partitions,
                to_node=request.node_id & _NODE_MASK,
                attempt=attempt,
                error=error,
            )

    def refused(
        self,
        request: NodeRequest,
        codes: Mapping[tuple[int, int, Partition], ErrorCode],
        markers_of: Callable[[int], Sequence[pb.TxnMarker]],
    ) -> None:
        """Single markers that the leader answered with an error."""
        for entry in request.entries:
            markers = markers_of(entry.delivery_id)
            for position in entry.markers:
                code = codes.get((entry.delivery_id, position, entry.partition))
                if code is ErrorCode.NONE or position >= len(markers):
                    continue
                self._publish(
                    "marker_failed",
                    markers[position],
                    [entry.partition],
                    to_node=request.node_id & _NODE_MASK,
                    attempt=entry.attempt_count + 1,
                    error="no answer" if code is None else code.name,
                )

    def _publish(
        self, kind: str, marker: pb.TxnMarker, partitions: Sequence[Partition], **more: str | int
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


def _of_request(
    request: NodeRequest, markers_of: Callable[[int], Sequence[pb.TxnMarker]]
) -> list[tuple[pb.TxnMarker, list[Partition], int]]:
    """Each marker with its partitions and the number of this attempt."""
    wanted: dict[tuple[int, int], list[Partition]] = {}
    attempts: dict[tuple[int, int], int] = {}
    for entry in request.entries:
        for position in entry.markers:
            key = (entry.delivery_id, position)
            wanted.setdefault(key, []).append(entry.partition)
            attempts[key] = max(attempts.get(key, 0), entry.attempt_count + 1)
    found = []
    for (delivery_id, position), partitions in wanted.items():
        markers = markers_of(delivery_id)
        if position < len(markers):
            found.append((markers[position], partitions, attempts[delivery_id, position]))
    return found
