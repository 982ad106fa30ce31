"""Runs a workload for a while against a target, and hands its history to every checker there is."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from robustness.checkers.all import ALL
from robustness.checkers.verdict import Answer, Verdict
from robustness.clients.libraries import LIBRARIES
from robustness.history import AnyOperation, Fault, History
from robustness.observations import Observations
from robustness.workloads.catalog import make_workload
from robustness.workloads.run_lab import RunLab, run

SECONDS = 6
LIBRARY_NAMES = ("aiokafka", "oncelog")


def history_of(target, kind: str, seed: int = 1, **parameters: object) -> History:
    workload = make_workload(kind, f"w{seed}-{kind}", parameters)
    lab = RunLab(
        [LIBRARIES[one]([target.bootstrap]) for one in LIBRARY_NAMES],
        seed=seed,
        duration_ms=SECONDS * 1000,
    )
    run(lab, [workload])
    return lab.history


def verdicts(history: History) -> dict[str, Verdict]:
    observations = Observations(is_healed=True)
    found = [check(history, observations) for check in ALL]
    return {one.checker: one for one in found}


def broken(history: History) -> dict[str, Sequence[str]]:
    return {
        name: one.proof for name, one in verdicts(history).items() if one.answer is Answer.BROKEN
    }


def kills(history: History) -> int:
    return len([one for one in history.all(Fault) if one.kind == "client-kill"])


def changed(history: History, change: Callable[[AnyOperation], AnyOperation]) -> History:
    """A history that is not what happened."""
    return History(dict(history.facts), [change(one) for one in history.operations])


__all__ = ["broken", "changed", "history_of", "kills", "replace", "verdicts"]
