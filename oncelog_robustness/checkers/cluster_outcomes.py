"""Each transaction has one outcome everywhere: the one that its coordinator recorded, once in every partition.

A coordinator decides the transactions of a producer id one after the other, and a partition has their markers in
the same order. So each marker of a producer id in a partition must belong to a decision about that partition, in
order:

```
decisions about this partition   commit 7      abort 7      commit 8
markers in its log          data commit 7 | data abort 7 abort 7 | commit 8
```

A marker may be written again because its response was lost, or may arrive after a later one. Where no data stands
before it, such a marker ends nothing, and its decision may be one that compaction has removed since. A transaction
may have left no data here, but it has its marker.

Every decision that is recorded as complete has a marker, with three exceptions. The log may be compacted, or its
beginning gone. A partition of `__consumer_offsets` gets no marker where no offsets are pending. Where compaction
removed decisions, no marker in that place is called wrong.

Branches of Spark sinks have no states of this kind; each has a producer id and epoch of its own, so that all
markers of one such pair must be the same.

Where the decisions cannot be read any more, partitions can still be compared with each other. A marker that raises
the epoch of what it ends belongs to the one transaction that wrote in the epoch before.
"""

from dataclasses import dataclass
from typing import NamedTuple

from oncelog.ids import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC
from oncelog_robustness.checkers.cluster_case import (
    Case,
    Neighbours,
    compacted_partitions,
    fullest_logs,
    key_of,
    named,
    whole_shards,
    with_producer,
)
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import BatchSeen, Observations, ReplicaLog, StateRecorded

MARKER_OF = {"PrepareCommit": "commit", "PrepareAbort": "abort"}
COMPLETE = ("CompleteCommit", "CompleteAbort")


@dataclass(slots=True)
class Decided:
    record: StateRecorded
    follows_gap: bool
    """True if compaction may have removed decisions between the previous one and this one."""
    is_complete: bool = False

    @property
    def marker(self) -> str:
        return MARKER_OF[self.record.state]

    def text(self) -> str:
        at = f"{self.record.shard}/{self.record.offset}"
        return f"{self.record.transactional_id}'s {self.record.state} of epoch {self.record.producer_epoch} at {at}"


class Written(NamedTuple):
    batch: BatchSeen
    ends_data: bool
    """True if data of this producer stands between this marker and the previous one."""


@dataclass(slots=True)
class Decisions:
    """The coordinator's decisions (prepared commits and aborts) about the transactions of one producer id, in order."""

    decided: list[Decided]
    has_gap: bool
    """True if compaction may have removed decisions after the last one."""

    def about(self, place: tuple[str, int]) -> tuple[list[Decided], list[bool]]:
        """Return the decisions about the partition `place` (topic and number), and for each of them whether compaction
        may have removed some before it. The second list has one more flag at its end: whether some may be missing after
        the last one."""
        decided: list[Decided] = []
        gaps: list[bool] = []
        has_gap = False
        for one in self.decided:
            has_gap |= one.follows_gap
            if place in one.record.partitions:
                decided.append(one)
                gaps.append(has_gap)
                has_gap = False
        return decided, [*gaps, has_gap or self.has_gap]


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("two-outcomes")
    if not observations.states:
        case.cannot("no recorded state of a transaction was read")
        return case.verdict()
    decisions = _decisions(observations)
    compacted = compacted_partitions(observations)
    are_all_known = all(whole_shards(observations).values())
    unnamed: dict[tuple[int, int], dict[str, str]] = {}
    for log in fullest_logs(observations):
        if log.topic == TRANSACTION_STATE_TOPIC:
            continue
        markers = _markers(log)
        for producer_id in sorted(decisions):
            _explain(
                case,
                log,
                markers.get(producer_id, []),
                decisions[producer_id],
                may_lack_all=log.topic in INTERNAL_TOPICS or key_of(log) in compacted,
            )
        for producer_id in sorted(set(markers) - set(decisions)):
            for batch, _ in markers[producer_id]:
                outcomes = unnamed.setdefault((producer_id, batch.producer_epoch), {})
                outcomes.setdefault(batch.marker, f"{named(key_of(log))} at {batch.base_offset}")
    if are_all_known:
        _judge_unnamed(case, unnamed)
    _judge_raised(case, observations)
    return case.verdict()


def _decisions(observations: Observations) -> dict[int, Decisions]:
    neighbours = Neighbours(observations)
    found: dict[int, Decisions] = {}
    before: dict[str, StateRecorded] = {}
    latest: dict[str, Decided] = {}
    for record in sorted(observations.states, key=lambda state: (state.shard, state.offset)):
        if record.producer_id < 0:
            continue
        known = found.get(record.producer_id)
        last = before.get(record.transactional_id)
        before[record.transactional_id] = record
        if known is None:
            # An id that is new to its transactional id begins as Empty at epoch 0.
            is_new = (record.state, record.producer_epoch) == ("Empty", 0)
            has_gap = not is_new and not neighbours.is_whole(record.shard)
            known = found[record.producer_id] = Decisions([], has_gap)
        elif last is not None and not neighbours.are_all_between_known(last, record):
            known.has_gap = True
        decided = latest.get(record.transactional_id)
        if record.state in COMPLETE and decided is not None:
            decided.is_complete = True
        if record.state in MARKER_OF:
            latest[record.transactional_id] = decided = Decided(record, known.has_gap)
            known.decided.append(decided)
            known.has_gap = False
    return found


