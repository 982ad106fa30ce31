"""The cleaner keeps compacted logs short: it chooses the next log, and exchanges old segments for cleaned ones.

`cleaner_pass` reads and writes in a thread of its own. `core.cleaning` decides which records stay. `segment_swap`
exchanges the files. This module runs on the event loop, and exchanges segments in one step. During that step nobody
appends, rolls, deletes or checkpoints. So readers see either the old segments or the new one.
"""

import asyncio
import functools
import itertools
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from oncelog.runtime import Clock
from oncelog_storage import segment_swap
from oncelog_storage.changed_settings import ChangedSettings
from oncelog_storage.cleaner_pass import (
    CleanedSegment,
    CleaningPass,
    CleaningStopped,
    Pace,
)
from oncelog_storage.core.aborted_index import AbortedTransactionEntry
from oncelog_storage.core.cleaning_pass import CorruptSource, PassSettings, Source, last_words
from oncelog_storage.core.cleaning_plan import (
    Chosen,
    CleaningChoices,
    CompactionRules,
    SegmentFacts,
    groups,
    must_roll_to_clean,
    place_of,
)
from oncelog_storage.files import StorageFailed
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.log import PartitionLog
from oncelog_storage.log_directory import LogDirectory
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.segment import Segment
from oncelog_storage.settings import StorageSettings

ResultT = TypeVar("ResultT")

_log = logging.getLogger(__name__)

_Chosen = Chosen[HostedPartition]


@dataclass(slots=True)
class CleanerMetrics:
    """Counts of the cleaner, for metrics.

    `bytes_saved` is by how much cleaned segments are shorter than those they replaced.
    """

    cleanable_bytes: int = 0
    passes: int = 0
    last_pass_ms: int = 0
    bytes_read: int = 0
    bytes_saved: int = 0
    uncleanable_partitions: int = 0


