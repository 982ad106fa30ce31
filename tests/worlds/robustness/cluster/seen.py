"""Makes observations in few words. Defaults are what a healthy partition shows."""

from collections.abc import Sequence

from oncelog_robustness.checkers.verdict import Answer, Checker, Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import (
    BatchSeen,
    Observations,
    ReplicaLog,
    ReplicaState,
    StateRecorded,
)

ORDERS = ("orders", 0)


def judged(checker: Checker, observations: Observations) -> Verdict:
    return checker(History(), observations)


def answer(checker: Checker, observations: Observations) -> Answer:
    return judged(checker, observations).answer


def replica(
    node_id: int = 1,
    *,
    at_ms: int = 0,
    leads: bool = True,
    epoch: int = 0,
    start: int = 0,
    stable: int | None = None,
    high: int = 5,
    end: int = 5,
    incarnation: int = 1,
    start_over_count: int = 0,
) -> ReplicaState:
    return ReplicaState(
        at_ms=at_ms,
        node_id=node_id,
        node_incarnation=incarnation,
        topic="orders",
        partition=0,
        is_leader=leads,
        leader_epoch=epoch,
        start_offset=start,
        high_watermark=high,
        last_stable_offset=(high if stable is None else stable) if leads else None,
        end_offset=end,
        start_over_count=start_over_count,
    )


def data(
    offset: int,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    *,
    count: int = 1,
    leader_epoch: int = 0,
    plain: bool = False,
    checksum: int = 0,
) -> BatchSeen:
    """Records; of a transaction if there is a producer id and they are not `plain`."""
    has_producer = producer_id >= 0
    return BatchSeen(
        base_offset=offset,
        last_offset=offset + count - 1,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=epoch if has_producer else -1,
        base_sequence=sequence if has_producer else -1,
        last_sequence=(sequence + count - 1) % 2**31 if has_producer else -1,
        is_transactional=has_producer and not plain,
        is_control=False,
        marker="",
        coordinator_epoch=-1,
        checksum=checksum or 1000 + offset,
    )


def marker(
    offset: int, producer_id: int, epoch: int, kind: str = "commit", *, coordinator_epoch: int = 0
) -> BatchSeen:
    return BatchSeen(
        base_offset=offset,
        last_offset=offset,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=-1,
        last_sequence=-1,
        is_transactional=True,
        is_control=True,
        marker=kind,
        coordinator_epoch=coordinator_epoch,
        checksum=1000 + offset,
    )


def log(
    *batches: BatchSeen,
    node_id: int = 1,
    topic: str = "orders",
    partition: int = 0,
    start: int = 0,
    high: int | None = None,
    compacted: bool = False,
    at_ms: int = 0,
) -> ReplicaLog:
    end = batches[-1].last_offset + 1 if batches else start
    return ReplicaLog(
        node_id=node_id,
        topic=topic,
        partition=partition,
        start_offset=start,
        high_watermark=end if high is None else high,
        batches=batches,
        is_compacted=compacted,
        at_ms=at_ms,
    )


def shard_log(record_count: int, *, compacted: bool = False) -> ReplicaLog:
    """Shard 0 of `__transaction_state`, in which each record is a batch of its coordinator (producer 900)."""
    batches = [data(at, 900, 0, at, plain=True) for at in range(record_count)]
    return log(*batches, topic="__transaction_state", compacted=compacted)


def states(
    *told: tuple[str, int], partitions: Sequence[tuple[str, int]] = (ORDERS,), producer_id: int = 7
) -> list[StateRecorded]:
    """(state, producer epoch) one after the other, of the transactional id `pay`, in shard 0."""
    return [
        StateRecorded(
            shard=0,
            offset=offset,
            transactional_id="pay",
            producer_id=producer_id,
            producer_epoch=epoch,
            state=state,
            partitions=tuple(partitions) if state.startswith(("Ongoing", "Prepare")) else (),
        )
        for offset, (state, epoch) in enumerate(told)
    ]
