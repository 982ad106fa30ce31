"""Transactions that are decided from outside (KIP-939, ADR 0043): kept for a new producer, and ended by it alone."""

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
    Step,
    machine_with,
    stored,
)

from oncelog.machine import CancelTimer
from oncelog_coordinator.core.markers import (
    TXN_MACHINE,
    DecisionKey,
    DeliveryOutcome,
    MarkersDelivered,
)
from oncelog_coordinator.core.request_origin import RequestOrigin
from oncelog_coordinator.core.txn_events import (
    AddPartitions,
    CompletePrepared,
    EndTxn,
    ForceTerminate,
    InitProducerId,
    TxnTimedOut,
    VerifyPartitions,
)
from oncelog_coordinator.core.txn_records import decode_record, encode_record
from oncelog_coordinator.core.txn_state import TWO_PHASE_TIMEOUT_MS

TWO_PHASE = TWO_PHASE_TIMEOUT_MS


def two_phase(producer_epoch=5, **fields):
    return stored(
        ONGOING,
        producer_epoch,
        **{"timeout_ms": TWO_PHASE, "client_transaction_version": 2} | fields,
    )


def keep(machine, new_producer_id=None, origin=None, timeout_ms=TWO_PHASE, keep_prepared=True):
    return Step(
        machine,
        InitProducerId(
            1,
            "pay",
            timeout_ms,
            new_producer_id=new_producer_id,
            origin=origin,
            keep_prepared=keep_prepared,
        ),
    )


def end(machine, commit, identity, version=2, origin=None, now=NOW):
    return Step(machine, EndTxn(1, "pay", *identity, commit, version, origin=origin), now)


def deliver(machine, step):
    (wanted,) = step.markers
    delivered = MarkersDelivered(wanted.decision_key, DeliveryOutcome.DELIVERED)
    return Step(machine, delivered)


def replayed(step):
    """A machine that has read the step's record from its log."""
    (record,) = step.records
    read = decode_record(*encode_record(record, 1))
    assert read == record
    return machine_with(read)


def operator(machine, commit, identity=(PID, 5)):
    return Step(machine, CompletePrepared(1, "pay", *identity, commit))


def ongoing_of(step):
    return step.answer.ongoing_producer_id, step.answer.ongoing_producer_epoch


