"""The interface of each role that a process runs (controller, storage, coordinator and so on): its start and stop."""

from typing import Protocol


class Role(Protocol):
    """One part of oncelog that a process runs: controller, storage, coordinator, marker sender, listener or gateway.

    Its package's `wiring.build_*` builds it; the roles of a process start in order, and stop in reverse.
    """

    async def start(self) -> None:
        """Start the role, and return when it is ready to serve.

        Raises OncelogError with a one-line reason and the way out.
        """

    async def stop(self) -> None:
        """Stop the role: end what is in flight, flush, and release files and sockets."""
