"""One reading for each page: what a page asks twice is answered as the first time, so its parts do not contradict
each other.

An act never runs within such a page: before an act, the state of things is asked for again on purpose.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from oncelog.errors import KafkaError

P = ParamSpec("P")
T = TypeVar("T")
_answers: Final[ContextVar[dict[object, object] | None]] = ContextVar("answers", default=None)


@contextmanager
def one_reading() -> Iterator[None]:
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


def read_once(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Wrap a method that reads, so that one page asks it once. Its arguments are names, numbers and lists of them."""

    @wraps(method)
    async def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        answers = _answers.get()
        if answers is None:
            return await method(*args, **kwargs)
        given = (*args, *sorted(kwargs.items()))
        key = (method.__qualname__, tuple(map(_frozen, given)))
        if key not in answers:
            try:
                answers[key] = await method(*args, **kwargs)
            except KafkaError as error:
                answers[key] = error
        answer = answers[key]
        if isinstance(answer, KafkaError):
            raise answer
        return answer  # type: ignore[return-value]

    return asked


def _frozen(given: object) -> object:
    if isinstance(given, list | tuple):
        return tuple(map(_frozen, given))
    return frozenset(given) if isinstance(given, set | frozenset) else given
