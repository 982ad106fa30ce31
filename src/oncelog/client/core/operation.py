"""The pending result of a call, such as a commit: it succeeds or fails once. It is pure; the asyncio layer waits for it
by `watch`."""

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
        """End the operation with an error, which its waiter raises. If it has ended already, nothing changes."""
        self._finish(error)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` once, at the operation's end; at once if it has ended."""
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
