"""Runs a function in a child of its own: what it replaces in the interpreter goes away with it.

    result = run_forked(function, argument)

The child inherits everything that is imported; the result comes back pickled. An exception is raised here again, with
the child's traceback as its cause. A child that is not done within the limit of real time is killed.
"""

import contextlib
import os
import pickle
import selectors
import signal
import time
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

LIMIT_S = 60.0
_CHUNK_BYTES = 1 << 16


class ChildFailed(AssertionError):
    """The child ended without a result that could be brought back; the message says how."""


class ChildTraceback(Exception):
    """Where in the child the exception came from."""

    def __str__(self) -> str:
        return f"\n\nin the child process:\n{self.args[0]}"


def run_forked(function: Callable[P, ResultT], /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
    """`function(*args, **kwargs)` in a forked child, within `LIMIT_S`."""
    return run_forked_within(LIMIT_S, function, *args, **kwargs)


def run_forked_within(
    limit_s: float, function: Callable[P, ResultT], /, *args: P.args, **kwargs: P.kwargs
) -> ResultT:
    """Raises ChildFailed when the child dies or takes longer than `limit_s`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work_and_exit(writing, lambda: function(*args, **kwargs))
    os.close(writing)
    answer = None
    try:
        answer = _read_all(reading, time.monotonic() + limit_s)
    finally:
        os.close(reading)
        if answer is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if answer is None:
        raise ChildFailed(f"the child was not done within {limit_s} s and was killed")
    if not answer:
        raise ChildFailed(
            f"the child died without an answer, exit code {os.waitstatus_to_exitcode(status)}"
        )
    result, error, trace = pickle.loads(answer)
    if error is not None:
        raise error from ChildTraceback(trace)
    return result  # type: ignore[no-any-return]


def _work_and_exit(writing: int, work: Callable[[], object]) -> None:
    """Never returns: nothing of the parent's stack may run twice."""
    fork_write, fork_exit = os.write, os._exit
    try:
        try:
            answer = pickle.dumps((work(), None, ""))
        except BaseException as error:
            answer = _encoded(error)
        rest = memoryview(answer)
        while rest:
            rest = rest[fork_write(writing, rest) :]
    finally:
        fork_exit(0)


def _encoded(error: BaseException) -> bytes:
    trace = "".join(traceback.format_exception(error))
    try:
        answer = pickle.dumps((None, error, trace))
        pickle.loads(answer)
    except (pickle.PicklingError, TypeError, AttributeError):
        # Not every exception can be taken apart and put together again; its text always can.
        return pickle.dumps((None, ChildFailed(f"{type(error).__name__}: {error}"), trace))
    return answer


def _read_all(reading: int, deadline: float) -> bytes | None:
    """Up to the end of the pipe; None when the deadline comes first."""
    parts = []
    # Not `select.select`, which takes no descriptor above 1,023: a run with many processes has more.
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        while (left_s := deadline - time.monotonic()) > 0:
            if not selector.select(left_s):
                break
            part = os.read(reading, _CHUNK_BYTES)
            if not part:
                return b"".join(parts)
            parts.append(part)
    return None
