"""Who asked: what a client says of itself, for people. Nothing is decided by it."""

from typing import Final, NamedTuple


class Client(NamedTuple):
    id: str = ""
    """`client.id` of the request's header."""
    host: str = ""
    """Where its connection comes from, host:port."""


NO_CLIENT: Final = Client()
