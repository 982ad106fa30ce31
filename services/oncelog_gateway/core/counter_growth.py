"""The growth of counters that several processes share, from what each process tells now and what it told before.

A counter begins anew with its process, or with a role in it. Its growth is then its present value, and never below
zero. While a process that should tell is silent, the growth of all is not known. The next complete reading has it,
unless that comes too late: then there is a gap.
"""

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

Counters = Mapping[str, Sequence[float]]
"""Counters by name. Each has numbers that only grow."""


class Told(NamedTuple):
    """The counters that one process tells."""

    started_ms: int
    """When the process started. If this number changes, its counters began at zero."""
    counters: Counters


class Grown(NamedTuple):
    since_ms: int
    by: Mapping[str, Sequence[float]]


class CounterGrowth:
    """Finds the growth of one kind of counters, which several processes have together."""

    def __init__(self) -> None:
        self._time_ms: int | None = None
        """Time of the last whole reading."""
        self._before: dict[str, Told] = {}

    def taken(
        self, time_ms: int, told: Mapping[str, Told], expected: Set[str], longest_ms: int
    ) -> Grown | None:
        """Take a reading of each process and return the growth since the last one.

        None: a process of `expected` did not tell, or the last reading is longer ago than `longest_ms`.
        """
        if not expected or not expected <= told.keys():
            return None
        before, since_ms = self._before, self._time_ms
        self._before, self._time_ms = dict(told), time_ms
        if since_ms is None or not 0 < time_ms - since_ms <= longest_ms:
            return None
        found: dict[str, Sequence[float]] = {}
        for process, one in told.items():
            if process not in before:
                # The time of what a process counted before its first reading is not known.
                continue
            known = before[process]
            base: Counters = known.counters if known.started_ms == one.started_ms else {}
            for name, values in one.counters.items():
                grown = _difference(values, base.get(name, ()))
                sums = found.get(name)
                found[name] = (
                    grown if sums is None else [a + b for a, b in zip(sums, grown, strict=True)]
                )
        return Grown(since_ms, found)


def _difference(values: Sequence[float], base: Sequence[float]) -> list[float]:
    if len(base) != len(values):
        return list(values)
    return [max(now - then, 0.0) for now, then in zip(values, base, strict=True)]
