"""InitProducerId, every row of facts 8.3."""

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

from oncelog_coordinator.core.init_producer_id import effective_timeout_ms, request_error
from oncelog_coordinator.core.txn_events import InitProducerId
from oncelog_coordinator.core.txn_records import decode_record, encode_record

IDLE = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)


def init(machine, expected=(-1, -1), new_producer_id=NEW_PID, level=2, timeout_ms=30_000):
    return Step(machine, InitProducerId(1, "pay", timeout_ms, *expected, level, new_producer_id))


def check(name="pay", timeout_ms=60_000, identity=(-1, -1), **flags):
    flags = {
        "enable_two_phase_commit": False,
        "keep_prepared_transaction": False,
        "two_phase_commit_enabled": False,
        "has_two_phase_commit": False,
        "timeout_max_ms": 900_000,
    } | flags
    return int(request_error(name, timeout_ms, *identity, **flags))


def test_the_request_is_checked_in_kafkas_order():
    assert check() == 0
    assert check("", timeout_ms=0) == 42
    assert check("x" * 32_768) == 42
    assert check(identity=(7, -1)) == 42
    assert check(identity=(-1, 7)) == 42
    assert check(enable_two_phase_commit=True, keep_prepared_transaction=True) == 53
    assert check(keep_prepared_transaction=True, timeout_ms=0) == 35
    assert [check(timeout_ms=ms) for ms in (0, -1, 900_001)] == [50, 50, 50]
    assert [check(timeout_ms=ms) for ms in (1, 900_000)] == [0, 0]


def test_a_two_phase_transaction_gets_the_largest_timeout():
    allowed = {"two_phase_commit_enabled": True, "has_two_phase_commit": True}
    assert check(timeout_ms=0, enable_two_phase_commit=True, **allowed) == 0
    assert check(keep_prepared_transaction=True, **allowed) == 0
    assert check(keep_prepared_transaction=True, identity=(7, 1), **allowed) == 42
    without_level = allowed | {"has_two_phase_commit": False}
    assert check(enable_two_phase_commit=True, **without_level) == 35
    assert check(keep_prepared_transaction=True, **without_level) == 35
    assert effective_timeout_ms(5, enable_two_phase_commit=True) == 2**31 - 1
    assert effective_timeout_ms(5, enable_two_phase_commit=False) == 5


@pytest.mark.parametrize("expected", [(-1, -1), (55, 3)])
def test_an_unknown_id_gets_a_new_producer_id_at_epoch_0(expected):
    step = init(machine_with(), expected)
    (record,) = step.records
    assert (step.code, step.identity) == (0, (NEW_PID, 0))
    assert (record.state, record.timeout_ms, record.start_timestamp) == (EMPTY, 30_000, -1)
    assert (record.last_update_timestamp, record.previous_producer_id) == (NOW, NEW_PID)


def test_an_unknown_id_waits_for_a_producer_id():
    step = init(machine_with(), new_producer_id=None)
    assert (step.code, step.records) == (14, ())


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
@pytest.mark.parametrize("expected", [(-1, -1), (PID, 5), (PID, 4), (99, 0), (NEW_PID, 0)])
def test_a_prepared_transaction_must_complete_first(state, expected):
    step = init(machine_with(stored(state)), expected)
    assert (step.code, step.records) == (51, ())


@pytest.mark.parametrize("state", IDLE)
def test_a_new_producer_is_bumped_and_the_last_epoch_forgotten(state):
    step = init(machine_with(stored(state, last_producer_epoch=4)))
    (record,) = step.records
    assert (step.identity, record.last_producer_epoch) == ((PID, 6), -1)
    assert (record.state, record.partitions, record.start_timestamp) == (EMPTY, (), -1)


@pytest.mark.parametrize("state", IDLE)
def test_a_producer_that_names_itself_is_bumped_and_remembered(state):
    step = init(machine_with(stored(state)), (PID, 5))
    assert (step.identity, step.records[0].last_producer_epoch) == ((PID, 6), 5)


@pytest.mark.parametrize("state", IDLE)
def test_a_retry_gets_the_same_answer_again_and_is_written(state):
    machine = machine_with(stored(state))
    assert init(machine, (PID, 5)).identity == (PID, 6)
    retry = init(machine, (PID, 5))
    assert (retry.code, retry.identity, retry.label) == (0, (PID, 6), "init_retry_answered")
    assert retry.records[0].producer_epoch == 6


def replayed(step, version):
    """A machine that has read the step's records from a log of this version."""
    read = (decode_record(*encode_record(record, version)) for record in step.records)
    return machine_with(*read)


def test_a_retry_after_a_replay_gets_the_same_answer():
    after = replayed(init(machine_with(stored(EMPTY)), (PID, 5)), version=1)
    assert init(after, (PID, 5)).identity == (PID, 6)


def test_a_retry_after_a_replay_of_version_0_is_fenced():
    after = replayed(init(machine_with(stored(EMPTY)), (PID, 5)), version=0)
    assert init(after, (PID, 5)).code == 90


def test_a_new_producer_in_between_fences_the_retry():
    machine = machine_with(stored(EMPTY))
    init(machine, (PID, 5))
    init(machine)
    assert init(machine, (PID, 5)).code == 90


