"""The first message of OAUTHBEARER. What is in its token is another target's."""

from oncelog.security.oauth_bearer import OAuthBearerClient, OAuthBearerServer
from oncelog.security.sasl import AcceptedToken, SaslAuthenticationError, TokenRefusedError

TOKEN = "ey.J0.token"


class OneToken:
    def validate(self, token):
        if token != TOKEN:
            raise TokenRefusedError("another token")
        return AcceptedToken("alice", 1)


def fed(data):
    exchange = OAuthBearerServer(OneToken())
    try:
        answer = exchange.evaluate(data)
        if answer:
            exchange.evaluate(b"\x01")
    except SaslAuthenticationError:
        assert not exchange.is_complete
        return False
    assert exchange.is_complete
    return True


def seeds():
    clients = (OAuthBearerClient(TOKEN), OAuthBearerClient(TOKEN, {"traceId": "1"}))
    plain = [client.evaluate(b"") for client in clients]
    return [*plain, plain[0].replace(b"n,,", b"n,a=alice,")]
