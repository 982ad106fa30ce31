"""The addresses at which clients reach a node, by the listener's name, as the node tells them to the other listeners.

They travel with the registration as Kafka's config `advertised.listeners`: `SSL://HOST:PORT,EXTERNAL://HOST:PORT`. All
listeners tell the same address of each listener. Otherwise a client that asks one after the other would see brokers
move.
"""

from collections.abc import Mapping
from typing import Final

from oncelog_listener.core.endpoints import parsed_addresses, printed

CONFIG: Final = "advertised.listeners"


def configs_of(addresses: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """Return the config `advertised.listeners` for these addresses by listener name; the node's registration carries
    it."""
    return {CONFIG: printed(addresses)}


def read(configs: Mapping[str, str], name: str) -> tuple[str, int] | None:
    """Return the host and port of the listener `name` of a node, from the configs that the node registered; None: the
    node has no such listener."""
    try:
        return parsed_addresses(configs.get(CONFIG, "")).get(name)
    except ValueError:
        return None