class TestKeep:
    def test_an_open_transaction_stays_for_the_new_producer(self):
        machine = machine_with(two_phase())
        step = keep(machine)
        assert (step.code, step.identity, ongoing_of(step)) == (0, (PID, 6), (PID, 5))
        (record,) = step.records
        assert (record.state, record.partitions, record.owner) == (ONGOING, (ORDERS_0,), (PID, 6))
        assert (record.producer_id, record.producer_epoch) == (PID, 5)

    @pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
    def test_nothing_open_is_an_ordinary_start(self, state):
        step = keep(machine_with(stored(state)))
        assert (step.code, step.identity, ongoing_of(step)) == (0, (PID, 6), (-1, -1))

    def test_an_unknown_id_is_an_ordinary_start(self):
        step = keep(machine_with(), NEW_PID)
        assert (step.code, step.identity, ongoing_of(step)) == (0, (NEW_PID, 0), (-1, -1))

    @pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
    def test_a_decided_one_must_complete_first(self, state):
        assert keep(machine_with(stored(state))).code == 51

    def test_without_it_the_transaction_is_aborted(self):
        machine = machine_with(two_phase())
        step = keep(machine, keep_prepared=False)
        assert (step.code, step.states) == (51, [PREPARE_ABORT])

    def test_each_start_fences_the_one_before(self):
        machine = machine_with(two_phase())
        assert [keep(machine).identity for _ in range(3)] == [(PID, 6), (PID, 7), (PID, 8)]
        assert ongoing_of(keep(machine)) == (PID, 5)
        assert end(machine, True, (PID, 8)).code == 90
        assert end(machine, True, (PID, 9)).states == [PREPARE_COMMIT]

    def test_its_end_keeps_where_it_came_from_and_when(self):
        machine, origin = machine_with(two_phase()), RequestOrigin(1, 2, 3)
        keep(machine)
        (record,) = end(machine, True, (PID, 6), origin=origin, now=NOW + 7).records
        assert (record.origin, record.last_update_timestamp) == (origin, NOW + 7)

    def test_one_without_partitions_completes_at_once(self):
        machine = machine_with(two_phase(partitions=()))
        keep(machine)
        step = end(machine, True, (PID, 6), now=NOW + 7)
        assert step.states == [PREPARE_COMMIT, COMPLETE_COMMIT]
        assert step.records[1].last_update_timestamp == NOW + 7

    @pytest.mark.parametrize("epoch", [32_765, 32_766])
    def test_a_producer_id_near_its_end_gets_a_successor(self, epoch):
        machine = machine_with(two_phase(epoch))
        assert machine.wants_producer_id(InitProducerId(1, "pay", TWO_PHASE, keep_prepared=True))
        assert keep(machine).code == 14
        step = keep(machine, NEW_PID)
        assert (step.identity, ongoing_of(step)) == ((NEW_PID, 0), (PID, epoch))
        decided = end(machine, True, (NEW_PID, 0))
        assert decided.identity == (NEW_PID, 1)
        (marker,) = decided.markers[0].markers
        assert (marker.producer_id, marker.producer_epoch) == (PID, epoch + 1)
        (complete,) = deliver(machine, decided).records
        assert (complete.producer_id, complete.producer_epoch) == (NEW_PID, 1)

    def test_a_copy_of_the_request_gets_the_same_answer(self):
        machine, origin = machine_with(two_phase()), RequestOrigin(1, 2, 3)
        first, copy = keep(machine, origin=origin), keep(machine, origin=origin)
        assert (copy.code, copy.identity, ongoing_of(copy)) == (0, first.identity, (PID, 5))
        assert copy.records == ()

    def test_it_waits_without_a_timer(self):
        machine = machine_with(stored(ONGOING))
        step = keep(machine, timeout_ms=30_000)
        assert [type(one) for one in step.effects].count(CancelTimer) == 1
        late = Step(machine, TxnTimedOut("pay"), NOW + 10**9)
        assert (late.records, late.label) == ((), "timer_outlived_transaction")


class TestOneTransactionTwoIdentities:
    def test_markers_carry_the_transactions_own(self):
        machine = machine_with(two_phase())
        keep(machine)
        keep(machine)
        decided = end(machine, True, (PID, 7))
        (marker,) = decided.markers[0].markers
        assert (marker.producer_id, marker.producer_epoch, marker.commit) == (PID, 6, True)
        assert (decided.code, decided.identity) == (0, (PID, 8))
        (complete,) = deliver(machine, decided).records
        assert (complete.state, complete.producer_epoch) == (COMPLETE_COMMIT, 8)
        assert not complete.is_kept

    @pytest.mark.parametrize("commit", [True, False])
    @pytest.mark.parametrize("version", [0, 2])
    def test_who_opened_it_can_do_nothing_more(self, commit, version):
        machine = machine_with(two_phase())
        keep(machine)
        old = (PID, 5)
        assert end(machine, commit, old, version).code == 90
        added = Step(machine, AddPartitions(1, "pay", *old, (ORDERS_1,), version))
        assert (added.code, added.records) == (90, ())
        assert Step(machine, VerifyPartitions(1, "pay", *old, (ORDERS_0,))).code == 90

    def test_the_new_producer_adds_nothing_to_it(self):
        machine = machine_with(two_phase())
        identity = keep(machine).identity
        assert Step(machine, AddPartitions(1, "pay", *identity, (ORDERS_1,), 2)).code == 48

    def test_a_strange_producer_is_not_mapped(self):
        machine = machine_with(two_phase())
        keep(machine)
        assert end(machine, True, (99, 0)).code == 49

    @pytest.mark.parametrize(("commit", "other"), [(True, 48), (False, 90)])
    def test_a_repeated_end_is_answered_once_it_is_complete(self, commit, other):
        machine = machine_with(two_phase())
        identity = keep(machine).identity
        decided = end(machine, commit, identity)
        assert end(machine, commit, identity).code == 51
        assert end(machine, not commit, identity).code == other
        assert end(machine, commit, decided.identity).code == 51
        assert end(machine, commit, (PID, 5)).code == 90
        deliver(machine, decided)
        again = end(machine, commit, identity)
        assert (again.code, again.identity) == (0, decided.identity)

    def test_a_replay_knows_both_identities(self):
        kept = replayed(keep(machine_with(two_phase())))
        assert keep(kept).identity == (PID, 7)
        decided = end(kept, True, (PID, 7))
        assert decided.states == [PREPARE_COMMIT]
        after = replayed(decided)
        key = DecisionKey(TXN_MACHINE, "pay", 1)
        (complete,) = Step(after, MarkersDelivered(key, DeliveryOutcome.DELIVERED)).records
        assert (complete.state, complete.producer_epoch) == (COMPLETE_COMMIT, 8)
        assert end(after, True, (PID, 7)).code == 0


