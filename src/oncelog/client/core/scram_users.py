"""SCRAM users, as an administrator sets them (KIP-554). The client salts a password itself; the password is never
sent."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from oncelog.client.core.admin_results import item_error
from oncelog.errors import ErrorCode
from oncelog.security.sasl import SCRAM_NAMES, SCRAM_NUMBERS
from oncelog.security.scram import ITERATIONS_MIN, new_salt, salted_password


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    mechanism: str
    """SCRAM-SHA-256 or SCRAM-SHA-512; for another mechanism, its number."""
    iterations: int


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A change that gives the user this password for this mechanism."""

    user: str
    mechanism: str
    password: str = field(repr=False)
    iterations: int = ITERATIONS_MIN
    salt: bytes = field(default_factory=new_salt, repr=False)


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    user: str
    mechanism: str


Alteration = UserScramCredentialUpsertion | UserScramCredentialDeletion


def mechanism_name(number: int) -> str:
    return SCRAM_NAMES.get(number, str(number))


def mechanism_number(name: str) -> int:
    return SCRAM_NUMBERS[name]


def what_of(alteration: Alteration) -> str:
    return f"{alteration.mechanism} of user {alteration.user!r}"


def salted(alteration: Alteration) -> bytes:
    """Return the salted password, which is sent instead of the password; empty for a deletion. Raises ClientError if it
    cannot be sent."""
    what = what_of(alteration)
    if alteration.mechanism not in SCRAM_NUMBERS:
        known = " and ".join(SCRAM_NUMBERS)
        raise item_error(ErrorCode.UNSUPPORTED_SASL_MECHANISM, what, f"there are {known}")
    if not alteration.user:
        raise item_error(ErrorCode.UNACCEPTABLE_CREDENTIAL, what, "the name is empty")
    if isinstance(alteration, UserScramCredentialDeletion):
        return b""
    if not alteration.user.isascii() or "\0" in alteration.user:
        raise item_error(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, what, "nobody logs in with a name that is not ASCII"
        )
    if not alteration.password:
        raise item_error(ErrorCode.UNACCEPTABLE_CREDENTIAL, what, "the password is empty")
    try:
        return salted_password(
            alteration.mechanism, alteration.password, alteration.salt, alteration.iterations
        )
    except ValueError as error:
        raise item_error(ErrorCode.UNACCEPTABLE_CREDENTIAL, what, str(error)) from None


def rounds(alterations: Iterable[Alteration]) -> list[dict[str, Alteration]]:
    """Divide the alterations into requests, because one request may alter a user only once. Return a mapping user →
    alteration for each."""
    found: list[dict[str, Alteration]] = []
    for one in alterations:
        free = next((each for each in found if one.user not in each), None)
        if free is None:
            found.append(free := {})
        free[one.user] = one
    return found
