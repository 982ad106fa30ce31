"""How every client of this process logs in. Chaos sets it before the first is made; elsewhere clients are plain."""

import asyncio
from typing import Any

from aiokafka.abc import AbstractTokenProvider

from oncelog.client.access_token import fetch_token
from oncelog.client.core.login import OAUTHBEARER, ClientLogin, librdkafka_settings
from oncelog.client.login import confluent_settings, tls_context

_chosen: list[ClientLogin] = []


def choose_login(login: ClientLogin | None) -> None:
    _chosen[:] = [] if login is None else [login]


def chosen_login() -> ClientLogin | None:
    return _chosen[0] if _chosen else None


def confluent_login() -> dict[str, Any]:
    """Settings of confluent-kafka."""
    return confluent_settings(chosen_login())


def own_login() -> dict[str, str]:
    """Settings of `oncelog.client`."""
    login = chosen_login()
    if login is None:
        return {}
    found = librdkafka_settings(login)
    if login.mechanism == OAUTHBEARER:
        found |= {
            "sasl.oauthbearer.token.endpoint.url": login.token_endpoint,
            "sasl.oauthbearer.client.credentials.client.id": login.client_id,
            "sasl.oauthbearer.client.credentials.client.secret": login.client_secret,
            "sasl.oauthbearer.scope": login.scope,
        }
    return found


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """aiokafka's way to ask for a token."""

    def __init__(self, login: ClientLogin) -> None:
        self._login = login

    async def token(self) -> str:
        return (await asyncio.to_thread(fetch_token, self._login)).text


def aiokafka_login() -> dict[str, Any]:
    """Arguments of aiokafka's clients."""
    login = chosen_login()
    if login is None:
        return {}
    found: dict[str, Any] = {"security_protocol": login.protocol}
    if login.has_tls:
        found["ssl_context"] = tls_context(login)
    if login.has_sasl and login.mechanism == OAUTHBEARER:
        found |= {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": _Tokens(login)}
    elif login.has_sasl:
        found |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
        }
    return found
