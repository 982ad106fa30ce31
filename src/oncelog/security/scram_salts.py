"""Salts of SCRAM users, and of users who do not exist: a salt does not show if its user exists.

A client that logs in gets a salt before any proof. The salt of a name without a user is made from a secret of the
cluster, so it stays the same. It has a form that users of this cluster have: as Kafka's tools and oncelog write it, or
so many bytes as another client chose. The iterations belong to the form. The name and the secret choose among these
forms. A form that comes or goes changes the salts of those names that get it, and of no others.
"""

import hmac
import re
from collections.abc import Collection
from hashlib import shake_256
from typing import Final, NamedTuple

SALT_BITS: Final = 130
LENGTH_MAX: Final = 1_024
_BASE_36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_OF_TOOLS: Final = re.compile(rb"[0-9a-z]{20,26}")


class SaltForm(NamedTuple):
    length: int
    """The number of random bytes in a salt; 0: the salt is a number in base 36, as Kafka's tools write it."""
    iterations: int


OF_TOOLS: Final = SaltForm(0, 4_096)
"""The form that `kafka-configs` and `oncelog users add` choose."""


def form_of(salt: bytes, iterations: int) -> SaltForm:
    is_of_tools = _OF_TOOLS.fullmatch(salt) is not None
    return SaltForm(0 if is_of_tools else len(salt), iterations)


def salt_of(number: int) -> bytes:
    """Return this number as a salt, in base 36 as Kafka's tools write it."""
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE_36[digit] + digits
    return digits.encode()


def unknown_salt(
    key: bytes, mechanism: str, user: str, forms: Collection[SaltForm]
) -> tuple[bytes, int]:
    """Return salt and iterations for a name without a user, always the same for one name. `forms` are those of the
    users who exist; none: the tools' form."""
    assert len(key) >= 16, "a short key lets a client compute the salts of unknown users"
    name = f"{mechanism}\0{user}".encode()

    def weight(form: SaltForm) -> bytes:
        return hmac.digest(key, b"form\0%d\0%d\0%b" % (*form, name), "sha256")

    form = max(forms, key=weight) if forms else OF_TOOLS
    seed = hmac.digest(key, name, "sha256")
    if form.length:
        return shake_256(seed).digest(min(form.length, LENGTH_MAX)), form.iterations
    return salt_of(int.from_bytes(seed) >> (256 - SALT_BITS)), form.iterations
