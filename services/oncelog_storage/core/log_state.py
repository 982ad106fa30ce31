"""What the decisions about a partition read of its log: where it begins and ends, its producers, its leader epochs."""

from oncelog.ids import Partition
from oncelog.record.batch import BatchHeader
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.leader_epochs import LeaderEpochs
from oncelog_storage.core.producer_state import ClientBatch, ProducerStates


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
