"""An operator's abort ends exactly what was looked at, or nothing (KIP-664; facts 1.4)."""

import pytest

from oncelog.errors import ErrorCode
from oncelog.ids import Partition, SeenTransaction
from oncelog_gateway.core.hanging import CoordinatedTransaction, OpenTransaction
from oncelog_gateway.core.interlock import AbortMarker, AbortTarget, find_target, plan_abort

ORDERS = Partition("orders", 0)


def opened(start_offset=42, producer_id=7, producer_epoch=3, coordinator_epoch=5, partition=ORDERS):
    return OpenTransaction(
        partition, producer_id, producer_epoch, start_offset, coordinator_epoch, 1_000, 50
    )


def coordinated(state):
    return CoordinatedTransaction("pay", state, 7, 3, 500, frozenset([ORDERS]))


def test_the_exact_start_offset_is_found_among_several():
    several = [opened(10, producer_id=1), opened(42), opened(42, partition=Partition("orders", 1))]
    assert find_target(AbortTarget(ORDERS, 42, None), several) is several[1]
    assert find_target(AbortTarget(ORDERS, 42, 3), several) is several[1]


def test_a_wrong_start_offset_names_the_open_ones():
    refusal = find_target(AbortTarget(ORDERS, 41, None), [opened(42), opened(10, producer_id=1)])
    assert refusal.error_code is ErrorCode.RESOURCE_NOT_FOUND
    assert "10, 42" in refusal.detail


def test_nothing_open_is_told():
    refusal = find_target(AbortTarget(ORDERS, 41, None), [])
    assert "ended already" in refusal.detail


@pytest.mark.parametrize("epoch", [2, 4])
def test_a_wrong_producer_epoch_is_refused(epoch):
    refusal = find_target(AbortTarget(ORDERS, 42, epoch), [opened()])
    assert refusal.error_code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert f"not {epoch}" in refusal.detail


@pytest.mark.parametrize("known", [[], [coordinated("Empty")], [coordinated("CompleteAbort")]])
def test_the_marker_carries_what_the_partition_said(known):
    assert plan_abort(opened(), known) == AbortMarker(ORDERS, 7, 3, 5, 0, SeenTransaction(42, 50))


def test_without_an_earlier_marker_the_coordinator_epoch_is_zero():
    marker = plan_abort(opened(coordinator_epoch=-1), [])
    assert marker.coordinator_epoch == 0


@pytest.mark.parametrize(
    ("state", "advice"),
    [("Ongoing", "terminate"), ("PrepareCommit", "wait"), ("PrepareAbort", "wait")],
)
def test_an_owned_transaction_is_left_to_its_coordinator(state, advice):
    refusal = plan_abort(opened(), [coordinated(state)])
    assert refusal.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert advice in refusal.detail
    assert "'pay'" in refusal.detail
