"""SASL: a client proves its name in a few messages, which Kafka carries in `SaslAuthenticate`.

```
client                                    listener
  SaslHandshake(mechanism)  ───────────▶  is the mechanism enabled here?
  SaslAuthenticate(bytes)   ───────────▶  SaslServer.evaluate(bytes)
                            ◀───────────  the returned bytes; again until is_complete
```

A `SaslServer` serves one exchange of one connection and is then thrown away. It holds no socket and no clock. What a
refused client may learn is the text of `SaslAuthenticationError`. The `reason` beside it is for our own log.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from oncelog.security.principal import Principal

PLAIN = "PLAIN"
SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_512 = "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
SCRAM_NAMES = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}
"""SCRAM mechanisms by the number that KIP-554 gives them."""
SCRAM_NUMBERS = {name: number for number, name in SCRAM_NAMES.items()}


class SaslAuthenticationError(Exception):
    """The client did not prove its name. `str()` goes to the client;
    `reason` goes to the log and never to the client."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class IllegalSaslStateError(Exception):
    """A SASL object was used in the wrong order: a message after the end, or a question before the exchange is
    complete."""


class SaslServer(ABC):
    """The listener's side of one SASL login; each mechanism has a subclass."""

    may_block = False
    """True if `evaluate` may take tens of milliseconds, or wait for a key server: then call it in a thread."""
    session_expires_at_ms: int | None = None
    """The end of the credential itself, in milliseconds since 1970 (KIP-368). None: it does not end."""

    def __init__(self, mechanism: str, *, is_reauthentication: bool = False) -> None:
        self._mechanism = mechanism
        self._is_reauthentication = is_reauthentication
        self._principal: Principal | None = None

    @abstractmethod
    def evaluate(self, message: bytes) -> bytes:
        """Take the client's message, and return the listener's next one.

        Raises `SaslAuthenticationError` once the client is refused, `IllegalSaslStateError` after the end.
        """

    @property
    def is_complete(self) -> bool:
        return self._principal is not None

    @property
    def principal(self) -> Principal:
        """The principal that the client proved. Raises `IllegalSaslStateError` before the exchange is complete."""
        if self._principal is None:
            raise IllegalSaslStateError(f"the {self._mechanism} exchange is not complete")
        return self._principal

    def _refused(self, reason: str) -> SaslAuthenticationError:
        """Return the error for any refusal whose cause the client may not learn: to it they all look alike."""
        during = "re-authentication" if self._is_reauthentication else "authentication"
        return SaslAuthenticationError(
            f"Authentication failed during {during} due to invalid credentials with SASL mechanism {self._mechanism}",
            reason,
        )


class SaslClient(Protocol):
    """The client's side of one SASL login."""

    def evaluate(self, challenge: bytes) -> bytes:
        """Return the client's next message. The first challenge is empty. Raises `SaslAuthenticationError`."""
        ...

    @property
    def is_complete(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The data that a server stores of a user's password for one SCRAM mechanism. Nobody can log in with it alone (RFC
    5802, 9)."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


class PasswordVerifier(Protocol):
    """The data that a server stores of a user's password for PLAIN, to compare a given one with."""

    def matches(self, password: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class AcceptedToken:
    """A valid access token: the name of its holder, its end and its claims."""

    name: str
    expires_at_ms: int
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)


class TokenRefusedError(Exception):
    """An access token is not accepted. The text is for our log; the client reads `invalid_token`."""


class TokenValidator(Protocol):
    def validate(self, token: str) -> AcceptedToken:
        """Return the content of a valid access token. Raises `TokenRefusedError`. It may wait for a key server."""
        ...


class Credentials(Protocol):
    """The look-up of users for the SASL mechanisms of one listener. It reads memory and does not wait."""

    def unknown_salt(self, mechanism: str, user: str) -> tuple[bytes, int]:
        """Return salt and iterations for a user who does not exist, so that a client cannot tell. They look like those
        of users who exist. Every listener returns the same ones, for as long as possible."""
        ...

    def scram(self, mechanism: str, user: str) -> ScramCredential | None: ...

    def plain(self, user: str) -> PasswordVerifier | None: ...

    @property
    def tokens(self) -> TokenValidator | None: ...
