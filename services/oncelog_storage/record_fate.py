"""What became of the record at one offset, as its partition's leader knows it."""

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.record.batch import BatchHeader, read_header
from oncelog.record.control import decode_marker
from oncelog.record.records import decode_batch
from oncelog_storage.core.producer_state import ProducerEntry
from oncelog_storage.files import StorageFailed
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.log import PartitionLog


def describe_record(
    leader: HostedPartition, offset: int, answer: pb.DescribeRecordResponse
) -> None:
    """Everything of one instant: nothing is awaited. Raises KafkaError when the log cannot be read."""
    log = leader.log
    answer.log_start_offset = log.log_start_offset
    answer.log_end_offset = log.log_end_offset
    answer.high_watermark = leader.high_watermark
    answer.last_stable_offset = leader.last_stable_offset
    answer.producer_id = answer.txn_first_offset = answer.txn_last_offset = -1
    if offset < log.log_start_offset:
        answer.fate = pb.BELOW_LOG_START
        return
    if offset >= log.log_end_offset:
        answer.fate = pb.NOT_WRITTEN
        return
    try:
        _describe_written(log, offset, answer)
    except StorageFailed as failure:
        raise leader.take_offline(failure) from failure


def _describe_written(log: PartitionLog, offset: int, answer: pb.DescribeRecordResponse) -> None:
    records = log.read(offset, log.log_end_offset, 1).records
    header = read_header(records) if records else None
    if header is None or not _holds(records, header, offset):
        answer.fate = pb.COMPACTED
        return
    if header.is_control:
        marker = decode_marker(records)
        answer.fate = (
            pb.OTHER_CONTROL
            if marker is None
            else pb.COMMIT_MARKER
            if marker.is_commit
            else pb.ABORT_MARKER
        )
    else:
        answer.fate = pb.NOT_TRANSACTIONAL
    answer.producer_id = header.producer_id
    answer.producer_epoch = header.producer_epoch
    if header.is_transactional and not header.is_control:
        _describe_transaction(log, offset, header.producer_id, answer)


def _holds(records: bytes, header: BatchHeader, offset: int) -> bool:
    """A cleaned batch keeps its range of offsets and loses records of it."""
    if not header.base_offset <= offset <= header.last_offset:
        return False
    if header.record_count == header.last_offset_delta + 1:
        return True
    if header.record_count == 0:
        return False
    return any(record.offset == offset for record in decode_batch(records))


def _describe_transaction(
    log: PartitionLog, offset: int, producer_id: int, answer: pb.DescribeRecordResponse
) -> None:
    entry = log.producers.get(producer_id)
    if entry is not None and 0 <= entry.current_txn_first_offset <= offset:
        answer.fate = pb.IN_OPEN
        answer.txn_first_offset = entry.current_txn_first_offset
        describe_producer(answer.open_transaction, entry)
        return
    answer.fate = pb.IN_COMMITTED
    for aborted in log.aborted_transactions(offset, offset + 1):
        if aborted.producer_id == producer_id:
            answer.fate = pb.IN_ABORTED
            answer.txn_first_offset = aborted.first_offset
            answer.txn_last_offset = aborted.last_offset


def describe_producer(answer: pb.ActiveProducer, entry: ProducerEntry) -> None:
    answer.producer_id = entry.producer_id
    answer.producer_epoch = entry.producer_epoch
    answer.last_sequence = entry.last_sequence
    answer.last_timestamp_ms = entry.last_timestamp
    answer.coordinator_epoch = entry.coordinator_epoch
    answer.current_txn_start_offset = entry.current_txn_first_offset
