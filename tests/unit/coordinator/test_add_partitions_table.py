"""AddPartitionsToTxn, every row of facts 8.4 (write) and 8.5 (verify)."""

from dataclasses import fields, replace

import pytest
from tests.unit.coordinator.txn_rows import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    NEW_PID,
    NOW,
    ONGOING,
    ORDERS_0,
    ORDERS_1,
    PID,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    START,
    Step,
    machine_with,
    stored,
)

from oncelog.ids import Partition
from oncelog.trace import TransactionTrace
from oncelog_coordinator.core.txn import TxnConfig
from oncelog_coordinator.core.txn_events import AddPartitions, TxnTimedOut, VerifyPartitions

IDLE = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)


def add(machine, *partitions, identity=(PID, 5), version=0):
    return Step(machine, AddPartitions(1, "pay", *identity, partitions or (ORDERS_0,), version))


def verify(machine, *partitions, identity=(PID, 5)):
    return Step(machine, VerifyPartitions(1, "pay", *identity, partitions or (ORDERS_0,)))


@pytest.mark.parametrize("ask", [add, verify])
def test_unknown_id_is_not_mapped(ask):
    assert ask(machine_with()).code == 49


@pytest.mark.parametrize("state", PREPARED)
@pytest.mark.parametrize("identity", [(PID, 5), (PID, 4), (NEW_PID, 0), (99, 9)])
def test_while_a_transaction_completes_everyone_waits(state, identity):
    assert add(machine_with(stored(state)), identity=identity).code == 51


@pytest.mark.parametrize("state", [*IDLE, ONGOING])
@pytest.mark.parametrize("ask", [add, verify])
def test_identity_is_compared(state, ask):
    machine = machine_with(stored(state))
    assert ask(machine, identity=(99, 5)).code == 49
    assert ask(machine, identity=(PID, 4)).code == 90
    assert ask(machine, identity=(PID, 6)).code == 90


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("version", [0, 2])
def test_the_first_partition_starts_a_transaction_and_its_timer(state, version):
    step = add(machine_with(stored(state)), ORDERS_1, version=version)
    (record,) = step.records
    assert (step.code, record.state, record.partitions) == (0, ONGOING, (ORDERS_1,))
    assert (record.start_timestamp, record.last_update_timestamp) == (NOW, NOW)
    assert record.client_transaction_version == version
    (timer,) = step.timers
    assert (timer.event, timer.after_ms) == (TxnTimedOut("pay"), 60_001)


def test_a_two_phase_transaction_has_no_timer():
    assert add(machine_with(stored(EMPTY, timeout_ms=2**31 - 1))).timers == []


def test_partitions_are_united_in_order_and_the_start_stays():
    step = add(machine_with(stored(ONGOING)), ORDERS_1, ORDERS_0, ORDERS_1)
    (record,) = step.records
    assert record.partitions == (ORDERS_0, ORDERS_1)
    assert (record.start_timestamp, record.last_update_timestamp) == (START, NOW)


def test_an_addition_leaves_the_running_timer_alone():
    """It was set by how long the transaction may last: reckoned anew, a clock that stepped would end it at once."""
    for step in (
        add(machine_with(stored(ONGOING)), ORDERS_1),
        add(machine_with(stored(ONGOING)), ORDERS_0),
        verify(machine_with(stored(ONGOING)), ORDERS_0, ORDERS_1),
    ):
        assert step.timers == []


def test_partitions_that_are_present_append_nothing():
    step = add(machine_with(stored(ONGOING)), ORDERS_0)
    assert (step.code, step.records) == (0, ())


def test_partitions_of_the_last_transaction_never_leak():
    machine = machine_with(stored(ONGOING))
    prepared = machine.transaction("pay").prepared(PREPARE_COMMIT, 5, -1, -1, 0, NOW)
    machine.apply(1, prepared)
    machine.apply(2, prepared.completed(NOW))
    assert add(machine, ORDERS_1).records[0].partitions == (ORDERS_1,)


def test_a_transaction_that_outgrows_its_record_is_refused():
    machine = machine_with(stored(ONGOING), config=TxnConfig(record_bytes_max=20_000))
    many = tuple(Partition("orders", number) for number in range(1, 1_000))
    step = add(machine, *many)
    assert (step.code, step.records) == (-1, ())
    assert add(machine, ORDERS_1).code == 0


@pytest.mark.parametrize("state", PREPARED)
def test_verification_waits_while_a_transaction_completes(state):
    assert verify(machine_with(stored(state))).code == 51


def test_verification_names_missing_partitions_and_writes_none():
    step = verify(machine_with(stored(ONGOING)), ORDERS_0, ORDERS_1)
    assert (step.code, step.answer.missing, step.records) == (0, (ORDERS_1,), ())
    assert verify(machine_with(stored(ONGOING))).answer.missing == ()


@pytest.mark.parametrize("state", IDLE)
def test_an_idle_transaction_contains_no_partition(state):
    step = verify(machine_with(stored(state)))
    assert (step.code, step.answer.missing) == (0, (ORDERS_0,))


def test_an_addition_with_a_trace_keeps_every_field():
    """`with_trace` is `dataclasses.replace` by hand: a field that it forgot would be lost with tracing on."""
    values = {one.name: object() for one in fields(AddPartitions)}
    event, trace = AddPartitions(**values), TransactionTrace(7, 8, 9)
    assert event.with_trace(trace) == replace(event, trace=trace)
