"""Every checker, in the order of a report."""

from collections.abc import Sequence
from typing import Final

from robustness.checkers import (
    aborted_read,
    cluster,
    duplicate,
    lost_write,
    torn_transaction,
)
from robustness.checkers.verdict import Checker, Verdict
from robustness.history import History
from robustness.observations import Observations

ALL: Final[tuple[Checker, ...]] = (
    lost_write.check,
    aborted_read.check,
    torn_transaction.check,
    duplicate.check,
    *cluster.CHECKERS,
)
"""One entry a line."""


def judge(
    history: History, observations: Observations, checkers: Sequence[Checker] = ALL
) -> list[Verdict]:
    return [check(history, observations) for check in checkers]
