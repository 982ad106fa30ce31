"""Sequences of a producer id in a partition have no gap and no repetition, and its epochs never go back.

Within an epoch each batch continues where the last one ended (2147483647 is followed by 0); a new epoch begins at
0. There are three exceptions:

- The first batch of a producer in a log may have any sequence, because what stood before it may be removed. But in
  a log that still begins at offset 0 and has no gap, it must be 0 while the first leader epoch lasts (KAFKA-15591).
  A later leader may have forgotten the producer.
- In a compacted log a sequence may jump ahead, but not come again.
- Batches without sequences are not judged. A group's coordinator writes such batches for the offsets of a
  transaction.
"""

from typing import Final

from oncelog_robustness.checkers.cluster_case import (
    Case,
    compacted_partitions,
    is_whole,
    key_of,
    named,
    with_producer,
)
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import BatchSeen, Observations, ReplicaLog

SEQUENCE_COUNT: Final = 2**31

_NOWHERE: Final = -1
"""The offset that stands for a batch that does not exist."""

_Expected = tuple[int, int | None, int]
"""A producer's epoch, its next sequence (None: any), and the offset of the batch from which both follow."""


def check_sequences(_history: History, observations: Observations) -> Verdict:
    case = Case("sequence-gap")
    compacted = compacted_partitions(observations)
    for log in observations.logs:
        _judge_log(case, log, is_compacted=key_of(log) in compacted)
    return case.verdict()


def _judge_log(case: Case, log: ReplicaLog, *, is_compacted: bool) -> None:
    at_first = 0 if is_whole(log) else None
    first_leader = log.batches[0].leader_epoch if log.batches else None
    expected: dict[int, _Expected] = {}
    for batch in log.batches:
        if not batch.is_sound:
            # The producer of a damaged batch is not known.
            expected, at_first = {}, None
        if batch.producer_id < 0 or not batch.is_sound:
            continue
        known = expected.get(batch.producer_id)
        if batch.is_control or batch.base_sequence < 0:
            # A marker may take the producer to its next epoch; the data behind it then begins at 0.
            if known is None or known[0] != batch.producer_epoch:
                next_sequence = at_first if known is None else 0
                expected[batch.producer_id] = (
                    batch.producer_epoch,
                    next_sequence,
                    batch.base_offset,
                )
            continue
        case.judge()
        if known is None and batch.leader_epoch == first_leader:
            known = (batch.producer_epoch, at_first, _NOWHERE)
        error = "" if known is None else _error(known, batch, is_compacted=is_compacted)
        if error:
            case.broken(
                f"{named(key_of(log))} on node {log.node_id}: producer {batch.producer_id} {error}"
            )
        following = (batch.last_sequence + 1) % SEQUENCE_COUNT
        expected[batch.producer_id] = (batch.producer_epoch, following, batch.base_offset)


def _error(known: _Expected, batch: BatchSeen, *, is_compacted: bool) -> str:
    epoch, wanted, offset = known
    if batch.producer_epoch != epoch:
        wanted = 0
    if wanted is None or batch.base_sequence == wanted:
        return ""
    is_ahead = (batch.base_sequence - wanted) % SEQUENCE_COUNT < SEQUENCE_COUNT // 2
    if is_compacted and is_ahead:
        return ""
    wrote = f"wrote sequence {batch.base_sequence} of epoch {batch.producer_epoch} at {batch.base_offset};"
    if offset == _NOWHERE:
        return (
            f"{wrote} its first one here, where its batches from sequence {wanted} on are missing"
        )
    return f"{wrote} behind its batch at {offset} (epoch {epoch}) comes sequence {wanted}"


def check_producer_epochs(_history: History, observations: Observations) -> Verdict:
    """Check that producer epochs never go back in a log. A batch with an older epoch than one before it is from a
    zombie (an old instance of the producer) that was not fenced."""
    case = Case("producer-epoch-went-back")
    for log in observations.logs:
        latest: dict[int, BatchSeen] = {}
        for batch in with_producer(log):
            case.judge()
            before = latest.get(batch.producer_id)
            latest[batch.producer_id] = batch
            if before is not None and batch.producer_epoch < before.producer_epoch:
                case.broken(
                    f"{named(key_of(log))} on node {log.node_id}: producer {batch.producer_id} wrote"
                    f" {batch.marker or 'records'} of epoch {batch.producer_epoch} at {batch.base_offset},"
                    f" behind epoch {before.producer_epoch} at {before.base_offset}"
                )
    return case.verdict()
