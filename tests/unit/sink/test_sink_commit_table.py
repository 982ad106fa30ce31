"""CommitBatch: every row of the table in `sink_commit`, and that the rows are tested in that order."""

from dataclasses import replace

import pytest
from tests.worlds.sink.sink_shell import SinkShell, message, nonce, partition, skip

from oncelog.errors import ErrorCode
from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core.sink_records import Decide, decode_sink_record


def decides(shell):
    records = [decode_sink_record(*pair) for pair in shell.log]
    return [record for record in records if isinstance(record, Decide)]


def test_commit_is_one_record_that_names_the_winners(shell):
    shell.open(1)
    winners = [shell.task(1, 0, 0), shell.task(1, 0, 1)]
    loser = shell.task(1, 0, 1, task_attempt_id=9)
    before = len(shell.log)
    assert shell.commit(0, *winners).answer is SinkAnswer.OK
    assert len(shell.log) == before + 1
    (decide,) = decides(shell)
    assert decide.winners == tuple(sorted(winner.producer_id for winner in winners))
    assert (decide.row_count, decide.crc32c, decide.batch_id) == (20, 14, 0)
    assert loser.producer_id not in decide.winners


def test_markers_of_winners_and_losers_travel_together(shell):
    shell.open(1)
    winner = shell.task(1, 0, 0, names=("orders-1", "orders-0"))
    loser = shell.task(1, 0, 0, task_attempt_id=9)
    unwritten = shell.join(1, 0, 5)
    shell.commit(0, winner)
    (wanted,) = shell.outbox.values()
    assert [
        (m.producer_id, m.producer_epoch, m.commit, m.transaction_version, m.partitions)
        for m in wanted.markers
    ] == [
        (winner.producer_id, 1, True, 2, (partition("orders-0"), partition("orders-1"))),
        (loser.producer_id, 1, False, 2, (partition("orders-0"),)),
    ]
    assert unwritten.producer_id not in {m.producer_id for m in wanted.markers}


def test_no_messages_is_answered_ok_without_effect(shell):
    assert shell.commit(0).answer is SinkAnswer.OK
    assert shell.log == []


def test_another_query_may_not_commit(shell):
    shell.open(1)
    won = shell.task(1, 0)
    assert shell.commit(0, replace(won, query_id="query-2")).answer is SinkAnswer.QUERY_CHANGED
    assert shell.commit(0, won, skip(1, "query-2")).answer is SinkAnswer.QUERY_CHANGED
    assert decides(shell) == []


def test_query_is_tested_before_the_batch_id(shell):
    (won, _) = shell.committed(1, 0)
    assert shell.commit(0, replace(won, query_id="query-2")).answer is SinkAnswer.QUERY_CHANGED


def test_a_sink_that_nobody_joined_fences(shell):
    assert shell.commit(0, message(1, 100)).answer is SinkAnswer.FENCED
    shell.open(1)
    assert shell.commit(0, message(1, 100)).answer is SinkAnswer.FENCED


def test_already_other_aborts_the_nonce_that_asked(shell):
    shell.committed(1, 0)
    shell.open(2)
    won = shell.task(2, 1)
    assert shell.commit(0, won).answer is SinkAnswer.ALREADY_OTHER
    assert shell.join(2, 1, 1).answer is SinkAnswer.FENCED
    assert [d.nonce for d in decides(shell) if d.outcome == 0] == [nonce(2)]


def test_messages_of_two_nonces_are_fenced(shell):
    shell.open(1)
    old = shell.task(1, 0, 0)
    shell.open(2)
    new = shell.task(2, 0, 1)
    assert shell.commit(0, old, new).answer is SinkAnswer.FENCED
    assert shell.labels[-1] == "mixed_nonces"


def test_skip_mixed_with_live_messages_is_fenced(shell):
    shell.open(1)
    won = shell.task(1, 0, 0)
    assert shell.commit(0, won, skip(1)).answer is SinkAnswer.FENCED
    assert shell.labels[-1] == "mixed_skip"


def test_all_skips_of_a_batch_that_is_not_committed_is_fenced(shell):
    shell.open(1)
    shell.task(1, 0, 0)
    assert shell.commit(0, skip(1)).answer is SinkAnswer.FENCED


@pytest.mark.parametrize("how", ["superseded", "aborted", "timed_out", "unknown"])
def test_attempt_that_is_not_open_is_fenced(shell, how):
    shell.open(1)
    won = shell.task(1, 0)
    match how:
        case "superseded":
            shell.open(2)
        case "aborted":
            shell.abort(1)
        case "timed_out":
            shell.advance(15 * 60_000)
        case "unknown":
            won = replace(won, nonce=nonce(77))
    assert shell.commit(0, won).answer is SinkAnswer.FENCED
    assert shell.labels[-1] == "attempt_closed"
    shell.deliver()
    assert shell.commit(0, won).answer is SinkAnswer.FENCED


def test_winner_that_is_not_sealed_is_fenced(shell):
    shell.open(1)
    won = shell.task(1, 0, 0)
    joined = shell.join(1, 0, 1)
    late = message(1, joined.producer_id, 1)
    assert shell.commit(0, won, late).answer is SinkAnswer.FENCED
    assert shell.labels[-1] == "not_sealed"
    shell.seal(1, joined.producer_id)
    assert shell.commit(0, won, late).answer is SinkAnswer.OK


@pytest.mark.parametrize(
    "change", [{"producer_id": 999}, {"producer_epoch": 1}, {"task_partition": 3}]
)
def test_winner_that_is_no_branch_of_the_attempt_is_fenced(shell, change):
    shell.open(1)
    won = shell.task(1, 0, 0)
    assert shell.commit(0, replace(won, **change)).answer is SinkAnswer.FENCED
    assert shell.labels[-1] == "unknown_branch"


def test_two_winners_of_one_task_partition_are_fenced(shell):
    shell.open(1)
    one, two = shell.task(1, 0, 0), shell.task(1, 0, 0, task_attempt_id=8)
    assert shell.commit(0, one, two).answer is SinkAnswer.FENCED
    assert shell.labels[-1] == "two_winners"
    assert shell.commit(0, one, one).answer is SinkAnswer.FENCED


def test_attempt_of_another_batch_is_fenced(shell):
    shell.open(1)
    won = shell.task(1, 4)
    assert shell.commit(5, won).answer is SinkAnswer.FENCED
    assert shell.labels[-1] == "other_batch"
    assert shell.commit(4, won).answer is SinkAnswer.OK


def test_negative_batch_id_is_refused_by_name():
    answer = SinkShell().commit(-1, message(1, 100))
    assert answer.error_code is ErrorCode.INVALID_REQUEST
    assert "-1" in answer.error_message
