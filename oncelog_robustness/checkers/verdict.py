"""The verdict of a checker: ok, broken with its proof, or unknown with its reason."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations


class Answer(StrEnum):
    OK = "ok"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    """The checker could not judge: nothing of the kind happened, or what it needs was not seen."""


@dataclass(frozen=True, slots=True)
class Verdict:
    checker: str
    """The anomaly that the checker looks for, such as `lost-write`."""
    answer: Answer
    judged: int
    """The number of things that the checker held against its rule."""
    proof: tuple[str, ...] = ()
    """The reasons for the answer. If it is BROKEN: sentences that a person can check, with client, value,
    partition, offset and time. If it is UNKNOWN: why. If it is OK: empty."""


Checker = Callable[[History, Observations], Verdict]
"""A pure function that judges one anomaly.
Each has a module in this package; `ALL` in `checkers.all` lists them in the order of a report."""
