"""The state of a segment in memory: size, ends, indexes, largest timestamp; and the rule when the next one begins.

`oncelog_storage.segment.Segment` extends it with files. Appends go to the `.log` only. Index entries gather in memory
and are written at the next checkpoint, since a crash before it scans this part of the log again anyway. A sealed
segment's indexes are loaded when first asked for.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from oncelog.ids import Partition
from oncelog.record.batch import LENGTH_PREFIX_BYTES, largest_timestamp
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.aborted_index import (
    NOT_KNOWN,
    AbortedCheck,
    AbortedTransactionEntry,
    entries_below,
    search,
)
from oncelog_storage.core.batch_walk import Found, Stretch
from oncelog_storage.core.producer_state import CompletedTransaction
from oncelog_storage.core.replay import BASE_OFFSET, BATCH_LENGTH, LAST_OFFSET_DELTA, HeaderFields
from oncelog_storage.core.segment_indexes import SegmentIndexes, empty_indexes

INDEX_BYTES_MAX: Final = 10 * 1024 * 1024
"""A segment rolls when one of its indexes has grown to this size; Kafka's segment.index.bytes."""
_RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_REBUILT_INTERVAL_BYTES: Final = 4096


class SegmentState(ABC):
    """The state of one segment, which holds offsets from `base_offset` on.

    Only its first `size_bytes` count: bytes behind them were never acknowledged.
    """

    def __init__(
        self, base_offset: int, *, size_bytes: int = 0, created_ms: int = 0, is_new: bool = False
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        """The time when the segment was begun, in ms; for one found on disk, when its file was last written."""
        self.written_ms = 0
        """The time when this process last wrote to the segment, in ms; 0: it did not."""
        self.first_timestamp = -1
        self.end_offset = -1
        """The offset behind the last batch, or of the next segment; -1 while a scan has not found it."""
        self.aborted_check = AbortedCheck()
        """The check of the aborted index in the last checkpoint: the entries that its file begins with."""
        self._is_aborted_derived = False
        """True if the aborted transactions were derived from the batches. They need not equal the file's to the byte.
        """
        self.head_crc = 0
        """The CRC-32C of the header that the segment begins with; 0 for none."""
        self._bytes_since_entry = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self._knows_max_timestamp = is_new
        self._indexes: SegmentIndexes | None = empty_indexes(base_offset, []) if is_new else None

    @abstractmethod
    def _load_indexes(self) -> SegmentIndexes:
        """Load the segment's indexes from its files."""

    @property
    def changed_ms(self) -> int:
        """The time of the last change, in ms.

        As in Kafka, a segment's age counts from it if its records have no timestamps.
        """
        return max(self.created_ms, self.written_ms)

    @property
    def stretch(self) -> Stretch:
        return Stretch(self.base_offset, self.size_bytes, self.end_offset)

    def index_batch(
        self,
        position: int,
        size_bytes: int,
        last_offset: int,
        max_timestamp: int,
        interval_bytes: int,
    ) -> None:
        """Count a batch that was written to the segment: its end, its timestamps, and its place in the indexes.

        The indexes get an entry whenever more than `interval_bytes` were written since the last.
        """
        self.end_offset = last_offset + 1
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self.first_timestamp < 0:
            self.first_timestamp = max_timestamp
        if self._bytes_since_entry > interval_bytes:
            indexes = self._loaded()
            indexes.offset.append(last_offset, position)
            indexes.time.maybe_append(self._max_timestamp, self._max_timestamp_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes

    def add_aborted(self, entry: AbortedTransactionEntry) -> None:
        self._loaded().aborted.append(entry)

    def ended(self, completed: CompletedTransaction | None) -> None:
        """Put a transaction that a marker in this segment ended into the aborted index, if it was aborted. None: it
        ended none.
        """
        if completed is not None and not completed.is_commit:
            self.add_aborted(
                AbortedTransactionEntry(
                    completed.producer_id,
                    completed.first_offset,
                    completed.marker_offset,
                    completed.last_stable_offset,
                )
            )

    def index_largest_timestamp(self) -> None:
        """Put the largest timestamp into the time index.

        Readers find it there without the batches. As in Kafka, this is called when no more batches come. oncelog also
        calls it with each checkpoint.
        """
        if self._max_timestamp >= 0:
            self._loaded().time.maybe_append(self._max_timestamp, self._max_timestamp_offset)

    def current_aborted_check(self) -> AbortedCheck:
        """Return the check (entry count and CRC) of the aborted transactions known now. The next checkpoint writes
        it.
        """
        if self._is_aborted_derived:
            self.aborted_check, self._is_aborted_derived = NOT_KNOWN, False
        if self._indexes is not None or not self.aborted_check.is_known:
            aborted = self._loaded().aborted
            if len(aborted) != self.aborted_check.entry_count:
                self.aborted_check = self.aborted_check.extended(aborted)
        return self.aborted_check

    def aborted_check_below(self, offset: int) -> AbortedCheck:
        """Return the check (entry count and CRC) of those entries below `offset` that the aborted index's file has."""
        loaded = self._loaded()
        written = loaded.aborted[: loaded.aborted_written]
        return AbortedCheck().extended(entries_below(written, offset))

    # What is in memory, and what is in files.

    @property
    def index_bytes(self) -> int:
        return self._indexes.offset.size_bytes if self._indexes is not None else 0

    @property
    def is_loaded(self) -> bool:
        return self._indexes is not None

    @property
    def is_written(self) -> bool:
        """True if the files have all entries of the indexes."""
        return self._indexes is None or self._indexes.is_written

    def written(self, parts: list[tuple[str, int, bytes]]) -> None:
        """Count these parts of the indexes as written to their files."""
        if self._indexes is not None:
            self._indexes.written(parts)

    def unload(self) -> None:
        """Release a sealed segment's indexes from memory; they are read again when needed.

        Indexes that are not in their files yet stay in memory.
        """
        if self.is_written:
            self._indexes = None

    def _loaded(self) -> SegmentIndexes:
        if self._indexes is None:
            self._indexes = self._load_indexes()
        return self._indexes

    def _index_again(
        self, aborted: list[AbortedTransactionEntry], batches: Iterable[Found]
    ) -> SegmentIndexes:
        """Read all batches of the segment and build its indexes from them, because the index files are missing or
        wrong. Return the indexes.
        """
        self._indexes = indexes = empty_indexes(self.base_offset, aborted)
        self._bytes_since_entry = 0
        self._max_timestamp, self._max_timestamp_offset = -1, self.base_offset
        for position, fields, _, _ in batches:
            self.index_batch(
                position,
                fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES,
                fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA],
                largest_timestamp(fields),
                _REBUILT_INTERVAL_BYTES,
            )
        self.index_largest_timestamp()
        return indexes


def is_entry_true(fields: HeaderFields, timestamp: int, offset: int) -> bool:
    """True if an entry of the time index names the last offset of this batch, and its largest timestamp."""
    last_offset = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA]
    return (last_offset, largest_timestamp(fields)) == (offset, timestamp)


