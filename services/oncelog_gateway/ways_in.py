"""The ways to log in at the gateway besides API tokens, and the check that nobody comes in without a login by mistake.
It imports little, because `oncelog up` imports it at its start.
"""

import importlib.util
import logging
import time
from typing import Final, NamedTuple

from oncelog.errors import OncelogError
from oncelog.security.sasl import TokenValidator
from oncelog_gateway.access_settings import AccessSettings, is_loopback
from oncelog_gateway.admin_token import AdminTokenFile

log = logging.getLogger("oncelog.gateway")


class WaysIn(NamedTuple):
    """The ways to log in besides API tokens: the admin token file and an OIDC provider. None where the settings name
    none.
    """

    admin_file: AdminTokenFile | None = None
    provider: TokenValidator | None = None


NO_WAYS_IN: Final = WaysIn()


def ways_in(settings: AccessSettings, host: str) -> WaysIn:
    """Read the admin token file and the OIDC keys that the settings name, and return them. `host` is the address that
    the gateway binds. Raises OncelogError for settings that would let everybody in there.
    """
    if settings.authentication == "loopback" and not is_loopback(host):
        raise OncelogError(
            f"the gateway binds to {host!r}, where others reach it, and nobody would have to log in; set "
            "ONCELOG_GATEWAY_AUTHENTICATION=required with ONCELOG_GATEWAY_ADMIN_TOKEN_FILE or "
            "ONCELOG_GATEWAY_OIDC_ISSUER, …_AUDIENCE and …_JWKS; or =none where a proxy or the network keeps others "
            "out; or bind to 127.0.0.1"
        )
    if not settings.is_login_required:
        return NO_WAYS_IN
    path = settings.admin_token_file
    found = WaysIn(AdminTokenFile(path) if path is not None else None, _provider(settings))
    if found == NO_WAYS_IN:
        log.warning(
            "only API tokens that exist let anybody in; for the first one set ONCELOG_GATEWAY_ADMIN_TOKEN_FILE"
        )
    return found


def _provider(settings: AccessSettings) -> TokenValidator | None:
    """Return the object that checks an OIDC provider's tokens; None: no provider is named. Raises OncelogError."""
    if not settings.oidc_jwks:
        return None
    # A gateway without a provider needs neither these modules nor their packages.
    from oncelog.security.jwks import keys_of
    from oncelog.security.jwt_tokens import JwtValidator, TokenRules

    if importlib.util.find_spec("jwt") is None or importlib.util.find_spec("cryptography") is None:
        raise OncelogError("a provider's tokens need packages: pip install 'oncelog[security]'")
    audiences = filter(None, (one.strip() for one in settings.oidc_audience.split(",")))
    try:
        rules = TokenRules(
            issuer=settings.oidc_issuer,
            audiences=frozenset(audiences),
            principal_claim=settings.oidc_principal_claim,
        )
        keys = keys_of(settings.oidc_jwks, log.warning, authorities=settings.oidc_ca_file)
        return JwtValidator(rules, keys, time.time)
    except ValueError as error:
        raise OncelogError(
            f"{error} (ONCELOG_GATEWAY_OIDC_JWKS, …_CA_FILE, …_ISSUER, …_AUDIENCE)"
        ) from error
