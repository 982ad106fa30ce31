"""The reads of each consumer, one after the other, as long as nobody moved it."""

from collections.abc import Iterator
from typing import NamedTuple

from oncelog_robustness.history import History, Partition, Poll, Positioned, Read


class Step(NamedTuple):
    """One record handed to a consumer, and the offset at which it stood."""

    position: int
    before: Read | None
    """The record before, None if it was moved to `position`."""
    read: Read
    poll: Poll


def steps(history: History) -> Iterator[Step]:
    """In the order in which each consumer wrote them down, which is the order in which they happened to it.

    A first read of a partition without a known position is the beginning of its own order.
    """
    positions: dict[str, dict[Partition, tuple[int, Read | None]]] = {}
    for operation in history.operations:
        if isinstance(operation, Positioned):
            positions[operation.client] = {
                (topic, number): (offset, None) for topic, number, offset in operation.positions
            }
        elif isinstance(operation, Poll):
            at = positions.setdefault(operation.client, {})
            for read in operation.reads:
                spot = read[:2]
                stood = at.get(spot)
                if stood is not None:
                    yield Step(stood[0], stood[1], read, operation)
                at[spot] = (read.offset + 1, read)
