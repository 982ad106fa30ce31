"""The one message of PLAIN."""

from oncelog.security.plain import PlainClient, PlainServer
from oncelog.security.sasl import SaslAuthenticationError

USER, PASSWORD = "alice", "of a test"


class QuickPassword:
    """A verifier that costs no scrypt."""

    def __init__(self, password):
        self.password = password

    def matches(self, password):
        return password == self.password


VERIFIERS = {USER: QuickPassword(PASSWORD)}
NOBODY = QuickPassword(None)


def fed(data):
    exchange = PlainServer(lambda user: VERIFIERS.get(user, NOBODY))
    try:
        assert exchange.evaluate(data) == b""
    except SaslAuthenticationError:
        assert not exchange.is_complete
        return False
    assert exchange.principal.name == USER
    return True


def seeds():
    return [PlainClient(USER, PASSWORD).evaluate(b""), f"{USER}\0{USER}\0{PASSWORD}".encode()]
