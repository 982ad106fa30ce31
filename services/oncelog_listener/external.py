"""The address at which clients of another network reach a listener, as its node tells it to the other listeners.

It travels with the registration, as Kafka's config `advertised.listeners`: `PLAINTEXT://HOST:PORT,EXTERNAL://HOST:PORT`.
All listeners tell the same of each, or a client that asks one after the other would see brokers move.
"""

from collections.abc import Mapping
from typing import Final

CONFIG: Final = "advertised.listeners"
_INTERNAL: Final = "PLAINTEXT://"
_EXTERNAL: Final = "EXTERNAL://"


def told(internal: tuple[str, int], external: tuple[str, int]) -> dict[str, str]:
    """What the registration says."""
    return {CONFIG: f"{_INTERNAL}{_joined(*internal)},{_EXTERNAL}{_joined(*external)}"}


def read(configs: Mapping[str, str]) -> tuple[str, int] | None:
    """The external host and port of the node that registered with these configs; None: it has none."""
    for part in configs.get(CONFIG, "").split(","):
        if part.startswith(_EXTERNAL):
            host, _, port = part.removeprefix(_EXTERNAL).rpartition(":")
            return host.strip("[]"), int(port)
    return None


def _joined(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"
