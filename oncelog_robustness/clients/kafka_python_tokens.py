"""The source of OAUTHBEARER tokens for kafka-python, which takes them only from a subclass of its
`AbstractTokenProvider`."""

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
