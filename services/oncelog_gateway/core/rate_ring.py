"""The memory of a gateway for rates: a day, in two rings of numbers. Nothing of it is on disk.

A ring has one place for each step of time, and the newest step takes the place of the oldest. A *growth* (bytes,
records, transactions) is divided among the steps that its reading spans. So the places add up to what was counted, in
both rings. A *level* (lag, memory) is known where it was read, and a place keeps the largest reading of its step. NaN
says that nothing is known of a step: it is a gap, not a zero. A place is *coarse* where one reading covers a much
longer time than the step, so that nobody knows the course within it.

A line has a name, such as a topic's, and lines come in groups. A group has room for so many names. All others share one
line. If another name becomes much busier than one with a line, it takes over that line. The old name's history is then
added to the shared line.
"""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

OTHERS: Final = ""
"""The name of the line that all names of a group share which have no line of their own."""
_NAN: Final = math.nan
_PROMOTED_ABOVE: Final = 2.0
"""A busy name takes over the line of the idlest one if it is more than this many times as busy. With less, two names
would take turns.
"""
_COARSE_STEPS: Final = 2
_HALF_LIFE_MS: Final = 900_000


class Group(NamedTuple):
    """Families whose lines have the same names, such as the four rates of a topic. They are read together."""

    families: tuple[str, ...]
    is_growth: bool
    names_max: int
    absent: float = _NAN
    """The level of a name that a reading does not have. It is 0 where a reading names only the levels above 0."""


class TierSpec(NamedTuple):
    step_ms: int
    steps: int

    @property
    def span_ms(self) -> int:
        return self.step_ms * self.steps


TIERS: Final = (TierSpec(5_000, 180), TierSpec(60_000, 1_440))
"""The two rings: steps of five seconds for a quarter of an hour, and steps of a minute for a day."""


class Line(NamedTuple):
    """The values of one name over time, one for each step; None where nothing is known of the step."""

    name: str
    values: list[float | None]


