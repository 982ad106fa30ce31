"""Lets one page read each thing once: a repeated question gets the first answer, so the parts of the page do not
contradict each other.

Requests that change something never use this, because they ask for the state again on purpose before they act.
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
    """Decorate a method that reads: within one page, a call with the same arguments returns the first call's answer.
    Arguments must be names, numbers and lists of these.
    """

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
