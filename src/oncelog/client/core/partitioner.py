"""The partitions of Spark's rows: murmur2 of the key as every Kafka client computes it, or partitions in turn without a
key.

`positive(murmur2(key)) % partitions`, seed 0x9747b28c, little-endian blocks of four bytes (docs/kafka-facts.md, 7). The
hash runs over whole Arrow columns: one pass of numpy per block of four bytes, over the rows whose keys are that long.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_R: Final = np.uint32(24)

Int32s = npt.NDArray[np.int32]
_UInt32s = npt.NDArray[np.uint32]


def murmur2(keys: pa.BinaryArray) -> Int32s:
    """Return the signed 32-bit hash of each key of a binary Arrow array; that of a null is unspecified."""
    starts, lengths, data = _layout(keys)
    hashed = (np.uint32(_SEED) ^ lengths.astype(np.uint32)).astype(np.uint32)
    blocks = lengths >> 2
    rows = np.flatnonzero(blocks > 0)
    block = 0
    with np.errstate(over="ignore"):
        while len(rows):
            hashed[rows] = _mix(hashed[rows], _block_at(data, starts[rows] + 4 * block))
            block += 1
            rows = rows[blocks[rows] > block]
        hashed = _mix_tail(hashed, data, starts + (blocks << 2), lengths & 3)
        hashed ^= hashed >> np.uint32(13)
        hashed *= _M
        hashed ^= hashed >> np.uint32(15)
    return hashed.view(np.int32)


def partitions_of_keys(keys: pa.BinaryArray, partition_count: int) -> Int32s:
    """Return the partition of each key of a binary Arrow array; that of a null is unspecified."""
    return (murmur2(keys) & np.int32(0x7FFFFFFF)) % np.int32(partition_count)


def _layout(
    keys: pa.BinaryArray,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return where each key starts in the Arrow buffer, how long it is, and the buffer's bytes."""
    assert keys.type == pa.binary(), keys.type
    _, offsets_buffer, data_buffer = keys.buffers()
    count = keys.offset + len(keys) + 1
    narrow = np.frombuffer(offsets_buffer, dtype=np.int32, count=count)[keys.offset :]
    offsets: npt.NDArray[np.int64] = narrow.astype(np.int64)
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    return offsets[:-1], np.diff(offsets), data


def _block_at(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> _UInt32s:
    block = data[at].astype(np.uint32)
    for index in (1, 2, 3):
        block |= data[at + index].astype(np.uint32) << np.uint32(8 * index)
    return block


def _mix(hashed: _UInt32s, block: _UInt32s) -> _UInt32s:
    block = block * _M
    block ^= block >> _R
    return (hashed * _M) ^ (block * _M)


def _mix_tail(
    hashed: _UInt32s,
    data: npt.NDArray[np.uint8],
    at: npt.NDArray[np.int64],
    left: npt.NDArray[np.int64],
) -> _UInt32s:
    """Mix the last one to three bytes of each key into its hash; longer parts are done before."""
    for index in (2, 1, 0):
        rows = np.flatnonzero(left > index)
        hashed[rows] ^= data[at[rows] + index].astype(np.uint32) << np.uint32(8 * index)
    rows = np.flatnonzero(left > 0)
    hashed[rows] *= _M
    return hashed
