"""A function that runs walks: generators that yield what they need of a file, and are sent it (ADR 0031)."""

from collections.abc import Callable, Generator
from typing import TypeVar

NeedT = TypeVar("NeedT")
FoundT = TypeVar("FoundT")
ResultT = TypeVar("ResultT")


def run_walk(
    walk: Generator[NeedT, FoundT, ResultT],
    answer: Callable[[NeedT], FoundT],
    thrown: tuple[type[Exception], ...] = (),
) -> ResultT:
    """Run a walk to its end: send it `answer(need)` for each need that it yields. Return its result.

    Errors among `thrown` are thrown into the walk; others end it.
    """
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
