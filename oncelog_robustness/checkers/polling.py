"""The records that each consumer received, one after the other. A jump of its position is expected only where it
was assigned or repositioned."""

from collections.abc import Iterator
from typing import NamedTuple

from oncelog_robustness.history import History, Partition, Poll, Positioned, Read


class Step(NamedTuple):
    """One record that a consumer received, and the position that it had before."""

    position: int
    before: Read | None
    """The record before; None if the consumer was repositioned to `position`."""
    read: Read
    poll: Poll


def steps(history: History) -> Iterator[Step]:
    """Yield a step for each record that a consumer received, in the order of the history, which is the order in
    which it happened.

    The first record of a partition without a known position gives no step; it only sets the position.
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
