"""Which part of a compacted log is to be cleaned now, and which segments become one.

```
log start ──────── first dirty ──────── uncleanable ─── LSO, active segment, young segments …
  cleaned before │ new keys: the map │ stays as it is
```

Cleaning always begins at the log's start: a new record may supersede one far back.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

GROUP_SEGMENTS_MAX: Final = 64
"""A swap renames their files in one step of the event loop."""
_RELATIVE_OFFSET_MAX: Final = 2**31 - 1


class SegmentFacts(NamedTuple):
    """Of a sealed segment. `oldest_ms` and `newest_ms` are record times, or the file's where there are none."""

    base_offset: int
    end_offset: int
    size_bytes: int
    oldest_ms: int
    newest_ms: int


class CompactionRules(NamedTuple):
    """A topic's settings."""

    min_dirty_ratio: float
    min_lag_ms: int
    max_lag_ms: int


class CleanableRange(NamedTuple):
    """Keys come from [first_dirty, end_offset); segments below `end_offset` are rewritten."""

    first_dirty: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_wanted: bool
    """Dirty enough, or dirty for too long."""

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)


def cleanable_range(
    sealed: Sequence[SegmentFacts],
    cleaned_to: int,
    limit: int,
    rules: CompactionRules,
    now: int,
) -> CleanableRange:
    """`cleaned_to` is where the last pass ended, `limit` what must not be touched: LSO and what is not yet safe.

    A checkpoint outside the log means that nothing is known to be clean.
    """
    if not sealed:
        return CleanableRange(cleaned_to, cleaned_to, 0, 0, False)
    first, last = sealed[0].base_offset, sealed[-1].end_offset
    first_dirty = cleaned_to if first <= cleaned_to <= last else first
    end_offset, clean_bytes, dirty_bytes, is_overdue = first, 0, 0, False
    for segment in sealed:
        is_dirty = segment.end_offset > first_dirty
        if segment.end_offset > limit:
            break
        if is_dirty and rules.min_lag_ms > 0 and segment.newest_ms > now - rules.min_lag_ms:
            break
        if is_dirty:
            dirty_bytes += segment.size_bytes
            is_overdue = is_overdue or segment.oldest_ms < now - rules.max_lag_ms
        else:
            clean_bytes += segment.size_bytes
        end_offset = segment.end_offset
    found = CleanableRange(first_dirty, end_offset, clean_bytes, dirty_bytes, False)
    is_wanted = dirty_bytes > 0 and (is_overdue or found.dirty_ratio > rules.min_dirty_ratio)
    return found._replace(is_wanted=is_wanted)


def groups(
    sealed: Sequence[SegmentFacts], end_offset: int, segment_bytes: int
) -> list[tuple[int, int]]:
    """(index of the first, index behind the last) of the segments that become one, for those below `end_offset`."""
    found: list[tuple[int, int]] = []
    first, size_bytes = 0, 0
    count = sum(segment.base_offset < end_offset for segment in sealed)
    for index, segment in enumerate(sealed[:count]):
        fits = (
            size_bytes + segment.size_bytes <= segment_bytes
            and segment.end_offset - sealed[first].base_offset <= _RELATIVE_OFFSET_MAX
            and index - first < GROUP_SEGMENTS_MAX
        )
        if index > first and not fits:
            found.append((first, index))
            first, size_bytes = index, 0
        size_bytes += segment.size_bytes
    if count:
        found.append((first, count))
    return found
