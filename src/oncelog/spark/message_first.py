"""Errors of the connector in Spark: the message comes before Python's traceback.

Spark shows what a Python worker formatted: a traceback of forty lines, and its message last. A cause is formatted
before the exception that it caused, and one that was never raised has no traceback. So the message, given to the
exception as its first cause, is the first line that Spark shows.

Where Spark simplifies the traceback (`SPARK_SIMPLIFIED_TRACEBACK`, which it sets for batch jobs), it drops causes. The
traceback is a few lines then, and the message is the last one.
"""

import functools
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from oncelog.errors import OncelogError

Arguments = ParamSpec("Arguments")
ResultT = TypeVar("ResultT")


class _Message(Exception):
    """An exception that holds only an error's message; as the error's first cause it is shown first, as `oncelog:
    …`."""


_Message.__qualname__ = "oncelog"
_Message.__module__ = "builtins"  # tracebacks leave this name out


def message_first(method: Callable[Arguments, ResultT]) -> Callable[Arguments, ResultT]:
    """Decorate a method that Spark calls: if it raises an OncelogError, Spark shows its message first."""

    @functools.wraps(method)
    def wrapped(*arguments: Arguments.args, **named: Arguments.kwargs) -> ResultT:
        try:
            return method(*arguments, **named)
        except OncelogError as error:
            _begin_with_message(error)
            raise

    return wrapped


def rows_message_first(
    method: Callable[Arguments, Iterator[ResultT]],
) -> Callable[Arguments, Iterator[ResultT]]:
    """Decorate a generator from which Spark reads rows, so that Spark shows the message of an OncelogError before the
    traceback. The error comes while rows are taken.
    """

    @functools.wraps(method)
    def wrapped(*arguments: Arguments.args, **named: Arguments.kwargs) -> Iterator[ResultT]:
        try:
            yield from method(*arguments, **named)
        except OncelogError as error:
            _begin_with_message(error)
            raise

    return wrapped


def _begin_with_message(error: OncelogError) -> None:
    first: BaseException = error
    while True:
        if isinstance(first, _Message):
            return  # a method that calls another one
        earlier = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
        if earlier is None:
            break
        first = earlier
    first.__cause__ = _Message(str(error))
