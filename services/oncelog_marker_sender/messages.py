"""The WriteTxnMarkers messages: a request is built from queued markers, and the codes are read from its answer.

A marker that goes to a node with all its partitions is passed on as it came, without a copy. Where all roles share one
process, that is nearly every marker.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, error_code_of
from oncelog.ids import Partition
from oncelog_marker_sender.core.queues import Entry, NodeRequest


def partitions_of(marker: pb.TxnMarker) -> list[Partition]:
    return [Partition(found.topic, found.partition) for found in marker.partitions]


class SentMarker(NamedTuple):
    """One marker in a WriteTxnMarkers request, with those of its partitions that the request's node leads."""

    delivery_id: int
    position: int
    marker: pb.TxnMarker
    entries: Sequence[Entry]

    @property
    def partitions(self) -> list[Partition]:
        return [entry.partition for entry in self.entries]

    @property
    def attempt(self) -> int:
        return max(entry.attempt_count for entry in self.entries) + 1


class RequestMessage:
    """The message of one WriteTxnMarkers request, with what is needed to read its answer: results come in the order of
    `sent`.
    """

    def __init__(self, request: NodeRequest, markers: Mapping[int, Sequence[pb.TxnMarker]]) -> None:
        """Make the message. `markers` has each delivery's markers, in the order in which the coordinator gave them."""
        entries: dict[tuple[int, int], list[Entry]] = {}
        for entry in request.entries:
            for position in entry.markers:
                entries.setdefault((entry.delivery_id, position), []).append(entry)
        self.sent = [
            SentMarker(*key, markers[key[0]][key[1]], found)
            for key, found in sorted(entries.items(), key=itemgetter(0))
        ]
        self.message = pb.WriteTxnMarkersRequest(
            markers=[_narrowed(one.marker, one.partitions) for one in self.sent]
        )

    def codes(
        self, answer: pb.WriteTxnMarkersResponse
    ) -> dict[tuple[int, int, Partition], ErrorCode]:
        """Return a code for each partition of each marker that the answer has a result for.

        The key is (id of the delivery, position of the marker in the delivery, partition).
        """
        return {
            (one.delivery_id, one.position, Partition(found.topic, found.partition)): error_code_of(
                found.error_code
            )
            for one, result in zip(self.sent, answer.results, strict=False)
            for found in result.partitions
        }


def _narrowed(marker: pb.TxnMarker, partitions: Sequence[Partition]) -> pb.TxnMarker:
    if len(partitions) == len(marker.partitions):
        return marker
    wanted = frozenset(partitions)
    narrowed = pb.TxnMarker()
    narrowed.CopyFrom(marker)
    del narrowed.partitions[:]
    narrowed.partitions.extend(
        found for found in marker.partitions if Partition(found.topic, found.partition) in wanted
    )
    return narrowed
