"""The cutting of a damaged log at a start, and the files that keep what was cut off (ADR 0023).

A kill leaves at most one unfinished write: a batch at the end of the newest segment that is shorter than its header
says. A sound batch behind its beginning can only be the value of one of its records. No producer got a response for it.
Everything else that cannot be read is damage to records that may have been acknowledged. A start never cuts that: the
partition is offline until a replica, a backup or an operator (`oncelog storage repair`) decides.

A power cut leaves more (`disk_model` in the simulator has it as a list): files that end early, pages of zeros, in any
file that was not synced, with sound batches behind. With `flush_policy=os` such a loss is accepted (ADR 0011). So the
log is cut there too, if the machine was started again since the folder was last used
(`LogDirectory.may_have_lost_power`).

`core.damage` judges the bytes. What is cut is set aside: unreadable bytes as `<segment>.log.<position>.torn`, of which
a folder keeps the newest few; the rest as `.cut`, until an operator removes it. Kafka's tools and ours read neither.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from oncelog_storage.core.damage import SEARCHED_BYTES_MAX, Behind, Verdict, counted_in, verdict
from oncelog_storage.core.segment_files import INDEX_SUFFIXES, LOG_SUFFIX
from oncelog_storage.files import StorageFailed, opened, way_out_of_damage, write_fully
from oncelog_storage.segment import CorruptSegment, Segment

_log = logging.getLogger(__name__)

CUT_SUFFIX: Final = ".cut"
TORN_SUFFIX: Final = ".torn"
TORN_FILES_KEPT: Final = 4
_COPY_BYTES: Final = 1 << 20


def behind(segment: Segment, position: int, offset: int, later: Sequence[Segment]) -> Behind:
    """Return how many records can be read behind the damage at `position`, where `offset` was expected.

    Raises OSError.
    """
    data = _bytes_from(segment.log_path, position, segment.size_bytes)
    found = counted_in(data, offset)
    for following in later:
        data = _bytes_from(following.log_path, 0, following.size_bytes)
        found = found.with_file(counted_in(data, following.base_offset))
    return found


def judge(
    segment: Segment,
    error: CorruptSegment,
    offset: int,
    *,
    is_newest: bool,
    may_have_lost_power: bool = False,
) -> Verdict:
    """Return whether the damage in a segment may be cut off, by `core.damage.verdict` on the file's bytes. Raises
    OSError.
    """
    return verdict(
        _bytes_from(segment.log_path, error.position, segment.size_bytes),
        segment.size_bytes - error.position,
        error.position,
        error.reason,
        offset,
        is_newest=is_newest,
        may_have_lost_power=may_have_lost_power,
    )


def _bytes_from(path: str, position: int, end: int) -> bytes:
    """Return the file's bytes from `position` to `end`, but at most `SEARCHED_BYTES_MAX`."""
    with opened(path) as descriptor:
        return os.pread(descriptor, min(max(end - position, 0), SEARCHED_BYTES_MAX), position)


# Setting aside.


def set_aside_tail(segment: Segment, position: int, *, is_readable: bool) -> None:
    """Copy the bytes of a segment from `position` on to a file of their own, before the caller cuts them off.

    If the copy fails, an OSError is raised only if `is_readable`: the bytes hold whole records. Else it is logged.
    """
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
    """Rename a segment's records to a `.cut` file, which the node does not read.

    Its indexes can be derived, and are removed. Raises OSError.

    The indexes go first: an index without its segment would say that a segment is missing.
    """
    segment.close()
    for suffix in INDEX_SUFFIXES:
        Path(segment.path(suffix)).unlink(missing_ok=True)
    if os.path.exists(segment.log_path):
        os.rename(segment.log_path, _free_name(segment.log_path, CUT_SUFFIX))


def remove_segment(segment: Segment) -> None:
    """Remove a segment that the leader no longer has. Raises OSError."""
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
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with opened(source) as read_from, opened(target, new) as write_to:
        written = 0
        while part := os.pread(read_from, min(_COPY_BYTES, end - position), position):
            write_fully(write_to, (part,), len(part), written)
            written += len(part)
            position += len(part)
        os.fsync(write_to)


def _forget_oldest(directory: Path) -> None:
    """Remove all but the newest few files of unfinished writes, which are evidence and no data."""
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
