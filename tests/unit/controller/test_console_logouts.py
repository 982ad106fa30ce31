"""Logouts of the console in the journal: every follower knows them, they are forgotten in time, they are bounded."""

import pytest
from tests.unit.controller.metadata_cases import SMALL, Bench, security_everywhere

from oncelog.errors import ErrorCode
from oncelog_controller.core.console_sessions import FORGOTTEN_AFTER_MS, SESSIONS_MAX, EndedSessions
from oncelog_controller.core.events import EndConsoleSession
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.records import ConsoleSessionsEnded, Snapshot

FIRST, SECOND = "0f" * 16, "1f" * 16


@pytest.fixture
def bench():
    return Bench(SMALL)


def end(bench, session_id, expires_ms=9_000, time_ms=1_000):
    (result,) = bench.ask(
        lambda rid: EndConsoleSession(rid, session_id, expires_ms, time_ms)
    ).results
    return result


def test_a_logout_is_known_everywhere(bench):
    assert end(bench, FIRST).error_code is ErrorCode.NONE
    security = security_everywhere(bench)
    assert security.is_logged_out(FIRST, 9_000)
    assert not security.is_logged_out(SECOND, 9_000)


def test_a_second_logout_writes_nothing(bench):
    end(bench, FIRST)
    records = len(bench.records)
    assert end(bench, FIRST).error_code is ErrorCode.NONE
    assert len(bench.records) == records


@pytest.mark.parametrize(
    ("late_ms", "kept"), [(FORGOTTEN_AFTER_MS - 1, {FIRST, SECOND}), (FORGOTTEN_AFTER_MS, {SECOND})]
)
def test_what_ended_long_ago_is_forgotten(bench, late_ms, kept):
    end(bench, FIRST)
    end(bench, SECOND, 99_000_000, time_ms=9_000 + late_ms)
    security = security_everywhere(bench)
    assert set(security.ended_sessions) == kept
    assert security.sessions_void_until_ms == 0


def test_too_many_logouts_open_no_session_again(bench):
    """The first to end leaves, and with it ends whatever would end no later."""
    many = {f"{number:032x}": 10_000 + number for number in range(SESSIONS_MAX)}
    bench.image.security.sessions.apply(ConsoleSessionsEnded(tuple(many.items())))
    bench.records.append(ConsoleSessionsEnded(tuple(many.items())))
    assert end(bench, SECOND, 99_000).error_code is ErrorCode.NONE
    security = security_everywhere(bench)
    assert len(security.ended_sessions) == SESSIONS_MAX
    assert "0" * 32 not in security.ended_sessions
    assert security.sessions_void_until_ms == 10_000
    for session_id, expires_ms in {**many, SECOND: 99_000, FIRST: 10_000}.items():
        assert security.is_logged_out(session_id, expires_ms)
    assert not security.is_logged_out(FIRST, 10_001)


@pytest.mark.parametrize(
    ("session_id", "expires_ms"), [("", 9), ("x" * 32, 9), ("0f" * 15, 9), (FIRST, 0)]
)
def test_what_is_no_session_is_refused(bench, session_id, expires_ms):
    refused = end(bench, session_id, expires_ms)
    assert refused.error_code is ErrorCode.INVALID_REQUEST
    assert repr(session_id) in refused.message
    assert security_everywhere(bench).ended_sessions == {}


def test_logouts_outlive_a_snapshot(bench):
    end(bench, FIRST)
    bench.image.security.sessions.void_until_ms = 7
    image = ClusterImage()
    image.apply(7, Snapshot(bench.image.to_state()))
    assert image.security.sessions == EndedSessions({FIRST: 9_000}, 7)
