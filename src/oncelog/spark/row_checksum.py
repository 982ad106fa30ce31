"""A checksum of rows that does not depend on their order, nor on how they are divided into batches and tasks.

Each row is hashed over its columns, and the hashes are added modulo 2^63. A batch that Spark runs again may have other
tasks, and rows without a key may go to other partitions; its sum is the same while its rows are. So the coordinator can
compare a batch that it would skip with the batch that was committed (`sink_replay`).

It runs on every row that is written, so it is vectorised. The bytes of a column are padded with zeros to one width and
read as a matrix of 64-bit words. A row's hash is the sum of its words, each times an odd number that belongs to the
word's place. Zeros add nothing, so the width does not matter; the length is added for the same reason. The coordinator
stores checksums: with another hash every batch that was committed before looks different.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oncelog.spark.rows import as_binary

CHECKSUM_MASK: Final = 2**63 - 1
_WORD_BYTES: Final = 8
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_SLICE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of a column that are padded at a time.
Padding takes up to four times as much, and Arrow's offsets are 32 bits."""
_LONG_ROW: Final = 4
"""The factor of the mean length above which rows are padded apart from the others."""
_MICROS: Final = 1000

_COLUMNS: Final = ("value", "key", "topic", "partition", "timestamp", "headers")
"""The columns in the order of their numbers in the hash. An absent column counts as null."""

_Hashes = npt.NDArray[np.uint64]


class RowChecksum:
    """The count of the rows that a Spark task wrote, and a checksum of them that does not depend on their order."""

    def __init__(self) -> None:
        self.row_count = 0
        self.value = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of an Arrow record batch with columns of the sink."""
        if not batch.num_rows:
            return
        self.row_count += batch.num_rows
        self.value = (self.value + int(_row_hashes(batch).sum(dtype=np.uint64))) & CHECKSUM_MASK


def _row_hashes(batch: pa.RecordBatch) -> _Hashes:
    total = np.zeros(batch.num_rows, dtype=np.uint64)
    weights = _odd_numbers(len(_COLUMNS))
    for weight, name in zip(weights, _COLUMNS, strict=True):
        if name not in batch.schema.names:
            continue
        column = batch.column(name)
        hashes = (_column_hashes(name, column) + _GOLDEN) * weight
        if column.null_count:
            hashes[column.is_null().to_numpy(zero_copy_only=False)] = 0
        total += hashes
    return _mixed(total)


def _column_hashes(name: str, column: pa.Array) -> _Hashes:
    if name == "headers":
        return _header_hashes(column)
    if name == "partition":
        return _of_numbers(column)
    if name == "timestamp":
        return _of_numbers(pc.divide(column.cast(pa.int64()), _MICROS))
    return _of_bytes(as_binary(column))


def _of_numbers(column: pa.Array) -> _Hashes:
    filled = pc.fill_null(column.cast(pa.int64()), 0)
    numbers: npt.NDArray[np.int64] = filled.to_numpy(zero_copy_only=False)
    return numbers.view(np.uint64) * _MIX_1


def _header_hashes(column: pa.ListArray) -> _Hashes:
    """Return a hash of each row's headers. Each header is weighted by its place, because their order matters."""
    hashes = np.zeros(len(column), dtype=np.uint64)
    items = column.flatten()
    if not len(items):
        return hashes
    keys = _mixed(_of_bytes(as_binary(items.field(0))))
    values = _mixed(_of_bytes(as_binary(items.field(1))) + _GOLDEN)
    values[items.field(1).is_null().to_numpy(zero_copy_only=False)] = 0
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    places = np.arange(len(items)) - np.repeat(np.cumsum(counts) - counts, counts)
    weighted = _mixed(keys + values * _MIX_1) * _odd_numbers(int(places.max()) + 1)[places]
    np.add.at(hashes, np.repeat(np.arange(len(column)), counts), weighted)
    return hashes


def _of_bytes(column: pa.BinaryArray) -> _Hashes:
    """Return the hash of each value of a binary array; null hashes as empty."""
    if column.null_count:
        column = pc.fill_null(column, b"")
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
    offsets = offsets[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(offsets)
    hashes = np.empty(len(column), dtype=np.uint64)
    count_max = max(1, _SLICE_BYTES_MAX * len(column) // max(1, int(lengths.sum())))
    for start in range(0, len(column), count_max):
        part = slice(start, start + count_max)
        hashes[part] = _of_slice(column.slice(start, count_max), lengths[part])
    return hashes + lengths.astype(np.uint64) * _GOLDEN


def _of_slice(column: pa.BinaryArray, lengths: npt.NDArray[np.int32]) -> _Hashes:
    longest, mean = int(lengths.max()), float(lengths.mean())
    if longest <= _LONG_ROW * mean + _WORD_BYTES:
        return _padded(column, longest)
    hashes = np.empty(len(column), dtype=np.uint64)
    is_long = lengths > _LONG_ROW * mean + _WORD_BYTES
    for rows in (is_long, ~is_long):
        hashes[rows] = _of_slice(column.filter(pa.array(rows)), lengths[rows])
    return hashes


def _padded(column: pa.BinaryArray, longest: int) -> _Hashes:
    word_count = -(-longest // _WORD_BYTES)
    if not word_count:
        return np.zeros(len(column), dtype=np.uint64)
    # Arrow pads text only. Its ASCII kernels take bytes as they are, so the column is read as text.
    text = pa.Array.from_buffers(
        pa.string(), len(column), [None, *column.buffers()[1:]], offset=column.offset
    )
    padded = pc.ascii_rpad(text, width=word_count * _WORD_BYTES, padding="\0")
    words = np.frombuffer(padded.buffers()[2], dtype="<u8", count=len(column) * word_count)
    products: _Hashes = words.reshape(len(column), word_count) @ _odd_numbers(word_count)
    return products


_odd_numbers_known: _Hashes = np.empty(0, dtype=np.uint64)


def _odd_numbers(count: int) -> _Hashes:
    """Return the first odd numbers of a fixed sequence (SplitMix64)."""
    global _odd_numbers_known
    if len(_odd_numbers_known) < count:
        places = np.arange(1, max(2 * count, 64) + 1, dtype=np.uint64)
        _odd_numbers_known = _mixed(places * _GOLDEN) | np.uint64(1)
    return _odd_numbers_known[:count]


def _mixed(hashes: _Hashes) -> _Hashes:
    """Return the hashes mixed: every bit of a result depends on every bit of its argument (SplitMix64's finalizer)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * _MIX_1
    hashes = (hashes ^ (hashes >> np.uint64(27))) * _MIX_2
    return hashes ^ (hashes >> np.uint64(31))
