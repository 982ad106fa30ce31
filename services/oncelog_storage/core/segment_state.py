"""What a segment knows of its batches: size, ends, indexes, largest timestamp; and when the next one begins.

`oncelog_storage.segment.Segment` is one that has files. Appends go to the `.log` only; index entries gather here and
are written at the next checkpoint, since a crash before it scans this part of the log again anyway. A sealed segment's
indexes are loaded when first asked for.
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
from oncelog_storage.core.replay import HeaderFields
from oncelog_storage.core.segment_indexes import SegmentIndexes, empty_indexes

INDEX_BYTES_MAX: Final = 10 * 1024 * 1024
"""A segment rolls when its index has grown to this; Kafka's segment.index.bytes."""
_RELATIVE_OFFSET_MAX: Final = 2**31 - 1
_REBUILT_INTERVAL_BYTES: Final = 4096


class SegmentState(ABC):
    """Offsets from `base_offset` on. `size_bytes` is what counts: bytes behind it were never acknowledged."""

    def __init__(
        self, base_offset: int, *, size_bytes: int = 0, created_ms: int = 0, is_new: bool = False
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        """Of one that was there at the start, when its file was last written."""
        self.written_ms = 0
        """When this process last wrote to it."""
        self.first_timestamp = -1
        self.end_offset = -1
        """Behind the last batch, or where the next segment begins; -1 while a scan has not found it."""
        self.aborted_check = AbortedCheck()
        """What the last checkpoint says that the file of aborted transactions begins with."""
        self._is_aborted_derived = False
        """They come from the batches, and need not be the file's to the byte."""
        self.head_crc = 0
        """Of the header that it begins with, 0 for none."""
        self._bytes_since_entry = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self._knows_max_timestamp = is_new
        self._indexes: SegmentIndexes | None = empty_indexes(base_offset, []) if is_new else None

    @abstractmethod
    def _load_indexes(self) -> SegmentIndexes:
        """From where they are kept."""

    @property
    def changed_ms(self) -> int:
        """Its age counts from here if its records have no timestamps, as in Kafka."""
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
        """Take a batch into the indexes: an entry whenever `interval_bytes` have gone by."""
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
        """A marker in this segment ended this transaction; only one that was aborted is indexed."""
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
        """Put it into the time index, where it will be looked for when the batches are not read again: when no more
        batches come, as Kafka does, and with each checkpoint.
        """
        if self._max_timestamp >= 0:
            self._loaded().time.maybe_append(self._max_timestamp, self._max_timestamp_offset)

    def current_aborted_check(self) -> AbortedCheck:
        """For the aborted transactions known now: what the next checkpoint keeps."""
        if self._is_aborted_derived:
            self.aborted_check, self._is_aborted_derived = NOT_KNOWN, False
        if self._indexes is not None or not self.aborted_check.is_known:
            aborted = self._loaded().aborted
            if len(aborted) != self.aborted_check.entry_count:
                self.aborted_check = self.aborted_check.extended(aborted)
        return self.aborted_check

    def aborted_check_below(self, offset: int) -> AbortedCheck:
        """Of those entries that the file has."""
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
        """The files have all of the indexes."""
        return self._indexes is None or self._indexes.is_written

    def written(self, parts: list[tuple[str, int, bytes]]) -> None:
        """These parts are in their files now."""
        if self._indexes is not None:
            self._indexes.written(parts)

    def unload(self) -> None:
        """Give a sealed segment's indexes back; they are read again when needed. What no file has stays."""
        if self.is_written:
            self._indexes = None

    def _loaded(self) -> SegmentIndexes:
        if self._indexes is None:
            self._indexes = self._load_indexes()
        return self._indexes

    def _index_again(
        self, aborted: list[AbortedTransactionEntry], batches: Iterable[Found]
    ) -> SegmentIndexes:
        """Derive the indexes from all batches of the segment."""
        self._indexes = indexes = empty_indexes(self.base_offset, aborted)
        self._bytes_since_entry = 0
        self._max_timestamp, self._max_timestamp_offset = -1, self.base_offset
        for position, fields, _, _ in batches:
            self.index_batch(
                position,
                fields[1] + LENGTH_PREFIX_BYTES,
                fields[0] + fields[6],
                largest_timestamp(fields),
                _REBUILT_INTERVAL_BYTES,
            )
        self.index_largest_timestamp()
        return indexes


def is_entry_true(fields: HeaderFields, timestamp: int, offset: int) -> bool:
    """An entry of the time index names the last offset of a batch, and its largest timestamp."""
    return (fields[0] + fields[6], largest_timestamp(fields)) == (offset, timestamp)


class Addition(NamedTuple):
    """What is about to be appended."""

    size_bytes: int
    last_offset: int
    max_timestamp: int


def must_roll(
    segment: SegmentState, added: Addition, config: TopicConfig, partition: Partition, now: int
) -> bool:
    """A new segment takes what does not fit any more: by bytes, by offsets, by its index, or by its age.

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
    """How much earlier than segment.ms this one closes. It follows from the names, so a restart changes nothing."""
    longest = min(config.segment_jitter_ms, config.segment_ms)
    return crc32c(f"{partition}@{segment.base_offset}".encode()) % longest


def segment_index(segments: Sequence[SegmentState], offset: int) -> int:
    """Index of the segment that holds `offset`, or of the one before a gap; 0 without segments."""
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def _base_offset(segment: SegmentState) -> int:
    return segment.base_offset


def aborted_between(
    by_segment: Iterable[Sequence[AbortedTransactionEntry]], fetch_offset: int, upper_offset: int
) -> list[AbortedTransactionEntry]:
    """Aborted transactions with data in [fetch_offset, upper_offset) (facts 5.3).

    `by_segment` begins with the segment that holds `fetch_offset`; later ones are read only where they are needed.
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
