"""The check of the Host header by an HTTP server of this process: the defence against DNS rebinding.

A web page of `evil.example` may let that name resolve to 127.0.0.1 once it is loaded. The browser then sends the page's
requests to a server of this machine, as requests of the page's own site: it shows the page every answer, and `Origin`
equals `Host`. Only the Host header tells them apart: it still says `evil.example`.

A literal address cannot be rebound, because no name is resolved. So a server that is bound to every address accepts any
literal address, and names only from its setting.
"""

import ipaddress
import re
from typing import Final

_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")
_LOOPBACK_NAMES: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


class AllowedHosts:
    """The names in a Host header that a server accepts: loopback, the address it is bound to, and the configured names.
    Ports are not compared."""

    def __init__(self, bound: str, configured: str = "") -> None:
        self._names = _LOOPBACK_NAMES | {bound.lower()} | set(configured_names(configured))
        self._takes_any_address = bound in _EVERY_ADDRESS

    def allows(self, header: str) -> bool:
        name = host_of(header)
        if not name:
            return False
        if name in self._names:
            return True
        address = _address(name)
        mapped = getattr(address, "ipv4_mapped", None)
        if mapped is not None:
            return str(mapped) in self._names or self._takes_any_address or mapped.is_loopback
        return address is not None and (self._takes_any_address or address.is_loopback)


def host_of(header: str) -> str:
    """Return the host of a Host header, in lower case, without port and brackets; empty if it is no host."""
    if header.startswith("["):
        name, bracket, rest = header[1:].partition("]")
        if not bracket:
            return ""
    else:
        name, colon, rest = header.partition(":")
        rest = colon + rest
    # RFC 3986: the port may be empty, as in "localhost:".
    if rest and not re.fullmatch(":[0-9]*", rest):
        return ""
    return name.lower().removesuffix(".")


def configured_names(text: str) -> list[str]:
    """Return the names or addresses of a list with commas. Raises ValueError that names one that cannot be."""
    names = [one.strip().lower() for one in text.split(",") if one.strip()]
    for name in names:
        if _address(name) is None and not all(one.isalnum() or one in "-_." for one in name):
            raise ValueError(
                f"{name!r} is no host; give names or addresses, without port or path, separated by commas"
            )
    return names


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
