"""Goes on with a walk (ADR 0031): a generator that yields what it needs and is sent what was found."""

from collections.abc import Callable, Generator
from typing import TypeVar

NeedT = TypeVar("NeedT")
FoundT = TypeVar("FoundT")
ResultT = TypeVar("ResultT")


def answered(
    walk: Generator[NeedT, FoundT, ResultT],
    answer: Callable[[NeedT], FoundT],
    thrown: tuple[type[Exception], ...] = (),
) -> ResultT:
    """What the walk returns. Errors of `answer` that are among `thrown` are thrown into the walk; others end it."""
    try:
        need = next(walk)
        while True:
            try:
                found = answer(need)
            except thrown as error:
                need = walk.throw(error)
            else:
                need = walk.send(found)
    except StopIteration as end:
        result: ResultT = end.value
        return result
