"""Reads the batches of a segment file as rows for the audit. A file is read in pieces, whatever its size.

A node may be writing meanwhile. Bytes at the end of a file that are no whole batch yet become a row of their own. So
the walk knows that no batch follows.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from crc32c import crc32c

from oncelog.errors import KafkaError, OncelogError
from oncelog.ids import Partition
from oncelog.record.batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    Buffer,
    largest_timestamp,
    read_header,
)
from oncelog.record.control import decode_marker
from oncelog_server.log_audit.core.rows import BatchRow
from oncelog_storage.core.checkpoint_files import decode_checkpoint, partitions_named
from oncelog_storage.core.segment_files import LOG_SUFFIX, file_stem, offsets_of, swaps_found
from oncelog_storage.log_directory import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS

_CRC_FROM: Final = 21
_PIECE_BYTES: Final = 1 << 20
MARKER_BYTES_MAX: Final = 1024
"""Batches of up to so many bytes are read whole, so that every marker is. A marker has 78 bytes; one of a later version
may have more.
"""


class Stretch(NamedTuple):
    """The part of a log that one Spark task reads: a segment file of a replica or, with an empty `path`, a range of
    offsets of a running cluster.
    """

    replica: str
    """The node's data folder; `cluster` for a running cluster."""
    topic: str
    partition: int
    segment: int
    """The base offset of the file; of a running cluster, the first offset of the range."""
    end: int
    """The offset after the last one of the range; -1: the whole file is read."""
    path: str
    size_bytes: int
    """Size of the file in bytes; of a range, an estimate."""
    log_start: int
    high_watermark: int
    """The partition's high watermark; -1: it is not known, and every record counts as committed."""
    is_compacted: bool


def stretches_of(folder: Path) -> list[Stretch]:
    """Return the segment files of all replicas in a node's data folder. Raises OncelogError if it is no such folder."""
    inner = folder / "logs"
    data_dir = (inner if inner.is_dir() else folder).absolute()
    if not data_dir.is_dir():
        raise OncelogError(f"there is no folder {data_dir}; name the data folder of a node")
    named = [one for one in partitions_named(os.listdir(data_dir)) if (data_dir / one[0]).is_dir()]
    if not named:
        raise OncelogError(f"{data_dir} has no partition's folder; name the data folder of a node")
    starts = _checkpoint(data_dir, LOG_STARTS)
    cleaned = _checkpoint(data_dir, CLEANER_OFFSETS)
    committed = _checkpoint(data_dir, HIGH_WATERMARKS)
    return [
        Stretch(
            str(data_dir),
            *partition,
            base_offset,
            -1,
            str(data_dir / name / file),
            _size_of(data_dir / name / file),
            starts.get(partition, 0),
            committed.get(partition, -1),
            partition in cleaned,
        )
        for name, partition in named
        for base_offset, file in _segment_files(data_dir / name)
    ]


def _size_of(path: Path) -> int:
    """Return the size of a file; 0 if retention has removed the file meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _checkpoint(data_dir: Path, name: str) -> Mapping[Partition, int]:
    """Return the offsets by partition of a checkpoint file. Empty if there is none, or if a crash tore it."""
    try:
        return decode_checkpoint((data_dir / name).read_text())
    except (FileNotFoundError, ValueError):
        return {}


def _segment_files(folder: Path) -> list[tuple[int, str]]:
    """Return (base offset, name) of a partition's segment files, as a start of the node would find them. A `.log.swap`
    of a completed compaction stands for the segments that it replaces.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        # Its topic was deleted meanwhile.
        return []
    files = {base: file_stem(base) + LOG_SUFFIX for base in offsets_of(names, LOG_SUFFIX)}
    for swap in swaps_found(names).decided:
        found = batches_of(folder / swap.name)
        end = max((one.header.next_offset for one in found if one.header is not None), default=0)
        for base in swap.replaced(names, end):
            files.pop(base, None)
        files[swap.base_offset] = swap.name
    return sorted(files.items())


class FoundBatch(NamedTuple):
    """A batch in a file, or the bytes at the end of the file that are no whole batch."""

    position: int
    size_bytes: int
    header: BatchHeader | None
    """None: the bytes from here to the end of the file are no whole batch."""
    is_sound: bool
    begin: bytes
    """The first bytes of the batch; of a small one, such as a marker, all bytes."""


def batches_of(path: Path) -> Iterator[FoundBatch]:
    """Yield the batches of a segment file in order, each with whether its checksum holds. Raises OSError."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        at = 0
        while at < size:
            file.seek(at)
            begin = file.read(HEADER_BYTES)
            header = read_header(begin) if len(begin) == HEADER_BYTES else None
            if header is None or not _is_framed(header, size - at):
                yield FoundBatch(at, size - at, None, False, begin)
                return
            rest = header.size_bytes - HEADER_BYTES
            if header.size_bytes <= MARKER_BYTES_MAX:
                begin += file.read(rest)
                rest = 0
            crc = _crc_behind(file, rest, crc32c(memoryview(begin)[_CRC_FROM:]))
            yield FoundBatch(at, header.size_bytes, header, crc == header.crc, begin)
            at += header.size_bytes


def _is_framed(header: BatchHeader, room: int) -> bool:
    return header.magic == MAGIC and HEADER_BYTES <= header.size_bytes <= room


def _crc_behind(file: BinaryIO, size: int, crc: int) -> int:
    while size > 0:
        piece = file.read(min(size, _PIECE_BYTES))
        if not piece:
            # It was cut meanwhile.
            return -1
        crc = crc32c(piece, crc)
        size -= len(piece)
    return crc


def rows_of_file(stretch: Stretch) -> Iterator[BatchRow]:
    """Yield a row for each batch of the file, and one for bytes at its end that are no batch. A file that was removed
    meanwhile has no rows.
    """
    try:
        for found in batches_of(Path(stretch.path)):
            if found.header is None:
                yield _unreadable_row(stretch, found)
            elif found.header.last_offset >= stretch.log_start:
                yield row_of(stretch, found)
    except FileNotFoundError:
        # Retention or compaction took it meanwhile.
        return


def row_of(stretch: Stretch, found: FoundBatch) -> BatchRow:
    """Return the row of a batch, for the walks. `found` must have a header."""
    header = found.header
    assert header is not None, found
    return BatchRow(
        stretch.replica,
        stretch.topic,
        stretch.partition,
        stretch.segment,
        found.position,
        stretch.log_start,
        stretch.is_compacted,
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.last_sequence,
        header.is_transactional,
        header.is_control,
        _marker(header, found.begin) if found.is_sound else "",
        largest_timestamp(header),
        found.is_sound,
        0,
    )


def _unreadable_row(stretch: Stretch, found: FoundBatch) -> BatchRow:
    return BatchRow(
        stretch.replica,
        stretch.topic,
        stretch.partition,
        stretch.segment,
        found.position,
        stretch.log_start,
        stretch.is_compacted,
        *(-1,) * 7,
        is_transactional=False,
        is_control=False,
        marker="",
        time_ms=-1,
        is_sound=False,
        unreadable_bytes=found.size_bytes,
    )


def _marker(header: BatchHeader, whole: Buffer) -> str:
    if not header.is_control or header.size_bytes > len(whole):
        return ""
    try:
        marker = decode_marker(whole)
    except KafkaError:
        # Its checksum holds, so its writer wrote it like this: no reader takes it for a marker.
        return ""
    if marker is None:
        return ""
    return "commit" if marker.is_commit else "abort"
