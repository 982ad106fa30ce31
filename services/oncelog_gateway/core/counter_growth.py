"""Adds up how much the counters of several processes grew between two readings.

A counter begins at zero again when its process restarts, or a role in it does. It has then grown by its present value,
and never by less than zero. While a process that must answer is silent, the growth of all is unknown. The next complete
reading has it, unless that comes too late: then there is a gap.
"""

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

Counters = Mapping[str, Sequence[float]]
"""Counters by name. Each has numbers that only grow."""


class Told(NamedTuple):
    """The counters of one process, as it answered the gateway. Two of these answers give how much each counter grew."""

    started_ms: int
    """When the process started. If this number changes, its counters began at zero."""
    counters: Counters


class Grown(NamedTuple):
    since_ms: int
    by: Mapping[str, Sequence[float]]


class CounterGrowth:
    """Keeps the last answers of all processes for one kind of counters, such as those of topics. Each new reading gives
    the growth since then.
    """

    def __init__(self) -> None:
        self._time_ms: int | None = None
        """Time of the last whole reading."""
        self._before: dict[str, Told] = {}

    def taken(
        self, time_ms: int, told: Mapping[str, Told], expected: Set[str], longest_ms: int
    ) -> Grown | None:
        """Keep this reading, and return how much each counter grew since the last one, in all processes together.

        Returns None for the first reading, and if the last one is longer ago than `longest_ms`. If a process of
        `expected` is not in `told`, None is returned and nothing is kept.
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
