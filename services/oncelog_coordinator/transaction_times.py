"""Measures the durations of transactions for `/metrics`, when the records about them are decided.

Two durations end when a transaction is complete, which is when its last marker is written. One began with the
transaction. The other began with the EndTxn or timeout that decided it, and is the markers' share.
"""

from collections.abc import Iterable

from oncelog.ids import Millis
from oncelog.process.role_metrics import Histogram
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState
from oncelog_coordinator.transaction_traces import exemplar

_OUTCOMES = {TxnState.COMPLETE_COMMIT: "commit", TxnState.COMPLETE_ABORT: "abort"}


class TransactionTimes:
    """The durations of transactions by outcome, of every shard of this process, in seconds."""

    def __init__(self) -> None:
        self.open_to_complete = {outcome: Histogram() for outcome in _OUTCOMES.values()}
        self.append = Histogram()
        """The time from a decision to its record being committed, in seconds."""
        self.end_to_complete = {outcome: Histogram() for outcome in _OUTCOMES.values()}


class ShardTimes:
    """Measures the transactions of one shard.

    If an earlier owner of the shard decided a transaction, only its whole duration is measured, not the markers' share.
    """

    def __init__(self, times: TransactionTimes) -> None:
        self._times = times
        self._decided_ms: dict[str, Millis] = {}
        """The times at which the transactions that are prepared now were decided, by transactional.id."""

    def observe(self, records: Iterable[object], now: Millis) -> None:
        for record in records:
            if not isinstance(record, TxnMetadata):
                continue
            if record.state.is_prepared:
                self._decided_ms[record.transactional_id] = now
                continue
            decided_ms = self._decided_ms.pop(record.transactional_id, None)
            outcome = _OUTCOMES.get(record.state)
            if outcome is None:
                continue
            trace_id = exemplar(record, now)
            if decided_ms is not None:
                markers_ms = max(now - decided_ms, 0)
                self._times.end_to_complete[outcome].observe(markers_ms / 1000, trace_id)
            if record.start_timestamp >= 0:
                open_ms = max(now - record.start_timestamp, 0)
                self._times.open_to_complete[outcome].observe(open_ms / 1000, trace_id)
