"""EndTxn, every row of facts 8.6 (TV1) and 8.7 (TV2)."""

from dataclasses import replace

import pytest
from tests.unit.coordinator.txn_rows import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    NEW_PID,
    NOW,
    ONGOING,
    PID,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    Step,
    machine_with,
    stored,
)

from oncelog_coordinator.core.txn_events import EndTxn
from oncelog_coordinator.core.txn_state import next_identity

EVERY_STATE = (EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT)


def end(
    machine, commit, producer_id=PID, producer_epoch=5, version=0, new_producer_id=None, now=NOW
):
    event = EndTxn(1, "pay", producer_id, producer_epoch, commit, version, new_producer_id)
    return Step(machine, event, now)


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_without_partitions_completes_at_once(version):
    ongoing = stored(ONGOING, client_transaction_version=version, partitions=())
    step = end(machine_with(ongoing), True, version=version, now=NOW + 7)
    assert step.states == [PREPARE_COMMIT, COMPLETE_COMMIT]
    assert [record.last_update_timestamp for record in step.records] == [NOW + 7, NOW + 7]
    assert not step.markers


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_unknown_id_is_not_mapped(version, commit):
    assert end(machine_with(), commit, version=version).code == 49


class TestTv1:
    @pytest.mark.parametrize(
        ("state", "commit", "code"),
        [
            (PREPARE_COMMIT, True, 51),
            (PREPARE_COMMIT, False, 48),
            (PREPARE_ABORT, True, 48),
            (PREPARE_ABORT, False, 51),
            (COMPLETE_COMMIT, True, 0),
            (COMPLETE_COMMIT, False, 48),
            (COMPLETE_ABORT, True, 48),
            (COMPLETE_ABORT, False, 0),
            (EMPTY, True, 48),
            (EMPTY, False, 48),
        ],
    )
    def test_a_transaction_that_is_not_ongoing_is_not_changed(self, state, commit, code):
        """What is complete is only said once more: a coordinator that lost its shard unknowingly cannot do that."""
        machine = machine_with(stored(state))
        step = end(machine, commit)
        assert (step.code, step.identity) == (code, (-1, -1))
        assert step.records == (() if code else (stored(state),))
        assert machine.transaction("pay") == stored(state)

    @pytest.mark.parametrize(
        ("commit", "prepared"), [(True, PREPARE_COMMIT), (False, PREPARE_ABORT)]
    )
    def test_an_ongoing_one_is_decided_at_the_same_epoch(self, commit, prepared):
        step = end(machine_with(stored(ONGOING, client_transaction_version=0)), commit)
        (record,) = step.records
        assert (record.state, record.producer_epoch, record.producer_id) == (prepared, 5, PID)
        assert (step.code, step.identity) == (0, (-1, -1))
        ((marker,),) = (wanted.markers for wanted in step.markers)
        assert (marker.producer_id, marker.producer_epoch, marker.commit) == (PID, 5, commit)
        assert marker.transaction_version == 0

    @pytest.mark.parametrize("state", EVERY_STATE)
    @pytest.mark.parametrize("commit", [True, False])
    def test_producer_id_is_looked_at_before_epoch_and_state(self, state, commit):
        machine = machine_with(stored(state))
        assert end(machine, commit, producer_id=99, producer_epoch=1).code == 49
        assert end(machine, commit, producer_epoch=4).code == 90
        assert end(machine, commit, producer_epoch=6).code == 90


