"""Tokens of OAUTHBEARER for kafka-python, which requests them from a class of its own kind."""

from kafka.net.sasl.oauth import AbstractTokenProvider

from oncelog.client.access_token import fetch_token
from oncelog.client.core.login import ClientLogin


class KafkaPythonTokens(AbstractTokenProvider):  # type: ignore[misc]
    """The provider from which kafka-python requests a token."""

    def __init__(self, login: ClientLogin) -> None:
        super().__init__()
        self._login = login

    def token(self) -> str:
        return fetch_token(self._login).text
