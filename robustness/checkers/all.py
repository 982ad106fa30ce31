"""Every checker, in the order of a report."""

from collections.abc import Sequence
from typing import Final

from robustness.checkers import (
    aborted_read,
    cluster,
    duplicate,
    inconsistent_offsets,
    lost_write,
    poll_reversal,
    poll_skip,
    pre_committed_read,
    read_past_open,
    send_reversal,
    stuck_lso,
    torn_transaction,
    unseen_after_healing,
)
from robustness.checkers.verdict import Checker, Verdict
from robustness.history import History
from robustness.observations import Observations

ALL: Final[tuple[Checker, ...]] = (
    lost_write.check,
    aborted_read.check,
    torn_transaction.check,
    duplicate.check,
    inconsistent_offsets.check,
    pre_committed_read.check,
    read_past_open.check,
    poll_skip.check,
    poll_reversal.check,
    send_reversal.check,
    unseen_after_healing.check,
    stuck_lso.check,
    *cluster.CHECKERS,
)
"""One entry a line."""


def judge(
    history: History, observations: Observations, checkers: Sequence[Checker] = ALL
) -> list[Verdict]:
    return [check(history, observations) for check in checkers]
