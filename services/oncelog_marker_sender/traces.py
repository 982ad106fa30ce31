"""The trace spans of markers: one for each marker and partition, from when it was queued to the leader's answer (ADR
0028).
"""

from collections.abc import Mapping, Sequence

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.rpc.trace_context import read_trace
from oncelog.telemetry import spans
from oncelog_marker_sender.core.queues import NodeRequest


def record_answered(
    request: NodeRequest,
    codes: Mapping[tuple[int, int, Partition], ErrorCode],
    markers: Mapping[int, Sequence[pb.TxnMarker]],
    queued_ns: Mapping[int, int],
) -> None:
    """Record a trace span for each marker of an answered request whose transaction is traced.

    `queued_ns` says when each delivery came, in nanoseconds since the Unix epoch.
    """
    if spans.recorder is None:
        return
    for entry in request.entries:
        delivery = markers.get(entry.delivery_id, ())
        for position in entry.markers:
            if position >= len(delivery) or not delivery[position].HasField("trace"):
                continue
            known = read_trace(delivery[position].trace)
            if known is None:
                continue
            code = codes.get((entry.delivery_id, position, entry.partition))
            home = spans.Home(known[0])
            home.is_kept = known[1]
            topic, partition = entry.partition
            span = spans.Span(
                f"send marker {topic}-{partition}",
                home,
                None,
                spans.Kind.PRODUCER,
                {
                    "messaging.destination.name": topic,
                    "messaging.destination.partition.id": str(partition),
                    "oncelog.leader": request.node_id & 0x7FFF_FFFF,
                    "oncelog.attempt": entry.attempt_count + 1,
                    "oncelog.commit": delivery[position].commit,
                },
                queued_ns.get(entry.delivery_id, 0),
            )
            span.end("" if code is ErrorCode.NONE else f"error {code.name if code else 'none'}")
