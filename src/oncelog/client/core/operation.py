"""What a program waits for, until it succeeded or failed. Futures belong to the shells, which `watch`."""

from collections.abc import Callable

from oncelog.client.errors import ClientError


class Operation:
    __slots__ = ("_watchers", "error", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self.error: ClientError | None = None
        self._watchers: list[Callable[[], None]] = []

    def succeed(self) -> None:
        self._finish(None)

    def fail(self, error: ClientError) -> None:
        """Only the first end counts."""
        self._finish(error)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Called once, at its end; at once where that has come."""
        if self.is_done:
            watcher()
        else:
            self._watchers.append(watcher)

    def _finish(self, error: ClientError | None) -> None:
        if self.is_done:
            return
        self.is_done, self.error = True, error
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()
