"""A refusal that a newer state could refute waits until the shard's owner is confirmed (ADR 0050)."""

import pytest
from tests.unit.coordinator.txn_rows import (
    COMPLETE_COMMIT,
    EMPTY,
    NEW_PID,
    ONGOING,
    ORDERS_0,
    ORDERS_1,
    PID,
    PREPARE_COMMIT,
    Step,
    machine_with,
    stored,
)

from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    EndTxn,
    InitProducerId,
    VerifyPartitions,
)


def add(identity, version=2):
    return AddPartitions(1, "pay", *identity, (ORDERS_0,), version)


def verify(identity, partition=ORDERS_0):
    return VerifyPartitions(1, "pay", *identity, (partition,))


def end(identity, commit=True, version=2):
    return EndTxn(1, "pay", *identity, commit, version)


def begin(identity):
    return InitProducerId(1, "pay", 60_000, *identity, new_producer_id=NEW_PID)


REQUESTS = [(ONGOING, add), (ONGOING, verify), (ONGOING, end), (EMPTY, begin)]


@pytest.mark.parametrize(("state", "request_of"), REQUESTS)
def test_a_newer_epoch_is_not_refused_at_once(state, request_of):
    step = Step(machine_with(stored(state)), request_of((PID, 6)))
    assert (step.code, step.records) == (90, ())
    assert step.decision.needs_confirmation


@pytest.mark.parametrize(("state", "request_of"), REQUESTS)
def test_an_older_epoch_is_refused_at_once(state, request_of):
    step = Step(machine_with(stored(state)), request_of((PID, 3)))
    assert step.code == 90
    assert not step.decision.needs_confirmation


@pytest.mark.parametrize("request_of", [add, verify, end])
def test_another_producer_id_is_not_refused_at_once(request_of):
    step = Step(machine_with(stored(ONGOING)), request_of((99, 0)))
    assert step.code == 49
    assert step.decision.needs_confirmation


@pytest.mark.parametrize("request_of", [add, verify, end])
def test_an_unknown_id_is_not_refused_at_once(request_of):
    step = Step(machine_with(), request_of((PID, 5)))
    assert step.code == 49
    assert step.decision.needs_confirmation


@pytest.mark.parametrize(
    ("state", "commit", "version"),
    [(EMPTY, True, 0), (EMPTY, False, 0), (EMPTY, True, 2), (COMPLETE_COMMIT, True, 2)],
)
def test_an_end_of_what_began_elsewhere_is_not_refused_at_once(state, commit, version):
    step = Step(machine_with(stored(state)), end((PID, 5), commit, version))
    assert step.code == 48
    assert step.decision.needs_confirmation


def test_what_was_added_elsewhere_is_not_refused_at_once():
    step = Step(machine_with(stored(ONGOING)), verify((PID, 5), ORDERS_1))
    assert step.answer.missing == (ORDERS_1,)
    assert step.decision.needs_confirmation


@pytest.mark.parametrize(
    ("state", "request_of", "identity"),
    [
        (ONGOING, add, (PID, 5)),
        (ONGOING, verify, (PID, 5)),
        (ONGOING, end, (PID, 5)),
        (PREPARE_COMMIT, add, (PID, 5)),
        (PREPARE_COMMIT, end, (PID, 5)),
        (EMPTY, begin, (-1, -1)),
    ],
)
def test_what_is_no_refusal_waits_for_nothing_more(state, request_of, identity):
    step = Step(machine_with(stored(state)), request_of(identity))
    assert step.code in (0, 51)
    assert not step.decision.needs_confirmation
