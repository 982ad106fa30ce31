"""DescribeRecord: what became of the record at one offset. This module reads the log for `core.record_fate`."""

from collections.abc import Sequence
from typing import cast

from oncelog.api.v1 import storage_pb2 as pb
from oncelog_storage.core.aborted_index import AbortedTransactionEntry
from oncelog_storage.core.producer_state import ProducerEntry
from oncelog_storage.core.record_fate import AbortedAt, ReadBatchAt, RecordFate, record_fate
from oncelog_storage.core.walks import run_walk
from oncelog_storage.files import StorageFailed
from oncelog_storage.hosted_partition import HostedPartition


def describe_record(led: HostedPartition, offset: int, answer: pb.DescribeRecordResponse) -> None:
    """Fill the response with what became of the record at `offset`, and with the log's offsets at this instant.

    Nothing is awaited. Raises KafkaError if the log cannot be read.
    """
    log = led.log
    answer.log_start_offset = log.log_start_offset
    answer.log_end_offset = log.log_end_offset
    answer.high_watermark = led.high_watermark
    answer.last_stable_offset = led.last_stable_offset
    try:
        found = _fate_of(led, offset)
    except StorageFailed as failure:
        raise led.take_offline(failure) from failure
    answer.fate = cast(pb.RecordFate, int(found.fate))
    answer.producer_id, answer.producer_epoch = found.producer_id, found.producer_epoch
    answer.txn_first_offset, answer.txn_last_offset = found.txn_first_offset, found.txn_last_offset
    if found.open_transaction is not None:
        describe_producer(answer.open_transaction, found.open_transaction)


def _fate_of(led: HostedPartition, offset: int) -> RecordFate:
    """Return what became of the record at `offset`, such as committed or compacted. Raises StorageFailed."""
    log = led.log

    def answer(wanted: ReadBatchAt | AbortedAt) -> bytes | Sequence[AbortedTransactionEntry]:
        if isinstance(wanted, ReadBatchAt):
            return log.read(wanted.offset, log.log_end_offset, 1).records
        return log.aborted_transactions(wanted.offset, wanted.offset + 1)

    return run_walk(record_fate(led, offset), answer)


def describe_producer(answer: pb.ActiveProducer, entry: ProducerEntry) -> None:
    answer.producer_id = entry.producer_id
    answer.producer_epoch = entry.producer_epoch
    answer.last_sequence = entry.last_sequence
    answer.last_timestamp_ms = entry.last_timestamp
    answer.coordinator_epoch = entry.coordinator_epoch
    answer.current_txn_start_offset = entry.current_txn_first_offset
    answer.last_offset = entry.last_offset
