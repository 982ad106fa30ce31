"""Finds out what became of the record at one offset, as its partition's leader knows it: committed, aborted, compacted
and so on.

It is a walk over the log: a generator that asks its caller for bytes (ADR 0031).
"""

from collections.abc import Generator, Sequence
from enum import IntEnum
from typing import NamedTuple

from oncelog.record.batch import BatchHeader, read_header
from oncelog.record.control import decode_marker
from oncelog.record.records import decode_batch
from oncelog_storage.core.aborted_index import AbortedTransactionEntry
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.producer_state import ProducerEntry


class Fate(IntEnum):
    """The possible fates of a record, with the numbers of `RecordFate` in `proto/`."""

    BELOW_LOG_START = 1
    NOT_WRITTEN = 2
    COMPACTED = 3
    NOT_TRANSACTIONAL = 4
    IN_COMMITTED = 5
    IN_ABORTED = 6
    IN_OPEN = 7
    COMMIT_MARKER = 8
    ABORT_MARKER = 9
    OTHER_CONTROL = 10


class RecordFate(NamedTuple):
    fate: Fate
    producer_id: int = -1
    producer_epoch: int = 0
    txn_first_offset: int = -1
    txn_last_offset: int = -1
    open_transaction: ProducerEntry | None = None


class ReadBatchAt(NamedTuple):
    """Yielded by the generator `record_fate` to ask for the batch that holds this offset.

    The caller sends its bytes, or empty bytes for none.
    """

    offset: int


class AbortedAt(NamedTuple):
    """Yielded by the generator `record_fate` to ask for the aborted transactions with data at this offset."""

    offset: int


Walk = Generator[ReadBatchAt | AbortedAt, bytes | Sequence[AbortedTransactionEntry], RecordFate]


def record_fate(led: PartitionReplica, offset: int) -> Walk:
    log = led.log
    if offset < log.log_start_offset:
        return RecordFate(Fate.BELOW_LOG_START)
    if offset >= log.log_end_offset:
        return RecordFate(Fate.NOT_WRITTEN)
    records = yield ReadBatchAt(offset)
    assert isinstance(records, bytes)
    header = read_header(records) if records else None
    if header is None or not _holds(records, header, offset):
        return RecordFate(Fate.COMPACTED)
    found = RecordFate(Fate.NOT_TRANSACTIONAL, header.producer_id, header.producer_epoch)
    if header.is_control:
        return found._replace(fate=_fate_of_control(records))
    if not header.is_transactional:
        return found
    entry = log.producers.get(header.producer_id)
    if entry is not None and 0 <= entry.current_txn_first_offset <= offset:
        first_offset = entry.current_txn_first_offset
        return found._replace(
            fate=Fate.IN_OPEN, txn_first_offset=first_offset, open_transaction=entry
        )
    found = found._replace(fate=Fate.IN_COMMITTED)
    for aborted in (yield AbortedAt(offset)):
        assert isinstance(aborted, AbortedTransactionEntry)
        if aborted.producer_id == header.producer_id:
            found = found._replace(
                fate=Fate.IN_ABORTED,
                txn_first_offset=aborted.first_offset,
                txn_last_offset=aborted.last_offset,
            )
    return found


def _fate_of_control(records: bytes) -> Fate:
    marker = decode_marker(records)
    if marker is None:
        return Fate.OTHER_CONTROL
    return Fate.COMMIT_MARKER if marker.is_commit else Fate.ABORT_MARKER


def _holds(records: bytes, header: BatchHeader, offset: int) -> bool:
    """True if the batch still has the record at `offset`.

    A cleaned batch keeps its range of offsets, but not all records.
    """
    if not header.base_offset <= offset <= header.last_offset:
        return False
    if header.record_count == header.last_offset_delta + 1:
        return True
    if header.record_count == 0:
        return False
    return any(record.offset == offset for record in decode_batch(records))
