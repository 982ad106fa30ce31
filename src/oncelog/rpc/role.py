"""The interface of a role to the process that runs it."""

from typing import Protocol


class Role(Protocol):
    """A role. Its package's `wiring.build_*` builds it; roles start in order, and stop in reverse."""

    async def start(self) -> None:
        """Start, and return when the role is ready to serve.
        Raises OncelogError with a one-line reason and the way out."""

    async def stop(self) -> None:
        """End what is in flight, flush, and release files and sockets."""