def _markers(log: ReplicaLog) -> dict[int, list[Written]]:
    found: dict[int, list[Written]] = {}
    with_data: dict[int, bool] = {}
    for batch in with_producer(log):
        if batch.marker:
            ends_data = with_data.pop(batch.producer_id, False)
            found.setdefault(batch.producer_id, []).append(Written(batch, ends_data))
        elif batch.is_transactional:
            with_data[batch.producer_id] = True
    return found


def _explain(
    case: Case,
    log: ReplicaLog,
    markers: list[Written],
    decisions: Decisions,
    *,
    may_lack_all: bool,
) -> None:
    place = (log.topic, log.partition)
    decided, gaps = decisions.about(place)
    if not decided and not markers:
        return
    case.judge(max(len(markers), 1))
    may_lack_first = may_lack_all or log.start_offset > 0
    # The decisions to which the last marker may belong; -1: to none that is known.
    reached = [-1]
    for marker in markers:
        follows = _follow(
            reached,
            marker,
            decided,
            gaps,
            may_lack_all=may_lack_all,
            may_lack_first=may_lack_first,
        )
        if not follows:
            case.broken(_unexplained(log, marker, decided, reached))
            return
        reached = follows
    missing = [
        [one for one in decided[last + 1 :] if one.is_complete]
        for last in reached
        if not (may_lack_all or (may_lack_first and last < 0))
    ]
    if len(missing) == len(reached) and all(missing):
        first = min(missing, key=len)[0]
        case.broken(
            f"{named(key_of(log))} has no marker for {first.text()}, which is recorded as complete"
        )


def _follow(
    reached: list[int],
    marker: Written,
    decided: list[Decided],
    gaps: list[bool],
    *,
    may_lack_all: bool,
    may_lack_first: bool,
) -> list[int]:
    follows: list[int] = []
    for last in reached:
        if gaps[last + 1]:
            # The marker belongs to a decision that cannot be read any more.
            follows.append(last)
        is_late = any(gaps[: last + 1]) or any(_fits(marker, one) for one in decided[: last + 1])
        if is_late and not marker.ends_data:
            follows.append(last)
        for number in range(last + 1, len(decided)):
            if _fits(marker, decided[number]):
                follows.append(number)
            may_pass = may_lack_all or (may_lack_first and last < 0)
            if decided[number].is_complete and not may_pass:
                break
    return sorted(set(follows))


def _fits(marker: Written, decided: Decided) -> bool:
    batch = marker.batch
    return batch.marker == decided.marker and batch.producer_epoch == decided.record.producer_epoch


def _unexplained(
    log: ReplicaLog, marker: Written, decided: list[Decided], reached: list[int]
) -> str:
    batch = marker.batch
    behind = decided[max(reached)].text() if max(reached) >= 0 else "nothing"
    following = [one.text() for one in decided[max(reached) + 1 :]][:3]
    data = "ends records" if marker.ends_data else "ends no records"
    return (
        f"{named(key_of(log))} at {batch.base_offset}: a {batch.marker} marker of producer"
        f" {batch.producer_id} epoch {batch.producer_epoch} {data}; before it the coordinator's decisions are"
        f" used up to {behind}, and then come {', '.join(following) or 'none'} about this partition"
    )


def _judge_unnamed(case: Case, unnamed: dict[tuple[int, int], dict[str, str]]) -> None:
    for producer_id, producer_epoch in sorted(unnamed):
        outcomes = unnamed[producer_id, producer_epoch]
        case.judge()
        if len(outcomes) > 1:
            listed = ", ".join(f"{marker} in {outcomes[marker]}" for marker in sorted(outcomes))
            case.broken(f"producer {producer_id} epoch {producer_epoch} has two outcomes: {listed}")


def _judge_raised(case: Case, observations: Observations) -> None:
    outcomes: dict[tuple[int, int], dict[str, str]] = {}
    for log in fullest_logs(observations):
        written: dict[int, int] = {}
        for batch in with_producer(log):
            if not batch.is_control:
                written[batch.producer_id] = batch.producer_epoch
            elif batch.marker and written.pop(batch.producer_id, None) == batch.producer_epoch - 1:
                found = outcomes.setdefault((batch.producer_id, batch.producer_epoch), {})
                found.setdefault(batch.marker, f"{named(key_of(log))} at {batch.base_offset}")
    for producer_id, producer_epoch in sorted(outcomes):
        places = outcomes[producer_id, producer_epoch]
        case.judge()
        if len(places) > 1:
            listed = ", ".join(f"{marker} in {places[marker]}" for marker in sorted(places))
            case.broken(
                f"what producer {producer_id} wrote in epoch {producer_epoch - 1} was ended twice: {listed}"
            )
