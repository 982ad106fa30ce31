"""How a checker over a cluster comes to its verdict, and what several of them ask of the logs."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.observations import (
    BatchSeen,
    Observations,
    ReplicaLog,
    ReplicaState,
    StateRecorded,
)

PROOFS_MAX: Final = 20
SHARD_TOPICS: Final = ("__transaction_state", "__consumer_offsets")

PartitionKey = tuple[str, str, int]
"""Topic, its id (empty if unknown) and partition number: a topic made again under its name is another."""


class Case:
    """Counts what was judged, and keeps what speaks against it."""

    def __init__(self, checker: str) -> None:
        self._checker = checker
        self._judged = 0
        self._broken_count = 0
        self._proof: list[str] = []
        self._reasons: list[str] = []

    def judge(self, count: int = 1) -> None:
        self._judged += count

    def broken(self, sentence: str) -> None:
        self._broken_count += 1
        if len(self._proof) < PROOFS_MAX:
            self._proof.append(sentence)

    def cannot(self, reason: str) -> None:
        """Something could not be judged; it decides the verdict only if nothing else could."""
        if reason not in self._reasons and len(self._reasons) < PROOFS_MAX:
            self._reasons.append(reason)

    def verdict(self) -> Verdict:
        if self._broken_count:
            more = self._broken_count - len(self._proof)
            proof = (*self._proof, f"and {more} more") if more else tuple(self._proof)
            return Verdict(self._checker, Answer.BROKEN, self._judged, proof)
        if not self._judged:
            reasons = tuple(self._reasons) or ("nothing of the kind was seen",)
            return Verdict(self._checker, Answer.UNKNOWN, 0, reasons)
        return Verdict(self._checker, Answer.OK, self._judged)


def key_of(seen: ReplicaState | ReplicaLog) -> PartitionKey:
    return seen.topic, seen.topic_id, seen.partition


def name_of(seen: ReplicaState | ReplicaLog) -> str:
    return f"{seen.topic}-{seen.partition}"


def named(key: PartitionKey) -> str:
    return f"{key[0]}-{key[2]}"


def newest_logs(observations: Observations) -> dict[PartitionKey, list[ReplicaLog]]:
    """Of each replica the log that was read last, by partition, in the order of node ids."""
    newest: dict[tuple[PartitionKey, int], ReplicaLog] = {}
    for log in observations.logs:
        if log.is_part:
            continue
        before = newest.get((key_of(log), log.node_id))
        if before is None or log.at_ms >= before.at_ms:
            newest[key_of(log), log.node_id] = log
    found: dict[PartitionKey, list[ReplicaLog]] = {}
    for key, node_id in sorted(newest):
        found.setdefault(key, []).append(newest[key, node_id])
    return found


def fullest_logs(observations: Observations) -> list[ReplicaLog]:
    """One log a partition: of the newest ones an undamaged one of which most is committed, then the longest."""
    return [max(logs, key=_fullness) for logs in newest_logs(observations).values()]


def _fullness(log: ReplicaLog) -> tuple[bool, int, int, int]:
    is_sound = all(batch.is_sound for batch in log.batches)
    return is_sound, log.high_watermark, log.end_offset, -log.start_offset


def compacted_partitions(observations: Observations) -> frozenset[PartitionKey]:
    """A replica that copied a compacted log has its gaps, and never cleaned anything itself."""
    return frozenset(key_of(log) for log in observations.logs if log.is_compacted)


def is_whole(log: ReplicaLog) -> bool:
    """Nothing was ever taken out of it: it begins at 0 and has no gap."""
    expected = 0
    for batch in log.batches:
        if batch.base_offset != expected:
            return False
        expected = batch.last_offset + 1
    return log.start_offset == 0 and not log.is_compacted


def with_producer(log: ReplicaLog) -> Iterator[BatchSeen]:
    """Its batches that carry a producer id; damaged ones are `cluster_replicas`' to judge."""
    return (batch for batch in log.batches if batch.producer_id >= 0 and batch.is_sound)


class Neighbours:
    """Tells whether records may be missing between two of a shard: cleaning takes them out of the middle, too, while
    some of its segments are done and others are not."""

    def __init__(self, observations: Observations) -> None:
        self._whole = whole_shards(observations)
        offsets: dict[int, list[int]] = {}
        for state in observations.states:
            offsets.setdefault(state.shard, []).append(state.offset)
        self._offsets = {shard: sorted(found) for shard, found in offsets.items()}

    def is_whole(self, shard: int) -> bool:
        return self._whole.get(shard, False)

    def are_all_between_known(self, first: StateRecorded, second: StateRecorded) -> bool:
        """Every record between these two, of whichever id, is there."""
        if first.shard != second.shard or self.is_whole(first.shard):
            return True
        offsets = self._offsets[first.shard]
        apart = bisect_left(offsets, second.offset) - bisect_left(offsets, first.offset)
        return apart == second.offset - first.offset


def whole_shards(observations: Observations) -> dict[int, bool]:
    """By shard of `__transaction_state`: whether its log still has every record ever written."""
    return {
        log.partition: is_whole(log)
        for log in fullest_logs(observations)
        if log.topic == SHARD_TOPICS[0]
    }
