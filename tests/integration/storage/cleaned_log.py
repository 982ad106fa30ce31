"""A compacted log without its node: a whole cleaning pass as one call, and what readers see of it."""

import threading

from tests.integration.storage.partition_log_at import checkpoint
from tests.integration.storage.storage_node import NOW

from oncelog.record.batch import CONTROL, iter_headers
from oncelog.record.records import decode_batch
from oncelog_storage import segment_swap
from oncelog_storage.cleaner import _aborted_in, _facts
from oncelog_storage.cleaner_pass import CleaningPass, Pace
from oncelog_storage.core.cleaning_pass import PassSettings, Source
from oncelog_storage.core.cleaning_pass import last_words as last_words_of
from oncelog_storage.core.cleaning_plan import CompactionRules, cleanable_range, groups

NEVER = 2**63 - 1


def no_step(_name):
    return


def clean(log, cleaned_to=0, now=NOW, *, map_bytes=1 << 20, retention_ms=1000, step=no_step):
    """Clean everything that may be cleaned below the LSO; returns up to where."""
    checkpoint(log)
    unstable = log.producers.first_unstable_offset()
    limit = log.log_end_offset if unstable is None else unstable
    sealed = [
        _facts(segment, following, has_lag=False)
        for segment, following in zip(log.segments, log.segments[1:], strict=False)
    ]
    found = cleanable_range(sealed, cleaned_to, limit, CompactionRules(0.0, 0, NEVER), now)
    if not found.is_wanted:
        return cleaned_to
    count = sum(facts.end_offset <= found.end_offset for facts in sealed)
    segments = log.segments[:count]
    work = CleaningPass(
        log.directory,
        log.files,
        [
            Source(s.base_offset, f.end_offset, s.size_bytes, s.log_path, s.changed_ms)
            for s, f in zip(segments, sealed, strict=False)
        ],
        _aborted_in([(s, list(s.aborted())) for s in log.segments]),
        last_words_of(list(log.producers.entries())),
        PassSettings(found.first_dirty, now, retention_ms, 64, map_bytes),
        Pace(0, threading.Event()),
    )
    reached = work.learn()
    for first, behind in groups(sealed[:count], reached, log.config.segment_bytes):
        cleaned = work.rewrite(first, behind)
        step("cleaned")
        if cleaned is None:
            continue
        old = segments[first:behind]
        replacement = segment_swap.Replacement(log.directory, cleaned.replaced)
        with log.exchanging(cleaned.replaced) as forget:
            segment_swap.commit(replacement, forget, step)
            segment_swap.finish(replacement, step)
            place = log.segments.index(old[0])
            log.replace_segments(place, place + len(old), cleaned.segment)
        cleaned.segment.unload()
        log.note_checks()
    return reached


def batches_from(log, offset, upper=None):
    upper = log.log_end_offset if upper is None else upper
    while True:
        records, next_offset = log.read(offset, upper, 1)
        if not records:
            return
        for position, header in iter_headers(records):
            yield header, records, position
        offset = next_offset


def view(log, *, committed=True, offset=None):
    """What a consumer gets: (offset, timestamp, key, value)."""
    start = log.log_start_offset if offset is None else offset
    rows, skipped = [], set()
    unstable = log.producers.first_unstable_offset()
    upper = log.log_end_offset if unstable is None or not committed else unstable
    aborted = sorted(log.aborted_transactions(start, upper), key=lambda e: e.first_offset)
    for header, records, position in batches_from(log, start, upper):
        while aborted and aborted[0].first_offset <= header.last_offset:
            skipped.add(aborted.pop(0).producer_id)
        if header.attributes & CONTROL:
            marker = next(decode_batch(records, position), None)
            if marker is not None and marker.key[3] == 0:
                skipped.discard(header.producer_id)
            continue
        if committed and header.is_transactional and header.producer_id in skipped:
            continue
        rows += [
            (record.offset, record.timestamp, record.key, record.value)
            for record in decode_batch(records, position)
            if record.offset >= start
        ]
    return rows


def last_words(log):
    """Per producer what decides about its next batch."""
    return {
        entry.producer_id: (entry.producer_epoch, entry.last_sequence)
        for entry in log.producers.entries()
    }
