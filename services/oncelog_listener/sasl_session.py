"""The login of one connection by SASL, and its repetition before the session ends (KIP-43, KIP-152, KIP-368).

```
 SaslHandshake v1 ─▶ SaslAuthenticate … ─▶ logged in ─▶ (before the session's end) SaslHandshake ─▶ …
 SaslHandshake v0 ─▶ bare SASL messages, without Kafka's header ─▶ logged in
```
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from oncelog.errors import ErrorCode, KafkaError
from oncelog.security.sasl import SaslAuthenticationError, SaslServer

FAILED_DELAY_S: Final = 0.1
"""The seconds that a refused client waits for its answer (connection.failed.authentication.delay.ms)."""
_MS: Final = 1_000_000

MakeServer = Callable[[str, bool], SaslServer]
"""A function that makes the server of a mechanism. The second argument is True if the client logs in again."""


class SaslSession:
    """The state of the SASL login of one connection: which exchange is under way, who has logged in, and until when."""

    def __init__(
        self, mechanisms: tuple[str, ...], make_server: MakeServer, lifetime_max_ms: int
    ) -> None:
        self.mechanisms = mechanisms
        self.is_raw = False
        """True if the client's next message has no header of Kafka's."""
        self.principal: str | None = None
        """The principal of the first login, which later logins must keep; None before that."""
        self._ends_at_ms: int | None = None
        """The end of the session in milliseconds of the monotonic clock, which a step of the wall clock does not
        move; None: no end."""
        self._make_server = make_server
        self._lifetime_max_ms = lifetime_max_ms
        self._mechanism = ""
        self._server: SaslServer | None = None

    @property
    def is_open(self) -> bool:
        """True if the client has logged in, and its session has not ended."""
        return self.principal is not None and not self.is_expired

    @property
    def is_expired(self) -> bool:
        return self._ends_at_ms is not None and _steady_ms() >= self._ends_at_ms

    def begin(self, mechanism: str, *, is_raw: bool) -> None:
        """Begin a login after a SaslHandshake. Raises KafkaError: an unknown mechanism, a login under way, or another
        mechanism than before."""
        if self._server is not None:
            raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "a login is under way; finish it first")
        if mechanism not in self.mechanisms:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                f"SASL mechanism {mechanism!r} is not enabled here; there are {', '.join(self.mechanisms)}",
            )
        if self.principal is not None and mechanism != self._mechanism:
            raise KafkaError(
                ErrorCode.SASL_AUTHENTICATION_FAILED,
                f"this session logged in by {self._mechanism}; it cannot go on by {mechanism}",
            )
        self._mechanism = mechanism
        self._server = self._make_server(mechanism, self.principal is not None)
        self.is_raw = is_raw

    async def step(self, message: bytes) -> bytes:
        """Give the client's SASL message to the mechanism, and return the answer. Raises KafkaError (34 without a
        handshake, 58 for a failed login, after a delay)."""
        server = self._server
        if server is None:
            raise KafkaError(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate needs a SaslHandshake before it"
            )
        try:
            if server.may_block:
                answer = await asyncio.to_thread(server.evaluate, message)
            else:
                answer = server.evaluate(message)
            if server.is_complete:
                self._finish(server)
        except SaslAuthenticationError as error:
            self._server = None
            await asyncio.sleep(FAILED_DELAY_S)
            raise LoginRefused(str(error), error.reason) from None
        return answer

    def _finish(self, server: SaslServer) -> None:
        principal = str(server.principal)
        if self.principal is not None and principal != self.principal:
            raise SaslAuthenticationError(
                f"Cannot change principals during re-authentication from {self.principal}: {principal}"
            )
        self.principal = principal
        self.is_raw = False
        self._server = None
        left: list[int] = []
        if server.session_expires_at_ms is not None:
            left.append(server.session_expires_at_ms - _wall_ms())
        if self._lifetime_max_ms:
            left.append(self._lifetime_max_ms)
        self._ends_at_ms = _steady_ms() + min(left) if left else None

    @property
    def lifetime_ms(self) -> int:
        """The milliseconds that the session has left; 0: it does not end."""
        return max(self._ends_at_ms - _steady_ms(), 1) if self._ends_at_ms is not None else 0


class LoginRefused(KafkaError):
    """A failed login: the message is for the client, the reason only for our log."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
        self.reason = reason


def _steady_ms() -> int:
    return time.monotonic_ns() // _MS


def _wall_ms() -> int:
    """Return the wall clock in milliseconds, because a token's end is given in it."""
    return time.time_ns() // _MS