class _Tier:
    def __init__(self, spec: TierSpec) -> None:
        self.spec = spec
        self.head = -1
        """The newest step that has a place. Steps are counted since 1970."""
        self.covered_ms = array("f", [0.0]) * spec.steps
        """For each step, how many milliseconds of it the readings cover."""
        self.coarse = bytearray(spec.steps)
        """For each step, 1 if one reading of a much longer time covered it."""
        self.lines: dict[tuple[str, str], array[float]] = {}

    def advance(self, time_ms: int) -> None:
        newest = (time_ms - 1) // self.spec.step_ms
        if newest <= self.head:
            return
        first = max(self.head + 1, newest - self.spec.steps + 1)
        for step in range(first, newest + 1):
            at = step % self.spec.steps
            self.covered_ms[at] = 0.0
            self.coarse[at] = 0
            for line in self.lines.values():
                line[at] = _NAN
        self.head = newest

    def line(self, family: str, name: str) -> "array[float]":
        found = self.lines.get((family, name))
        if found is None:
            found = self.lines[family, name] = array("f", [_NAN]) * self.spec.steps
        return found

    def shares(self, from_ms: int, to_ms: int) -> Iterable[tuple[int, int]]:
        """Yield the index of each place that the time spans, and how many milliseconds of the time lie in it. Steps
        that are older than the ring are left out.
        """
        step_ms, count = self.spec
        oldest = self.head - count + 1
        for step in range(max(from_ms // step_ms, oldest), (to_ms - 1) // step_ms + 1):
            begin, end = step * step_ms, (step + 1) * step_ms
            yield step % count, min(to_ms, end) - max(from_ms, begin)

    def is_coarse(self, from_ms: int, to_ms: int) -> bool:
        return to_ms - from_ms > self.spec.step_ms * _COARSE_STEPS

    def put_level(self, line: "array[float]", from_ms: int, to_ms: int, value: float) -> None:
        """Write a level into the place of `to_ms`, when it was read. Steps between that and the reading before
        (`from_ms`) get the earlier level.
        """
        count = self.spec.steps
        begin, end = (one // self.spec.step_ms for one in (from_ms - 1, to_ms - 1))
        at = end % count
        line[at] = value if math.isnan(line[at]) else max(line[at], value)
        if not self.is_coarse(from_ms, to_ms):
            for step in range(begin + 1, end):
                if math.isnan(line[step % count]):
                    line[step % count] = line[begin % count]

    def fold(self, family: str, name: str, into: str) -> None:
        """Remove the line of `name`, and add its values to the line of `into`."""
        given = self.lines.pop((family, name), None)
        if given is None:
            return
        taker = self.line(family, into)
        for at, value in enumerate(given):
            if not math.isnan(value):
                taker[at] = value if math.isnan(taker[at]) else taker[at] + value


class RateRing:
    """The rings of all groups: readings go in by `cover` and `add_reading`, and charts take lines out. `groups` are by
    their names.
    """

    def __init__(self, groups: Mapping[str, Group], tiers: Sequence[TierSpec] = TIERS) -> None:
        self._groups = groups
        self._group_of = {family: group for group in groups.values() for family in group.families}
        self._tiers = [_Tier(one) for one in tiers]
        self._weights: dict[str, dict[str, float]] = {name: {} for name in groups}
        """For each group, the names that have a line of their own, and how busy each is."""

    def size_bytes(self) -> int:
        return sum(
            line.itemsize * len(line)
            for tier in self._tiers
            for line in (*tier.lines.values(), tier.covered_ms)
        )

    def cover(self, from_ms: int, to_ms: int) -> None:
        """Count the time from `from_ms` to `to_ms` as seen. It is called once for each reading, before its values are
        added. A covered step in which a name has no value stays unknown for that name.
        """
        for tier in self._tiers:
            tier.advance(to_ms)
            for at, share_ms in tier.shares(from_ms, to_ms):
                tier.covered_ms[at] += share_ms
                tier.coarse[at] |= tier.is_coarse(from_ms, to_ms)

    def add_reading(
        self, group_name: str, from_ms: int, to_ms: int, rows: Mapping[str, Sequence[float]]
    ) -> None:
        """Add the values that one group's names had from `from_ms` to `to_ms`. `rows` has them by name, in the order of
        the group's families. Call `cover` for that time first.
        """
        assert from_ms < to_ms, (from_ms, to_ms)
        group, weights = self._groups[group_name], self._weights[group_name]
        for tier in self._tiers:
            tier.advance(to_ms)
        self._weigh(group, weights, rows, to_ms - from_ms)
        others: list[float] | None = None
        for name, values in rows.items():
            if name in weights:
                self._put(group, name, from_ms, to_ms, values)
            else:
                others = [
                    one + more
                    for one, more in zip(others or [0.0] * len(values), values, strict=True)
                ]
        if others is not None:
            self._put(group, OTHERS, from_ms, to_ms, others)
        if not math.isnan(group.absent):
            rest = [group.absent] * len(group.families)
            for name in weights:
                if name not in rows:
                    self._put(group, name, from_ms, to_ms, rest)

    def _weigh(
        self,
        group: Group,
        weights: dict[str, float],
        rows: Mapping[str, Sequence[float]],
        elapsed_ms: int,
    ) -> None:
        """Update how busy each name is, and decide which names have lines of their own. A new name gets a free line, or
        the line of a name that is much less busy.
        """
        per_ms = 1 / elapsed_ms if group.is_growth else 1.0
        fading = 0.5 ** (elapsed_ms / _HALF_LIFE_MS)
        for name in weights:
            now = sum(rows[name]) * per_ms if name in rows else 0.0
            weights[name] = weights[name] * fading + now * (1 - fading)
        newcomers = [(sum(rows[name]) * per_ms, name) for name in rows if name not in weights]
        for weight, name in sorted(newcomers, reverse=True):
            if name == OTHERS:
                continue
            if len(weights) >= group.names_max:
                idlest = min(weights, key=weights.__getitem__)
                if weight <= weights[idlest] * _PROMOTED_ABOVE:
                    return
                self._forget(group, weights, idlest)
            weights[name] = weight

    def _forget(self, group: Group, weights: dict[str, float], name: str) -> None:
        del weights[name]
        for tier in self._tiers:
            for family in group.families:
                tier.fold(family, name, OTHERS)

    def _put(
        self, group: Group, name: str, from_ms: int, to_ms: int, values: Sequence[float]
    ) -> None:
        span_ms = to_ms - from_ms
        for tier in self._tiers:
            for family, value in zip(group.families, values, strict=True):
                line = tier.line(family, name)
                if not group.is_growth:
                    tier.put_level(line, from_ms, to_ms, value)
                    continue
                for at, share_ms in tier.shares(from_ms, to_ms):
                    share = value * share_ms / span_ms
                    line[at] = share if math.isnan(line[at]) else line[at] + share

    # Reading.

    def names(self, family: str) -> list[str]:
        """Return the names of a family's lines, sorted. The line that all other names share comes last."""
        found = {name for of, name in self._tiers[0].lines if of == family}
        return sorted(found, key=lambda name: (name == OTHERS, name))

    def lines(self, family: str, first_ms: int, step_ms: int, count: int) -> list[Line]:
        """Return all lines of a family, `count` steps from `first_ms` on. A growth is given as a rate a second, a level
        as it is. `step_ms` must be a multiple of a ring's step.
        """
        return [
            Line(name, self._values(family, name, first_ms, step_ms, count))
            for name in self.names(family)
        ]

    def coarse(self, first_ms: int, step_ms: int, count: int) -> list[bool]:
        """Return for each step whether it is coarse: one reading of a much longer time covers it, so its course is not
        known.
        """
        # The coarsest ring with such steps decides: a minute that was read once is no coarse minute.
        tier = next(one for one in reversed(self._tiers) if step_ms % one.spec.step_ms == 0)
        places = step_ms // tier.spec.step_ms
        first = first_ms // tier.spec.step_ms
        return [
            any(
                tier.coarse[one % tier.spec.steps]
                for one in range(step, step + places)
                if tier.head - tier.spec.steps < one <= tier.head
            )
            for step in range(first, first + count * places, places)
        ]

    def sums(
        self, family: str, name: str, first_ms: int, step_ms: int, count: int
    ) -> list[float | None]:
        """Return how much was counted in each step, for one name of a family that grows; None: not known."""
        return [
            amount if covered_ms else None
            for amount, covered_ms in self._amounts(family, name, first_ms, step_ms, count)
        ]

    def _values(
        self, family: str, name: str, first_ms: int, step_ms: int, count: int
    ) -> list[float | None]:
        is_growth = self._group_of[family].is_growth
        return [
            None if not covered_ms else amount * 1000 / covered_ms if is_growth else amount
            for amount, covered_ms in self._amounts(family, name, first_ms, step_ms, count)
        ]

    def _amounts(
        self, family: str, name: str, first_ms: int, step_ms: int, count: int
    ) -> Iterable[tuple[float, float]]:
        """Yield a value for each step, and how many milliseconds of the step are known. The value is the sum of a
        growth, or the largest level.
        """
        tier = self._tier_of(first_ms, step_ms)
        line = tier.lines.get((family, name))
        is_growth = self._group_of[family].is_growth
        places = step_ms // tier.spec.step_ms
        first = first_ms // tier.spec.step_ms
        for step in range(first, first + count * places, places):
            amount, covered_ms = 0.0, 0.0
            for one in range(step, step + places):
                if line is None or not tier.head - tier.spec.steps < one <= tier.head:
                    continue
                at = one % tier.spec.steps
                value = line[at]
                if math.isnan(value):
                    continue
                amount = amount + value if is_growth else max(amount, value)
                covered_ms += tier.covered_ms[at]
            yield amount, covered_ms

    def _tier_of(self, first_ms: int, step_ms: int) -> _Tier:
        """Return the finest ring that still remembers `first_ms` and whose step divides `step_ms`; the coarsest ring if
        there is none.
        """
        for tier in self._tiers:
            is_whole = step_ms % tier.spec.step_ms == 0
            if is_whole and first_ms // tier.spec.step_ms > tier.head - tier.spec.steps:
                return tier
        return self._tiers[-1]
