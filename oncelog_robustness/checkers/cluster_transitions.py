"""The recorded states of each transactional id follow one another as the coordinator's table of transitions allows.

That table lets only the completion follow a prepare record, so a transaction is decided at most once. Production
code asserts by the same table (`VALID_PREVIOUS`). This checker judges the records of all coordinators that ever
wrote to a partition of `__transaction_state`, in the order of its log.
"""

from oncelog_coordinator.core.txn_state import STATE_OF_NAME, VALID_PREVIOUS, TxnState
from oncelog_robustness.checkers.cluster_case import Case, Neighbours
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations, StateRecorded

FORGOTTEN = "Dead"
COMPLETE = (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
"""The states that may be recorded once more before a repeated EndTxn is answered."""


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("illegal-transition")
    neighbours = Neighbours(observations)
    last: dict[str, StateRecorded] = {}
    for record in sorted(observations.states, key=lambda state: (state.shard, state.offset)):
        case.judge()
        before = last.get(record.transactional_id)
        last[record.transactional_id] = record
        is_whole = neighbours.is_whole(record.shard)
        if before is not None and not neighbours.are_all_between_known(before, record):
            # Compaction removed the records in between, so the id begins anew for this checker.
            before = None
        error = _error(before, record, is_whole=is_whole)
        if error:
            previous = "nothing" if before is None else _text_of(before)
            case.broken(f"{record.transactional_id}: {previous}, then {_text_of(record)}: {error}")
    return case.verdict()


def _error(before: StateRecorded | None, record: StateRecorded, *, is_whole: bool) -> str:
    if record.state != FORGOTTEN and record.state not in STATE_OF_NAME:
        return "no such state"
    if before is not None and before.shard != record.shard:
        return "one id in two shards"
    if before is None or before.state == FORGOTTEN:
        # Compaction leaves only the newest records, and those of any state.
        may_be_first = record.state == "Empty" or (before is None and not is_whole)
        return "" if may_be_first else "a transactional id begins as Empty"
    if record.state == FORGOTTEN:
        is_idle = STATE_OF_NAME[before.state].is_idle
        return "" if is_idle else "an id with a transaction was forgotten"
    state = STATE_OF_NAME[record.state]
    is_said_again = record.state == before.state and state in COMPLETE
    if not is_said_again and STATE_OF_NAME[before.state] not in VALID_PREVIOUS.get(state, ()):
        return "no legal transition"
    return _identity_error(before, record, state)


def _identity_error(before: StateRecorded, record: StateRecorded, state: TxnState) -> str:
    kept_error = _kept_error(before, record, state)
    if kept_error or (before.next_owner is not None and state.is_idle):
        return kept_error
    bump = record.producer_epoch - before.producer_epoch
    if record.producer_id != before.producer_id:
        may_rotate = state.is_idle and record.producer_epoch == 0
        return "" if may_rotate else "another producer id in mid-transaction"
    if bump not in (0, 1):
        return f"the producer epoch moved by {bump}"
    if bump and (state is TxnState.ONGOING or (state.is_idle and state is not TxnState.EMPTY)):
        return "only a new producer or a decision raises the producer epoch"
    if state.is_prepared and set(record.partitions) != set(before.partitions):
        return "the decision is about other partitions than the transaction"
    if state is TxnState.ONGOING and before.state == "Ongoing":
        missing = sorted(set(before.partitions) - set(record.partitions))
        return f"it lost the partitions {missing}" if missing else ""
    return ""


def _kept_error(before: StateRecorded, record: StateRecorded, state: TxnState) -> str:
    """Return what is wrong with the step from `before` to `record`, which has `state`. It is about a transaction that a
    new producer kept open when it took over (KIP-939, keepPreparedTxn). The text is empty if nothing is wrong, or if no
    transaction was kept.

    The records of a kept transaction also have the id and epoch of the newest producer, as `next_owner`. There are
    four rules:

    - Only an open transaction is kept.
    - Each later producer that keeps it has another id or epoch, so that the one before is fenced.
    - The decision raises the epoch in `next_owner` by one, as for every transaction.
    - After the completion `next_owner` is the producer of the transactional id.
    """
    owner = before.next_owner
    if record.next_owner is None:
        if owner is None:
            return ""
        if not state.is_idle:
            return "the owner of a kept transaction is gone"
        is_handed_on = (record.producer_id, record.producer_epoch) == owner
        return "" if is_handed_on else f"its owner {owner} does not go on with what it was told"
    if state is TxnState.ONGOING:
        known = owner or (before.producer_id, before.producer_epoch)
        is_new = record.next_owner[1] == (known[1] + 1 if record.next_owner[0] == known[0] else 0)
        is_new = is_new and before.state == "Ongoing"
        return "" if is_new else f"kept for {record.next_owner} behind {known}: not a new owner"
    if not state.is_prepared or owner is None:
        return "only an open transaction is kept"
    is_raised = record.next_owner == (owner[0], owner[1] + 1)
    return "" if is_raised else f"the decision made {record.next_owner} of the owner {owner}"


def _text_of(record: StateRecorded) -> str:
    return (
        f"{record.state} of producer {record.producer_id} epoch {record.producer_epoch} at"
        f" {record.shard}/{record.offset}"
    )
