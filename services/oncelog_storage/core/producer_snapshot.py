"""Producer snapshots, `<20-digit offset>.snapshot`: producer state at that log end offset (docs/kafka-facts.md, 5.4,
byte for byte).

```
version i16 = 1 · crc u32 (CRC-32C of the rest) · count i32 ·
count × (producerId i64 · producerEpoch i16 · lastSequence i32 · lastOffset i64 · offsetDelta i32 · timestamp i64 ·
         coordinatorEpoch i32 · currentTxnFirstOffset i64)
```

Only the last batch of a producer is kept, so after a restart a retry is recognised one batch back.
"""

import struct
from collections.abc import Iterable
from typing import Final

from crc32c import crc32c

from oncelog.errors import OncelogError
from oncelog_storage.core.producer_state import KeptBatch, ProducerEntry

VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")
_CRC_FROM: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class CorruptSnapshot(OncelogError):
    """A snapshot that cannot be used. A start takes an older one, or replays the log itself."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    packed = []
    for entry in entries:
        kept = entry.batches[-1] if entry.batches else None
        packed.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                kept.last_sequence if kept else -1,
                kept.last_offset if kept else -1,
                kept.offset_delta if kept else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
        )
    tail = struct.pack(">i", len(packed)) + b"".join(packed)
    return struct.pack(">hI", VERSION, crc32c(tail)) + tail


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Read a producer snapshot. Raises CorruptSnapshot."""
    if len(data) < _HEAD.size:
        raise CorruptSnapshot(f"{len(data)} bytes hold no producer snapshot")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"producer snapshot has version {version}; oncelog reads {VERSION}")
    if crc32c(memoryview(data)[_CRC_FROM:]) != crc:
        raise CorruptSnapshot("producer snapshot fails its CRC-32C")
    if count < 0 or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"producer snapshot of {len(data)} bytes says {count} producers")
    entries = []
    for row in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
        producer_id, producer_epoch, last_sequence, last_offset, *others = row
        offset_delta, timestamp, coordinator_epoch, current_txn_first_offset = others
        entry = ProducerEntry(producer_id)
        entry.producer_epoch = producer_epoch
        if last_offset >= 0:
            entry.batches.append(KeptBatch(last_sequence, last_offset, offset_delta, timestamp))
        entry.last_timestamp = timestamp
        entry.coordinator_epoch = coordinator_epoch
        entry.current_txn_first_offset = current_txn_first_offset
        entries.append(entry)
    return entries
