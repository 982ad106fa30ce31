"""The numbers that a producer counts for its metrics. They are counted by batches, so that a record costs nothing
(S2-98, ADR 0044)."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class ProducerCounts:
    records_sent: int = 0
    """Records that were delivered."""
    records_failed: int = 0
    bytes_sent: int = 0
    """Bytes of the batches that were sent, each try counted."""
    batches_sent: int = 0
    batches_retried: int = 0
    batches_split: int = 0


@dataclass(slots=True)
class NodeTimes:
    """The times that brokers took to answer: node → number of requests, and the sum of their seconds."""

    count: dict[int, int] = field(default_factory=dict)
    sum_s: dict[int, float] = field(default_factory=dict)

    def add(self, node_id: int, seconds: float) -> None:
        self.count[node_id] = self.count.get(node_id, 0) + 1
        self.sum_s[node_id] = self.sum_s.get(node_id, 0.0) + seconds
