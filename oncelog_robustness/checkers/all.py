"""The list of every checker, in the order of a report, and `judge`, which runs them on a history."""

from collections.abc import Sequence
from typing import Final

from oncelog_robustness.checkers import (
    aborted_read,
    bank,
    circular_flow,
    cluster,
    copier,
    delayed_end_txn,
    duplicate,
    group_offsets,
    half_payment,
    healthy_aborted,
    inconsistent_offsets,
    lost_write,
    newest_of_key,
    poll_reversal,
    poll_skip,
    pre_committed_read,
    processed_once,
    read_past_open,
    send_reversal,
    spark_batches,
    spurious_zero_offset,
    stuck_group,
    stuck_lso,
    token_ring,
    torn_transaction,
    unseen_after_healing,
    zombie_write,
)
from oncelog_robustness.checkers.verdict import Checker, Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations

ALL: Final[tuple[Checker, ...]] = (
    lost_write.check,
    newest_of_key.check,
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
    zombie_write.check,
    healthy_aborted.check,
    delayed_end_txn.check_tv1,
    delayed_end_txn.check_tv2,
    circular_flow.check,
    group_offsets.check,
    spurious_zero_offset.check,
    processed_once.check,
    stuck_group.check,
    token_ring.check,
    bank.check,
    copier.check,
    spark_batches.check,
    half_payment.check,
    *cluster.CHECKERS,
)
"""All checkers, in the order of a report; one entry a line."""


def judge(
    history: History, observations: Observations, checkers: Sequence[Checker] = ALL
) -> list[Verdict]:
    sealed = history.sealed()
    return [check(sealed, observations) for check in checkers]
