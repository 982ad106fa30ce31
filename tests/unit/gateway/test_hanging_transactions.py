"""Which open transactions have nobody to end them (KIP-664; facts 8.2, 8.11)."""

import pytest

from oncelog.ids import Partition
from oncelog_gateway.core.hanging import (
    Coordinated,
    CoordinatedTransaction,
    OpenTransaction,
    Shown,
    named_by,
    owner_of,
    still_open,
)

ORDERS = Partition("orders", 0)
OTHER = Partition("orders", 1)


def opened(partition=ORDERS, producer_id=7, producer_epoch=0, start_offset=42):
    return OpenTransaction(partition, producer_id, producer_epoch, start_offset, -1, 1_000)


def coordinated(state="Ongoing", partitions=(ORDERS,), producer_id=7, producer_epoch=0):
    return CoordinatedTransaction(
        "pay", state, producer_id, producer_epoch, 500, frozenset(partitions)
    )


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"])
def test_a_coordinator_that_still_owes_a_marker_is_the_owner(state):
    assert owner_of(opened(), [coordinated(state)]) is not None


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort", "Dead"])
def test_a_coordinator_that_is_done_owns_nothing(state):
    assert owner_of(opened(), [coordinated(state)]) is None
    assert named_by(opened(), [coordinated(state)]).transactional_id == "pay"


def test_an_open_transaction_without_this_partition_is_no_owner():
    assert owner_of(opened(), [coordinated(partitions=[OTHER])]) is None


def test_another_producers_transaction_is_no_owner():
    assert owner_of(opened(), [coordinated(producer_id=8)]) is None
    assert named_by(opened(), [coordinated(producer_id=8)]) is None


def test_what_is_known_of_a_producer_id_is_found_by_it():
    known = Coordinated([coordinated(), coordinated(producer_id=8), coordinated("Empty")])
    assert [one.state for one in known.of(opened())] == ["Ongoing", "Empty"]
    assert known.of(opened(producer_id=9)) == ()


@pytest.mark.parametrize(
    ("filters", "shown"),
    [
        (Shown(), [0, 900_000, 900_001, None]),
        (Shown(min_idle_ms=900_000), [900_000, 900_001, None]),
        (Shown(max_transaction_timeout_ms=900_000), [900_001, None]),
        (Shown(max_transaction_timeout_ms=0), [900_000, 900_001, None]),
    ],
)
def test_kafkas_timeout_is_strict_and_what_has_no_time_is_shown(filters, shown):
    assert [one for one in (0, 900_000, 900_001, None) if filters.shows(one, None)] == shown


def test_a_coordinators_ids_are_shown_and_unknown_ones_are_not():
    of_201 = Shown(coordinator=201)
    assert [one for one in (201, 202, None) if of_201.shows(5, one)] == [201]
    assert not Shown(min_idle_ms=6, coordinator=201).shows(5, 201)


def test_a_prepared_tv2_transaction_owns_the_epoch_below_its_own():
    assert (
        owner_of(opened(producer_epoch=3), [coordinated("PrepareAbort", producer_epoch=4)])
        is not None
    )


def test_of_two_tries_of_a_task_the_producer_id_tells_the_owner():
    tries = [coordinated(producer_id=8), coordinated(producer_id=7)]
    assert owner_of(opened(), tries) is tries[1]


@pytest.mark.parametrize(
    "later",
    [
        [],
        [opened(start_offset=50)],
        [opened(producer_epoch=1)],
        [opened(partition=OTHER)],
        [opened(producer_id=8)],
    ],
)
def test_what_changed_between_the_readings_is_not_accused(later):
    assert still_open([opened()], later) == ()


def test_what_stands_through_both_readings_is_accused():
    later = OpenTransaction(ORDERS, 7, 0, 42, 5, 9_000)
    assert still_open([opened()], [later, opened(producer_id=9)]) == (opened(),)
