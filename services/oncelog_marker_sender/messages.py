"""Requests to leaders and their answers, in the contract's messages.

A marker that goes to a node with all its partitions is passed on as it came; embedded, that is nearly every one.
"""

from collections.abc import Callable, Sequence

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, error_code_of
from oncelog.ids import Partition
from oncelog_marker_sender.core.queues import NodeRequest

MarkersOf = Callable[[int], Sequence[pb.TxnMarker]]
"""The markers of a delivery, in the order the coordinator gave them; none when it has ended."""


def partitions_of(marker: pb.TxnMarker) -> list[Partition]:
    return [Partition(found.topic, found.partition) for found in marker.partitions]


class RequestMessage:
    """One request, with what is needed to read its answer: results come in the order of `message.markers`."""

    def __init__(self, request: NodeRequest, markers_of: MarkersOf) -> None:
        wanted: dict[tuple[int, int], list[Partition]] = {}
        by_delivery: dict[int, dict[int, list[Partition]]] = {}
        for entry in request.entries:
            positions = by_delivery.setdefault(entry.delivery_id, {})
            for position in entry.markers:
                positions.setdefault(position, []).append(entry.partition)
        for delivery_id, positions in by_delivery.items():
            for position in sorted(positions):
                wanted[delivery_id, position] = positions[position]
        self._keys = tuple(wanted)
        self.message = pb.WriteTxnMarkersRequest(
            markers=[
                _narrowed(markers_of(delivery_id)[position], partitions)
                for (delivery_id, position), partitions in wanted.items()
            ]
        )

    def codes(
        self, answer: pb.WriteTxnMarkersResponse
    ) -> dict[tuple[int, int, Partition], ErrorCode]:
        """A code for each (delivery, position of marker, partition) that the answer has a result for."""
        return {
            (delivery_id, position, Partition(found.topic, found.partition)): error_code_of(
                found.error_code
            )
            for (delivery_id, position), result in zip(self._keys, answer.results, strict=False)
            for found in result.partitions
        }


def _narrowed(marker: pb.TxnMarker, partitions: Sequence[Partition]) -> pb.TxnMarker:
    if len(partitions) == len(marker.partitions):
        return marker
    wanted = frozenset(partitions)
    narrowed = pb.TxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        commit=marker.commit,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        transaction_start_ms=marker.transaction_start_ms,
        transactional_id=marker.transactional_id,
        partitions=[
            found
            for found in marker.partitions
            if Partition(found.topic, found.partition) in wanted
        ],
    )
    if marker.HasField("trace"):
        narrowed.trace.CopyFrom(marker.trace)
    return narrowed
