"""Transactions as `__transaction_state` keeps them."""

from oncelog.ids import Partition
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState

TIME = 1_700_000_000_000


EMPTY = TxnMetadata("foo", 4000, 3, TxnState.EMPTY, 60_000, (), -1, TIME)


ONGOING = TxnMetadata(
    "foo",
    4000,
    3,
    TxnState.ONGOING,
    60_000,
    (Partition("t", 0), Partition("t", 1)),
    TIME,
    TIME,
    4000,
    client_transaction_version=2,
)
