"""The crash matrix of docs/architecture/spark-sink.md, row by row, at the coordinator."""

import pytest
from tests.worlds.sink.sink_shell import (
    ROWS,
    TIMEOUT_MS,
    SinkShell,
    compacted,
    message,
    nonce,
    skip,
    snapshot,
)

from oncelog.errors import ErrorCode
from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core.markers import DeliveryOutcome
from oncelog_coordinator.core.sink_events import OpenAttempt
from oncelog_coordinator.core.sink_records import UNKNOWN, SinkRecordType


def outcomes(shell):
    """What markers the marker sender was asked for: producer id to commit or abort."""
    return {m.producer_id: m.commit for wanted in shell.outbox.values() for m in wanted.markers}


def settle(shell):
    shell.deliver()
    shell.advance(0)
    assert shell.machine.transaction_views() == ()


def test_01_driver_dies_before_it_opens_an_attempt(shell):
    shell.committed(1, 0)
    settle(shell)
    shell.restart()
    assert shell.describe().attempts == ()
    shell.committed(2, 1)


def test_02_driver_dies_while_tasks_run_and_branches_abort(shell):
    shell.open(1)
    old = shell.task(1, 0)
    shell.open(2)
    assert outcomes(shell) == {old.producer_id: False}
    settle(shell)


def test_03_task_dies_before_it_seals_and_its_retry_wins(shell):
    shell.open(1)
    dead = shell.join(1, 0, 0, task_attempt_id=0).producer_id
    shell.add(dead, "orders-0")
    won = shell.task(1, 0, 0, task_attempt_id=1)
    shell.commit(0, won)
    assert outcomes(shell) == {dead: False, won.producer_id: True}


def test_04_sealed_branch_with_a_lost_message_aborts(shell):
    shell.open(1)
    lost = shell.task(1, 0, 0, task_attempt_id=0)
    won = shell.task(1, 0, 0, task_attempt_id=1)
    shell.commit(0, won)
    assert outcomes(shell) == {lost.producer_id: False, won.producer_id: True}


def test_05_zombie_task_is_refused_after_the_decision(shell):
    shell.open(1)
    zombie = shell.join(1, 0, 1).producer_id
    won = shell.task(1, 0, 0)
    shell.commit(0, won)
    assert shell.add(zombie, "orders-0").error_code is ErrorCode.PRODUCER_FENCED
    for producer_id in (zombie, won.producer_id):
        assert shell.seal(1, producer_id).answer is SinkAnswer.FENCED
    assert shell.join(1, 0, 1, task_attempt_id=8).answer is SinkAnswer.SKIP
    assert shell.join(1, 1, 1, task_attempt_id=8).answer is SinkAnswer.FENCED


def test_06_driver_dies_before_the_commit_and_runs_it_again(shell):
    shell.open(1)
    first = [shell.task(1, 0, index) for index in range(2)]
    second = shell.committed(2, 0)
    assert outcomes(shell) == {
        **{m.producer_id: False for m in first},
        **{m.producer_id: True for m in second},
    }


def test_07_commit_that_is_not_durable_leaves_the_attempt_open(shell):
    shell.open(1)
    won = shell.task(1, 0)
    shell.submit(shell.commit_event(0, won), records_kept=0)
    shell.restart()
    assert [a.state for a in shell.describe().attempts] == ["Open"]
    assert shell.commit(0, won).answer is SinkAnswer.OK


def test_08_commit_whose_answer_was_lost_is_skipped_by_the_rerun(shell):
    shell.open(1)
    won = shell.task(1, 0)
    shell.submit(shell.commit_event(0, won), records_kept=1)
    shell.restart()
    shell.open(2)
    before = len(shell.log)
    assert shell.join(2, 0).answer is SinkAnswer.SKIP
    assert shell.commit(0, skip(2)).answer is SinkAnswer.ALREADY
    assert len(shell.log) == before
    assert outcomes(shell) == {won.producer_id: True}


def test_09_abort_after_the_decision_changes_nothing(shell):
    messages = shell.committed(1, 0)
    assert shell.abort(1).aborted == 0
    assert outcomes(shell) == {m.producer_id: True for m in messages}
    settle(shell)
    assert shell.abort(1).aborted == 0
    assert shell.describe().last_committed_batch_id == 0


def test_10_driver_dies_between_the_commit_and_its_checkpoint(shell):
    messages = shell.committed(1, 0)
    before = len(shell.log)
    assert shell.commit(0, *messages).answer is SinkAnswer.ALREADY
    assert len(shell.log) == before
    settle(shell)
    assert shell.commit(0, *messages).answer is SinkAnswer.ALREADY
    shell.open(2)
    assert shell.join(2, 0).answer is SinkAnswer.SKIP


