"""Who asked for an act, as far as the gateway can know: for the audit log.

The address of the connection is a fact. `X-Forwarded-User` and `X-Forwarded-For` are what any client may write, so they
count only on a connection from a proxy that a setting trusts.
"""

import ipaddress
from dataclasses import dataclass
from typing import Final

from fastapi import Request

HEADER_LENGTH_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Operator:
    remote_address: str
    """Of the connection."""
    user_agent: str | None
    forwarded_for: str | None
    user: str | None
    """This one and the one above are by the word of a trusted proxy; None without one."""


class Operators:
    """`trusted_proxies` are addresses and networks, separated by commas."""

    def __init__(self, trusted_proxies: str) -> None:
        self._trusted = proxy_networks(trusted_proxies)

    def of(self, request: Request) -> Operator:
        remote_address = request.client.host if request.client else "unknown"
        is_trusted = self._is_trusted(remote_address)
        return Operator(
            remote_address=remote_address,
            user_agent=_header(request, "user-agent"),
            forwarded_for=_header(request, "x-forwarded-for") if is_trusted else None,
            user=_header(request, "x-forwarded-user") if is_trusted else None,
        )

    def _is_trusted(self, remote_address: str) -> bool:
        try:
            address = ipaddress.ip_address(remote_address)
        except ValueError:
            return False
        return any(address in network for network in self._trusted)


def proxy_networks(text: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Raises ValueError that names the one that cannot be."""
    return [ipaddress.ip_network(one.strip()) for one in text.split(",") if one.strip()]


def _header(request: Request, name: str) -> str | None:
    value = request.headers.get(name)
    return value[:HEADER_LENGTH_MAX] if value else None
