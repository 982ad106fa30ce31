"""Sinks are listed, deleted and, those of batch jobs, forgotten for good. One query owns a sink; another adopts it."""

from dataclasses import replace

import pytest
from tests.worlds.sink.sink_shell import (
    QUERY,
    SINK,
    TIMEOUT_MS,
    SinkShell,
    compacted,
    nonce,
    opened,
    snapshot,
)

from oncelog.errors import ErrorCode
from oncelog.ids import job_sink_name
from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core import sink_registry
from oncelog_coordinator.core.markers import DeliveryOutcome, MarkersDelivered
from oncelog_coordinator.core.sink_events import DeleteSink
from oncelog_coordinator.core.sink_limits import DEFAULT_LIMITS

JOB = job_sink_name("audit", "2026-11-21")
WEEK_MS = 7 * 86_400_000


def settled(shell, number, batch_id, sink=SINK):
    shell.committed(number, batch_id, sink=sink)
    shell.deliver()
    return shell


def live():
    """A shell whose machine was resumed: its timers run."""
    shell = SinkShell()
    shell.restart()
    return shell


def test_sinks_are_listed_with_what_they_committed_and_when():
    shell = settled(SinkShell(), 1, 4)
    shell.now += 5
    settled(shell, 2, 0, JOB)
    shell.now += 5
    shell.open(3)
    job, stream = shell.sinks()
    assert (job.sink, job.is_job, job.last_committed_batch_id) == (JOB, True, 0)
    assert (job.last_used_ms, job.attempt_count) == (1_000_005, 0)
    assert (stream.sink, stream.is_job, stream.last_committed_batch_id) == (SINK, False, 4)
    assert (stream.last_used_ms, stream.attempt_count, stream.query_id) == (1_000_010, 1, "query-1")


def test_job_sink_expires_after_a_week_and_a_streams_sink_never():
    shell = settled(live(), 1, 0, JOB)
    settled(shell, 2, 0)
    shell.advance(WEEK_MS - 3_600_000)
    assert [one.sink for one in shell.sinks()] == [JOB, SINK]
    shell.advance(2 * 3_600_000)
    assert [one.sink for one in shell.sinks()] == [SINK]
    shell.restart(compacted(shell.log))
    shell.advance(50 * WEEK_MS)
    assert [one.sink for one in shell.sinks()] == [SINK]


def test_run_that_is_skipped_keeps_its_jobs_sink():
    shell = settled(live(), 1, 0, JOB)
    for number in range(2, 6):
        shell.advance(WEEK_MS - 7_200_000)
        shell.open(number, JOB)
        assert shell.join(number, 0, sink=JOB).answer is SinkAnswer.SKIP
    shell.restart(compacted(shell.log))
    assert [one.sink for one in shell.sinks()] == [JOB]


def test_job_sink_with_markers_under_way_does_not_expire():
    shell = live()
    shell.committed(1, 0, sink=JOB)
    shell.advance(2 * WEEK_MS)
    assert [one.sink for one in shell.sinks()] == [JOB]
    shell.deliver()
    shell.advance(2 * 3_600_000)
    assert shell.sinks() == ()


def test_many_expired_sinks_are_forgotten_in_several_steps(monkeypatch):
    monkeypatch.setattr(sink_registry, "EXPIRED_MAX", 2)
    shell = live()
    for number in range(5):
        settled(shell, number + 1, 0, job_sink_name("audit", str(number)))
    before = len(shell.log)
    shell.advance(WEEK_MS + 2 * 3_600_000)
    assert shell.sinks() == ()
    assert len(shell.log) == before + 2 * 5
    assert compacted(shell.log) == []


def test_deleted_sink_begins_anew_whatever_was_under_way(shell):
    shell.committed(1, 7)
    (wanted,) = shell.deliver()
    assert shell.delete().error_code is ErrorCode.NONE
    assert shell.sinks() == ()
    assert shell.describe().error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    (again, _) = shell.committed(2, 0)
    shell.submit(MarkersDelivered(wanted.decision_key, DeliveryOutcome.DELIVERED))
    assert shell.labels[-1] == "delivery_ignored"
    assert shell.machine.owns_producer(again.producer_id)


