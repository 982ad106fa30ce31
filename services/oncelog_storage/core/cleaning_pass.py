"""One pass over a compacted log: learn the last offset of each key, then write the segments anew.

Both are walks: generators that ask their caller for bytes and do no I/O (ADR 0031).

```
learn      reads the dirty part ──▶ the offset map, and up to where it reaches
rewrite    reads a group of segments ──▶ what stays of each batch
```

The caller reads the bytes that a walk wants, writes the batches that are kept, and may rest after each batch. Sources
do not change while a pass runs: they are sealed segments below the recovery point.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Final, NamedTuple

from oncelog.errors import KafkaError, OncelogError
from oncelog.record.batch import LENGTH_PREFIX_BYTES, Buffer
from oncelog.record.bulk import corrupt_errors
from oncelog_storage.core.aborted_index import AbortedTransactionEntry
from oncelog_storage.core.cleaning import BatchCleaner, LastWord, Transactions, learn_keys
from oncelog_storage.core.offset_map import OffsetMap
from oncelog_storage.core.producer_state import ProducerEntry
from oncelog_storage.core.replay import (
    BASE_OFFSET,
    BATCH_LENGTH,
    CUT,
    LAST_OFFSET_DELTA,
    HeaderFields,
    whole_batch_at,
)

CHUNK_BYTES: Final = 1 << 20


class CorruptSource(OncelogError):
    """A segment holds bytes that are no batch; the log is not cleaned until it is repaired."""


class Source(NamedTuple):
    """A sealed segment that a cleaning pass reads, as it was when the pass began."""

    base_offset: int
    end_offset: int
    size_bytes: int
    log_path: str
    changed_ms: int

    def corrupt(self, position: int, error: Exception | str) -> CorruptSource:
        return CorruptSource(f"{self.log_path} at byte {position}: {error}")


class PassSettings(NamedTuple):
    """Settings of one cleaning pass, from the topic and the node. Times are in ms."""

    first_dirty: int
    now: int
    delete_retention_ms: int
    index_interval_bytes: int
    map_bytes_max: int


class ReadSource(NamedTuple):
    """Yielded by the generators of `CleaningWork` to ask for bytes of a segment's file. The caller sends these, or
    fewer.
    """

    source: Source
    position: int
    size_bytes: int


class Keep(NamedTuple):
    """Yielded by `CleaningWork.rewrite`: the caller writes this batch to the cleaned segment, behind those before
    it.
    """

    batch: Buffer


class Worked(NamedTuple):
    """Yielded by the generators of `CleaningWork` after each batch, so that the cleaner can pause or stop there.
    `size_bytes` counts what was read of the batch and what is kept.
    """

    size_bytes: int


_Batch = tuple[int, HeaderFields, memoryview]
"""A batch of a source: (position in its file, header, bytes)."""
Work = Generator[ReadSource | Keep | Worked, bytes, int]


def batches_in(source: Source) -> Generator[ReadSource | _Batch, bytes, None]:
    """Yield each batch of a segment, and a ReadSource whenever more bytes are needed.

    The caller goes on after a batch with `send(b"")`. Raises CorruptSource.
    """
    position, expected, chunk_bytes = 0, source.base_offset, CHUNK_BYTES
    while position < source.size_bytes:
        wanted = min(chunk_bytes, source.size_bytes - position)
        view, at = memoryview((yield ReadSource(source, position, wanted))), 0
        reason = CUT[0]
        while at < len(view):
            fields, reason = whole_batch_at(view, at, expected)
            if reason:
                break
            size_bytes = fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
            expected = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA] + 1
            if expected > source.end_offset:
                # The CRC does not cover a batch's offset, and a wrong one would be written anew.
                reason = f"offset {fields[BASE_OFFSET]} stands before {source.end_offset}"
                break
            yield position + at, fields, view[at : at + size_bytes]
            at += size_bytes
        position += at
        if not reason:
            continue
        if reason not in CUT or position + len(view) - at >= source.size_bytes or not view:
            raise source.corrupt(position, reason)
        chunk_bytes = CHUNK_BYTES if at else 4 * chunk_bytes


class CleaningWork:
    """One cleaning pass over a log, as walks: generators that ask their caller for bytes and do no I/O.

    The caller runs `learn` first, then `rewrite` for each group of segments in order.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        aborted: Sequence[AbortedTransactionEntry],
        last_words: dict[int, LastWord],
        settings: PassSettings,
    ) -> None:
        self._sources = sources
        self._aborted = aborted
        self._first_dirty = settings.first_dirty
        self._map = OffsetMap(settings.map_bytes_max)
        self._transactions = Transactions(aborted)
        self._cleaner = BatchCleaner(
            self._map,
            self._transactions,
            last_words,
            settings.now,
            settings.delete_retention_ms,
        )

    @property
    def kept_aborted(self) -> Sequence[AbortedTransactionEntry]:
        """The aborted transactions that the aborted index of the segment rewritten last must hold."""
        return self._transactions.kept

    def learn(self) -> Work:
        """Fill the offset map with the keys from the first dirty offset on.

        Return the offset up to which the map reaches.

        Raises CorruptSource.
        """
        start = self._first_dirty
        transactions = Transactions(entry for entry in self._aborted if entry.last_offset >= start)
        for source in self._sources:
            if source.end_offset <= start:
                continue
            batches = batches_in(source)
            step = next(batches, None)
            while step is not None:
                if isinstance(step, ReadSource):
                    step = _sent(batches, (yield step))
                    continue
                position, fields, batch = step
                try:
                    is_learnt = learn_keys(self._map, transactions, fields, batch, start)
                except corrupt_errors(KafkaError) as error:
                    raise source.corrupt(position, error) from error
                if not is_learnt:
                    return self._map.latest_offset + 1
                yield Worked(len(batch))
                step = _sent(batches, b"")
        return self._sources[-1].end_offset

    def rewrite(self, sources: Sequence[Source]) -> Work:
        """Yield the batches that stay of these segments, which become one. Return 0 when all of it stays as it is, else
        1.

        Raises CorruptSource.
        """
        self._transactions.kept.clear()
        is_changed = len(sources) > 1
        for source in sources:
            batches = batches_in(source)
            step = next(batches, None)
            while step is not None:
                if isinstance(step, ReadSource):
                    step = _sent(batches, (yield step))
                    continue
                position, fields, batch = step
                is_last = source is sources[-1] and position + len(batch) == source.size_bytes
                try:
                    kept = self._cleaner.clean(fields, batch, is_last=is_last)
                except corrupt_errors(KafkaError) as error:
                    raise source.corrupt(position, error) from error
                is_changed = is_changed or kept is not batch
                if kept is not None:
                    yield Keep(kept)
                yield Worked(len(batch) + len(kept or b""))
                step = _sent(batches, b"")
        return int(is_changed)


def _sent(
    batches: Generator[ReadSource | _Batch, bytes, None], data: bytes
) -> ReadSource | _Batch | None:
    try:
        return batches.send(data)
    except StopIteration:
        return None


def last_words(producers: Iterable[ProducerEntry]) -> dict[int, LastWord]:
    """Return by producer id the newest batch that cleaning must keep, as a LastWord.

    A producer may append during the pass. Those batches lie behind what is cleaned, so a newer entry does no harm.
    """
    words = {}
    for entry in producers:
        batches = tuple(entry.batches)
        newest = batches[-1].last_offset if batches else -1
        words[entry.producer_id] = LastWord(newest, entry.producer_epoch)
    return words
