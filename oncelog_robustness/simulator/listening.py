"""A port that listens for connections, as the kernel of its host knows it."""

import contextvars
from collections.abc import Callable

from oncelog_robustness.simulator.links import End
from oncelog_robustness.simulator.process import SimProcess


class Listener:
    """A port that a process has bound. Its kernel accepts connections once `listen` was called, even while
    the process is paused."""

    def __init__(
        self,
        host: str,
        address: tuple[str, int],
        process: SimProcess | None,
        forget: Callable[["Listener"], None],
    ) -> None:
        """Make a bound port. `forget` is called once, when the port is closed."""
        self._forget = forget
        self.host = host
        self.address = address
        self.process = process
        self._context = contextvars.copy_context()
        self._accept: Callable[[End], None] | None = None
        self.is_open = True

    @property
    def is_listening(self) -> bool:
        return self._accept is not None

    def listen(self, accept: Callable[[End], None]) -> None:
        """Begin to listen. `accept` is called with each connection, in a copy of the context of this call."""
        self._context = contextvars.copy_context()
        self._accept = accept

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._accept = None
            self._forget(self)

    def end(self, address: tuple[str, int]) -> End:
        return End(self.host, address, self.process, self._context.copy())

    def accept(self, end: End) -> None:
        """Hand the process a connection that its kernel has accepted; reset it if the port is closed by
        now."""
        if self._accept is None:
            end.abort()
        else:
            self._accept(end)
