"""Timeouts, expiry, operators, and what follows a decision (facts 8.8 to 8.11)."""

import pytest
from tests.unit.coordinator.txn_rows import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    NEW_PID,
    NOW,
    ONGOING,
    ORDERS_0,
    PID,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    START,
    Step,
    machine_with,
    stored,
)

from oncelog.machine import CancelTimer
from oncelog_coordinator.core.markers import (
    MARKER_SENDER,
    TXN_MACHINE,
    DecisionKey,
    DeliveryOutcome,
    MarkersDelivered,
)
from oncelog_coordinator.core.timeouts import TOMBSTONES_MAX
from oncelog_coordinator.core.txn import TxnConfig, TxnMachine
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    EndTxn,
    ExpireIds,
    ForceTerminate,
    ResendMarkers,
    TxnTimedOut,
)
from oncelog_coordinator.core.txn_state import TxnTombstone

DEADLINE = START + 60_000


class TestTransactionTimeout:
    def test_it_is_aborted_past_its_deadline_and_not_at_it(self):
        machine = machine_with(stored(ONGOING))
        early = Step(machine, TxnTimedOut("pay"), DEADLINE)
        assert (early.records, early.label) == ((), "timer_too_early")
        assert [timer.after_ms for timer in early.timers] == [1]
        late = Step(machine, TxnTimedOut("pay"), DEADLINE + 1)
        assert (late.states, late.records[0].producer_epoch) == ([PREPARE_ABORT], 6)
        assert len(late.markers) == 1

    def test_a_clock_set_back_makes_it_last_one_timeout_more(self):
        """Its producer is gone, and its readers wait."""
        machine = machine_with(stored(ONGOING))
        set_back = START + 60_001 - 3_600_000
        early = Step(machine, TxnTimedOut("pay"), set_back)
        assert (early.records, early.label) == ((), "timer_too_early")
        (again,) = early.timers
        assert again.after_ms == 60_001
        assert Step(machine, again.event, set_back + again.after_ms).states == [PREPARE_ABORT]

    def test_a_cut_timer_is_of_its_own_transaction_only(self):
        machine = machine_with(stored(ONGOING))
        (again,) = Step(machine, TxnTimedOut("pay"), START - 3_600_000).timers
        following = machine_with(stored(ONGOING, start_timestamp=START + 1))
        assert Step(following, again.event, START + 2).label == "timer_too_early"

    @pytest.mark.parametrize("level", [0, 1, 2])
    def test_the_clusters_version_decides_how(self, level):
        step = Step(machine_with(stored(ONGOING)), TxnTimedOut("pay", level), DEADLINE + 1)
        (record,) = step.records
        assert record.client_transaction_version == level
        assert record.last_producer_epoch == (5 if level == 2 else -1)
        assert record.producer_epoch == 6

    @pytest.mark.parametrize(
        "state", [EMPTY, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT]
    )
    def test_a_timer_that_outlives_its_transaction_does_nothing(self, state):
        step = Step(machine_with(stored(state)), TxnTimedOut("pay"), DEADLINE + 10**9)
        assert (step.records, step.effects) == ((), ())

    def test_a_two_phase_transaction_never_times_out(self):
        machine = machine_with(stored(ONGOING, timeout_ms=2**31 - 1))
        assert Step(machine, TxnTimedOut("pay"), 10**15).records == ()

    def test_without_a_producer_id_it_is_tried_again_soon(self):
        machine = machine_with(stored(ONGOING, 32_766))
        assert machine.wants_producer_id(TxnTimedOut("pay", 2))
        waiting = Step(machine, TxnTimedOut("pay", 2), DEADLINE + 1)
        assert (waiting.records, [timer.after_ms for timer in waiting.timers]) == ((), [1_000])
        aborted = Step(machine, TxnTimedOut("pay", 2, NEW_PID), DEADLINE + 1)
        assert aborted.records[0].next_producer_id == NEW_PID

    @pytest.mark.parametrize(
        ("version", "commit", "code"), [(0, True, 90), (0, False, 90), (2, True, 90), (2, False, 0)]
    )
    def test_what_the_producer_is_told_afterwards(self, version, commit, code):
        machine = machine_with(stored(ONGOING))
        Step(machine, TxnTimedOut("pay", 2), DEADLINE + 1)
        machine.apply(9, machine.transaction("pay").completed(NOW))
        step = Step(machine, EndTxn(1, "pay", PID, 5, commit, version))
        assert step.code == code
        if code == 0:
            assert step.identity == (PID, 6)


