"""What a start may cut off a log, and where that goes (ADR 0023).

A kill leaves at most one unfinished write: at the end of the newest segment, shorter than it says, nothing readable
behind it but what stands inside of its own records. Nobody was answered for it. Everything else that cannot be read is
damage to records that may have been acknowledged. It is never cut by itself: the partition is offline until a replica,
a backup or an operator (`oncelog storage repair`) decides.

A power cut leaves more (`disk_model` in the simulator has it as a list): files that end early, pages of zeros, in any
file that was not synced, with sound batches behind. With `flush_policy=os` that is what ADR 0011 gives up. So the log
is cut there too, if the machine was started again since the folder was last used (`LogDirectory.may_have_lost_power`).

What is cut is set aside: unreadable bytes as `<segment>.log.<position>.torn`, of which a folder keeps the newest few;
the rest as `.cut`, until an operator removes it. Kafka's tools and ours read neither.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from oncelog.record.batch import CODEC_MASK, HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES
from oncelog.wording import counted
from oncelog_storage.core.replay import CUT, HeaderFields, whole_batch_at
from oncelog_storage.files import FILE_MODE, StorageFailed, way_out_of_damage, write_fully
from oncelog_storage.segment import LOG_SUFFIX, CorruptSegment, Segment
from oncelog_storage.segment_indexes import INDEX_SUFFIXES

_log = logging.getLogger(__name__)

CUT_SUFFIX: Final = ".cut"
TORN_SUFFIX: Final = ".torn"
TORN_FILES_KEPT: Final = 4

_PAGE_BYTES: Final = 4096
_SEARCHED_BYTES_MAX: Final = 64 * 1024 * 1024
_COPY_BYTES: Final = 1 << 20
_CRC_FROM: Final = 21
_RECORD_BYTES_MIN: Final = 6
"""Of attributes, two deltas, the lengths of key and value, and the count of headers."""
_MAGIC_AT: Final = 16
_MAGIC: Final = b"\x02"
_OFFSETS_AHEAD_MAX: Final = 2**31
"""No segment holds offsets further apart."""


class Behind(NamedTuple):
    """What can be read behind a damaged place."""

    record_count: int = 0
    size_bytes: int = 0
    file_count: int = 0

    def __str__(self) -> str:
        if not self.record_count:
            return "nothing readable is behind it"
        records = counted(self.record_count, "readable record")
        return f"{records} in {counted(self.file_count, 'file')} behind it"


def sound_batches(data: bytes, at: int, expected_offset: int) -> Iterator[HeaderFields]:
    """The header of every sound batch from `at` on, wherever one begins; offsets rise."""
    view = memoryview(data)
    while at + HEADER_BYTES <= len(data):
        fields, reason = whole_batch_at(view, at, expected_offset)
        if not reason and fields[0] < expected_offset + _OFFSETS_AHEAD_MAX:
            yield fields
            expected_offset = fields[0] + fields[6] + 1
            at += fields[1] + LENGTH_PREFIX_BYTES
            continue
        found = _next_candidate(data, at + 1, expected_offset)
        if found < 0:
            return
        at = found


def _next_candidate(data: bytes, at: int, expected_offset: int) -> int:
    """Where the next header may begin, by its magic and a base offset that is near; -1 for nowhere."""
    while (magic_at := data.find(_MAGIC, at + _MAGIC_AT)) >= 0:
        at = magic_at - _MAGIC_AT
        base_offset = int.from_bytes(data[at : at + 8], "big", signed=True)
        if 0 <= base_offset - expected_offset < _OFFSETS_AHEAD_MAX:
            return at
        at += 1
    return -1


def behind(segment: Segment, position: int, offset: int, later: Sequence[Segment]) -> Behind:
    """What can be read behind the damage at `position`, where `offset` was expected. Raises OSError."""
    data = _bytes_from(segment.log_path, position, segment.size_bytes)
    found = _counted_in(data, offset)
    for following in later:
        data = _bytes_from(following.log_path, 0, following.size_bytes)
        part = _counted_in(data, following.base_offset)
        found = Behind(*(sum(pair) for pair in zip(found, part, strict=True)))
    return found


def _counted_in(data: bytes, expected_offset: int) -> Behind:
    headers = list(sound_batches(data, 0, expected_offset))
    return Behind(
        sum(fields[12] for fields in headers),
        sum(fields[1] + LENGTH_PREFIX_BYTES for fields in headers),
        1 if headers else 0,
    )


def is_unfinished_write(segment: Segment, error: CorruptSegment, offset: int) -> bool:
    """In the newest segment: the bytes from the damage on are the beginning of one batch. Raises OSError.

    A batch whose length was damaged looks the same. Its CRC, which does not cover the length, tells.
    """
    if error.reason not in CUT or segment.size_bytes - error.position > _SEARCHED_BYTES_MAX:
        return False
    data = _bytes_from(segment.log_path, error.position, segment.size_bytes)
    if len(data) >= HEADER_BYTES and crc32c(data[_CRC_FROM:]) == HEADER.unpack_from(data)[4]:
        return False
    return next(sound_batches(data, 0, offset), None) is None or _ends_in_a_record(data, offset)


def is_lost_in_power_cut(segment: Segment, error: CorruptSegment, offset: int) -> bool:
    """The damage is what a power cut does to bytes that were not synced. Raises OSError."""
    data = _bytes_from(segment.log_path, error.position, segment.size_bytes)
    if next(sound_batches(data, 0, offset), None) is None:
        return True
    return error.reason not in CUT and _has_lost_page(data, error.position)


def _ends_in_a_record(data: bytes, offset: int) -> bool:
    """The bytes are the beginning of one batch by its records, too: each says where the next begins, and the bytes end
    inside of one. So a sound batch among them is what a client wrote as a value (a log that is mirrored, say).

    Where only the length of a batch was damaged, all its records are there, and what follows is not of it. A batch that
    is compressed does not show its records: it is never taken for unfinished here.
    """
    if len(data) < HEADER_BYTES:
        return False
    fields = HEADER.unpack_from(data)
    count, batch_end = fields[12], fields[1] + LENGTH_PREFIX_BYTES
    if fields[0] != offset or fields[5] & CODEC_MASK or count < 1 or fields[6] != count - 1:
        return False
    at = HEADER_BYTES
    try:
        for number in range(count):
            size, body = _varint(data, at)
            _, delta_at = _varint(data, body + 1)
            delta, _ = _varint(data, delta_at)
            at = body + size
            if size < _RECORD_BYTES_MIN or delta != number or at > batch_end:
                return False
    except IndexError:
        return True
    return at > len(data)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, where it ends). One that is longer than any writer writes is -1. Raises IndexError where it is cut."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    return -1, at


def _has_lost_page(data: bytes, position: int) -> bool:
    """A page with zeros up to its end, among those that the batch at `position` lies in."""
    claimed = HEADER.unpack_from(data)[1] if len(data) >= HEADER_BYTES else 0
    end = min(max(claimed + LENGTH_PREFIX_BYTES, HEADER_BYTES), len(data))
    begin = 0
    while begin < end:
        page_end = min(begin + _PAGE_BYTES - (position + begin) % _PAGE_BYTES, len(data))
        if not any(data[begin:page_end]):
            return True
        begin = page_end
    return False


def _bytes_from(path: str, position: int, end: int) -> bytes:
    """At most so many as are searched."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, min(max(end - position, 0), _SEARCHED_BYTES_MAX), position)
    finally:
        os.close(descriptor)