@pytest.mark.parametrize("commits", [False, True])
def test_sink_that_is_written_to_is_not_deleted(shell, commits):
    shell.open(1)
    message = shell.task(1, 0)
    if commits:
        shell.commit(0, message)
    before = len(shell.log)
    answer = shell.delete()
    assert answer.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert "stop its query" in answer.error_message
    assert len(shell.log) == before
    shell.advance(TIMEOUT_MS)
    shell.deliver()
    assert shell.delete().error_code is ErrorCode.NONE
    assert compacted(shell.log) == []


def test_sink_that_is_unknown_is_not_deleted():
    assert SinkShell().delete().error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize("kept", [1, 2])
def test_deletion_cut_short_is_repeated(kept):
    shell = settled(SinkShell(), 1, 0)
    shell.submit(DeleteSink(1, SINK), records_kept=kept)
    shell.restart()
    assert len(shell.sinks()) == 2 - kept
    shell.delete()
    assert snapshot(shell.machine) == snapshot(SinkShell().machine)


def test_full_shard_names_the_commands_that_make_room():
    shell = SinkShell(replace(DEFAULT_LIMITS, sinks_max=1))
    shell.open(1, sink="a")
    refused = shell.open(1, sink="b")
    assert refused.error_code is ErrorCode.POLICY_VIOLATION
    for message in ("oncelog sinks list", "oncelog sinks delete NAME", "batchId"):
        assert message in refused.error_message
    assert shell.open(2, sink="a").answer is SinkAnswer.OK
    shell.abort(2, sink="a")
    shell.delete("a")
    assert shell.open(1, sink="b").error_code is ErrorCode.NONE


# ------------------------------------------------------------------------------------------------ one query owns a sink


def test_another_query_is_refused_and_told_the_way_out(shell):
    shell.committed(1, 40)
    shell.open(2)
    answer = shell.join(2, 0, query_id="query-2")
    assert answer.answer is SinkAnswer.QUERY_CHANGED
    assert "onNewQuery=adopt" in answer.error_message
    assert shell.join(2, 41).answer is SinkAnswer.OK


@pytest.mark.parametrize("adopt", [False, True])
def test_query_that_lost_its_sink_cannot_take_it_back(shell, adopt):
    shell.committed(1, 40)
    shell.open(2)
    shell.join(2, 0, query_id="query-2", adopt_query=True)
    shell.restart()
    shell.open(3)
    answer = shell.join(3, 41, query_id=QUERY, adopt_query=adopt)
    assert answer.answer is SinkAnswer.QUERY_CHANGED
    assert shell.join(3, 0, 1, query_id="query-2").answer is SinkAnswer.OK


def test_adopt_needs_an_open_attempt(shell):
    shell.committed(1, 40)
    assert shell.join(1, 0, query_id="query-2", adopt_query=True).answer is SinkAnswer.FENCED
    assert shell.describe().query_id == QUERY


def test_attempt_that_one_query_joined_is_adopted_by_no_other():
    shell = opened(1)
    shell.join(1, 0)
    assert shell.join(1, 0, 1, query_id="q2", adopt_query=True).answer is SinkAnswer.FENCED


def test_decision_of_the_old_query_does_not_count(shell):
    shell.committed(1, 40)
    shell.open(2)
    shell.join(2, 0, query_id="query-2", adopt_query=True)
    (wanted,) = shell.deliver()
    assert all(marker.commit for marker in wanted.markers)
    assert shell.describe().last_committed_batch_id == -1
    assert [a.nonce for a in shell.describe().attempts] == [nonce(2)]


def test_window_of_the_old_query_does_not_leak_into_the_new_ones(shell):
    shell.committed(1, 40)
    shell.deliver()
    shell.open(2)
    won = shell.task(2, 0, query_id="query-2", adopt_query=True)
    shell.commit(0, replace(won, query_id="query-2"))
    shell.deliver()
    shell.restart()
    described = shell.describe()
    assert (described.query_id, described.last_committed_batch_id) == ("query-2", 0)
    assert [d.batch_id for d in described.decisions] == [0]
    shell.open(3)
    assert shell.join(3, 1, query_id="query-2").answer is SinkAnswer.OK


def test_flag_to_adopt_does_nothing_for_the_owner(shell):
    shell.committed(1, 0)
    shell.open(2)
    assert shell.join(2, 0, adopt_query=True).answer is SinkAnswer.SKIP
