"""What a composed role offers its process."""

from typing import Protocol


class Role(Protocol):
    """Built by its package's `wiring.build_*`, started in order, stopped in reverse."""

    async def start(self) -> None:
        """Returns when the role is ready to serve. Raises OncelogError with a one-line reason and the way out."""

    async def stop(self) -> None:
        """Ends what is in flight, flushes, releases files and sockets."""
