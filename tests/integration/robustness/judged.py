"""Runs a workload for a while against a target, hands its history to every checker, and breaks it on purpose."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from oncelog_robustness.checkers.all import judge
from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.clients.libraries import LIBRARIES, SIMULATED
from oncelog_robustness.history import (
    AnyOperation,
    Fault,
    FinalRead,
    History,
    Poll,
    Read,
    Transaction,
)
from oncelog_robustness.observations import Observations
from oncelog_robustness.workloads.catalog import make_workload
from oncelog_robustness.workloads.run_lab import RunLab, run

SECONDS = 5
_RUNS = itertools.count(1)
UNHURRIED = ("think", "pause", "poll_pause", "write_pause")
"""How much of the time nothing is done: the rest is for work."""


def history_of(
    target, kind: str, parameters: dict[str, object], seed: int = 1, pace: int = 1
) -> History:
    """With a `pace` of two, everything that is to last takes twice as long."""
    given = {
        name: value * pace if name.endswith("_ms") and not name.startswith(UNHURRIED) else value
        for name, value in parameters.items()
    }
    # Two cases of one kind would write the same values to the same topics.
    workload = make_workload(kind, f"{kind}-{seed}-{next(_RUNS)}", given)
    clients = [LIBRARIES[one]([target.bootstrap]) for one in SIMULATED]
    lab = RunLab(clients, seed=seed, duration_ms=SECONDS * 1000 * pace)
    run(lab, [workload])
    return lab.history


def verdicts(history: History) -> dict[str, Verdict]:
    return {one.checker: one for one in judge(history, Observations(is_healed=True))}


def broken(history: History) -> dict[str, Sequence[str]]:
    return {
        name: one.proof for name, one in verdicts(history).items() if one.answer is Answer.BROKEN
    }


def kills(history: History) -> int:
    return len([one for one in history.all(Fault) if one.kind == "client-kill"])


def changed(history: History, change: Callable[[AnyOperation], AnyOperation]) -> History:
    """A history that is not what happened."""
    return History(dict(history.facts), [change(one) for one in history.operations])


def without(history: History, values: Sequence[str]) -> History:
    """Nobody ever read them."""

    def hide(one: AnyOperation) -> AnyOperation:
        if isinstance(one, FinalRead | Poll | Transaction):
            return replace(one, reads=tuple(read for read in one.reads if read.value not in values))
        return one

    return changed(history, hide)


def with_final_read(history: History, read: Read) -> History:
    """As if that record stood in its partition."""

    def show(one: AnyOperation) -> AnyOperation:
        if isinstance(one, FinalRead) and (one.topic, one.partition) == read[:2]:
            reads = sorted((*one.reads, read), key=lambda found: found.offset)
            return replace(one, reads=tuple(reads), end_offset=max(one.end_offset, read.offset + 1))
        return one

    return changed(history, show)
