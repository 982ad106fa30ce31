"""Checks the addresses of a log, for the options `--bootstrap` and `--gateway` and for the profile that stores them."""

import urllib.parse
from typing import Final

import typer

PORT_MAX: Final = 65_535


def checked_bootstrap(text: str) -> str:
    """Return the text if it is a list of HOST:PORT. Raises BadParameter for an entry that is not."""
    for one in text.split(","):
        host, _, port = one.strip().rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) <= PORT_MAX
        if not host or not is_port:
            raise typer.BadParameter(
                f"--bootstrap {one.strip()!r} is not an address; give host:port, like localhost:9092"
            )
    return text


def checked_gateway(text: str) -> str:
    """Return the text if it is a URL. Raises BadParameter otherwise."""
    try:
        parts = urllib.parse.urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise typer.BadParameter(
            f"--gateway {text!r} is not a URL; give one like http://localhost:8080"
        )
    return text
