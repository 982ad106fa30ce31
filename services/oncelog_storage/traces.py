"""Where a partition leader's part in a transaction belongs (ADR 0028).

A Produce that opens a transaction in a partition asks the coordinator, whose answer says the trace. The ones behind it
do not ask, so the trace is remembered until the transaction's marker. Markers carry theirs.
"""

from collections import OrderedDict
from typing import Any, Final

from oncelog.api.v1.storage_pb2 import TxnMarker
from oncelog.ids import Partition
from oncelog.rpc.trace_context import read_trace
from oncelog.telemetry import spans
from oncelog.trace import Traceparent, TransactionTrace
from oncelog_storage.core.markers import TV2
from oncelog_storage.core.record_links import LINKS_MAX

_NS_PER_MS: Final = 1_000_000
OPEN_MAX: Final = 10_000
"""Producers with an open transaction here; of more, the oldest is forgotten, and its later requests go untraced."""


class OpenTransaction:
    """One of a producer here."""

    __slots__ = ("_partitions", "links", "producer_epoch", "trace")

    def __init__(self, producer_epoch: int, trace: TransactionTrace) -> None:
        self.producer_epoch = producer_epoch
        self.trace = trace
        self.links: set[Traceparent] = set()
        """To the spans that its records name."""
        self._partitions: set[Partition] = set()

    @property
    def links_left(self) -> int:
        return LINKS_MAX - len(self.links)

    def is_ended_by(self, marker: TxnMarker) -> bool:
        """A marker that was held up is of an earlier transaction. TV2's has the next epoch; TV1's tells the start."""
        if marker.transaction_version >= TV2:
            return self.producer_epoch < marker.producer_epoch
        start_ms = marker.transaction_start_ms
        is_later = start_ms > 0 and self.trace.start_ns > (start_ms + 1) * _NS_PER_MS
        return self.producer_epoch <= marker.producer_epoch and not is_later

    def is_first_in(self, partition: Partition) -> bool:
        """Whether a batch is the first that is traced there. True once."""
        if partition in self._partitions:
            return False
        self._partitions.add(partition)
        return True


class OpenTraces:
    """By producer, of this node."""

    def __init__(self) -> None:
        self._open: OrderedDict[int, OpenTransaction] = OrderedDict()

    def belongs(
        self, running: spans.Span, producer_id: int, producer_epoch: int
    ) -> OpenTransaction | None:
        """The request of this span writes for this producer: learn its trace from it, or it from what is known."""
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
        """By this `TxnMarker`. Without a trace in it, the transaction is not kept."""
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
    """What a span says of a batch in the log."""
    return {
        "oncelog.producer_id": producer_id,
        "oncelog.producer_epoch": producer_epoch,
        f"oncelog.offset.{partition}": base_offset,
    }


class MarkerSpans:
    """One for each marker and partition of a WriteTxnMarkers."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, int], tuple[int, int]] = {}

    def wrote(self, topic: str, partition: int, start_ns: int, end_ns: int) -> None:
        self._times[topic, partition] = (start_ns, end_ns)

    def record(self, request: Any, response: Any) -> None:
        """When the whole request is answered."""
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
