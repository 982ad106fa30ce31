"""Listeners by name, as Kafka's settings write them: `SASL_SSL://0.0.0.0:9093,PLAINTEXT://127.0.0.1:9092`."""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

MAIN: Final = "PLAINTEXT"
EXTERNAL: Final = "EXTERNAL"
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]{0,62}")


class SecurityProtocol(Enum):
    """The protection of a listener's connections (TLS, SASL), by Kafka's names such as `SASL_SSL`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Endpoint(NamedTuple):
    """One listener: its name, the address that it listens on, and the protection of its connections."""

    name: str
    host: str
    port: int
    protocol: SecurityProtocol


def parsed_addresses(text: str) -> dict[str, tuple[str, int]]:
    """Read a setting `NAME://HOST:PORT,…`, and return listener name → host and port. Raises ValueError that names the
    wrong part."""
    found: dict[str, tuple[str, int]] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, mark, address = part.partition("://")
        host, _, port = address.rpartition(":")
        name = name.upper()
        is_port = port.isascii() and port.isdigit() and int(port) <= 65535
        if not mark or not _NAME.fullmatch(name) or not is_port:
            raise ValueError(f"{part!r} is not NAME://HOST:PORT, such as SASL_SSL://0.0.0.0:9093")
        if name in found:
            raise ValueError(f"the name {name} stands twice")
        found[name] = host.strip("[]"), int(port)
    return found


def parsed_protocols(text: str) -> dict[str, SecurityProtocol]:
    """Read a setting `NAME:PROTOCOL,…`, and return listener name → protocol. Raises ValueError that names the wrong
    part."""
    found: dict[str, SecurityProtocol] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, protocol = part.partition(":")
        name, protocol = name.upper(), protocol.upper()
        if not _NAME.fullmatch(name) or protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise ValueError(f"{part!r} is not NAME:PROTOCOL, with one of {known}")
        if name in found:
            raise ValueError(f"the name {name} stands twice")
        found[name] = SecurityProtocol[protocol]
    return found


def endpoints_of(
    addresses: Mapping[str, tuple[str, int]], protocols: Mapping[str, SecurityProtocol]
) -> tuple[Endpoint, ...]:
    """Return the listeners with address and protocol, in the order of their setting. Raises ValueError for a name
    without a protocol.

    A listener whose name is a protocol, such as SSL, needs no entry in `protocols`.
    """
    found = []
    for name, (host, port) in addresses.items():
        protocol = protocols.get(name) or SecurityProtocol.__members__.get(name)
        if protocol is None:
            raise ValueError(
                f"listener {name} has no security protocol; add {name}:SASL_SSL, or another one, "
                "to listener_security_protocol_map"
            )
        found.append(Endpoint(name, host, port, protocol))
    unknown = sorted(set(protocols) - set(addresses))
    if unknown:
        raise ValueError(
            f"listener_security_protocol_map names {unknown[0]}, and there is no such listener"
        )
    ports = [one.port for one in found if one.port]
    if len(set(ports)) < len(ports):
        raise ValueError("two listeners have one port; give each its own")
    return tuple(found)


def printed(addresses: Mapping[str, tuple[str, int]]) -> str:
    """Return the addresses as the text of a setting, which `parsed_addresses` reads."""
    return ",".join(f"{name}://{_joined(*address)}" for name, address in addresses.items())


def _joined(host: str, port: int) -> str:
    return f"{f'[{host}]' if ':' in host else host}:{port}"
