"""API tokens of the gateway: what the journal stores of a token, and what each role may do (ADR 0030).

A token is `oncelog_` and 256 random bits. Only its SHA-256 is kept: nobody guesses so much, so a slow hash would cost
every request and protect nothing.
"""

import re
from enum import IntEnum
from hashlib import sha256
from typing import Final, NamedTuple

PREFIX: Final = "oncelog_"
RANDOM_BYTES: Final = 32
LIFETIME_MAX_MS: Final = 10 * 366 * 24 * 3_600_000

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Role(IntEnum):
    """The roles of API tokens, in rising order: each may do what the lesser ones may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class ApiToken(NamedTuple):
    """An API token as the journal stores it, without the secret itself. Times are milliseconds since 1970."""

    name: str
    digest: str
    """The SHA-256 in hex; empty: the token was removed."""
    role: str
    created_ms: int
    expires_ms: int
    last_used_ms: int = 0
    """The token's last use, exact to an hour; 0: it was never used."""
    created_by: str = ""


def digest_of(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def role_of(word: str) -> Role | None:
    """Return the role of this name; None: there is no such role, and it may do nothing."""
    return {role.word: role for role in Role}.get(word)


def token_fault(token: ApiToken) -> str:
    """Return why a token with these fields is refused; empty: it can be stored."""
    if not _NAME.fullmatch(token.name):
        return (
            f"{token.name!r} is no name of a token: 1 to 100 letters, digits and ._@-, "
            "a letter or digit first"
        )
    if not _DIGEST.fullmatch(token.digest):
        return "the digest is no SHA-256"
    if role_of(token.role) is None:
        return f"role {token.role!r} is not known; there are viewer, operator and admin"
    if not 0 < token.expires_ms - token.created_ms <= LIFETIME_MAX_MS:
        return "a token ends after it began, and within ten years"
    return ""