class Cleaner:
    """The cleaner of a node's logs. `run` is a task that cleans for ever; `clean_all` cleans now what is dirty enough.

    `checkpoint` moves a log's recovery point: only what is safe on disk is cleaned. `remove_later` takes files that
    nobody reads any more.
    """

    def __init__(
        self,
        settings: StorageSettings,
        replica_manager: ReplicaManager,
        log_directory: LogDirectory,
        clock: Clock,
        changed: ChangedSettings,
        *,
        checkpoint: Callable[[list[HostedPartition]], Awaitable[bool]],
        in_worker: Callable[[Callable[[], None]], Awaitable[None]],
        remove_later: Callable[[HostedPartition, list[str]], None],
    ) -> None:
        self.metrics = CleanerMetrics()
        self._settings = settings
        self._replica_manager = replica_manager
        self._log_directory = log_directory
        self._clock = clock
        self._changed = changed
        self._checkpoint = checkpoint
        self._in_worker = in_worker
        self._remove_later = remove_later
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="storage-cleaner")
        self._is_stopping = threading.Event()
        self._is_cleaning = asyncio.Lock()
        self._choices = CleaningChoices[HostedPartition]()

    async def run(self) -> None:
        while True:
            await self._changed.cleaner_pause()
            await self.clean_all()

    def stop(self) -> None:
        """Stop the cleaner's thread.

        A pass under way ends after its next millisecond of work, and the files that it wrote are removed.
        """
        self._is_stopping.set()
        self._thread.shutdown(wait=True)

    async def clean_all(self) -> None:
        """Clean one log after the other, the dirtiest first, until none is dirty enough."""
        async with self._is_cleaning:
            while (chosen := await self._choose()) is not None:
                if not await self._try_to_clean(chosen):
                    return

    async def _try_to_clean(self, chosen: _Chosen) -> bool:
        """Clean one log, or give it up for good when it is broken; return True.

        False: it could not be cleaned now, and the cleaner stops until its next round.
        """
        hosted = chosen.hosted
        count = hosted.log.truncation_count
        try:
            await self._clean(chosen)
        except (CleaningStopped, FileNotFoundError) as reason:
            _log.info("cleaning of %s ended early: %s", hosted.partition, reason)
            return False
        except (CorruptSource, StorageFailed) as error:
            if hosted.log.truncation_count != count:
                # The log was truncated where the pass was reading.
                return False
            self._give_up(hosted, error)
        except OSError as error:
            _log.warning("cannot clean %s: %s; it is tried again", hosted.partition, error)
            return False
        except Exception as error:
            # A defect that one log brings to light must not end the cleaning of all others.
            _log.exception("cleaning of %s broke", hosted.partition)
            self._give_up(hosted, error)
        return True

    def _give_up(self, hosted: HostedPartition, error: Exception) -> None:
        self._choices.give_up(hosted)
        _log.error("%s is not cleaned any more: %s", hosted.partition, error)

    # Choosing.

    async def _choose(self) -> _Chosen | None:
        looked: list[_Chosen] = []
        for hosted in self._replica_manager:
            if self._choices.may_clean(hosted):
                try:
                    if must_roll_to_clean(
                        hosted, self._clock.now(), self._settings.shard_roll_bytes
                    ):
                        hosted.log.roll(self._clock.now())
                    looked.append(self._look(hosted, hosted.last_stable_offset))
                except (StorageFailed, OSError) as error:
                    self._give_up(hosted, error)
        self.metrics.cleanable_bytes = sum(chosen.range.dirty_bytes for chosen in looked)
        self.metrics.uncleanable_partitions = len(self._choices)
        for chosen in self._choices.in_order(looked):
            hosted = chosen.hosted
            if hosted.log.recovery_point < chosen.range.end_offset:
                await self._checkpoint([hosted])
            safe = self._look(hosted, min(hosted.last_stable_offset, hosted.log.recovery_point))
            if (
                safe.range.is_wanted
                and self._replica_manager.still_hosts(hosted)
                and hosted.offline is None
            ):
                return safe
        return None

    def _look(self, hosted: HostedPartition, limit: int) -> _Chosen:
        has_lag = CompactionRules.of(hosted.config).has_lag
        segments = hosted.log.segments
        sealed = [
            _facts(segment, following, has_lag=has_lag)
            for segment, following in itertools.pairwise(segments)
        ]
        cleaned = self._log_directory.cleaner_offsets
        return self._choices.look(hosted, sealed, cleaned, limit, self._clock.now())

    # Cleaning.

    async def _clean(self, chosen: _Chosen) -> None:
        began = time.perf_counter()
        hosted, log = chosen.hosted, chosen.hosted.log
        truncation_count = log.truncation_count
        count = chosen.segment_count
        segments, sealed = log.segments[:count], chosen.sealed[:count]
        begin = self._beginning(log, segments, sealed, chosen.range.first_dirty)
        work, cleaned_to = await self._in_thread(begin)
        saved = 0
        for first, behind in groups(sealed, cleaned_to, log.config.segment_bytes):
            cleaned = await self._in_thread(functools.partial(work.rewrite, first, behind))
            if cleaned is not None:
                await self._exchange(hosted, segments[first:behind], cleaned)
                saved += cleaned.bytes_before - cleaned.segment.size_bytes
        if log.truncation_count != truncation_count or hosted.is_truncating:
            raise CleaningStopped("it was cut, or begins anew")
        await self._keep_offset(hosted, cleaned_to)
        metrics = self.metrics
        metrics.passes += 1
        metrics.bytes_saved += saved
        metrics.bytes_read += chosen.range.clean_bytes + chosen.range.dirty_bytes
        metrics.last_pass_ms = round((time.perf_counter() - began) * 1000)
        _log.info(
            "cleaned %s up to offset %d: %d bytes less, %d ms",
            log.partition,
            cleaned_to,
            saved,
            metrics.last_pass_ms,
        )

    def _beginning(
        self,
        log: PartitionLog,
        segments: Sequence[Segment],
        sealed: Sequence[SegmentFacts],
        first_dirty: int,
    ) -> Callable[[], tuple[CleaningPass, int]]:
        """Return a function that begins a cleaning pass; it runs in the cleaner's thread.

        All that the pass needs of the log is copied here, on the event loop.
        """
        sources = [
            Source(s.base_offset, f.end_offset, s.size_bytes, s.log_path, s.changed_ms)
            for s, f in zip(segments, sealed, strict=True)
        ]
        # A loaded index grows at its end only. An index that is not loaded has its file, which the thread reads.
        aborted = [(s, list(s.aborted()) if s.is_loaded else None) for s in log.segments]
        producers = list(log.producers.entries())
        settings = PassSettings(
            first_dirty,
            self._clock.now(),
            log.config.delete_retention_ms,
            log.config.index_interval_bytes,
            self._changed.cleaner_map_bytes,
        )

        def begin() -> tuple[CleaningPass, int]:
            work = CleaningPass(
                log.directory,
                log.files,
                sources,
                _aborted_in(aborted),
                last_words(producers),
                settings,
                Pace(self._settings.cleaner_io_bytes_per_s, self._is_stopping),
            )
            return work, work.learn()

        return begin

    async def _exchange(
        self, hosted: HostedPartition, old: Sequence[Segment], cleaned: CleanedSegment
    ) -> None:
        """Put one cleaned segment into the log in the place of `old`.

        Raises OSError, and CleaningStopped if the log's segments changed since they were read.
        """
        log = hosted.log
        replacement = segment_swap.Replacement(log.directory, cleaned.replaced)
        async with log.folder_lock:
            if self._place_of(hosted, old) is None:
                discard = functools.partial(
                    segment_swap.discard, log.directory, replacement.base_offset
                )
                await self._in_worker(discard)
                raise CleaningStopped("its segments changed meanwhile")
            # The worker that removes deleted topics' folders does one thing at a time, so the folder is still ours.
            with log.exchanging(cleaned.replaced) as forget:
                await self._in_worker(functools.partial(segment_swap.commit, replacement, forget))
                place = self._place_of(hosted, old)
                if place is None:
                    await self._in_worker(functools.partial(segment_swap.undo, replacement))
                    raise CleaningStopped("its segments changed meanwhile")
                deleted = segment_swap.finish(replacement)
                log.replace_segments(place, place + len(old), cleaned.segment)
            cleaned.segment.unload()
            log.note_checks()
        self._remove_later(hosted, deleted)

    def _place_of(self, hosted: HostedPartition, old: Sequence[Segment]) -> int | None:
        """Return the index of the first of `old` in the log, or None.

        None means that one of them is no longer there, that the newest segment is among them, or that the partition is
        no longer hosted.
        """
        if not self._replica_manager.still_hosts(hosted):
            return None
        return place_of(hosted.log.segments, old)

    async def _keep_offset(self, hosted: HostedPartition, cleaned_to: int) -> None:
        if self._replica_manager.still_hosts(hosted):
            self._log_directory.cleaner_offsets[hosted.partition] = cleaned_to
            await self._replica_manager.keep(self._log_directory.cleaner_offsets)

    async def _in_thread(self, work: Callable[[], ResultT]) -> ResultT:
        if self._is_stopping.is_set():
            raise CleaningStopped("the node stops")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _facts(segment: Segment, following: Segment, *, has_lag: bool) -> SegmentFacts:
    newest_ms = segment.max_timestamp()[0] if segment.size_bytes else -1
    if has_lag and segment.first_timestamp < 0:
        segment.read_first_timestamp()
    return SegmentFacts.of(segment, following.base_offset, newest_ms, segment.first_timestamp)


def _aborted_in(
    parts: Sequence[tuple[Segment, list[AbortedTransactionEntry] | None]],
) -> list[AbortedTransactionEntry]:
    """Return the aborted-transaction index entries of all segments.

    None beside a segment means that its index is not in memory, and is read from its file. Raises CorruptSegment.
    """
    found: list[AbortedTransactionEntry] = []
    for segment, entries in parts:
        found += segment.read_aborted_file() if entries is None else entries
    return found
