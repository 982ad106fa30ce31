"""The common parts of the checkers that look inside a cluster: `Case`, in which a checker collects its findings for a
verdict, and questions about replicas' logs."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from oncelog.ids import TRANSACTION_STATE_TOPIC
from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.observations import (
    BatchSeen,
    Observations,
    ReplicaLog,
    ReplicaState,
    StateRecorded,
)

PROOFS_MAX: Final = 20

PartitionKey = tuple[str, str, int]
"""A topic, its id (empty if unknown) and a partition number.
A topic that is made again under its name is another one."""


class Case:
    """The findings of one checker so far: the number of things judged, sentences about violations, and reasons why
    something could not be judged. `verdict` makes the checker's answer of them."""

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
        """Keep a reason why something could not be judged. Reasons make the verdict UNKNOWN only if nothing at all
        could be judged."""
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
    """Return, for each partition, one log of each of its replicas, in the order of node ids. Of a replica's logs it
    is the one that was read last; logs of which only the end was kept are left out."""
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
    """Return one log for each partition, for checkers that need no other replica. An undamaged log is preferred,
    then the highest high watermark, then the longest log."""
    return [max(logs, key=_fullness) for logs in newest_logs(observations).values()]


def _fullness(log: ReplicaLog) -> tuple[bool, int, int, int]:
    is_sound = all(batch.is_sound for batch in log.batches)
    return is_sound, log.high_watermark, log.end_offset, -log.start_offset


def compacted_partitions(observations: Observations) -> frozenset[PartitionKey]:
    """Return the partitions that any replica has compacted. Another replica may have copied the compacted log, and
    then has its gaps without having compacted anything."""
    return frozenset(key_of(log) for log in observations.logs if log.is_compacted)


def is_whole(log: ReplicaLog) -> bool:
    """True if nothing was ever removed from the log: it begins at 0 and has no gap."""
    expected = 0
    for batch in log.batches:
        if batch.base_offset != expected:
            return False
        expected = batch.last_offset + 1
    return log.start_offset == 0 and not log.is_compacted


def with_producer(log: ReplicaLog) -> Iterator[BatchSeen]:
    """Return the log's sound batches that have a producer id. Damaged ones are left out: `cluster_replicas` judges
    those."""
    return (batch for batch in log.batches if batch.producer_id >= 0 and batch.is_sound)


class Neighbours:
    """The offsets of all records that were read from each shard (a partition of `__transaction_state`). They tell
    whether all records between two given ones are known, or compaction may have removed some."""

    def __init__(self, observations: Observations) -> None:
        self._whole = whole_shards(observations)
        offsets: dict[int, list[int]] = {}
        for state in observations.states:
            offsets.setdefault(state.shard, []).append(state.offset)
        self._offsets = {shard: sorted(found) for shard, found in offsets.items()}

    def is_whole(self, shard: int) -> bool:
        return self._whole.get(shard, False)

    def are_all_between_known(self, first: StateRecorded, second: StateRecorded) -> bool:
        """True if every record of `__transaction_state` between these two is known, of any transactional id.
        Otherwise compaction may have removed some."""
        if first.shard != second.shard or self.is_whole(first.shard):
            return True
        offsets = self._offsets[first.shard]
        apart = bisect_left(offsets, second.offset) - bisect_left(offsets, first.offset)
        return apart == second.offset - first.offset


def whole_shards(observations: Observations) -> dict[int, bool]:
    """Return, for each partition of `__transaction_state`, whether its log still has every record ever written.
    Compaction removes records."""
    return {
        log.partition: is_whole(log)
        for log in fullest_logs(observations)
        if log.topic == TRANSACTION_STATE_TOPIC
    }
