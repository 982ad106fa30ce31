"""The driver of walks (ADR 0031). A walk is a generator that yields its needs and is sent the results."""

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
    """Run a walk with `answer`, and return its result.

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
