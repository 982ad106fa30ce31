"""What the decisions about a partition read of its log: where it begins and ends, its producers, its leader epochs."""

from collections.abc import Sequence
from typing import Final

from oncelog.ids import Partition
from oncelog.record.batch import BatchHeader
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.leader_epochs import LeaderEpochs
from oncelog_storage.core.producer_state import ClientBatch, ProducerStates
from oncelog_storage.core.segment_state import SegmentState

NOT_REPLICATED: Final = 2**63 - 1
"""In the place of a high watermark at load: this node alone has the log, so all of it is committed."""


class LogState:
    """`oncelog_storage.log.PartitionLog` is one that has segments; a decision sees no more of it than this."""

    def __init__(self, partition: Partition, topic_id: bytes, config: TopicConfig) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.producers = ProducerStates()
        self.leader_epochs = LeaderEpochs()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        """Everything below is safe on disk."""
        self.committed_at_load = NOT_REPLICATED
        """The high watermark as it was when the log is loaded: later markers are not yet known to be replicated."""
        self.has_gaps = False
        """A batch was copied that does not follow the one before it: its leader's log had been cleaned."""
        self.segments: Sequence[SegmentState] = ()
        self.truncation_count = 0
        """Grows with each truncation: what was taken from the log before may not be used after."""
        self.exists_on_disk = False
        self.unflushed_records = 0
        self.bytes_since_checkpoint = 0

    @property
    def is_dirty(self) -> bool:
        """Something was appended that no checkpoint has seen."""
        return self.log_end_offset > self.recovery_point

    def appended(self, size_bytes: int, log_end_offset: int, record_count: int) -> None:
        """A write is taken into account: it ends at `log_end_offset`."""
        self.log_end_offset = log_end_offset
        self.unflushed_records += record_count
        self.bytes_since_checkpoint += size_bytes

    def advance_log_start(self, offset: int) -> None:
        """Records below `offset` are no longer served; segments wholly below it may go."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset


def client_batch(header: BatchHeader) -> ClientBatch:
    """What the producer state has to know of a batch."""
    return ClientBatch(
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.last_offset_delta,
        header.is_transactional,
    )
