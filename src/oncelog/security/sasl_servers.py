"""The listener's side of each SASL mechanism, by its name."""

from oncelog.security.oauth_bearer import OAuthBearerServer
from oncelog.security.plain import PlainServer
from oncelog.security.sasl import MECHANISMS, OAUTHBEARER, PLAIN, Credentials, SaslServer
from oncelog.security.scram import HASHES, ScramServer


def make_sasl_server(
    mechanism: str, credentials: Credentials, *, is_reauthentication: bool = False
) -> SaslServer:
    """Return a new `SaslServer` for one login by this mechanism. The caller has checked that the mechanism is
    enabled."""
    if mechanism in HASHES:
        return ScramServer(
            mechanism,
            lambda user: credentials.scram(mechanism, user),
            unknown_salt=lambda user: credentials.unknown_salt(mechanism, user),
            is_reauthentication=is_reauthentication,
        )
    if mechanism == PLAIN:
        return PlainServer(credentials.plain)
    if mechanism == OAUTHBEARER:
        if credentials.tokens is None:
            raise ValueError("OAUTHBEARER needs the keys, the issuer and the audience of tokens")
        return OAuthBearerServer(credentials.tokens, is_reauthentication=is_reauthentication)
    raise ValueError(f"{mechanism!r} is no SASL mechanism of oncelog: {', '.join(MECHANISMS)}")
