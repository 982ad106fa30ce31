"""The login (TLS and SASL) that every client of this process uses. Chaos sets it before the first client is made;
where nothing sets it, clients connect in plaintext."""

import asyncio
import json
from pathlib import Path
from typing import Any

from aiokafka.abc import AbstractTokenProvider

from oncelog.client.access_token import fetch_token
from oncelog.client.core.login import ClientLogin, properties_of
from oncelog.client.login import tls_context
from oncelog.errors import OncelogError
from oncelog.security.sasl import OAUTHBEARER

_chosen: list[ClientLogin] = []


def choose_login(login: ClientLogin | None) -> None:
    _chosen[:] = [] if login is None else [login]


def chosen_login() -> ClientLogin | None:
    return _chosen[0] if _chosen else None


def librdkafka_settings(login: ClientLogin) -> dict[str, str]:
    """Return the settings of librdkafka for this login. An OAuth token is not among them, because librdkafka asks
    for it by a callback."""
    settings = {"security.protocol": login.protocol}
    if login.has_sasl:
        settings["sasl.mechanism"] = login.mechanism
        if login.mechanism != OAUTHBEARER:
            settings |= {"sasl.username": login.user, "sasl.password": login.password}
    if login.has_tls:
        files = {
            "ssl.ca.location": login.ca,
            "ssl.certificate.location": login.certificate,
            "ssl.key.location": login.key or login.certificate,
            "ssl.key.password": login.key_password,
        }
        settings |= {name: value for name, value in files.items() if value}
        settings["ssl.endpoint.identification.algorithm"] = (
            "https" if login.checks_host_name else "none"
        )
    return settings


def confluent_settings(login: ClientLogin | None) -> dict[str, Any]:
    if login is None:
        return {}
    settings: dict[str, Any] = dict(librdkafka_settings(login))
    if login.has_sasl and login.mechanism == OAUTHBEARER:
        settings["oauth_cb"] = lambda _: tuple(fetch_token(login))
    return settings


def confluent_login() -> dict[str, Any]:
    """Return the settings of confluent-kafka for the login that `choose_login` set."""
    return confluent_settings(chosen_login())


def own_login() -> dict[str, str]:
    """Return the settings of `oncelog.client` for the login that `choose_login` set."""
    login = chosen_login()
    return {} if login is None else properties_of(login)


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """The object that aiokafka asks for an OAuth token, where the login needs one."""

    def __init__(self, login: ClientLogin) -> None:
        self._login = login

    async def token(self) -> str:
        return (await asyncio.to_thread(fetch_token, self._login)).text


def aiokafka_login() -> dict[str, Any]:
    """Return the arguments of aiokafka's clients for the login that `choose_login` set."""
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


def kafka_python_login() -> dict[str, Any]:
    """Return the arguments of kafka-python's clients for the login that `choose_login` set."""
    login = chosen_login()
    if login is None:
        return {}
    found: dict[str, Any] = {"security_protocol": login.protocol}
    if login.has_tls:
        found["ssl_context"] = tls_context(login)
        found["ssl_check_hostname"] = login.checks_host_name
    if login.has_sasl and login.mechanism == OAUTHBEARER:
        # Only who uses this library has it.
        from oncelog_robustness.clients.kafka_python_tokens import KafkaPythonTokens

        found |= {
            "sasl_mechanism": OAUTHBEARER,
            "sasl_oauth_token_provider": KafkaPythonTokens(login),
        }
    elif login.has_sasl:
        found |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
        }
    return found


def java_login() -> dict[str, str]:
    """Return the settings of Kafka's Java client for the login that `choose_login` set. Raises OncelogError for
    OAUTHBEARER."""
    login = chosen_login()
    if login is None:
        return {}
    found = {"security.protocol": login.protocol}
    if login.has_sasl:
        if login.mechanism == OAUTHBEARER:
            raise OncelogError("the Java client of verify cannot log in with OAUTHBEARER")
        kind = "plain.Plain" if login.mechanism == "PLAIN" else "scram.Scram"
        words = f"username={json.dumps(login.user)} password={json.dumps(login.password)}"
        module = f"org.apache.kafka.common.security.{kind}LoginModule"
        found |= {
            "sasl.mechanism": login.mechanism,
            "sasl.jaas.config": f"{module} required {words};",
        }
    if login.has_tls:
        if login.ca:
            found["ssl.truststore.type"] = "PEM"
            found["ssl.truststore.certificates"] = Path(login.ca).read_text()
        if login.certificate:
            found["ssl.keystore.type"] = "PEM"
            found["ssl.keystore.certificate.chain"] = Path(login.certificate).read_text()
            found["ssl.keystore.key"] = Path(login.key or login.certificate).read_text()
        if login.key_password:
            found["ssl.key.password"] = login.key_password
        if not login.checks_host_name:
            found["ssl.endpoint.identification.algorithm"] = ""
    return found
