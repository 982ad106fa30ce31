"""What a caller of another process can see fail (ADR 0013)."""

from oncelog.errors import OncelogError


class PeerUnavailable(OncelogError):
    """The other process could not be reached, went away, or refused to serve: the outcome of the call is unknown."""
