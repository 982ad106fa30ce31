"""The time index, `<20-digit base offset>.timeindex`: sparse timestamp → offset (Kafka's format).

12-byte entries: timestamp i64 (ms), offset relative to the segment's base i32. An entry says that no record up to that
offset has a larger timestamp. So a search for a timestamp may begin behind the last entry below it.
"""

import struct
from typing import Final

from oncelog_storage.core.offset_index import CorruptIndex

ENTRY_BYTES: Final = 12
_ENTRY: Final = struct.Struct(">qi")


def decode_entry(data: bytes, base_offset: int) -> tuple[int, int]:
    """Return (timestamp in ms, offset) of one entry's bytes."""
    timestamp, relative = _ENTRY.unpack(data)
    return timestamp, base_offset + relative


class TimeIndex:
    def __init__(self, base_offset: int, data: bytes | bytearray = b"") -> None:
        self._base_offset = base_offset
        self._data = bytearray(data)

    def __len__(self) -> int:
        return len(self._data) // ENTRY_BYTES

    @property
    def size_bytes(self) -> int:
        return len(self._data)

    def bytes_from(self, position: int) -> bytes:
        """Return the part of the index file that begins at `position`, to be written."""
        return bytes(memoryview(self._data)[position:])

    def entry(self, index: int) -> tuple[int, int]:
        """Return (timestamp in ms, offset) of one entry."""
        timestamp, relative = _ENTRY.unpack_from(self._data, index * ENTRY_BYTES)
        return timestamp, self._base_offset + relative

    def last(self) -> tuple[int, int]:
        """Return (largest timestamp, its offset); (-1, base offset) while the index is empty."""
        return self.entry(len(self) - 1) if self._data else (-1, self._base_offset)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry unless it says nothing new: timestamps ascend, offsets never fall."""
        last_timestamp, last_offset = self.last()
        if timestamp > last_timestamp and (offset > last_offset or not self._data):
            self._data += _ENTRY.pack(timestamp, offset - self._base_offset)

    def lookup(self, timestamp: int) -> tuple[int, int] | None:
        """Return the last entry below `timestamp`; None if there is none. No record up to its offset is as large."""
        data, low, high = self._data, 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if _ENTRY.unpack_from(data, middle * ENTRY_BYTES)[0] < timestamp:
                low = middle + 1
            else:
                high = middle
        return self.entry(low - 1) if low else None

    def truncate_from(self, offset: int) -> None:
        """Drop entries that name `offset` or a later one."""
        count = len(self)
        while count and self.entry(count - 1)[1] >= offset:
            count -= 1
        del self._data[count * ENTRY_BYTES :]

    def check(self) -> None:
        """Check that entries ascend. Raises CorruptIndex."""
        if len(self._data) % ENTRY_BYTES:
            raise CorruptIndex(f"{len(self._data)} bytes are no whole number of time index entries")
        previous = (-2, -1)
        for timestamp, relative in _ENTRY.iter_unpack(bytes(self._data)):
            if timestamp <= previous[0] or relative < previous[1] or relative < 0:
                raise CorruptIndex(f"entry ({timestamp}, {relative}) is out of place")
            previous = (timestamp, relative)
