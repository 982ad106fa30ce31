"""A session is a signed cookie: nobody else makes one, and it ends."""

from dataclasses import replace

import pytest

from oncelog_gateway.console_login import own_path
from oncelog_gateway.sessions import Sessions

KEY = b"k" * 32


def test_gateways_with_one_key_know_each_others_sessions():
    one, other = Sessions(lambda: KEY), Sessions(lambda: KEY)
    session = one.open("token:ci", "viewer", "0f" * 32, 1_000)
    assert other.read(one.sealed(session), 999) == session
    assert Sessions(None).read(one.sealed(session), 999) is None


def test_a_session_ends():
    sessions = Sessions(None)
    cookie = sessions.sealed(sessions.open("token:ci", "viewer", "", 1_000))
    assert sessions.read(cookie, 999) is not None
    assert sessions.read(cookie, 1_000) is None


def test_a_changed_cookie_is_none():
    sessions = Sessions(None)
    session = sessions.open("token:ci", "viewer", "", 1_000)
    _, signature = sessions.sealed(session).split(".")
    content, _ = sessions.sealed(replace(session, role="admin")).split(".")
    for forged in (f"{content}.{signature}", content, "", ".", "x" * 5_000, "é.é", f"{content}."):
        assert sessions.read(forged, 0) is None


def test_a_logout_ends_one_session():
    sessions = Sessions(None)
    first, second = (sessions.open("a", "viewer", "", 1_000) for _ in range(2))
    sessions.log_out(first, 1)
    assert sessions.read(sessions.sealed(first), 2) is None
    assert sessions.read(sessions.sealed(second), 2) == second


def test_a_csrf_token_is_of_its_session():
    sessions = Sessions(None)
    first, second = (sessions.open("a", "viewer", "", 1_000) for _ in range(2))
    assert sessions.is_csrf_token(first, sessions.csrf_token(first))
    assert not sessions.is_csrf_token(second, sessions.csrf_token(first))
    assert not sessions.is_csrf_token(first, "")


def test_a_cookie_tells_no_csrf_token():
    sessions = Sessions(None)
    session = sessions.open("a", "viewer", "", 1_000)
    assert sessions.csrf_token(session) not in sessions.sealed(session)


@pytest.mark.parametrize(
    "path",
    [
        "//evil.test",
        "/\\evil.test",
        "https://evil.test",
        "evil",
        "",
        "/a\nb",
        "\\\\evil",
        "http://[",
    ],
)
def test_a_login_leads_to_no_other_site(path):
    assert own_path(path) == "/"


def test_a_login_leads_back_to_its_page():
    assert own_path("/transaction?id=a%2Fb") == "/transaction?id=a%2Fb"