@pytest.mark.parametrize("state", [*IDLE, ONGOING])
@pytest.mark.parametrize("expected", [(99, 5), (99, 32_766)])
def test_another_producer_id_is_fenced(state, expected):
    step = init(machine_with(stored(state)), expected)
    assert (step.code, step.records) == (90, ())


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("epoch", [3, 7])
def test_another_epoch_is_fenced(state, epoch):
    assert init(machine_with(stored(state)), (PID, epoch)).code == 90


class TestRotation:
    @pytest.mark.parametrize("state", IDLE)
    @pytest.mark.parametrize("stored_epoch", [32_766, 32_767])
    def test_an_exhausted_epoch_takes_a_new_producer_id(self, state, stored_epoch):
        step = init(machine_with(stored(state, stored_epoch)))
        (record,) = step.records
        assert (step.identity, record.last_producer_epoch) == ((NEW_PID, 0), -1)
        assert record.previous_producer_id == PID

    def test_a_producer_that_names_itself_survives_the_rotation(self):
        machine = machine_with(stored(EMPTY, 32_766))
        assert init(machine, (PID, 32_766)).records[0].last_producer_epoch == 32_766
        retry = init(machine, (PID, 32_766), new_producer_id=99)
        assert (retry.code, retry.identity) == (0, (NEW_PID, 0))

    def test_a_retry_of_a_rotation_after_a_replay_is_answered(self):
        rotated = init(machine_with(stored(EMPTY, 32_766)), (PID, 32_766))
        retry = init(replayed(rotated, version=1), (PID, 32_766), new_producer_id=99)
        assert (retry.code, retry.identity) == (0, (NEW_PID, 0))

    def test_the_old_id_at_a_smaller_epoch_is_a_zombie(self):
        rotated = stored(EMPTY, 0, producer_id=NEW_PID, previous_producer_id=PID)
        assert init(machine_with(rotated), (PID, 32_765)).code == 90

    def test_an_older_zombie_cannot_rotate_an_exhausted_successor(self):
        txn = stored(EMPTY, 32_766, producer_id=NEW_PID, previous_producer_id=PID)
        assert init(machine_with(txn), (PID, 32_766), new_producer_id=99).code == 90

    def test_rotation_waits_for_a_producer_id(self):
        step = init(machine_with(stored(EMPTY, 32_766)), new_producer_id=None)
        assert (step.code, step.records) == (14, ())

    def test_a_retry_at_an_exhausted_epoch_does_not_rotate(self):
        machine = machine_with(stored(EMPTY, 32_765))
        assert init(machine, (PID, 32_765)).identity == (PID, 32_766)
        assert init(machine, (PID, 32_765)).identity == (PID, 32_766)


class TestOngoing:
    @pytest.mark.parametrize("level", [0, 1, 2])
    @pytest.mark.parametrize("expected", [(-1, -1), (PID, 5), (PID, 3)])
    def test_an_open_transaction_is_fenced_and_aborted(self, level, expected):
        machine = machine_with(stored(ONGOING))
        step = init(machine, expected, level=level)
        (record,) = step.records
        assert (step.code, record.state, record.producer_epoch) == (51, PREPARE_ABORT, 6)
        assert record.last_producer_epoch == (5 if level == 2 else -1)
        assert record.client_transaction_version == level
        ((marker,),) = (wanted.markers for wanted in step.markers)
        assert (marker.commit, marker.producer_epoch, marker.transaction_version) == (
            False,
            6,
            level,
        )

    @pytest.mark.parametrize(("stored_epoch", "fenced"), [(32_766, 32_767), (32_767, 32_767)])
    def test_below_tv2_the_fence_stops_at_the_largest_epoch(self, stored_epoch, fenced):
        step = init(machine_with(stored(ONGOING, stored_epoch)), level=1)
        assert step.records[0].producer_epoch == fenced
        assert step.records[0].next_producer_id == -1

    @pytest.mark.parametrize("stored_epoch", [32_766, 32_767])
    def test_under_tv2_an_exhausted_id_gets_its_successor(self, stored_epoch):
        step = init(machine_with(stored(ONGOING, stored_epoch)))
        assert step.records[0].next_producer_id == NEW_PID
        waiting = init(machine_with(stored(ONGOING, stored_epoch)), new_producer_id=None)
        assert (waiting.code, waiting.records) == (14, ())


@pytest.mark.parametrize(
    ("txn", "expected", "level", "wanted"),
    [
        (None, (-1, -1), 2, True),
        (stored(EMPTY), (-1, -1), 2, False),
        (stored(EMPTY, 32_766), (-1, -1), 2, True),
        (stored(EMPTY, 32_766), (PID, 32_766), 2, True),
        (stored(EMPTY, 32_766), (PID, 32_765), 2, False),
        (stored(ONGOING, 32_766), (-1, -1), 2, True),
        (stored(ONGOING, 32_766), (-1, -1), 1, False),
        (stored(ONGOING), (-1, -1), 2, False),
        (stored(PREPARE_ABORT, 32_767), (-1, -1), 2, False),
    ],
)
def test_an_id_is_claimed_only_where_it_would_be_used(txn, expected, level, wanted):
    machine = machine_with(*([txn] if txn else []))
    assert machine.wants_producer_id(InitProducerId(1, "pay", 1, *expected, level)) is wanted
