"""The check that an append repeats the last one, for batches without sequences.

A group's coordinator appends offsets and markers under a client's producer id, without sequences. When the response to
such an append is lost it is sent again byte for byte, and by then the log ends behind it. In a repetition the very same
batch is the log's last one, at the offset where it was expected. That tells a repetition from an append that was
decided without the newest record: the checksum covers everything but what a leader stamps.
"""

from oncelog.record.batch import BatchHeader, iter_headers
from oncelog_storage.log import PartitionLog


def is_last_batch(log: PartitionLog, header: BatchHeader, base_offset: int) -> bool:
    """True if the batch that expects to be written at `base_offset` is already the log's last one.

    `header` is its header.
    """
    if base_offset + header.last_offset_delta + 1 != log.log_end_offset:
        return False
    records = log.read(base_offset, log.log_end_offset, header.size_bytes).records
    return any(
        found.base_offset == base_offset and found.crc == header.crc
        for _, found in iter_headers(records)
    )
