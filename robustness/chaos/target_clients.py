"""Every client library that takes part, against one target."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from robustness.clients.aiokafka import AiokafkaClients
from robustness.clients.contract import Clients

_LIBRARIES: Final[Mapping[str, Callable[[Sequence[str]], Clients]]] = {
    "aiokafka": AiokafkaClients,
}
LIBRARIES: Final = tuple(_LIBRARIES)


def make_clients(libraries: Sequence[str], bootstrap: str) -> list[Clients]:
    """aiokafka comes first: what is done once is done by the first, and it starts no threads before forks."""
    return [_LIBRARIES[one](bootstrap.split(",")) for one in libraries]