class Addition(NamedTuple):
    """The size, last offset and largest timestamp of batches that are about to be appended."""

    size_bytes: int
    last_offset: int
    max_timestamp: int


def must_roll(
    segment: SegmentState, added: Addition, config: TopicConfig, partition: Partition, now: int
) -> bool:
    """True if the append needs a new segment, because it does not fit this one by bytes, offsets, index size or age.

    segment.bytes is a config of 32 bits, so positions fit the offset index.
    """
    if segment.size_bytes + added.size_bytes > config.segment_bytes:
        return True
    if added.last_offset - segment.base_offset > _RELATIVE_OFFSET_MAX:
        return True
    if segment.index_bytes >= min(config.segment_index_bytes, INDEX_BYTES_MAX):
        return True
    open_max_ms = config.segment_ms
    if config.segment_jitter_ms:
        open_max_ms -= _jitter_ms(segment, config, partition)
    if segment.first_timestamp >= 0 and added.max_timestamp >= 0:
        return added.max_timestamp - segment.first_timestamp > open_max_ms
    return now - segment.created_ms > open_max_ms


def _jitter_ms(segment: SegmentState, config: TopicConfig, partition: Partition) -> int:
    """Return how many ms before segment.ms this segment closes.

    The number is derived from the names of partition and segment, so a restart does not change it.
    """
    longest = min(config.segment_jitter_ms, config.segment_ms)
    return crc32c(f"{partition}@{segment.base_offset}".encode()) % longest


def segment_index(segments: Sequence[SegmentState], offset: int) -> int:
    """Return the index of the segment that holds `offset`, or of the one before a gap; 0 without segments."""
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def _base_offset(segment: SegmentState) -> int:
    return segment.base_offset


def aborted_between(
    by_segment: Iterable[Sequence[AbortedTransactionEntry]], fetch_offset: int, upper_offset: int
) -> list[AbortedTransactionEntry]:
    """Return the aborted transactions with data in [fetch_offset, upper_offset) (docs/kafka-facts.md, 5.3).

    `by_segment` begins with the segment that holds `fetch_offset`. Later ones are read only if they are needed.
    """
    found: list[AbortedTransactionEntry] = []
    for entries in by_segment:
        first = bisect_right(entries, fetch_offset - 1, key=_last_offset)
        part, is_complete = search(entries[first:], fetch_offset, upper_offset)
        found += part
        if is_complete:
            break
    return found


def _last_offset(entry: AbortedTransactionEntry) -> int:
    return entry.last_offset
