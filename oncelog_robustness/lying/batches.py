"""Changes record batches as a lie (a bug that the proxy plants) needs them. The functions take and return
bytes, with a correct CRC in every batch."""

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from oncelog.ids import NO_SEQUENCE
from oncelog.record.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    iter_headers,
    stamp_producer,
)
from oncelog.record.control import decode_marker

_ATTRIBUTES: Final = struct.Struct(">h")
_ATTRIBUTES_AT: Final = 21
_CRC_AT: Final = 17
_CRC_FROM: Final = 21


class Batch(NamedTuple):
    header: BatchHeader
    content: bytes

    @property
    def is_data(self) -> bool:
        return not self.header.is_control and self.header.record_count > 0


def batches_of(records: Buffer | None) -> Iterator[Batch]:
    """Yield the whole batches of one partition's `records`."""
    if records is None:
        return
    view = memoryview(records)
    for position, header in iter_headers(view):
        yield Batch(header, bytes(view[position : position + header.size_bytes]))


def changed(records: Buffer | None, change: Callable[[Batch], bytes]) -> bytes | None:
    """Return `records` with each batch replaced by `change`; a cut batch at the end is left out."""
    if records is None:
        return None
    return b"".join(change(one) for one in batches_of(records))


def emptied(batch: Batch) -> bytes:
    """Return a batch of the same offsets without a record, as compaction leaves one."""
    header = batch.header._replace(
        batch_length=HEADER_BYTES - LENGTH_PREFIX_BYTES,
        attributes=batch.header.attributes & ~CODEC_MASK,
        record_count=0,
    )
    content = bytearray(HEADER.pack(*header))
    struct.pack_into(">I", content, _CRC_AT, crc32c(memoryview(content)[_CRC_FROM:]))
    return bytes(content)


def moved(batch: Batch, base_offset: int) -> bytes:
    """Return the batch with the same records, and with offsets that begin at `base_offset`."""
    return struct.pack(">q", base_offset) + batch.content[8:]


def without_producer(records: Buffer) -> bytes:
    """Return the same records as a producer without idempotence and transactions would send them."""
    content = bytearray(records)
    (attributes,) = _ATTRIBUTES.unpack_from(content, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(content, _ATTRIBUTES_AT, attributes & ~TRANSACTIONAL)
    stamp_producer(content, -1, -1, NO_SEQUENCE)
    return bytes(content)


def is_abort_marker(batch: Batch) -> bool:
    marker = decode_marker(batch.content) if batch.header.is_control else None
    return marker is not None and not marker.is_commit
