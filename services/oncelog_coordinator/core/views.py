"""The requests by which operators read transactions: DescribeTransactions and ListTransactions (docs/kafka-facts.md,
3).

The duration filter is strict, and compares with the stored start, which is -1 in Empty: an Empty entry passes every
duration. In CompleteCommit and CompleteAbort the start is still the last transaction's.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from typing import Final, TypeVar

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog_coordinator.core.id_pattern import compile_id_pattern
from oncelog_coordinator.core.txn_events import DescribeAnswer, ListAnswer, ListTransactions
from oncelog_coordinator.core.txn_state import STATE_OF_NAME, TxnMetadata, TxnState

ListedT = TypeVar("ListedT")
_NOT_OPEN: Final = frozenset(
    {TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT, TxnState.DEAD}
)


def most_urgent(
    listed: Sequence[ListedT], count: int, transaction_of: Callable[[ListedT], TxnMetadata]
) -> Sequence[ListedT]:
    """Return the `count` transactions that an operator should see first; 0: all, in any order.

    The open transaction that began first comes first. After the open ones come those that changed last. A page of a
    hundred among a hundred thousand then needs only a hundred descriptions.
    """
    if not count:
        return listed
    return nsmallest(count, listed, key=lambda one: _urgency(transaction_of(one)))


def _urgency(txn: TxnMetadata) -> tuple[bool, int, str]:
    if txn.state not in _NOT_OPEN and txn.start_timestamp >= 0:
        return (False, txn.start_timestamp, txn.transactional_id)
    return (True, -txn.last_update_timestamp, txn.transactional_id)


def split_state_filters(
    names: Sequence[str],
) -> tuple[tuple[TxnState, ...] | None, tuple[str, ...]]:
    """Return the states with these names, or None for all, and the names that are no state.

    ListTransactions answers which names are unknown; they match nothing.
    """
    if not names:
        return None, ()
    known = tuple(STATE_OF_NAME[name] for name in names if name in STATE_OF_NAME)
    return known, tuple(name for name in names if name not in STATE_OF_NAME)


def describe(txn: TxnMetadata | None) -> DescribeAnswer:
    if txn is None:
        return DescribeAnswer(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return DescribeAnswer(ErrorCode.NONE, txn)


def list_transactions(
    transactions: Iterable[TxnMetadata], filters: ListTransactions, now: Millis
) -> ListAnswer:
    """Return the transactions that `filters` let pass. Raises KafkaError for a pattern that was not checked before."""
    pattern = compile_id_pattern(filters.transactional_id_pattern)
    producer_ids = frozenset(filters.producer_ids)
    return ListAnswer(
        tuple(
            txn
            for txn in transactions
            if (filters.states is None or txn.state in filters.states)
            and (not producer_ids or txn.producer_id in producer_ids)
            and (filters.duration_ms < 0 or now - txn.start_timestamp > filters.duration_ms)
            and (pattern is None or pattern(txn.transactional_id))
        )
    )
