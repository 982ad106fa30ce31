"""Sessions against a clock that the test moves."""

import pytest

from oncelog_controller.core.sessions import Sessions


@pytest.fixture
def sessions():
    return Sessions(session_timeout_ms=6000, session_grace_ms=300)


def test_each_heartbeat_begins_the_session_anew(sessions):
    sessions.opened(1, 0, 0)
    assert sessions.due(5999) == ()
    sessions.heartbeat_received(1, 0, 5999)
    assert sessions.due(11_998) == ()
    assert sessions.due(11_999) == ((1, 0),)


def test_a_broken_stream_leaves_the_grace(sessions):
    sessions.opened(1, 0, 0)
    assert sessions.is_live(1, 100)
    sessions.closed(1, 0, 100, expected=False)
    assert not sessions.is_live(1, 100)
    assert sessions.due(399) == ()
    sessions.opened(1, 0, 399)
    assert sessions.is_live(1, 400)
    assert sessions.due(6398) == ()


def test_a_node_is_fenced_after_the_grace_or_when_known_gone(sessions):
    for node_id in (1, 2, 3):
        sessions.opened(node_id, 0, 0)
        sessions.closed(node_id, 0, 100, expected=node_id == 3)
    assert sessions.due(100) == ((3, 0),)
    sessions.gone(2, 0, 150)
    assert sessions.due(150) == ((2, 0), (3, 0))
    assert sessions.due(400) == ((1, 0), (2, 0), (3, 0))


def test_only_the_last_of_several_streams_ends_the_session(sessions):
    sessions.opened(1, 0, 0)
    sessions.opened(1, 0, 10)
    sessions.closed(1, 0, 20, expected=False)
    assert sessions.is_live(1, 30)
    sessions.gone(1, 0, 30)
    assert sessions.due(4000) == ()


def test_an_earlier_process_touches_no_session_of_its_successor(sessions):
    sessions.opened(1, 0, 0)
    sessions.opened(1, 5, 10)
    sessions.closed(1, 0, 20, expected=False)
    sessions.heartbeat_received(1, 0, 6000)
    assert sessions.due(400) == ()
    assert sessions.due(6010) == ((1, 5),)
    sessions.forget(1, 0)
    assert sessions.due(6010) == ((1, 5),)
    sessions.forget(1, 5)
    assert sessions.due(6010) == ()


def test_a_new_controller_gives_every_node_a_whole_session(
    sessions,
):
    sessions.expect([(1, 3), (2, 4)], 1000)
    assert not sessions.is_live(1, 1000)
    assert sessions.due(6999) == ()
    sessions.gone(2, 4, 1100)
    assert sessions.due(1100) == ((2, 4),)
    sessions.heartbeat_received(1, 3, 1200)
    sessions.gone(1, 3, 1300)
    assert sessions.due(7000) == ((2, 4),)


def test_time_in_which_nobody_could_be_heard_does_not_count(sessions):
    sessions.opened(1, 0, 0)
    sessions.stalled(10_000)
    assert sessions.due(15_999) == ()
    assert sessions.due(16_000) == ((1, 0),)


def test_the_first_end_is_known_ahead(sessions):
    assert sessions.next_due > 1_000_000
    sessions.opened(1, 0, 0)
    sessions.opened(2, 0, 500)
    assert sessions.next_due == 6000
    sessions.closed(2, 0, 1000, expected=False)
    assert sessions.next_due == 1300
    assert sessions.due(1300) == ((2, 0),)
