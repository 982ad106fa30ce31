"""The checks of a log's segments, which show a starting node a segment that is missing, exchanged, or another log's.

`segments-checkpoint`, in the partition's folder, is written with each checkpoint and before the first batch of each
segment. Text, much as Kafka's checkpoints: version 1; topic id and partition; log start and the end of what was safe on
disk; count; one line `baseOffset size headCrc abortedEntries abortedCrc` a segment; the CRC-32C of all that.

`headCrc` is the CRC-32C of the first batch's header, which says whose segment it is: producers, times, and the CRC of
the records are in it. A segment that is about to be cut or replaced is `UNSURE`. If the file is missing, damaged or
old, nothing is believed that only it could tell, and the log is read from its beginning.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from oncelog.record.batch import HEADER, HEADER_BYTES
from oncelog_storage.core.aborted_index import NOT_KNOWN, AbortedCheck
from oncelog_storage.core.replay import BASE_OFFSET
from oncelog_storage.core.segment_files import LOG_SUFFIX, file_stem

NO_POWER_LOST: Final = 2**63 - 1
"""The offset from which a power cut may have taken bytes, when there was no power cut."""
_VERSION: Final = "1"
_HEAD_LINES: Final = 4
"""The number of lines in `segments-checkpoint` before those of the segments."""


class SegmentCheck(NamedTuple):
    """The state that a segment's files must have at the next start, as `segments-checkpoint` has it.

    The newest segment may grow after the check; the others have exactly this size.
    """

    size_bytes: int
    head_crc: int
    """The CRC-32C of the first batch's header; 0 if no batch was ever in the segment."""
    aborted: AbortedCheck

    @property
    def is_sure(self) -> bool:
        return self.size_bytes >= 0


UNSURE: Final = SegmentCheck(-1, 0, NOT_KNOWN)
"""The check of a segment that may be there or not, with its old content or a new one."""


class LogChecks(NamedTuple):
    topic_id: str
    partition: int
    log_start_offset: int
    safe_end: int
    """The offset below which everything was synced."""
    segments: Mapping[int, SegmentCheck]
    """The check of each segment by its base offset, ascending."""

    def unsure_of(self, base_offsets: Iterable[int]) -> "LogChecks":
        changed = {base: UNSURE for base in base_offsets if base in self.segments}
        return self._replace(segments={**self.segments, **changed})

    def aborted_of(self, base_offset: int) -> AbortedCheck:
        return self.segments.get(base_offset, UNSURE).aborted


def encode_checks(checks: LogChecks) -> bytes:
    rows = "".join(
        f"{base} {check.size_bytes} {check.head_crc} {check.aborted.entry_count} {check.aborted.crc}\n"
        for base, check in checks.segments.items()
    )
    text = (
        f"{_VERSION}\n{checks.topic_id} {checks.partition}\n"
        f"{checks.log_start_offset} {checks.safe_end}\n{len(checks.segments)}\n{rows}"
    )
    return f"{text}{crc32c(text.encode())}\n".encode()


def decode_checks(data: bytes) -> LogChecks:
    """Read the content of a `segments-checkpoint`. Raises ValueError."""
    content, _, crc = data.removesuffix(b"\n").rpartition(b"\n")
    lines = content.decode().split("\n")
    is_whole = len(lines) >= _HEAD_LINES and data.endswith(b"\n") and lines[0] == _VERSION
    if not is_whole or str(crc32c(content + b"\n")).encode() != crc:
        raise ValueError("no checkpoint of segments")
    topic_id, partition = lines[1].split(" ")
    log_start_offset, safe_end = lines[2].split(" ")
    if int(lines[3]) != len(lines) - _HEAD_LINES:
        raise ValueError("no checkpoint of segments")
    segments = {}
    for line in lines[_HEAD_LINES:]:
        base, size_bytes, head_crc, count, aborted_crc = (int(word) for word in line.split(" "))
        segments[base] = SegmentCheck(size_bytes, head_crc, AbortedCheck(count, aborted_crc))
    return LogChecks(topic_id, int(partition), int(log_start_offset), int(safe_end), segments)


class FoundSegment(NamedTuple):
    """A segment as a starting node finds it in the partition's folder."""

    base_offset: int
    size_bytes: int
    head: bytes = b""
    """The segment's first bytes: a batch header, or fewer."""

    @property
    def head_crc(self) -> int:
        return head_crc(self.head)


def head_crc(data: bytes) -> int:
    """Return the CRC-32C of the header that a segment begins with; 0 if it is not whole."""
    return crc32c(data[:HEADER_BYTES]) if len(data) >= HEADER_BYTES else 0


class Fault(NamedTuple):
    """A segment whose file differs from what `segments-checkpoint` says of it (its check), and how it differs."""

    base_offset: int
    reason: str
    """The text that follows the name of the segment's file in a message."""

    @property
    def name(self) -> str:
        return file_stem(self.base_offset) + LOG_SUFFIX


def faults_of(
    checks: LogChecks | None,
    found: Sequence[FoundSegment],
    log_start_offset: int,
    *,
    lost_from: int = NO_POWER_LOST,
    may_have_gaps: bool,
) -> Iterator[Fault]:
    """Yield each segment that differs from its check, with the fault, in the order of their offsets.

    `found` ascends. From `lost_from` on a power cut may have taken anything. A log that `may_have_gaps` was compacted,
    and then its first batches may be gone.
    """
    known = {} if checks is None else checks.segments
    newest = max((base for base, check in known.items() if check.is_sure), default=-1)
    bases = sorted({*known, *(each.base_offset for each in found)})
    by_base = {each.base_offset: each for each in found}
    for base, end in zip(bases, [*bases[1:], NO_POWER_LOST], strict=False):
        check, segment = known.get(base), by_base.get(base)
        if end <= log_start_offset or base >= lost_from:
            continue
        if segment is None:
            assert check is not None
            reason = "is missing" if check.is_sure else ""
        elif check is None and checks is not None and segment.size_bytes:
            reason = "" if lost_from < NO_POWER_LOST else "is no segment of this log"
        elif check is None or not check.is_sure:
            reason = _wrong_begin(segment, may_have_gaps=may_have_gaps)
        else:
            is_safe = end <= lost_from
            reason = _wrong_content(segment, check, is_safe=is_safe, may_grow=base == newest)
        if reason:
            yield Fault(base, reason)


def _wrong_content(
    segment: FoundSegment, check: SegmentCheck, *, is_safe: bool, may_grow: bool
) -> str:
    """Return what is wrong with a segment's content; "" for nothing.

    If it is not `is_safe`, a power cut may have cut its end.
    """
    if check.head_crc and segment.head_crc not in (0, check.head_crc):
        return "begins with another batch than was written there"
    size_bytes = segment.size_bytes
    is_longer = size_bytes > check.size_bytes and not may_grow
    if is_safe and (size_bytes < check.size_bytes or is_longer):
        return f"has {size_bytes} bytes, and {check.size_bytes} were written"
    return ""


def _wrong_begin(segment: FoundSegment, *, may_have_gaps: bool) -> str:
    if len(segment.head) < HEADER_BYTES:
        return ""
    offset = HEADER.unpack_from(segment.head)[BASE_OFFSET]
    is_wrong = offset < segment.base_offset or (offset > segment.base_offset and not may_have_gaps)
    return f"begins at offset {offset}" if is_wrong else ""
