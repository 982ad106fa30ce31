"""The three indexes of a segment in memory, and how much of each is already in its file."""

from oncelog_storage.core.aborted_index import ENTRY_BYTES as ABORTED_ENTRY_BYTES
from oncelog_storage.core.aborted_index import (
    AbortedCheck,
    AbortedTransactionEntry,
    CorruptAbortedIndex,
    decode_entries,
    encode_entry,
)
from oncelog_storage.core.offset_index import OffsetIndex
from oncelog_storage.core.segment_files import (
    ABORTED_INDEX_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
)
from oncelog_storage.core.time_index import TimeIndex

Aborted = list[AbortedTransactionEntry]


def empty_indexes(base_offset: int, aborted: Aborted) -> "SegmentIndexes":
    return SegmentIndexes(OffsetIndex(base_offset), TimeIndex(base_offset), aborted)


def decode_indexes(
    base_offset: int,
    size_bytes: int,
    offset_data: bytes,
    time_data: bytes,
    aborted: Aborted,
    *,
    below: int | None = None,
) -> "SegmentIndexes":
    """Read the indexes of a segment of `size_bytes` from their files' bytes.

    Entries from offset `below` on are dropped.

    Raises CorruptIndex.
    """
    offset_index, time_index = (
        OffsetIndex(base_offset, offset_data),
        TimeIndex(base_offset, time_data),
    )
    if below is not None:
        offset_index.truncate_from(below)
        time_index.truncate_from(below)
    offset_index.check(size_bytes)
    time_index.check()
    return SegmentIndexes(offset_index, time_index, aborted)


def aborted_entries(check: AbortedCheck, data: bytes) -> Aborted:
    """Return all entries of an aborted index file, which must match `check`. Raises CorruptAbortedIndex."""
    if not check.holds(data):
        raise CorruptAbortedIndex(f"the first {check.entry_count} entries are not what was written")
    return decode_entries(data)


class SegmentIndexes:
    __slots__ = ("aborted", "aborted_written", "offset", "offset_written", "time", "time_written")

    def __init__(
        self, offset: OffsetIndex, time: TimeIndex, aborted: list[AbortedTransactionEntry]
    ) -> None:
        self.offset = offset
        self.time = time
        self.aborted = aborted
        self.offset_written = offset.size_bytes
        self.time_written = time.size_bytes
        self.aborted_written = len(aborted)

    @property
    def is_written(self) -> bool:
        """True if the files have all entries of the three indexes."""
        return (
            self.offset_written == self.offset.size_bytes
            and self.time_written == self.time.size_bytes
            and self.aborted_written == len(self.aborted)
        )

    def unwritten(self, stem: str) -> list[tuple[str, int, bytes]]:
        """Return (path, position, bytes) of each part that is not in its file. An empty part creates its file.

        `stem` is the path without a suffix.
        """
        parts = [
            (
                stem + OFFSET_INDEX_SUFFIX,
                self.offset_written,
                self.offset.bytes_from(self.offset_written),
            ),
            (stem + TIME_INDEX_SUFFIX, self.time_written, self.time.bytes_from(self.time_written)),
        ]
        if self.aborted or self.aborted_written:
            start = self.aborted_written
            data = b"".join(encode_entry(entry) for entry in self.aborted[start:])
            parts.append((stem + ABORTED_INDEX_SUFFIX, start * ABORTED_ENTRY_BYTES, data))
        return parts

    def written(self, parts: list[tuple[str, int, bytes]]) -> None:
        """Count these parts as written to their files, so that `unwritten` no longer returns them."""
        for path, position, data in parts:
            end = position + len(data)
            if path.endswith(OFFSET_INDEX_SUFFIX):
                self.offset_written = end
            elif path.endswith(TIME_INDEX_SUFFIX):
                self.time_written = end
            else:
                self.aborted_written = end // ABORTED_ENTRY_BYTES