def test_11_new_coordinator_knows_the_open_attempt(shell):
    shell.open(1)
    won = shell.task(1, 0, 0)
    shell.restart()
    again = shell.join(1, 0, 0)
    assert again.producer_id == won.producer_id
    other = shell.task(1, 0, 1)
    shell.restart()
    assert shell.commit(0, won, other).answer is SinkAnswer.OK


def test_12_new_coordinator_sends_the_markers_of_a_decision(shell):
    messages = shell.committed(1, 0)
    shell.restart()
    assert outcomes(shell) == {m.producer_id: True for m in messages}
    settle(shell)
    shell.restart()
    assert outcomes(shell) == {}


@pytest.mark.parametrize("outcome", [DeliveryOutcome.FENCED, DeliveryOutcome.CANCELLED])
def test_13_markers_that_were_not_delivered_are_sent_again(shell, outcome):
    shell.committed(1, 0)
    (wanted,) = shell.deliver(outcome)
    assert shell.outbox == {}
    shell.advance(30_000)
    assert list(shell.outbox.values()) == [wanted]
    settle(shell)


def test_13_partitions_that_exist_no_more_hold_up_nothing(shell):
    (won, _) = shell.committed(1, 0)
    (view, _) = shell.machine.transaction_views()
    shell.deliver(dropped=view.transaction.partitions)
    assert not shell.machine.owns_producer(won.producer_id)


@pytest.mark.parametrize("restarted", [False, True])
def test_14_attempt_of_a_dead_driver_ends(shell, restarted):
    shell.open(1)
    left = shell.task(1, 0)
    if restarted:
        shell.now += TIMEOUT_MS * 3
        shell.restart()
        shell.advance(0)
    else:
        shell.advance(TIMEOUT_MS)
    assert outcomes(shell) == {left.producer_id: False}
    settle(shell)


def test_15_of_two_drivers_one_decides_and_the_other_is_told(shell):
    shell.open(1)
    zombie = shell.task(1, 0, run_id="run-a")
    shell.open(2)
    won = shell.task(2, 0, run_id="run-b")
    assert shell.commit(0, zombie).answer is SinkAnswer.FENCED
    assert shell.commit(0, won).answer is SinkAnswer.OK
    assert shell.commit(0, zombie).answer is SinkAnswer.ALREADY_OTHER
    assert shell.commit(0, zombie, skip(1)).answer is SinkAnswer.ALREADY_OTHER
    assert outcomes(shell) == {zombie.producer_id: False, won.producer_id: True}


def test_16_deleted_checkpoint_is_refused_unless_adopted(shell):
    shell.committed(1, 7)
    shell.open(2)
    assert shell.join(2, 0, query_id="new").answer is SinkAnswer.QUERY_CHANGED
    assert shell.join(2, 0, query_id="new", adopt_query=True).answer is SinkAnswer.OK


def rerun(shell, batch_id, *messages):
    """Two tasks of a new attempt are told to skip the batch, and the driver commits with what they counted."""
    shell.open(900)
    for task, _ in enumerate(messages):
        assert shell.join(900, batch_id, task).answer is SinkAnswer.SKIP
    before = len(shell.log)
    answer = shell.commit(batch_id, *messages)
    assert len(shell.log) == before
    return answer


def test_17_batch_run_again_with_the_same_rows_is_skipped(shell):
    shell.committed(1, 0)
    one_task = skip(900, row_count=20, row_checksum=2 * ROWS)
    assert rerun(shell, 0, one_task).answer is SinkAnswer.ALREADY
    three = [
        skip(900, row_count=20, row_checksum=2**63 - 1),
        skip(900, row_count=0, row_checksum=ROWS),
        skip(900, row_count=0, row_checksum=ROWS + 1),
    ]
    assert rerun(shell, 0, *three).answer is SinkAnswer.ALREADY
    settle(shell)
    shell.restart(compacted(shell.log))
    assert rerun(shell, 0, one_task).answer is SinkAnswer.ALREADY


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (skip(900, row_count=9), "was committed with 20 rows and has 19 now"),
        (skip(900, row_count=11), "was committed with 20 rows and has 21 now"),
        (skip(900, row_checksum=ROWS + 1), "20 rows as when it was committed, but not the same"),
    ],
)
@pytest.mark.parametrize("is_settled", [False, True])
def test_17_batch_that_is_run_again_with_other_rows_is_refused(shell, rows, words, is_settled):
    shell.committed(1, 0)
    if is_settled:
        settle(shell)
        shell.restart(compacted(shell.log))
    answer = rerun(shell, 0, skip(900), rows)
    assert answer.answer is SinkAnswer.REPLAY_REFUSED
    assert words in answer.error_message
    shell.abort(900)
    shell.committed(2, 1)


