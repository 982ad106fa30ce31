"""How every client of this process logs in. Chaos sets it before the first is made; elsewhere clients are plain."""

from typing import Any

from oncelog.client.core.login import ClientLogin, librdkafka_settings
from oncelog.client.login import tls_context

_chosen: list[ClientLogin] = []


def choose_login(login: ClientLogin | None) -> None:
    _chosen[:] = [] if login is None else [login]


def chosen_login() -> ClientLogin | None:
    return _chosen[0] if _chosen else None


def confluent_login() -> dict[str, str]:
    """Settings of confluent-kafka."""
    login = chosen_login()
    return {} if login is None else librdkafka_settings(login)


def aiokafka_login() -> dict[str, Any]:
    """Arguments of aiokafka's clients."""
    login = chosen_login()
    if login is None:
        return {}
    found: dict[str, Any] = {"security_protocol": login.protocol}
    if login.has_tls:
        found["ssl_context"] = tls_context(login)
    if login.has_sasl:
        found |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
        }
    return found
