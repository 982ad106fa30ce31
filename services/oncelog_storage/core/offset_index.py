"""The offset index, `<20-digit base offset>.index`: sparse offset → position (Kafka's format).

8-byte entries: offset relative to the segment's base i32, byte position i32. An entry names a batch's last offset and
where the batch begins; there is one about every index.interval.bytes. A lookup gives a position at or before the batch
that holds the offset, and the reader walks headers from there.
"""

import struct
from typing import Final

from oncelog.errors import OncelogError

ENTRY_BYTES: Final = 8
_ENTRY: Final = struct.Struct(">ii")


class CorruptIndex(OncelogError):
    """An index file that does not fit its segment; it must be built again from the segment."""


class OffsetIndex:
    def __init__(self, base_offset: int, data: bytes | bytearray = b"") -> None:
        self._base_offset = base_offset
        self._data = bytearray(data)
        self._last_relative = -1
        if self._data and len(self._data) % ENTRY_BYTES == 0:
            self._last_relative = _ENTRY.unpack_from(self._data, len(self._data) - ENTRY_BYTES)[0]

    def __len__(self) -> int:
        return len(self._data) // ENTRY_BYTES

    @property
    def size_bytes(self) -> int:
        return len(self._data)

    def bytes_from(self, position: int) -> bytes:
        """Return the part of the index file that begins at `position`, to be written."""
        return bytes(memoryview(self._data)[position:])

    def entry(self, index: int) -> tuple[int, int]:
        """Return (offset, position) of one entry."""
        relative, position = _ENTRY.unpack_from(self._data, index * ENTRY_BYTES)
        return self._base_offset + relative, position

    def append(self, offset: int, position: int) -> None:
        """Append an entry. Offsets must ascend.

        A relative offset that does not fit 32 bits is a bug: the segment should have rolled.
        """
        relative = offset - self._base_offset
        assert self._last_relative < relative < 2**31, (self._base_offset, offset)
        self._data += _ENTRY.pack(relative, position)
        self._last_relative = relative

    def lookup(self, offset: int) -> int:
        """Return the position of the last entry at or below `offset`; 0, the segment's beginning, if there is none."""
        data, low, high = self._data, 0, len(self._data) // ENTRY_BYTES
        relative = offset - self._base_offset
        unpack = _ENTRY.unpack_from
        while low < high:
            middle = (low + high) // 2
            if unpack(data, middle * ENTRY_BYTES)[0] <= relative:
                low = middle + 1
            else:
                high = middle
        return int(unpack(data, (low - 1) * ENTRY_BYTES)[1]) if low else 0

    def truncate_from(self, offset: int) -> None:
        """Drop entries at or above `offset`."""
        relative = offset - self._base_offset
        count = len(self)
        while count and _ENTRY.unpack_from(self._data, (count - 1) * ENTRY_BYTES)[0] >= relative:
            count -= 1
        del self._data[count * ENTRY_BYTES :]
        self._last_relative = self.entry(count - 1)[0] - self._base_offset if count else -1

    def check(self, segment_bytes: int) -> None:
        """Check that entries ascend and lie inside a segment of this size. Raises CorruptIndex."""
        if len(self._data) % ENTRY_BYTES:
            raise CorruptIndex(f"{len(self._data)} bytes are no whole number of index entries")
        previous_relative, previous_position = -1, -1
        for relative, position in _ENTRY.iter_unpack(bytes(self._data)):
            if relative <= previous_relative or not previous_position < position < segment_bytes:
                raise CorruptIndex(f"entry ({relative}, {position}) is out of place")
            previous_relative, previous_position = relative, position
