"""Segments without files, for tests of what their bytes mean."""

from oncelog.record.batch import Codec
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.record.records import Record, encode_batch
from oncelog_storage.core.batch_walk import Read
from oncelog_storage.core.segment_indexes import SegmentIndexes, empty_indexes
from oncelog_storage.core.segment_state import SegmentState
from oncelog_storage.core.walks import run_walk

NOW = 1_700_000_000_000


class MemorySegment(SegmentState):
    """Its index files are empty."""

    def _load_indexes(self) -> SegmentIndexes:
        return empty_indexes(self.base_offset, [])


def batch(
    offset, count=1, *, leader_epoch=0, timestamp=NOW, codec=Codec.NONE, value=b"v" * 20, **fields
):
    records = [Record(b"k", value, timestamp + i) for i in range(count)]
    encoded = bytearray(encode_batch(records, base_offset=offset, codec=codec, **fields))
    # The CRC does not cover it.
    encoded[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
    return bytes(encoded)


def moved(data, offset):
    """The same batch under another base offset, which the CRC does not cover."""
    return offset.to_bytes(8, "big") + data[8:]


def abort_marker(offset, producer_id):
    return bytes(
        encode_marker(
            Marker(MarkerType.ABORT, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=NOW,
            base_offset=offset,
        )
    )


def walked(walk, data):
    """What a walk returns that reads these bytes."""
    return run_walk(walk, lambda step: data[step.position : step.position + step.size_bytes])


def scanned(walk, data):
    """(position, base offset) of each batch, and how often the walk read."""
    found, reads = [], []

    def answer(step):
        if isinstance(step, Read):
            reads.append(step)
            return data[step.position : step.position + step.size_bytes]
        found.append((step[0], step[1][0]))
        return b""

    run_walk(walk, answer)
    return found, len(reads)
