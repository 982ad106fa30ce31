"""How long transactions take, told from the records that are decided."""

from dataclasses import replace

from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState
from oncelog_coordinator.transaction_times import ShardTimes, TransactionTimes

OPEN = TxnMetadata(
    transactional_id="pay",
    producer_id=7,
    producer_epoch=0,
    state=TxnState.ONGOING,
    timeout_ms=60_000,
    partitions=(),
    start_timestamp=1_000,
    last_update_timestamp=1_000,
)


def test_both_spans_end_with_the_record_of_completion():
    times = TransactionTimes()
    shard = ShardTimes(times)
    shard.observe([OPEN], 1_000)
    shard.observe([replace(OPEN, state=TxnState.PREPARE_COMMIT)], 3_000)
    shard.observe([replace(OPEN, state=TxnState.COMPLETE_COMMIT)], 3_500)
    assert (times.open_to_complete["commit"].sum_s, times.end_to_complete["commit"].sum_s) == (
        2.5,
        0.5,
    )
    assert times.open_to_complete["abort"].count == 0


def test_what_an_earlier_owner_decided_has_only_the_first_span():
    times = TransactionTimes()
    ShardTimes(times).observe([replace(OPEN, state=TxnState.COMPLETE_ABORT)], 4_000)
    assert times.open_to_complete["abort"].sum_s == 3
    assert times.end_to_complete["abort"].count == 0


def test_an_abort_without_a_transaction_has_no_first_span():
    times = TransactionTimes()
    shard = ShardTimes(times)
    fenced = replace(OPEN, start_timestamp=-1)
    shard.observe([replace(fenced, state=TxnState.PREPARE_ABORT)], 4_000)
    shard.observe([replace(fenced, state=TxnState.COMPLETE_ABORT), object()], 4_100)
    assert times.open_to_complete["abort"].count == 0
    assert times.end_to_complete["abort"].sum_s == 0.1
