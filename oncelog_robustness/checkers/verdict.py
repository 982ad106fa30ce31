"""What a checker answers: ok, broken with its proof, or unknown with its reason."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations


class Answer(StrEnum):
    OK = "ok"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    """It could not judge: nothing of the kind happened, or what it needs was not seen."""


@dataclass(frozen=True, slots=True)
class Verdict:
    checker: str
    """The anomaly it looks for, `lost-write`."""
    answer: Answer
    judged: int
    """How many things it held against its rule."""
    proof: tuple[str, ...] = ()
    """BROKEN: each a sentence a person can check, with client, value, partition, offset and time. UNKNOWN: why."""


Checker = Callable[[History, Observations], Verdict]
"""Pure. One module each in this package; `ALL` in `checkers.all` lists them in the order of a report."""
