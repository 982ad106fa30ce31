"""The traces of transactions at a partition leader (ADR 0028).

A Produce that opens a transaction in a partition asks the coordinator, whose answer names the trace. Later requests do
not ask, so the leader remembers the trace until the transaction's marker. Markers carry their own trace.
"""

from collections import OrderedDict
from typing import Final

from oncelog.api.v1.storage_pb2 import TxnMarker, WriteTxnMarkersRequest, WriteTxnMarkersResponse
from oncelog.ids import Partition
from oncelog.rpc.trace_context import read_trace
from oncelog.telemetry import spans
from oncelog.trace import Traceparent, TransactionTrace
from oncelog_storage.core.markers import TV2
from oncelog_storage.core.record_links import LINKS_MAX

_NS_PER_MS: Final = 1_000_000
OPEN_MAX: Final = 10_000
"""The traces of at most this many producers are remembered.

Of more, the oldest is forgotten, and later requests go untraced.
"""


class OpenTransaction:
    """The open transaction of one producer at this node: its trace, and the partitions where a batch of it has been
    traced.
    """

    __slots__ = ("_partitions", "links", "producer_epoch", "trace")

    def __init__(self, producer_epoch: int, trace: TransactionTrace) -> None:
        self.producer_epoch = producer_epoch
        self.trace = trace
        self.links: set[Traceparent] = set()
        """The spans that the transaction's records name, to which it is linked."""
        self._partitions: set[Partition] = set()

    @property
    def links_left(self) -> int:
        return LINKS_MAX - len(self.links)

    def is_ended_by(self, marker: TxnMarker) -> bool:
        """True if this marker ends the transaction. A marker that was held up belongs to an earlier one.

        A marker of TV2 has the next epoch. A marker of TV1 says when its transaction began.
        """
        if marker.transaction_version >= TV2:
            return self.producer_epoch < marker.producer_epoch
        start_ms = marker.transaction_start_ms
        is_later = start_ms > 0 and self.trace.start_ns > (start_ms + 1) * _NS_PER_MS
        return self.producer_epoch <= marker.producer_epoch and not is_later

    def is_first_in(self, partition: Partition) -> bool:
        """Return True on the first call for this partition, and remember the partition: later calls return False. So a
        batch's records are searched for spans only once a partition and transaction.
        """
        if partition in self._partitions:
            return False
        self._partitions.add(partition)
        return True


class OpenTraces:
    """The traces of the transactions that are open at this node, by producer id. Spans of batches and markers join
    them.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[int, OpenTransaction] = OrderedDict()

    def belongs(
        self, running: spans.Span, producer_id: int, producer_epoch: int
    ) -> OpenTransaction | None:
        """Join a span with the open transaction of a producer: one learns the trace that the other knows.

        Returns the transaction, or None if neither knows a trace.
        """
        known = self._open.get(producer_id)
        if known is not None and known.producer_epoch != producer_epoch:
            known = None
        trace = running.home.trace
        if trace is None:
            if known is not None:
                running.home.move(known.trace)
            return known
        if known is None or known.trace.trace_id != trace.trace_id:
            known = self._open[producer_id] = OpenTransaction(producer_epoch, trace)
            if len(self._open) > OPEN_MAX:
                self._open.popitem(last=False)
        return known

    def ended(self, marker: TxnMarker) -> None:
        """Drop the transaction that this marker ended, if it is known here.

        A marker that names no trace says that its coordinator does not keep the trace. Then this process drops it too.
        """
        recorder = spans.recorder
        if recorder is None:
            return
        known = self._open.get(marker.producer_id)
        if known is None or not known.is_ended_by(marker):
            return
        del self._open[marker.producer_id]
        if not marker.HasField("trace"):
            recorder.verdict(known.trace.trace_id, is_kept=False)


def appended(
    producer_id: int, producer_epoch: int, partition: Partition, base_offset: int
) -> spans.Attributes:
    """Return the attributes that a span gets for a batch that was appended."""
    return {
        "oncelog.producer_id": producer_id,
        "oncelog.producer_epoch": producer_epoch,
        f"oncelog.offset.{partition}": base_offset,
    }


class MarkerSpans:
    """The spans of a WriteTxnMarkers request, one for each marker and partition. Times are noted while the markers are
    written, and the spans are recorded at the end.
    """

    def __init__(self) -> None:
        self._times: dict[tuple[str, int], tuple[int, int]] = {}

    def wrote(self, topic: str, partition: int, start_ns: int, end_ns: int) -> None:
        self._times[topic, partition] = (start_ns, end_ns)

    def record(self, request: WriteTxnMarkersRequest, response: WriteTxnMarkersResponse) -> None:
        """Record the spans of the request's markers, now that the whole request is answered."""
        recorder = spans.recorder
        if recorder is None:
            return
        for marker, result in zip(request.markers, response.results, strict=True):
            known = read_trace(marker.trace) if marker.HasField("trace") else None
            if known is None:
                continue
            trace, is_kept = known
            for answer in result.partitions:
                start_ns, end_ns = self._times[answer.topic, answer.partition]
                home = spans.Home(trace)
                home.is_kept = is_kept
                span = spans.Span(
                    f"marker {answer.topic}-{answer.partition}",
                    home,
                    None,
                    spans.Kind.INTERNAL,
                    {
                        "messaging.destination.name": answer.topic,
                        "messaging.destination.partition.id": str(answer.partition),
                        "oncelog.commit": marker.commit,
                        "oncelog.producer_id": marker.producer_id,
                        "oncelog.producer_epoch": marker.producer_epoch,
                        "oncelog.coordinator_epoch": marker.coordinator_epoch,
                    },
                    start_ns,
                )
                span.end(f"error {answer.error_code}" if answer.error_code else "", end_ns)
            recorder.verdict(trace.trace_id, is_kept=is_kept)
