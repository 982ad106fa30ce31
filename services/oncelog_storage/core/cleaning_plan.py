"""The plan of cleaning: the part of a compacted log to clean now, and the segments that become one.

```
log start ──────── first dirty ──────── uncleanable ─── LSO, active segment, young segments …
  cleaned before │ new keys: the map │ stays as it is
```

Cleaning always begins at the log's start: a new record may supersede one far back.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from oncelog.ids import (
    INTERNAL_TOPICS,
    NO_TIMESTAMP,
    Partition,
)
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.segment_state import SegmentState

_NEVER_MS: Final = 2**53
GROUP_SEGMENTS_MAX: Final = 64
"""At most this many segments become one. A swap renames the files of all of them in one step of the event loop."""
_RELATIVE_OFFSET_MAX: Final = 2**31 - 1


class SegmentFacts(NamedTuple):
    """Facts of a sealed segment, by which the cleaner chooses what to clean.

    `oldest_ms` and `newest_ms` are record times, or the file's time if no record has one.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    oldest_ms: int
    newest_ms: int

    @classmethod
    def of(
        cls,
        segment: SegmentState,
        end_offset: int,
        newest_ms: int,
        oldest_ms: int = NO_TIMESTAMP,
    ) -> "SegmentFacts":
        """Return the facts of a segment. -1 for `newest_ms` or `oldest_ms` means that no record has a timestamp."""
        changed_ms = segment.changed_ms
        return cls(
            segment.base_offset,
            end_offset,
            segment.size_bytes,
            oldest_ms if oldest_ms >= 0 else changed_ms,
            newest_ms if newest_ms >= 0 else changed_ms,
        )


class CompactionRules(NamedTuple):
    """The settings of a topic that decide when its log is compacted: how much of it must be dirty, and how old records
    must or may be, in ms.
    """

    min_dirty_ratio: float
    min_lag_ms: int
    max_lag_ms: int

    @classmethod
    def of(cls, config: TopicConfig) -> "CompactionRules":
        return cls(
            config.min_cleanable_dirty_ratio,
            config.min_compaction_lag_ms,
            config.max_compaction_lag_ms,
        )

    @property
    def has_lag(self) -> bool:
        """True if the topic has a `max.compaction.lag.ms`: older records must be cleaned, however little is dirty."""
        return self.max_lag_ms < _NEVER_MS


class CleanableRange(NamedTuple):
    """The part of a log to clean: keys are learnt from [first_dirty, end_offset), and segments below `end_offset`
    rewritten.
    """

    first_dirty: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_wanted: bool
    """True if the log is dirty enough, or has been dirty for too long."""

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
    """Return the part of a log that may be cleaned.

    `cleaned_to` is the offset where the last pass ended. Nothing from `limit` on may be touched: the LSO, and what is
    not yet safe on disk. A `cleaned_to` outside the log means that nothing is known to be clean.
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
    """Return (index of the first, index behind the last) of each group of segments that cleaning writes as one.

    Only segments that begin below `end_offset` count.
    """
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


def must_roll_to_clean(partition: PartitionReplica, now: int, shard_roll_bytes: int) -> bool:
    """True if the newest segment must be rolled, because the newest segment is never cleaned.

    That of `__transaction_state` and `__consumer_offsets` is rolled at `shard_roll_bytes`. Another topic's is rolled
    when its first record is older than `max.compaction.lag.ms`.
    """
    segment, lag_ms = partition.log.segments[-1], partition.config.max_compaction_lag_ms
    if not segment.size_bytes:
        return False
    is_shard = partition.partition.topic in INTERNAL_TOPICS
    if is_shard and segment.size_bytes >= shard_roll_bytes:
        return True
    return lag_ms < _NEVER_MS and 0 <= segment.first_timestamp < now - lag_ms


HostedT = TypeVar("HostedT", bound=PartitionReplica)


class Chosen(NamedTuple, Generic[HostedT]):
    hosted: HostedT
    sealed: Sequence[SegmentFacts]
    range: CleanableRange

    @property
    def segment_count(self) -> int:
        """The number of sealed segments that the cleaner rewrites; they are the first ones of the log."""
        return sum(facts.end_offset <= self.range.end_offset for facts in self.sealed)


class CleaningChoices(Generic[HostedT]):
    """Chooses the log to clean next, and remembers the logs that are not cleaned any more because they failed."""

    def __init__(self) -> None:
        # The value is the log's truncation count: a replica that was repaired since then is tried again.
        self._given_up: WeakKeyDictionary[HostedT, int] = WeakKeyDictionary()

    def __len__(self) -> int:
        """The number of logs that are not cleaned any more, because an attempt to clean them failed."""
        return len(self._given_up)

    def give_up(self, hosted: HostedT) -> None:
        self._given_up[hosted] = hosted.log.truncation_count

    def may_clean(self, hosted: HostedT) -> bool:
        log = hosted.log
        return (
            hosted.config.is_compacted
            and hosted.offline is None
            and bool(log.segments)
            and self._given_up.get(hosted) != log.truncation_count
        )

    @staticmethod
    def look(
        hosted: HostedT,
        sealed: Sequence[SegmentFacts],
        cleaned: Mapping[Partition, int],
        limit: int,
        now: int,
    ) -> Chosen[HostedT]:
        rules, cleaned_to = CompactionRules.of(hosted.config), cleaned.get(hosted.partition, 0)
        return Chosen(hosted, sealed, cleanable_range(sealed, cleaned_to, limit, rules, now))

    @staticmethod
    def in_order(looked: Iterable[Chosen[HostedT]]) -> list[Chosen[HostedT]]:
        """Return those logs that are dirty or old enough to be cleaned, the dirtiest first."""
        wanted = [chosen for chosen in looked if chosen.range.is_wanted]
        return sorted(wanted, key=lambda chosen: chosen.range.dirty_ratio, reverse=True)


def place_of(segments: Sequence[SegmentState], old: Sequence[SegmentState]) -> int | None:
    """Return the index of the first of `old` in the log's segments, or None.

    None means that one of them is no longer there, or that the newest segment is among them.
    """
    if old[0] not in segments[:-1]:
        return None
    place = segments.index(old[0])
    behind = place + len(old)
    is_same = list(segments[place:behind]) == list(old)
    return place if is_same and behind < len(segments) else None
