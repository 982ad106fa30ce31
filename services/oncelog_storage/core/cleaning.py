"""Cleaning of a compacted log, batch by batch: Kafka's rules for which batches and records stay.

| batch | stays |
| --- | --- |
| data of an aborted transaction | nothing |
| any other data | the last record of each key; a null value until its delete horizon |
| a marker | while a batch of its transaction was seen in this pass, then until its delete horizon |
| the last of an active producer, or of a segment | at least empty: offsets and sequences go on behind it |

A delete horizon is set by the first pass that finds a batch with something to be dropped later (KIP-534): attribute bit
6 says that the base timestamp is that time, and record timestamps count from it. A batch keeps its base and last
offset, its producer and its sequences whatever is taken out of it. No record's bytes change unless its batch gets a
horizon.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from oncelog.ids import NO_TIMESTAMP
from oncelog.record.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Buffer,
    Codec,
)
from oncelog.record.bulk import records_of, uncompressed
from oncelog.record.codecs import compress
from oncelog.record.records import append_record, decode_batch, read_varint
from oncelog_storage.core.aborted_index import AbortedTransactionEntry
from oncelog_storage.core.offset_map import OffsetMap
from oncelog_storage.core.replay import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BATCH_MAGIC,
    BATCH_MAX_TIMESTAMP,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    HeaderFields,
    read_marker,
)

_CRC_FROM: Final = 21


class LastWord(NamedTuple):
    """The newest batch of an active producer, which cleaning must keep so that its sequences and epoch stay known.

    It is the last offset of the producer's newest data (-1: only markers), and its producer epoch.
    """

    data_offset: int
    producer_epoch: int


class Transactions:
    """The state of the transactions while the cleaner reads a log in order: which data was aborted, which markers may
    go.
    """

    def __init__(self, aborted: Iterable[AbortedTransactionEntry]) -> None:
        self._to_come = sorted(set(aborted), key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransactionEntry] = {}
        self._with_data: set[int] = set()
        self.kept: list[AbortedTransactionEntry] = []
        """Aborted transactions whose marker stays because the pass saw data of them.

        The new aborted index must hold them.
        """

    def is_aborted_data(self, fields: HeaderFields) -> bool:
        """True if this data batch belongs to an aborted transaction. It is called for each data batch, in the log's
        order.
        """
        if not fields[ATTRIBUTES] & TRANSACTIONAL:
            return False
        self._advance(fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA])
        self._with_data.add(fields[PRODUCER_ID])
        return fields[PRODUCER_ID] in self._aborted

    def may_go(self, fields: HeaderFields, marker: tuple[bool, int] | None) -> bool:
        """True if this control batch may be dropped, because the pass saw no data of its transaction.

        It is called for each control batch, in the log's order. `marker` is (True for a commit, coordinator epoch);
        None: the batch ends no transaction, and may go if it is empty.
        """
        self._advance(fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA])
        producer_id = fields[PRODUCER_ID]
        if marker is None:
            return fields[RECORD_COUNT] == 0
        had_data = producer_id in self._with_data
        self._with_data.discard(producer_id)
        is_commit, _ = marker
        if not is_commit:
            entry = self._aborted.pop(producer_id, None)
            if entry is not None and had_data:
                self.kept.append(entry)
        return not had_data

    def _advance(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            entry = self._to_come.pop()
            self._aborted.setdefault(entry.producer_id, entry)


def learn_keys(
    offset_map: OffsetMap,
    transactions: Transactions,
    fields: HeaderFields,
    batch: memoryview,
    start: int,
) -> bool:
    """Put the keys of one batch into the offset map, from offset `start` on. False: the map was full before this batch.

    `transactions` must know the aborted transactions that end at or behind `start`. Raises `corrupt_errors()`,
    KafkaError.
    """
    last_offset = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA]
    if last_offset < start:
        return True
    if offset_map.is_full:
        return False
    if fields[ATTRIBUTES] & CONTROL:
        transactions.may_go(fields, read_marker(batch, 0, len(batch)))
    elif not transactions.is_aborted_data(fields) and fields[RECORD_COUNT]:
        put = offset_map.put
        for record in records_of(uncompressed(batch)):
            if record.key is not None and record.offset >= start:
                put(record.key, record.offset)
    offset_map.latest_offset = last_offset
    return True


class BatchCleaner:
    """Decides for one batch after the other what compaction keeps of it. Batches come in the log's order, from its
    beginning.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: Transactions,
        last_words: Mapping[int, LastWord],
        now: int,
        delete_retention_ms: int,
    ) -> None:
        self._map = offset_map
        self._transactions = transactions
        self._last_words = last_words
        self._now = now
        self._horizon = now + delete_retention_ms

    def clean(self, fields: HeaderFields, batch: memoryview, *, is_last: bool) -> Buffer | None:
        """Return what stays of the batch: `batch` itself if all of it does, None if nothing does.

        `is_last` says that it is the last batch of its segment. Raises `corrupt_errors()` and KafkaError for bytes that
        are no batch.
        """
        if fields[ATTRIBUTES] & CONTROL:
            return self._marker(fields, batch, is_last=is_last)
        is_aborted = self._transactions.is_aborted_data(fields)
        if fields[RECORD_COUNT] and not is_aborted:
            kept = self._data(fields, batch)
            if kept is not None:
                return kept
        if is_last or self._is_last_word(fields):
            return batch if fields[RECORD_COUNT] == 0 else _emptied(fields)
        return None

    def _marker(self, fields: HeaderFields, batch: memoryview, *, is_last: bool) -> Buffer | None:
        may_go = self._transactions.may_go(fields, read_marker(batch, 0, len(batch)))
        if not may_go or is_last or self._is_last_word(fields):
            # A producer's last marker also tells its epoch: emptied, as Kafka does it, it would tell nothing.
            return batch
        if fields[RECORD_COUNT] == 0:
            return None
        if not fields[ATTRIBUTES] & DELETE_HORIZON:
            return _with_horizon(fields, batch, [True] * fields[RECORD_COUNT], self._horizon)
        return None if fields[BASE_TIMESTAMP] <= self._now else batch

    def _is_last_word(self, fields: HeaderFields) -> bool:
        word = self._last_words.get(fields[PRODUCER_ID]) if fields[PRODUCER_ID] >= 0 else None
        if word is None:
            return False
        if fields[ATTRIBUTES] & CONTROL:
            return word.data_offset < 0 and word.producer_epoch == fields[PRODUCER_EPOCH]
        return word.data_offset == fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA]

    def _data(self, fields: HeaderFields, batch: memoryview) -> Buffer | None:
        """Return what stays of a data batch that has records and was not aborted; None if no record stays."""
        is_latest, latest_offset = self._map.is_latest, self._map.latest_offset
        has_horizon = bool(fields[ATTRIBUTES] & DELETE_HORIZON)
        drops_tombstones = has_horizon and fields[BASE_TIMESTAMP] <= self._now
        keep: list[bool] = []
        max_timestamp, has_tombstone = int(NO_TIMESTAMP), False
        plain = uncompressed(batch)
        for record in records_of(plain):
            offset, key = record.offset, record.key
            stays = offset > latest_offset or (key is not None and is_latest(key, offset))
            if stays and record.value is None:
                if drops_tombstones and offset <= latest_offset:
                    stays = False
                else:
                    has_tombstone = True
            keep.append(stays)
            if stays and record.timestamp is not None and record.timestamp > max_timestamp:
                max_timestamp = record.timestamp
        if not any(keep):
            return None
        if has_tombstone and not has_horizon:
            return _with_horizon(fields, batch, keep, self._horizon)
        if all(keep):
            return batch
        body = _spliced(memoryview(plain)[HEADER_BYTES:], keep)
        if fields[ATTRIBUTES] & LOG_APPEND_TIME:
            max_timestamp = fields[BATCH_MAX_TIMESTAMP]
        return _batch(
            fields, fields[ATTRIBUTES], body, fields[BASE_TIMESTAMP], max_timestamp, sum(keep)
        )