def test_18_batch_older_than_what_is_remembered_is_refused(shell):
    first = shell.committed(1, 0)
    for batch_id in range(1, 21):
        shell.committed(batch_id + 1, batch_id)
        settle(shell)
    assert shell.commit(0, *first).answer is SinkAnswer.ALREADY_OTHER
    answer = rerun(shell, 0, skip(900), skip(900))
    assert answer.answer is SinkAnswer.REPLAY_REFUSED
    assert "older than the batches 1 to 20" in answer.error_message
    assert rerun(shell, 1, skip(900), skip(900)).answer is SinkAnswer.ALREADY
    assert rerun(shell, 0, skip(900, row_count=0)).answer is SinkAnswer.ALREADY


def test_18_batch_that_was_empty_is_refused_with_rows(shell):
    shell.committed(1, 0)
    shell.committed(2, 2)
    answer = rerun(shell, 1, skip(900))
    assert answer.answer is SinkAnswer.REPLAY_REFUSED
    assert "has 10 rows now, and none when it was committed" in answer.error_message
    assert rerun(shell, 1, skip(900, row_count=0)).answer is SinkAnswer.ALREADY


def test_19_user_who_accepts_is_not_asked_for_the_rows(shell):
    for batch_id in range(21):
        shell.committed(batch_id + 1, batch_id)
        settle(shell)
    accepted = skip(900, row_count=0, row_checksum=UNKNOWN)
    assert rerun(shell, 0, accepted, accepted).answer is SinkAnswer.ALREADY
    assert rerun(shell, 20, accepted, accepted).answer is SinkAnswer.ALREADY


def test_20_batch_of_an_older_connector_is_compared_by_count(shell):
    shell.open(1)
    old = shell.join(1, 0).producer_id
    shell.seal(1, old, row_checksum=UNKNOWN)
    new = shell.task(1, 0, 1)
    assert shell.commit(0, message(1, old), new).answer is SinkAnswer.OK
    assert rerun(shell, 0, skip(900), skip(900)).answer is SinkAnswer.ALREADY
    fewer = rerun(shell, 0, skip(900), skip(900, row_count=9))
    assert fewer.answer is SinkAnswer.REPLAY_REFUSED


def completing(shell):
    """The records of a completion, not yet appended."""
    (wanted,) = shell.outbox.values()
    delivered = len(shell.log)
    shell.deliver()
    records = shell.log[delivered:]
    del shell.log[delivered:]
    return wanted, records


@pytest.mark.parametrize("kept", range(5))
@pytest.mark.parametrize("commits", [False, True])
def test_completion_that_a_crash_cut_short_is_completed(shell, kept, commits):
    shell.open(1)
    messages = [shell.task(1, 0, index) for index in range(2)]
    if commits:
        shell.commit(0, *messages)
    else:
        shell.abort(1)
    _, records = completing(shell)
    finished = snapshot_after(shell, [*shell.log, *records])
    shell.restart([*shell.log, *records[:kept]])
    assert shell.describe().last_committed_batch_id == (0 if commits else -1)
    assert shell.join(1, 1).answer is SinkAnswer.FENCED
    assert all(commit is commits for commit in outcomes(shell).values())
    settle(shell)
    assert snapshot(shell.machine) == finished


def snapshot_after(shell, log):
    other = SinkShell(shell.limits)
    other.restart(log)
    return snapshot(other.machine)


@pytest.mark.parametrize("kept", range(4))
def test_supersession_cut_short_leaves_at_most_one_open_attempt(shell, kept):
    shell.open(1)
    shell.task(1, 0)
    shell.submit(OpenAttempt(99, "pay", nonce(2), 0), records_kept=kept)
    shell.restart()
    states = [a.state for a in shell.describe().attempts]
    assert states.count("Open") <= 1
    assert shell.open(2).answer is SinkAnswer.OK
    assert shell.join(2, 0).answer is SinkAnswer.OK


def test_adoption_cut_short_after_the_header_is_repeated(shell):
    shell.committed(1, 7)
    settle(shell)
    shell.open(2)
    shell.submit(shell.join_event(2, 0, query_id="new", adopt_query=True), records_kept=1)
    shell.restart()
    assert shell.join(2, 0, query_id="new", adopt_query=True).answer is SinkAnswer.OK
    assert shell.describe().last_committed_batch_id == -1


def test_recovery_cost_follows_what_is_open(shell):
    for batch_id in range(200):
        shell.committed(batch_id + 1, batch_id, tasks=3)
        settle(shell)
    kinds = [int.from_bytes(key[:2], "big") for key, _ in compacted(shell.log)]
    assert kinds == [SinkRecordType.SINK, SinkRecordType.COMPLETE]
    shell.restart(compacted(shell.log))
    assert shell.describe().last_committed_batch_id == 199
    assert len(shell.describe().decisions) == 20
