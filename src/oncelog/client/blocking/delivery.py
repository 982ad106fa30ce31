"""The result of the blocking `Producer.send`."""

import threading

from oncelog.client import delivery
from oncelog.client.blocking.io_thread import IoThread
from oncelog.client.delivery import RecordMetadata
from oncelog.client.errors import ClientError, TimedOutError


class Delivery:
    """The pending result of a send: the record's place in its partition, or an error. Any thread may ask for it, as
    often as it likes."""

    __slots__ = ("_inner", "_io")

    def __init__(self, inner: delivery.Delivery, io: IoThread) -> None:
        self._inner, self._io = inner, io

    def done(self) -> bool:
        """Return True once it is known whether the record was delivered."""
        return self._inner.done()

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the delivery, and return the record's metadata or raise its error.

        TimedOutError after `timeout_s`: the record may still be delivered, or fail.
        """
        self._wait(timeout_s)
        return self._inner.result()

    def exception(self, timeout_s: float | None = None) -> ClientError | None:
        """Wait for the delivery, and return the record's error, or None if it was delivered. Raises TimedOutError after
        `timeout_s`: the record may still be delivered, or fail.
        """
        self._wait(timeout_s)
        return self._inner.exception()

    def _wait(self, timeout_s: float | None) -> None:
        inner = self._inner
        if inner.done():
            return
        self._io.check_may_wait()
        is_done = threading.Event()
        if self._io.post(lambda: inner.watch(is_done.set)) and not is_done.wait(timeout_s):
            raise TimedOutError(
                f"it is not known after {timeout_s:g} s whether the record was delivered: ask again"
            )
