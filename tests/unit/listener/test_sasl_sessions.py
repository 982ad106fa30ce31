"""How long a login lasts, while somebody sets the wall clock (KIP-368)."""

import time

import pytest

from oncelog.security.principal import Principal
from oncelog.security.sasl import SaslServer
from oncelog_listener.sasl_session import SaslSession

HOUR_MS = 3_600_000
MS = 1_000_000


class Clocks:
    def __init__(self):
        self.wall_ms = self.steady_ms = 1_700_000_000_000

    def pass_ms(self, ms):
        self.wall_ms += ms
        self.steady_ms += ms


@pytest.fixture
def clocks(monkeypatch):
    clocks = Clocks()
    monkeypatch.setattr(time, "time_ns", lambda: clocks.wall_ms * MS)
    monkeypatch.setattr(time, "monotonic_ns", lambda: clocks.steady_ms * MS)
    return clocks


class OneStep(SaslServer):
    """A login that one message completes."""

    def __init__(self, expires_at_ms):
        super().__init__("OAUTHBEARER")
        self.session_expires_at_ms = expires_at_ms

    def evaluate(self, message):
        self._principal = Principal.user("alice")
        return b""


async def logged_in(lifetime_max_ms=0, token_ends_at_ms=None):
    session = SaslSession(("OAUTHBEARER",), lambda *_: OneStep(token_ends_at_ms), lifetime_max_ms)
    session.begin("OAUTHBEARER", is_raw=False)
    await session.step(b"")
    return session


@pytest.mark.parametrize("step_ms", [-24 * HOUR_MS, 0, 24 * HOUR_MS])
@pytest.mark.parametrize("ends_by", ["setting", "token", "both"])
async def test_a_clock_step_neither_ends_nor_extends_a_session(clocks, ends_by, step_ms):
    setting = 0 if ends_by == "token" else HOUR_MS
    token = {"setting": None, "token": HOUR_MS, "both": 2 * HOUR_MS}[ends_by]
    session = await logged_in(setting, None if token is None else clocks.wall_ms + token)
    clocks.wall_ms += step_ms
    assert (session.is_open, session.lifetime_ms) == (True, HOUR_MS)
    clocks.pass_ms(HOUR_MS - 1)
    assert (session.is_open, session.lifetime_ms) == (True, 1)
    clocks.pass_ms(1)
    assert (session.is_open, session.is_expired) == (False, True)


async def test_a_login_without_an_end_is_open_for_good(clocks):
    session = await logged_in()
    clocks.pass_ms(10_000 * HOUR_MS)
    assert (session.is_open, session.lifetime_ms) == (True, 0)