class TestCompletion:
    def commit(self, machine):
        return Step(machine, EndTxn(1, "pay", PID, 5, True, 0))

    def test_the_prepare_record_cancels_the_timer(self):
        step = self.commit(machine_with(stored(ONGOING)))
        assert [type(effect).__name__ for effect in step.effects] == [
            "Reply",
            "CancelTimer",
            "Send",
        ]
        assert step.effects[1] == CancelTimer("timeout pay")
        assert step.effects[2].destination == MARKER_SENDER

    @pytest.mark.parametrize(
        ("prepared", "complete"),
        [(PREPARE_COMMIT, COMPLETE_COMMIT), (PREPARE_ABORT, COMPLETE_ABORT)],
    )
    def test_delivered_markers_complete(self, prepared, complete):
        machine = machine_with(stored(prepared))
        key = DecisionKey(TXN_MACHINE, "pay", 1)
        step = Step(machine, MarkersDelivered(key, DeliveryOutcome.DELIVERED, (ORDERS_0,)))
        (record,) = step.records
        assert (record.state, record.partitions, record.start_timestamp) == (complete, (), START)
        assert record.last_update_timestamp == NOW

    def test_a_late_delivery_cannot_complete_the_next_transaction(self):
        machine = machine_with(stored(ONGOING))
        (first,) = self.commit(machine).markers
        done = MarkersDelivered(first.decision_key, DeliveryOutcome.DELIVERED)
        assert Step(machine, done).states == [COMPLETE_COMMIT]
        Step(machine, AddPartitions(1, "pay", PID, 5, (ORDERS_0,)))
        (second,) = self.commit(machine).markers
        again = Step(machine, done)
        assert (again.records, again.label) == ((), "stale_delivery_ignored")
        assert Step(machine, ResendMarkers(first.decision_key)).effects == ()
        assert second.decision_key != first.decision_key

    @pytest.mark.parametrize("outcome", [DeliveryOutcome.FENCED, DeliveryOutcome.CANCELLED])
    def test_a_stopped_delivery_stays_prepared_and_is_repeated_later(self, outcome):
        machine = machine_with(stored(PREPARE_COMMIT))
        key = DecisionKey(TXN_MACHINE, "pay", 1)
        step = Step(machine, MarkersDelivered(key, outcome))
        (timer,) = step.timers
        assert (step.records, timer.event) == ((), ResendMarkers(key))
        (wanted,) = Step(machine, timer.event).markers
        assert wanted.decision_key == key

    def test_resume_drives_prepared_ones_only(self):
        machine = TxnMachine()
        states = [EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT]
        for offset, state in enumerate(states):
            machine.apply(offset, stored(state, transactional_id=state.name))
        effects = machine.resume(START + 10_000)
        wanted = [effect.message for effect in effects if hasattr(effect, "message")]
        assert [message.decision_key.name for message in wanted] == [
            "PREPARE_COMMIT",
            "PREPARE_ABORT",
        ]
        timers = {effect.name: effect.after_ms for effect in effects if hasattr(effect, "after_ms")}
        assert timers == {"timeout ONGOING": 50_001, "expire ids": 3_600_000}


class TestExpiry:
    def machine(self, *txns):
        return machine_with(*txns, config=TxnConfig(transactional_id_expiration_ms=1_000))

    @pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
    def test_an_idle_id_expires_exactly_at_its_age(self, state):
        machine = self.machine(stored(state))
        assert Step(machine, ExpireIds(), START + 999).records == ()
        assert Step(machine, ExpireIds(), START + 1_000).records == (TxnTombstone("pay"),)
        assert not machine.knows("pay")

    @pytest.mark.parametrize("state", [ONGOING, PREPARE_COMMIT, PREPARE_ABORT])
    def test_what_is_open_never_expires(self, state):
        assert Step(self.machine(stored(state)), ExpireIds(), 10**15).records == ()

    def test_the_search_is_repeated(self):
        (timer,) = Step(self.machine(), ExpireIds()).timers
        assert (timer.event, timer.after_ms) == (ExpireIds(), 3_600_000)

    def test_many_are_taken_in_bounded_steps(self):
        txns = [stored(EMPTY, transactional_id=f"t{n}") for n in range(TOMBSTONES_MAX + 5)]
        machine = self.machine(*txns)
        first = Step(machine, ExpireIds(), 10**9)
        assert len(first.records) == TOMBSTONES_MAX
        assert first.timers[0].after_ms < 1_000
        assert len(Step(machine, ExpireIds(), 10**9).records) == 5


class TestForceTerminate:
    def test_an_ongoing_transaction_is_fenced_and_aborted(self):
        step = Step(machine_with(stored(ONGOING)), ForceTerminate(1, "pay"))
        assert (step.code, step.states, step.records[0].producer_epoch) == (0, [PREPARE_ABORT], 6)

    def test_one_that_is_being_aborted_already_is_a_success(self):
        step = Step(machine_with(stored(PREPARE_ABORT)), ForceTerminate(1, "pay"))
        assert (step.code, step.records) == (0, ())

    @pytest.mark.parametrize("state", [EMPTY, PREPARE_COMMIT, COMPLETE_COMMIT, COMPLETE_ABORT])
    def test_there_must_be_something_to_abort(self, state):
        step = Step(machine_with(stored(state)), ForceTerminate(1, "pay"))
        assert (step.code, step.records) == (48, ())
        assert state.kafka_name in step.answer.message

    def test_an_unknown_id_is_named(self):
        step = Step(machine_with(), ForceTerminate(1, "pay"))
        assert step.code == 105
        assert "'pay'" in step.answer.message

    @pytest.mark.parametrize("state", [ONGOING, PREPARE_ABORT])
    def test_the_transaction_after_the_one_that_was_seen_goes_on(self, state):
        machine = machine_with(stored(state))
        start = machine.transaction("pay").start_timestamp
        other = Step(machine, ForceTerminate(1, "pay", seen_start_timestamp=start - 1))
        assert (other.code, other.records) == (48, ())
        assert "has ended meanwhile" in other.answer.message
        assert Step(machine, ForceTerminate(1, "pay", seen_start_timestamp=start)).code == 0

    def test_it_waits_for_a_producer_id(self):
        machine = machine_with(stored(ONGOING, 32_766))
        assert machine.wants_producer_id(ForceTerminate(1, "pay", 2))
        assert Step(machine, ForceTerminate(1, "pay", 2)).code == 14
