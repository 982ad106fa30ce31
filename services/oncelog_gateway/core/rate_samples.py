"""How fast partitions grow, from two samples of what their leaders count.

A sample is taken whenever a page, a list or a scrape reads partitions. So there is no rate before the second one, and a
rate says over which time it is. A new leader begins anew.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from oncelog.ids import Partition

SPACING_MS: Final = 5_000
WINDOW_MS: Final = 60_000
AGE_MAX_MS: Final = 300_000
"""An older sample says nothing of now."""
SPAN_MIN_MS: Final = 1_000
PARTITIONS_MAX: Final = 20_000


class Sample(NamedTuple):
    time_ms: int
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int


class Rate(NamedTuple):
    """Of several partitions together."""

    records: float
    """A second, written: markers and records that were aborted as well."""
    bytes: float | None
    """A second. None: a log was cut within the time, and its size does not say what was written."""
    span_ms: int
    """The longest time between two samples of a partition."""
    partition_count: int
    """Of which there are two samples."""


class RateSamples:
    def __init__(self) -> None:
        self._samples: dict[Partition, list[Sample]] = {}

    def add(self, partition: Partition, sample: Sample) -> None:
        kept = self._samples.setdefault(partition, [])
        last = kept[-1] if kept else sample
        if last.leader_epoch != sample.leader_epoch or last.log_end_offset > sample.log_end_offset:
            kept.clear()
        if len(kept) > 1 and kept[-1].time_ms - kept[-2].time_ms < SPACING_MS:
            kept.pop()
        kept.append(sample)
        while len(kept) > 2 and kept[1].time_ms <= sample.time_ms - WINDOW_MS:
            kept.pop(0)
        if len(kept) == 2 and kept[0].time_ms < sample.time_ms - AGE_MAX_MS:
            kept.pop(0)
        if len(self._samples) > PARTITIONS_MAX:
            del self._samples[next(iter(self._samples))]

    def rate(self, partitions: Iterable[Partition]) -> Rate | None:
        """None: of no partition there are two samples."""
        records, size, span_ms, count, is_cut = 0.0, 0.0, 0, 0, False
        for one in partitions:
            kept = self._samples.get(one, ())
            if not kept or kept[-1].time_ms - kept[0].time_ms < SPAN_MIN_MS:
                continue
            first, last = kept[0], kept[-1]
            elapsed_ms = last.time_ms - first.time_ms
            count += 1
            span_ms = max(span_ms, elapsed_ms)
            records += (last.log_end_offset - first.log_end_offset) * 1000 / elapsed_ms
            size += (last.size_bytes - first.size_bytes) * 1000 / elapsed_ms
            is_cut = (
                is_cut
                or last.log_start_offset != first.log_start_offset
                or last.size_bytes < first.size_bytes
            )
        return Rate(records, None if is_cut else size, span_ms, count) if count else None
