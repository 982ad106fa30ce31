"""Finds what the audit log says of a request's sender, as far as the gateway can know it.

The connection's address is certain, and so is who showed a token. Any client may write `X-Forwarded-User` and
`X-Forwarded-For`. They count only on a connection from a proxy that a setting trusts.
"""

import ipaddress
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from fastapi import Request

HEADER_LENGTH_MAX: Final = 256
REASON_LENGTH_MAX: Final = 500
REASON_HEADER: Final = "oncelog-reason"
CALLER_KEY: Final = "oncelog.caller"
ROUTE_KEY: Final = "oncelog.route"
"""The key in the ASGI scope that has the route of a request."""


@dataclass(frozen=True, slots=True)
class Operator:
    caller: str
    """Name of the caller who showed a token; `anonymous` where none is needed."""
    role: str | None
    remote_address: str
    """Address of the connection."""
    user_agent: str | None
    forwarded_for: str | None
    user: str | None
    """`user` and `forwarded_for` as a trusted proxy gives them; None without one."""
    route: str | None
    reason: str | None
    """The reason that the caller gave for the act; None: it gave none."""


class Operators:
    """Describes the sender of a request for the audit log. `trusted_proxies` are addresses and networks, separated by
    commas.
    """

    def __init__(self, trusted_proxies: str) -> None:
        self._trusted = proxy_networks(trusted_proxies)

    def of(self, request: Request) -> Operator:
        is_trusted = self.is_from_proxy(request)
        caller = request.scope.get(CALLER_KEY)
        reason = _header(request, REASON_HEADER, 3 * REASON_LENGTH_MAX)
        return Operator(
            caller="anonymous" if caller is None else caller.name,
            role=None if caller is None or caller.role is None else caller.role.word,
            remote_address=_remote_address(request),
            user_agent=_header(request, "user-agent"),
            forwarded_for=_header(request, "x-forwarded-for") if is_trusted else None,
            user=_header(request, "x-forwarded-user") if is_trusted else None,
            route=request.scope.get(ROUTE_KEY),
            reason=unquote(reason)[:REASON_LENGTH_MAX] if reason else None,
        )

    def is_from_proxy(self, request: Request) -> bool:
        return self._is_trusted(_remote_address(request))

    def address_of(self, request: Request) -> str:
        """Return the client's address. On a connection from a trusted proxy it is the last address in X-Forwarded-For
        that belongs to no trusted proxy.
        """
        found = _remote_address(request)
        forwarded = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
        while self._is_trusted(found) and forwarded:
            before = forwarded.pop().strip()
            if not before:
                break
            found = before[:HEADER_LENGTH_MAX]
        return found

    def _is_trusted(self, remote_address: str) -> bool:
        try:
            address = ipaddress.ip_address(remote_address)
        except ValueError:
            return False
        return any(address in network for network in self._trusted)


def proxy_networks(text: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return the networks of trusted proxies. Raises ValueError that names the entry that is wrong."""
    return [ipaddress.ip_network(one.strip()) for one in text.split(",") if one.strip()]


def _remote_address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _header(request: Request, name: str, length_max: int = HEADER_LENGTH_MAX) -> str | None:
    value = request.headers.get(name)
    return value[:length_max] if value else None
