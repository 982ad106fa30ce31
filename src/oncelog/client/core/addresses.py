"""`host:port` lists, as `bootstrap.servers` carries them."""

from typing import NamedTuple

from oncelog.errors import OncelogError


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Return the addresses of a list with commas. An IPv6 host stands in brackets.

    Raises OncelogError that names the entry which is no `host:port`.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if not entries:
        raise OncelogError(
            f"bootstrap.servers {text!r} names no server: give host:port, for example localhost:9092"
        )
    return tuple(_parse_address(entry) for entry in entries)


def _parse_address(entry: str) -> Address:
    host, colon, port = entry.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if is_bracketed:
        host = host[1:-1]
    if not colon or not host or (":" in host and not is_bracketed) or not _is_port(port):
        raise OncelogError(
            f"{entry!r} in bootstrap.servers is no host:port: write it like localhost:9092"
        )
    return Address(host, int(port))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) <= 65535
