"""The base of blocking clients: each call waits for the same call of the asyncio client on the I/O thread."""

import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from oncelog.client.blocking.io_thread import IoThread

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")


class Startable(Protocol):
    async def start(self) -> object: ...


InnerT = TypeVar("InnerT", bound=Startable)
"""The class of the asyncio client."""


class Shell(Generic[InnerT]):
    def __init__(self, inner: InnerT, what: str) -> None:
        self._inner = inner
        self._io = IoThread(what)
        self._ending = threading.Lock()
        self._is_ended = False

    def start(self) -> Self:
        """Reach the cluster within 30 s. Otherwise close the client, and raise the reason why it cannot."""
        self._io.start()
        try:
            self._io.wait(self._inner.start)
        except BaseException:
            self._is_ended = True
            self._io.stop()
            raise
        return self

    def __enter__(self) -> Self:
        return self.start()

    def _end(self, close: Callable[[], Coroutine[object, object, None]]) -> None:
        """Close the client once, and end its thread. A call by another thread meanwhile waits for the end.

        In the child of a fork there is nothing to close.
        """
        io = self._io
        if not io.is_of_this_process:
            return
        with self._ending:
            is_first, self._is_ended = not self._is_ended, True
        if not is_first or not io.has_begun:
            io.join()
        elif io.is_current:
            io.finish(close)
        else:
            try:
                io.wait(close)
            finally:
                io.stop()


def waits(
    method: Callable[Concatenate[InnerT, ParamsT], Awaitable[ResultT]],
) -> Callable[Concatenate[Shell[InnerT], ParamsT], ResultT]:
    """Return a blocking method that runs this coroutine method on the I/O thread and waits for it; parameters and
    documentation stay."""

    @wraps(method)
    def call(self: Shell[InnerT], /, *given: ParamsT.args, **named: ParamsT.kwargs) -> ResultT:
        return self._io.wait(lambda: method(self._inner, *given, **named))

    return call


def does(
    method: Callable[Concatenate[InnerT, ParamsT], ResultT],
) -> Callable[Concatenate[Shell[InnerT], ParamsT], ResultT]:
    """Return a blocking method that runs this plain method on the I/O thread and waits for it: it must not run in
    another thread."""

    @wraps(method)
    def call(self: Shell[InnerT], /, *given: ParamsT.args, **named: ParamsT.kwargs) -> ResultT:
        return self._io.do(lambda: method(self._inner, *given, **named))

    return call
