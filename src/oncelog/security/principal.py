"""The principal that sends a request: a type and a name, as in Kafka.
ACLs, quotas and logs write it as `User:alice`."""

from dataclasses import dataclass
from typing import Self

USER = "User"
"""The only type of principal that Kafka's own authenticators yield."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity of a client after its login. Two connections have the same rights when their principals are
    equal."""

    principal_type: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the principal of a text such as `User:alice`.
        The first colon separates, so a name may hold more, as in Kafka."""
        principal_type, colon, name = text.partition(":")
        if not colon:
            raise ValueError(
                f"{text!r} is no principal: write the type and the name, such as {USER}:alice"
            )
        return cls(principal_type, name)

    @classmethod
    def user(cls, name: str) -> Self:
        return cls(USER, name)

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""The principal of a connection that proved nothing: PLAINTEXT, or SSL without a client certificate."""
