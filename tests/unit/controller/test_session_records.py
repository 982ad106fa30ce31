"""API tokens and logouts of the console in the journal: what is taken and refused; every follower has the same."""

import pytest
from tests.worlds.controller.metadata_cases import codes, restored, security_everywhere

from oncelog.errors import ErrorCode
from oncelog.security.api_tokens import LIFETIME_MAX_MS, ApiToken, digest_of
from oncelog_controller.core.api_tokens import TOKENS_MAX, altered_tokens
from oncelog_controller.core.console_sessions import FORGOTTEN_AFTER_MS, SESSIONS_MAX, EndedSessions
from oncelog_controller.core.events import (
    AlterApiTokens,
    CreateToken,
    EndConsoleSession,
    RevokeToken,
    UseToken,
)
from oncelog_controller.core.records import ConsoleSessionsEnded

CI = ApiToken("ci", digest_of("oncelog_1"), "operator", 1_000, 9_000, 0, "root")
OPS = ApiToken("ops", digest_of("oncelog_2"), "admin", 1_000, 9_000)


def alter(bench, *changes):
    return bench.ask(AlterApiTokens, changes)


def test_tokens_come_and_go(bench):
    answer = alter(bench, CreateToken(CI), CreateToken(OPS))
    assert codes(answer) == [0, 0]
    assert answer.metadata_offset == bench.image.metadata_offset
    assert security_everywhere(bench).tokens == {CI.digest: CI, OPS.digest: OPS}
    assert codes(alter(bench, RevokeToken("ci"))) == [0]
    assert security_everywhere(bench).tokens == {OPS.digest: OPS}


def test_a_name_is_given_once(bench):
    alter(bench, CreateToken(CI))
    (refused,) = alter(bench, CreateToken(CI._replace(digest=OPS.digest))).results
    assert refused.error_code is ErrorCode.DUPLICATE_RESOURCE
    assert "'ci'" in refused.message
    assert security_everywhere(bench).tokens == {CI.digest: CI}


def test_one_name_changes_once_in_a_request(bench):
    assert codes(alter(bench, CreateToken(CI), RevokeToken("ci"))) == [0, ErrorCode.INVALID_REQUEST]
    assert security_everywhere(bench).tokens == {CI.digest: CI}


def test_an_unknown_token_is_not_revoked(bench):
    (refused,) = alter(bench, RevokeToken("ci")).results
    assert refused.error_code is ErrorCode.RESOURCE_NOT_FOUND


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name"),
        ({"name": "a b"}, "'a b'"),
        ({"name": "x" * 101}, "name"),
        ({"digest": ""}, "SHA-256"),
        ({"digest": "0f" * 31}, "SHA-256"),
        ({"role": "root"}, "'root'"),
        ({"expires_ms": 1_000}, "ends"),
        ({"expires_ms": 1_001 + LIFETIME_MAX_MS}, "ten years"),
    ],
)
def test_what_is_no_token_is_refused(bench, change, message):
    (refused,) = alter(bench, CreateToken(CI._replace(**change))).results
    assert refused.error_code is ErrorCode.INVALID_REQUEST
    assert message in refused.message
    assert security_everywhere(bench).tokens == {}


def test_the_last_use_only_grows(bench):
    alter(bench, CreateToken(CI))
    alter(bench, UseToken("ci", CI.digest, 3_000))
    alter(bench, UseToken("ci", CI.digest, 2_000))
    assert security_everywhere(bench).tokens[CI.digest].last_used_ms == 3_000


def test_a_revoked_token_is_not_used(bench):
    alter(bench, CreateToken(CI))
    records = len(bench.records)
    assert codes(alter(bench, UseToken("ci", OPS.digest, 3_000))) == [0]
    assert codes(alter(bench, UseToken("gone", CI.digest, 3_000))) == [0]
    assert len(bench.records) == records


def test_tokens_are_bounded():
    known = {f"t{number}": CI for number in range(TOKENS_MAX)}
    answer, record = altered_tokens(known, AlterApiTokens(1, (CreateToken(CI),)))
    assert codes(answer) == [ErrorCode.POLICY_VIOLATION]
    assert record.tokens == ()


def test_no_digest_is_printed(bench):
    alter(bench, CreateToken(CI))
    assert CI.digest not in repr(bench.records)
    assert CI.digest not in repr(AlterApiTokens(1, (CreateToken(CI), UseToken("a", CI.digest, 1))))


FIRST, SECOND = "0f" * 16, "1f" * 16


def end(bench, session_id, expires_ms=9_000, time_ms=1_000):
    (result,) = bench.ask(EndConsoleSession, session_id, expires_ms, time_ms).results
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
    assert restored(bench.image).security.sessions == EndedSessions({FIRST: 9_000}, 7)
