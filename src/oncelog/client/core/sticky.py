"""The sticky partitioner of records without a key: one partition until a batch is full, then the next (KIP-480,
KIP-794).

The next partition is drawn among those that have a leader, with more weight for those whose queues are short. Until
every partition has had a batch the draw is uniform (S2-22 to S2-29, ADR 0044).
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from oncelog.client.core.cluster_view import NO_NODE, Leader


class StickyPartitioner:
    """Chooses the partition for a topic's records without a key. `draw` returns a random number from 0 up to 1."""

    def __init__(self, batch_size: int, draw: Callable[[], float]) -> None:
        self._batch_size = batch_size
        self._draw = draw
        self._partition = -1
        self._bytes = 0
        self._loads: tuple[Sequence[int], Sequence[int]] | None = None
        """(partitions, their weights summed up from the first); None: all partitions weigh the same."""

    def partition(self, leaders: Sequence[Leader]) -> int:
        """Return the partition to which the topic's records without a key go now."""
        if not 0 <= self._partition < len(leaders):
            self._partition = self._next(leaders)
        return self._partition

    def appended(self, size_bytes: int, leaders: Sequence[Leader]) -> None:
        """Count a closed batch of so many bytes. Once `batch.size` bytes went to the partition, another one is drawn.

        An open batch is always filled first: records go on to another partition between two batches only.
        """
        self._bytes += size_bytes
        if self._bytes >= self._batch_size:
            self._bytes = 0
            self._partition = self._next(leaders)

    def update_loads(
        self, queues: Mapping[int, int], partition_count: int, is_usable: Callable[[int], bool]
    ) -> None:
        """Store how many batches wait for each partition (`queues`): a long queue makes a partition less likely. Until
        each partition has had a batch, all are equally likely."""
        usable = [one for one in range(partition_count) if is_usable(one)]
        if len(queues) < partition_count or not usable:
            self._loads = None
            return
        longest = max(queues[one] for one in usable)
        weights = [longest + 1 - queues[one] for one in usable]
        is_even = len(usable) == partition_count and len(set(weights)) == 1
        self._loads = None if is_even else (usable, list(accumulate(weights)))

    def _next(self, leaders: Sequence[Leader]) -> int:
        if self._loads is not None and self._loads[0][-1] < len(leaders):
            usable, sums = self._loads
            return usable[bisect_right(sums, self._draw() * sums[-1])]
        led = [at for at, leader in enumerate(leaders) if leader.node_id != NO_NODE]
        choice = led or range(len(leaders))
        return choice[int(self._draw() * len(choice))]
