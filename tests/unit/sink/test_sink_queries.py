"""One query owns a sink; another is refused, or adopts it and begins again at batch 0."""

from dataclasses import replace

import pytest
from tests.unit.sink.sink_shell import (
    QUERY,
    SinkShell,
    nonce,
    opened,
)

from oncelog.sink_answer import SinkAnswer


def test_another_query_is_refused_and_told_the_way_out():
    shell = SinkShell()
    shell.committed(1, 40)
    shell.open(2)
    answer = shell.join(2, 0, query_id="query-2")
    assert answer.answer is SinkAnswer.QUERY_CHANGED
    assert "onNewQuery=adopt" in answer.error_message
    assert shell.join(2, 41).answer is SinkAnswer.OK


def test_adopting_query_starts_again_at_batch_0():
    shell = SinkShell()
    shell.committed(1, 40)
    shell.deliver()
    shell.open(2)
    assert shell.join(2, 0, query_id="query-2", adopt_query=True).answer is SinkAnswer.OK
    shell.restart()
    described = shell.describe()
    assert (described.query_id, described.last_committed_batch_id) == ("query-2", -1)
    assert described.decisions == ()


@pytest.mark.parametrize("adopt", [False, True])
def test_query_that_lost_its_sink_cannot_take_it_back(adopt):
    shell = SinkShell()
    shell.committed(1, 40)
    shell.open(2)
    shell.join(2, 0, query_id="query-2", adopt_query=True)
    shell.restart()
    shell.open(3)
    answer = shell.join(3, 41, query_id=QUERY, adopt_query=adopt)
    assert answer.answer is SinkAnswer.QUERY_CHANGED
    assert shell.join(3, 0, 1, query_id="query-2").answer is SinkAnswer.OK


def test_adopt_needs_an_open_attempt():
    shell = SinkShell()
    shell.committed(1, 40)
    assert shell.join(1, 0, query_id="query-2", adopt_query=True).answer is SinkAnswer.FENCED
    assert shell.describe().query_id == QUERY


def test_attempt_that_one_query_joined_is_adopted_by_no_other():
    shell = opened(1)
    shell.join(1, 0)
    assert shell.join(1, 0, 1, query_id="q2", adopt_query=True).answer is SinkAnswer.FENCED


def test_decision_of_the_old_query_does_not_count():
    shell = SinkShell()
    shell.committed(1, 40)
    shell.open(2)
    shell.join(2, 0, query_id="query-2", adopt_query=True)
    (wanted,) = shell.deliver()
    assert all(marker.commit for marker in wanted.markers)
    assert shell.describe().last_committed_batch_id == -1
    assert [a.nonce for a in shell.describe().attempts] == [nonce(2)]


def test_window_of_the_old_query_does_not_leak_into_the_new_ones():
    shell = SinkShell()
    shell.committed(1, 40)
    shell.deliver()
    shell.open(2)
    won = shell.task(2, 0, query_id="query-2", adopt_query=True)
    shell.commit(0, replace(won, query_id="query-2"))
    shell.deliver()
    shell.restart()
    described = shell.describe()
    assert described.last_committed_batch_id == 0
    assert [d.batch_id for d in described.decisions] == [0]
    shell.open(3)
    assert shell.join(3, 1, query_id="query-2").answer is SinkAnswer.OK


def test_flag_to_adopt_does_nothing_for_the_owner():
    shell = SinkShell()
    shell.committed(1, 0)
    shell.open(2)
    assert shell.join(2, 0, adopt_query=True).answer is SinkAnswer.SKIP
