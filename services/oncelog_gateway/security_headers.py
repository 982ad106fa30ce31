"""The security headers of every answer, which tell a browser what it must not do with it."""

from collections.abc import Sequence
from typing import Final

Header = tuple[bytes, bytes]

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

SECURITY_HEADERS: Final[Sequence[Header]] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # `no-referrer` would make a browser send `Origin: null` with the form of the login.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""The headers. An answer that has its own `Cache-Control` overrides that one."""


def with_security_headers(headers: Sequence[Header]) -> list[Header]:
    given = {name.lower() for name, _ in headers}
    return [*headers, *(one for one in SECURITY_HEADERS if one[0] not in given)]
