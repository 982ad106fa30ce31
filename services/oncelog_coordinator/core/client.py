"""The client that sent a request, as it describes itself. It is shown to people; no decision depends on it."""

from typing import Final, NamedTuple


class Client(NamedTuple):
    id: str = ""
    """The `client.id` of the request's header."""
    host: str = ""
    """The address that the client's connection comes from, as host:port."""


NO_CLIENT: Final = Client()