class TestTv2:
    @pytest.mark.parametrize(
        ("commit", "prepared"), [(True, PREPARE_COMMIT), (False, PREPARE_ABORT)]
    )
    def test_an_ongoing_one_is_decided_with_the_next_epoch(self, commit, prepared):
        step = end(machine_with(stored(ONGOING)), commit, version=2)
        (record,) = step.records
        assert (record.state, record.producer_epoch, record.last_producer_epoch) == (prepared, 6, 5)
        assert (step.code, step.identity) == (0, (PID, 6))
        ((marker,),) = (wanted.markers for wanted in step.markers)
        assert (marker.producer_epoch, marker.transaction_version) == (6, 2)

    @pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
    def test_nothing_to_commit(self, state):
        assert end(machine_with(stored(state)), True, version=2).code == 48

    @pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
    def test_an_empty_abort_bumps_the_epoch_and_completes_at_once(self, state):
        step = end(machine_with(stored(state)), False, version=2)
        assert step.states == [PREPARE_ABORT, COMPLETE_ABORT]
        assert [record.start_timestamp for record in step.records] == [NOW, NOW]
        assert (step.code, step.identity, step.markers) == (0, (PID, 6), [])

    @pytest.mark.parametrize(
        ("state", "commit", "code"),
        [
            (COMPLETE_COMMIT, True, 0),
            (COMPLETE_COMMIT, False, 48),
            (COMPLETE_ABORT, True, 90),
            (COMPLETE_ABORT, False, 0),
            (PREPARE_COMMIT, True, 51),
            (PREPARE_COMMIT, False, 48),
            (PREPARE_ABORT, True, 90),
            (PREPARE_ABORT, False, 51),
        ],
    )
    def test_a_retry_names_who_the_producer_was_before(self, state, commit, code):
        """Its epoch before the bump; across a rotation, which a completion installs, its old producer id."""
        bumped = stored(state, 6, client_transaction_version=2)
        rotated = replace(bumped, producer_epoch=0, producer_id=NEW_PID, previous_producer_id=PID)
        is_complete = state in (COMPLETE_COMMIT, COMPLETE_ABORT)
        for txn, producer_epoch in [(bumped, 5), (rotated, 32_766)][: 1 + is_complete]:
            step = end(machine_with(txn), commit, PID, producer_epoch, version=2)
            assert (step.code, step.records) == (code, ())
            told = (txn.producer_id, txn.producer_epoch)
            assert step.identity == (told if code == 0 else (-1, -1))

    @pytest.mark.parametrize("state", [s for s in EVERY_STATE if s not in (EMPTY, ONGOING)])
    @pytest.mark.parametrize("commit", [True, False])
    def test_one_epoch_behind_is_fenced_when_a_tv1_producer_decided(self, state, commit):
        """TV1 has bumped nothing: the epoch before is its fenced predecessor's, which must not be told that this was
        its own transaction, nor learn the epoch of its successor."""
        decided = stored(state, 6, client_transaction_version=0)
        step = end(machine_with(decided), commit, producer_epoch=5, version=2)
        assert (step.code, step.identity) == (90, (-1, -1))

    def test_across_a_rotation_the_last_old_epoch_is_a_retry(self):
        rotated = stored(COMPLETE_COMMIT, 0, producer_id=NEW_PID, previous_producer_id=PID)
        assert end(machine_with(rotated), True, PID, 32_765, version=2).code == 49
        assert end(machine_with(rotated), True, 99, 32_766, version=2).code == 49

    @pytest.mark.parametrize("state", EVERY_STATE)
    @pytest.mark.parametrize("commit", [True, False])
    def test_another_epoch_is_fenced_and_another_id_is_not_mapped(self, state, commit):
        machine = machine_with(stored(state, 6))
        assert end(machine, commit, producer_epoch=4, version=2).code == 90
        assert end(machine, commit, producer_epoch=7, version=2).code == 90
        assert end(machine, commit, producer_id=99, producer_epoch=6, version=2).code == 49

    @pytest.mark.parametrize("state", [EMPTY, ONGOING])
    @pytest.mark.parametrize("commit", [True, False])
    def test_one_epoch_behind_is_no_retry_where_nothing_was_decided(self, state, commit):
        assert end(machine_with(stored(state, 6)), commit, producer_epoch=5, version=2).code == 90

    @pytest.mark.parametrize("prepared", [PREPARE_COMMIT, PREPARE_ABORT])
    @pytest.mark.parametrize("next_producer_id", [-1, NEW_PID])
    def test_the_next_identity_waits_for_the_last_transaction(self, prepared, next_producer_id):
        txn = stored(
            prepared, 32_767 if next_producer_id > 0 else 6, next_producer_id=next_producer_id
        )
        for commit in (True, False):
            assert end(machine_with(txn), commit, *next_identity(txn), version=2).code == 51


class TestExhaustedEpoch:
    @pytest.mark.parametrize("commit", [True, False])
    def test_a_successor_id_is_told_now_and_installed_at_completion(self, commit):
        machine = machine_with(stored(ONGOING, 32_766))
        step = end(machine, commit, PID, 32_766, 2, NEW_PID)
        (record,) = step.records
        assert (record.producer_id, record.producer_epoch) == (PID, 32_767)
        assert (record.next_producer_id, record.last_producer_epoch) == (NEW_PID, 32_766)
        assert step.identity == (NEW_PID, 0)
        completed = record.completed(NOW)
        assert (completed.producer_id, completed.producer_epoch) == (NEW_PID, 0)
        assert (completed.previous_producer_id, completed.next_producer_id) == (PID, -1)
        assert completed.last_producer_epoch == 32_766

    @pytest.mark.parametrize("state", [ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
    def test_without_an_id_at_hand_nothing_is_written(self, state):
        step = end(machine_with(stored(state, 32_766)), False, PID, 32_766, 2)
        assert (step.code, step.records) == (14, ())

    @pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
    def test_an_empty_abort_rotates_too(self, state):
        step = end(machine_with(stored(state, 32_766)), False, PID, 32_766, 2, NEW_PID)
        assert step.identity == (NEW_PID, 0)
        assert (step.records[-1].producer_id, step.records[-1].producer_epoch) == (NEW_PID, 0)

    def test_at_the_last_epoch_only_an_abort_is_done(self):
        assert end(machine_with(stored(ONGOING, 32_767)), True, PID, 32_767, 2, NEW_PID).code == 90
        step = end(machine_with(stored(ONGOING, 32_767)), False, PID, 32_767, 2, NEW_PID)
        assert (step.records[0].producer_epoch, step.identity) == (32_767, (NEW_PID, 0))

    def test_tv1_never_asks_for_a_successor(self):
        machine = machine_with(stored(ONGOING, 32_766))
        assert not machine.wants_producer_id(EndTxn(1, "pay", PID, 32_766, True, 0))
        assert end(machine, True, PID, 32_766).records[0].producer_epoch == 32_766

    @pytest.mark.parametrize(
        ("state", "commit", "producer_epoch", "wanted"),
        [
            (ONGOING, True, 32_766, True),
            (ONGOING, False, 32_766, True),
            (ONGOING, True, 32_765, False),
            (EMPTY, False, 32_766, True),
            (EMPTY, True, 32_766, False),
            (COMPLETE_COMMIT, False, 32_766, True),
            (PREPARE_COMMIT, True, 32_766, False),
        ],
    )
    def test_an_id_is_claimed_only_where_it_would_be_used(
        self, state, commit, producer_epoch, wanted
    ):
        machine = machine_with(stored(state, 32_766))
        event = EndTxn(1, "pay", PID, producer_epoch, commit, 2)
        assert machine.wants_producer_id(event) is wanted
