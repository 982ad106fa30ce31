"""The parts of a session that both its ends share: its bounds, and the errors that a caller gets. A session is a stream
that carries the calls of one process to another (ADR 0013).
"""

from dataclasses import dataclass
from typing import Protocol

from oncelog.errors import OncelogError


class PeerTls(Protocol):
    """The certificate, key and CA by which a process proves its role to others (`mutual_tls.py`).

    Its methods raise OncelogError that names a file. The credentials are gRPC's, which this module does not load.
    """

    def channel_credentials(self) -> object: ...

    def server_credentials(self) -> object: ...

    def read_ca(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The bounds of one session: calls, bytes, timeouts, pings.

    Both ends have the same ones, so a caller waits for its turn instead of overloading the other process.
    """

    calls_max: int = 8192
    """The most calls in flight. A caller beyond them waits its turn; a server with twice as many stops reading. They
    are many: each consumer that waits for records is one call, and must not keep a producer from its turn."""

    bytes_max: int = 64 * 1024 * 1024
    """The most bytes of requests in flight at the caller, and of requests and unsent replies at the server."""

    frame_bytes: int = 4 * 1024 * 1024
    """The size in bytes at which a frame is closed, so that a large reply does not hold up those that are ready."""

    message_bytes_max: int = 256 * 1024 * 1024
    """The most bytes of one request or reply. A larger one fails its own call and nothing else."""

    connect_timeout_ms: int = 3000
    """The time for the connection, and for the answer of a process that accepts it."""

    keepalive_ms: int = 5000
    """The time between two HTTP/2 pings on a quiet connection."""

    keepalive_timeout_ms: int = 5000
    """The time after which an unanswered ping breaks the connection.
    A frozen or unplugged host is noticed in the sum of the two."""

    backoff_ms: int = 20
    """The time for which calls fail at once after a failed connection; doubled each time, with jitter."""

    backoff_max_ms: int = 1000

    http_proxy: str = ""
    """`host:port` of an HTTP CONNECT proxy that every connection goes through; empty for none."""

    tls: PeerTls | None = None
    """The process's certificate; None: connections are plain, and any process may call any method."""


class PeerUnavailable(OncelogError):
    """The other process could not be reached, went away, or refused to serve.

    If `was_sent` is False, the call surely had no effect, and may be sent to another process. Otherwise its outcome is
    unknown.
    """

    def __init__(self, message: str, *, was_sent: bool = True) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class MethodMissing(PeerUnavailable):
    """The other process runs an older version without this method: the call surely had no effect."""

    def __init__(self, message: str) -> None:
        super().__init__(message, was_sent=False)
