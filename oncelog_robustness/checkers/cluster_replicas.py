"""Replicas of a partition are equal below the high watermark.

There are two verdicts. `replicas-differ`: the batches differ (offsets, leader epochs, producers). So either two
different logs were both called committed, or a copy lacks what it must have. `corrupt-minority`: the batches are
the same but not their bytes, or bytes fail their own CRC. The majority tells which copy is damaged.

A part that only some replicas removed (log start, compaction) cannot be compared. Replicas are compared below the
smaller of their high watermarks. After healing they are compared below the greatest of all, because every replica
must have caught up by then.
"""

from collections import Counter

from oncelog_robustness.checkers.cluster_case import (
    Case,
    PartitionKey,
    compacted_partitions,
    named,
    newest_logs,
)
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import BatchSeen, Observations, ReplicaLog


def check_same_batches(_history: History, observations: Observations) -> Verdict:
    case = Case("replicas-differ")
    compacted = compacted_partitions(observations)
    for key, logs in newest_logs(observations).items():
        if len(logs) < 2:
            case.cannot(f"{named(key)} was read on one node only")
            continue
        reference = max(logs, key=lambda log: (log.high_watermark, log.end_offset))
        for other in logs:
            if other is not reference:
                _compare(
                    case,
                    key,
                    reference,
                    other,
                    is_healed=observations.is_healed,
                    is_compacted=key in compacted,
                )
    return case.verdict()


def _compare(
    case: Case,
    key: PartitionKey,
    reference: ReplicaLog,
    other: ReplicaLog,
    *,
    is_healed: bool,
    is_compacted: bool,
) -> None:
    start = max(reference.start_offset, other.start_offset)
    committed = reference.high_watermark if is_healed else other.high_watermark
    if is_healed and other.end_offset < committed:
        case.broken(
            f"{named(key)}: node {reference.node_id} has committed up to {committed}, the log of node"
            f" {other.node_id} ends at {other.end_offset}"
        )
    ours, theirs = _by_offset(reference, start, committed), _by_offset(other, start, committed)
    for offset in sorted({*ours, *theirs}):
        ours_there, theirs_there = ours.get(offset), theirs.get(offset)
        if ours_there is None or theirs_there is None:
            if is_compacted or (
                ours_there is not None and ours_there.base_offset >= other.end_offset
            ):
                continue
            has, lacks = (other, reference) if ours_there is None else (reference, other)
            case.judge()
            case.broken(
                f"{named(key)}: node {has.node_id} has a batch at {offset}, node {lacks.node_id} has not"
            )
            continue
        case.judge()
        are_sound = ours_there.is_sound and theirs_there.is_sound
        if are_sound and _identity(ours_there) != _identity(theirs_there):
            case.broken(
                f"{named(key)} at {offset}: node {reference.node_id} has {_text_of(ours_there)}, node"
                f" {other.node_id} has {_text_of(theirs_there)}"
            )


def check_same_bytes(_history: History, observations: Observations) -> Verdict:
    case = Case("corrupt-minority")
    compacted = compacted_partitions(observations)
    for key, logs in newest_logs(observations).items():
        for log in logs:
            _judge_soundness(case, key, log)
        if key in compacted:
            case.cannot(f"{named(key)} is compacted, on each node by itself")
            continue
        if len(logs) < 2:
            case.cannot(f"{named(key)} was read on one node only")
            continue
        copies: dict[int, list[tuple[ReplicaLog, BatchSeen]]] = {}
        for log in logs:
            for batch in log.batches:
                if batch.last_offset < log.high_watermark:
                    copies.setdefault(batch.base_offset, []).append((log, batch))
        for offset in sorted(copies):
            _compare_bytes(case, key, copies[offset])
    return case.verdict()


def _judge_soundness(case: Case, key: PartitionKey, log: ReplicaLog) -> None:
    for batch in log.batches:
        if not batch.is_sound:
            case.judge()
            case.broken(
                f"{named(key)} on node {log.node_id}: the batch at {batch.base_offset} fails its CRC"
            )


def _compare_bytes(
    case: Case, key: PartitionKey, copies: list[tuple[ReplicaLog, BatchSeen]]
) -> None:
    identities = {_identity(batch) for _, batch in copies if batch.is_sound}
    if len(copies) < 2 or len(identities) > 1:
        return
    case.judge()
    count = Counter(batch.checksum for _, batch in copies)
    checksum, most = count.most_common(1)[0]
    if most == len(copies):
        return
    checksums = ", ".join(f"node {log.node_id} {batch.checksum:08x}" for log, batch in copies)
    odd = [str(log.node_id) for log, batch in copies if batch.checksum != checksum]
    blame = f"node {' and '.join(odd)} against {most}" if most > 1 else "no majority"
    case.broken(f"{named(key)} at {copies[0][1].base_offset}: {checksums} ({blame})")


def _by_offset(log: ReplicaLog, start: int, committed: int) -> dict[int, BatchSeen]:
    """Return the log's batches that begin at offset `start` or later and end below offset `committed`, by their base
    offset."""
    return {
        batch.base_offset: batch
        for batch in log.batches
        if batch.base_offset >= start and batch.last_offset < committed
    }


def _identity(batch: BatchSeen) -> tuple[object, ...]:
    return (
        batch.last_offset,
        batch.leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_transactional,
        batch.is_control,
        batch.marker,
    )


def _text_of(batch: BatchSeen) -> str:
    what = batch.marker or "records"
    return (
        f"{what} {batch.base_offset}..{batch.last_offset} of leader epoch {batch.leader_epoch},"
        f" producer {batch.producer_id}/{batch.producer_epoch}, sequence {batch.base_sequence}"
    )
