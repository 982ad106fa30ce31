"""A leader's LSO never passes the beginning of a transaction whose marker its high watermark has not passed.

A marker that is not on every in-sync replica decides nothing yet: the next leader may not have it. A leader reports
only its LSO and its high watermark. The log that was read at the end tells where transactions begin and end.

What a leader reported can be compared with that log, because records that a leader called committed stay where they
are. A transaction that began below an LSO begins at the same offset in that log. The same holds for a marker that was
committed by then. A marker that was lost was written again at a higher offset, which the high watermark of that time
had not passed either.
"""

from bisect import bisect_left
from itertools import accumulate
from typing import Final, NamedTuple

from oncelog_robustness.checkers.cluster_case import (
    Case,
    PartitionKey,
    fullest_logs,
    key_of,
    name_of,
    with_producer,
)
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import BatchSeen, Observations, ReplicaLog, ReplicaState

_NEVER: Final = 2**63


class _Stretch(NamedTuple):
    """One transaction in one log: its producer id, and the offsets of its first record and its marker."""

    marker_offset: int
    first_offset: int
    producer_id: int


class _Undecided:
    """The transactions of one log, sorted by where they begin. `latest_below` returns, of all that begin below an
    offset, the one whose marker has the highest offset, that is, the last one decided."""

    def __init__(self, log: ReplicaLog) -> None:
        stretches = sorted(_stretches(log), key=lambda one: one.first_offset)
        self._first_offsets = [one.first_offset for one in stretches]
        self._latest = list(accumulate(stretches, max))

    def latest_below(self, offset: int) -> _Stretch | None:
        count = bisect_left(self._first_offsets, offset)
        return self._latest[count - 1] if count else None


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("lso-passed-undecided")
    logs: dict[PartitionKey, _Undecided] = {
        key_of(log): _Undecided(log)
        for log in fullest_logs(observations)
        if not log.is_compacted and not log.start_offset
    }
    for state in observations.replicas:
        undecided = logs.get(key_of(state))
        if undecided is not None and state.is_leader and state.last_stable_offset is not None:
            _judge(case, state, undecided, state.last_stable_offset)
    return case.verdict()


def _judge(case: Case, state: ReplicaState, undecided: _Undecided, stable: int) -> None:
    found = undecided.latest_below(stable)
    if found is None or found.first_offset < state.start_offset:
        return
    case.judge()
    if found.marker_offset < state.high_watermark:
        return
    end = "never ends" if found.marker_offset == _NEVER else f"ends at {found.marker_offset}"
    case.broken(
        f"{name_of(state)} on node {state.node_id} (leader epoch {state.leader_epoch}) had LSO {stable} and HW"
        f" {state.high_watermark} at {state.at_ms} ms, but the transaction of producer {found.producer_id} that"
        f" begins at {found.first_offset} {end}"
    )


def _stretches(log: ReplicaLog) -> list[_Stretch]:
    found: list[_Stretch] = []
    opened: dict[int, BatchSeen] = {}
    for batch in with_producer(log):
        if batch.marker:
            first = opened.pop(batch.producer_id, None)
            if first is not None:
                found.append(_Stretch(batch.base_offset, first.base_offset, batch.producer_id))
        elif batch.is_transactional and not batch.is_control:
            opened.setdefault(batch.producer_id, batch)
    found += [_Stretch(_NEVER, first.base_offset, first.producer_id) for first in opened.values()]
    return found
