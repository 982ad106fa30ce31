"""The three indexes of a segment in memory, and how much of each is in its file already."""

from typing import Final

from oncelog_storage.core.aborted_index import ENTRY_BYTES as ABORTED_ENTRY_BYTES
from oncelog_storage.core.aborted_index import AbortedTransactionEntry, encode_entry
from oncelog_storage.core.offset_index import OffsetIndex
from oncelog_storage.core.time_index import TimeIndex

OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
ABORTED_INDEX_SUFFIX: Final = ".txnindex"
INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX)


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
        """The files have all of them."""
        return (
            self.offset_written == self.offset.size_bytes
            and self.time_written == self.time.size_bytes
            and self.aborted_written == len(self.aborted)
        )

    def unwritten(self, stem: str) -> list[tuple[str, int, bytes]]:
        """(path, position, bytes) of what is not in the files; empty parts create them. `stem` is without a suffix."""
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
        """These parts are in their files now."""
        for path, position, data in parts:
            end = position + len(data)
            if path.endswith(OFFSET_INDEX_SUFFIX):
                self.offset_written = end
            elif path.endswith(TIME_INDEX_SUFFIX):
                self.time_written = end
            else:
                self.aborted_written = end // ABORTED_ENTRY_BYTES