# Setting aside.


def set_aside_tail(segment: Segment, position: int, *, is_readable: bool) -> None:
    """Copy what is behind `position`; the caller cuts it off after. Raises OSError where records are in it."""
    suffix = CUT_SUFFIX if is_readable else TORN_SUFFIX
    target = _free_name(f"{segment.log_path}.{position}", suffix)
    try:
        _copy(segment.log_path, position, segment.size_bytes, target)
    except OSError as error:
        if is_readable:
            raise
        # A disk that is full must not keep the log closed for the beginning of one write.
        _log.warning("cannot keep %s: %s; it had no whole record", target, error.strerror)
        Path(target).unlink(missing_ok=True)
        return
    if not is_readable:
        _forget_oldest(Path(segment.log_path).parent)


def set_aside_segment(segment: Segment) -> None:
    """Its records stay as a file that no start reads; its indexes can be derived. Raises OSError.

    The indexes go first: one without its segment tells that a segment is missing.
    """
    segment.close()
    for suffix in INDEX_SUFFIXES:
        Path(segment.path(suffix)).unlink(missing_ok=True)
    if os.path.exists(segment.log_path):
        os.rename(segment.log_path, _free_name(segment.log_path, CUT_SUFFIX))


def remove_segment(segment: Segment) -> None:
    """What a leader has no more. Raises OSError."""
    segment.close()
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        Path(segment.path(suffix)).unlink(missing_ok=True)


def _free_name(stem: str, suffix: str) -> str:
    target, number = f"{stem}{suffix}", 1
    while os.path.exists(target):
        number += 1
        target = f"{stem}.{number}{suffix}"
    return target


def _copy(source: str, position: int, end: int, target: str) -> None:
    read_from = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        write_to = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            written = 0
            while part := os.pread(read_from, min(_COPY_BYTES, end - position), position):
                write_fully(write_to, (part,), written)
                written += len(part)
                position += len(part)
            os.fsync(write_to)
        finally:
            os.close(write_to)
    finally:
        os.close(read_from)


def _forget_oldest(directory: Path) -> None:
    """Unfinished writes are evidence, not data: the newest few are enough."""
    kept = sorted(
        (path for path in directory.iterdir() if path.name.endswith(TORN_SUFFIX)),
        key=lambda path: (path.stat().st_mtime_ns, path.name),
    )
    for path in kept[:-TORN_FILES_KEPT]:
        path.unlink()


def damaged(
    segment: Segment, position: int, offset: int, reason: str, found: Behind
) -> StorageFailed:
    return CorruptSegment(
        f"{segment.log_path} is damaged at byte {position}, offset {offset} ({reason}); {found};"
        f" {way_out_of_damage(str(Path(segment.log_path).parent.parent))}",
        position,
        reason,
    )