def _spliced(body: memoryview, keep: Sequence[bool]) -> bytes:
    """Return the bytes of the records to keep, unchanged, one behind the other.

    Their deltas count from the batch's base offset and timestamp, which do not change.
    """
    parts: list[memoryview] = []
    at = 0
    for stays in keep:
        length, content_at = read_varint(body, at)
        end = content_at + length
        if stays:
            parts.append(body[at:end])
        at = end
    return b"".join(parts)


def _with_horizon(
    fields: HeaderFields, batch: memoryview, keep: Sequence[bool], horizon: int
) -> bytearray:
    """Return a batch of the records to `keep`, with timestamps that count from the delete horizon, in ms."""
    body = bytearray()
    max_timestamp, count = int(NO_TIMESTAMP), 0
    for record, stays in zip(decode_batch(batch), keep, strict=True):
        if stays:
            append_record(
                body, record, record.offset - fields[BASE_OFFSET], record.timestamp - horizon
            )
            max_timestamp = max(max_timestamp, record.timestamp)
            count += 1
    return _batch(
        fields, fields[ATTRIBUTES] | DELETE_HORIZON, bytes(body), horizon, max_timestamp, count
    )


def _emptied(fields: HeaderFields) -> bytearray:
    attributes = fields[ATTRIBUTES] & ~(CODEC_MASK | DELETE_HORIZON)
    return _batch(fields, attributes, b"", NO_TIMESTAMP, fields[BATCH_MAX_TIMESTAMP], 0)


def _batch(
    fields: HeaderFields,
    attributes: int,
    body: bytes,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
) -> bytearray:
    codec = attributes & CODEC_MASK
    payload = compress(Codec(codec), body) if codec else body
    batch = bytearray(HEADER_BYTES + len(payload))
    batch[HEADER_BYTES:] = payload
    HEADER.pack_into(
        batch,
        0,
        fields[BASE_OFFSET],
        len(batch) - LENGTH_PREFIX_BYTES,
        fields[LEADER_EPOCH],
        fields[BATCH_MAGIC],
        0,
        attributes,
        fields[LAST_OFFSET_DELTA],
        base_timestamp,
        max_timestamp,
        fields[PRODUCER_ID],
        fields[PRODUCER_EPOCH],
        fields[BASE_SEQUENCE],
        record_count,
    )
    batch[17:21] = crc32c(memoryview(batch)[_CRC_FROM:]).to_bytes(4, "big")
    return batch
