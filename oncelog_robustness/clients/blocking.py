"""An adapter that runs oncelog's blocking client (`oncelog.client`, as the Spark sink uses it) on an
asyncio loop, unchanged.

    outcome = await blocking(open_attempt, cluster, name, timeout_ms)

The call runs in a greenlet of its own. Where it would block, in a socket or in a sleep, it hands the loop an awaitable
and goes on with its result. So there is no thread, and many calls run side by side. In the simulator a call is as
deterministic, as slow and as mortal as everything else: its connections are the loop's.

Only code in such a greenlet is affected: elsewhere in the process the client blocks as it always does.
"""

import asyncio
import contextvars
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from oncelog.client import cluster, connection, produce_pipeline
from oncelog.client.core.login import ClientLogin
from oncelog.client.login import tls_context, with_tls
from oncelog.errors import OncelogError

try:
    import greenlet
except ModuleNotFoundError:
    # Only a workload that writes through the sink needs it. An installation without the extra `dev` lacks it.
    greenlet = None

ResultT = TypeVar("ResultT")
ArgumentsP = ParamSpec("ArgumentsP")


class _Call(greenlet.greenlet if greenlet else object):  # type: ignore[misc]
    """A call that `blocking` runs, as a greenlet (a stack of its own). Its parent is the greenlet that runs the event
    loop."""


async def blocking(
    call: Callable[ArgumentsP, ResultT], *args: ArgumentsP.args, **kwargs: ArgumentsP.kwargs
) -> ResultT:
    """Run `call`, which blocks, without blocking the event loop. Return or raise what it does. Cancelling this
    raises CancelledError inside `call`, where it waits."""
    if greenlet is None:
        raise OncelogError(
            "a workload that writes through the sink needs greenlet: pip install greenlet"
        )
    _install()
    under_way = _Call(call)
    under_way.gr_context = contextvars.copy_context()
    answer: Any = under_way.switch(*args, **kwargs)
    while not under_way.dead:
        try:
            result = await answer
        except BaseException as error:  # It belongs to the call, whatever it is.
            answer = under_way.throw(error)
        else:
            answer = under_way.switch(result)
    found: ResultT = answer
    return found


def _wait(awaitable: Awaitable[ResultT]) -> ResultT:
    """Return the result of an awaitable, for code without `await` that the function `blocking` runs. The event loop
    runs other tasks until the result is there."""
    parent = greenlet.getcurrent().parent
    assert parent is not None, "only a blocking call waits"
    found: ResultT = parent.switch(awaitable)
    return found


def _is_ours() -> bool:
    return isinstance(greenlet.getcurrent(), _Call)


class _Stream:
    """A connection of the event loop with those methods of a socket that `oncelog.client.connection` uses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._timeout_s: float | None = None

    def settimeout(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def setsockopt(self, *_: Any) -> None:
        """Do nothing: asyncio has set TCP_NODELAY already."""

    def begin_tls(self, host: str, login: ClientLogin) -> None:
        _wait(self._writer.start_tls(tls_context(login), server_hostname=host))

    def sendall(self, data: bytes) -> None:
        self._writer.write(data)
        _wait(asyncio.wait_for(self._writer.drain(), self._timeout_s))

    def recv_into(self, view: memoryview) -> int:
        data = _wait(asyncio.wait_for(self._reader.read(len(view)), self._timeout_s))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._writer.transport.abort()


class _Sockets:
    """A stand-in for the module `socket` in `oncelog.client.connection`. Code that the function `blocking` runs gets
    connections of the event loop; other code gets real sockets."""

    def __getattr__(self, name: str) -> Any:
        return getattr(socket, name)

    def create_connection(self, address: tuple[str, int], timeout: float) -> Any:
        if not _is_ours():
            return socket.create_connection(address, timeout)
        return _Stream(*_wait(asyncio.wait_for(asyncio.open_connection(*address), timeout)))


def _with_tls(stream: Any, host: str, login: ClientLogin) -> Any:
    """Begin TLS on a stream; this replaces `with_tls` in `oncelog.client.connection`."""
    if not isinstance(stream, _Stream):
        return with_tls(stream, host, login)
    stream.begin_tls(host, login)
    return stream


class _Time:
    """A stand-in for the module `time` in modules of the client. In code that the function `blocking` runs, its `sleep`
    lets the event loop go on."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        if _is_ours():
            _wait(asyncio.sleep(seconds))
        else:
            time.sleep(seconds)


def _install() -> None:
    connection.with_tls = _with_tls  # type: ignore[attr-defined]
    for module, name, replacement in (
        (connection, "socket", _Sockets),
        (cluster, "time", _Time),
        (produce_pipeline, "time", _Time),
    ):
        if not isinstance(getattr(module, name), replacement):
            setattr(module, name, replacement())