class TestOperator:
    @pytest.mark.parametrize(("commit", "state"), [(True, PREPARE_COMMIT), (False, PREPARE_ABORT)])
    @pytest.mark.parametrize("is_kept", [True, False])
    def test_a_two_phase_one_is_decided_by_its_identity(self, commit, state, is_kept):
        machine = machine_with(two_phase())
        identity = keep(machine).identity if is_kept else (PID, 5)
        step = operator(machine, commit)
        assert (step.code, step.states) == (0, [state])
        (marker,) = step.markers[0].markers
        assert (marker.producer_epoch, marker.commit) == (6, commit)
        deliver(machine, step)
        # Its application decides the same, later: it was done.
        assert end(machine, commit, identity).code == 0
        if commit:
            assert end(machine, False, identity).code == 48
        else:
            assert end(machine, True, identity).code == 90

    @pytest.mark.parametrize("identity", [(PID, 4), (PID, 6), (99, 5)])
    def test_another_transaction_is_refused(self, identity):
        step = operator(machine_with(two_phase()), True, identity)
        assert (step.code, step.records) == (48, ())
        assert "that is 7:5, and nothing was changed" in step.answer.message

    def test_an_ordinary_transaction_is_refused(self):
        step = operator(machine_with(stored(ONGOING)), True)
        assert (step.code, step.records) == (48, ())
        assert "is not two-phase" in step.answer.message

    @pytest.mark.parametrize(
        "state", [EMPTY, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT]
    )
    def test_what_is_not_open_is_refused(self, state):
        step = operator(machine_with(stored(state, timeout_ms=TWO_PHASE)), True)
        assert (step.code, step.records) == (48, ())
        assert "nothing is left to decide" in step.answer.message

    def test_an_unknown_id_is_refused(self):
        assert operator(machine_with(), True).code == 105

    def test_terminate_ends_a_kept_one_too(self):
        machine = machine_with(two_phase())
        identity = keep(machine).identity
        step = Step(machine, ForceTerminate(1, "pay"))
        assert step.states == [PREPARE_ABORT]
        deliver(machine, step)
        assert machine.transaction("pay").producer_epoch == identity[1] + 1
        assert end(machine, True, identity).code == 90

    def test_a_kept_one_needs_no_further_producer_id(self):
        machine = machine_with(two_phase(32_766))
        keep(machine, NEW_PID)
        assert not machine.wants_producer_id(ForceTerminate(1, "pay"))
        assert operator(machine, True, (PID, 32_766)).states == [PREPARE_COMMIT]


@pytest.mark.parametrize("crashes", [0, 1])
def test_a_predecessor_that_continues_aborts_nothing(crashes):
    """Kafka looks at the producer id alone while a transaction is open."""
    machine = machine_with(two_phase(producer_epoch=5))
    for _ in range(crashes):
        keep(machine)
    step = Step(machine, InitProducerId(1, "pay", TWO_PHASE, PID, 4 + crashes))
    assert (step.answer.error_code, step.records) == (90, ())


@pytest.mark.parametrize("new_producer_id", [None, NEW_PID])
def test_the_owner_that_continues_aborts_what_is_open(new_producer_id):
    """It asks for an end of its own transaction, also with another producer id than that one has."""
    machine = machine_with(two_phase(producer_epoch=5 if new_producer_id is None else 32_765))
    kept = keep(machine, new_producer_id)
    owner = kept.answer.producer_id, kept.answer.producer_epoch
    step = Step(machine, InitProducerId(1, "pay", TWO_PHASE, *owner))
    assert [record.state for record in step.records] == [PREPARE_ABORT]
