"""Wall clocks that are wrong: a host's time is off by a little or a lot, or jumps.

    clocks = SimClocks(world)
    clocks.skew("storage-2", clocks.draw_ms(strength))
    clocks.heal("storage-2")

Each host has one clock: every process there has its time, also one that is started later. Monotonic clocks are never
wrong, and neither is the metadata database's.
"""

import random
from typing import TYPE_CHECKING, Final

from oncelog_robustness.simulator.effects import Effect

if TYPE_CHECKING:
    from oncelog_robustness.simulator.world import World

LARGEST_MS: Final = 3_600_000 - 60_000
"""The largest skew, at strength 1.
A timestamp further ahead than the hour that a topic allows by default would be refused."""
SMALLEST_MS: Final = 10


class SimClocks:
    """The wall clocks of all simulated hosts of a run. The fault injector sets them wrong and right again."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._skews_ms: dict[str, int] = {}
        self._draw: random.Random = world.streams.stream("clocks")

    def draw_ms(self, strength: float) -> int:
        """Draw by how many milliseconds a clock is to be wrong; negative is behind. At `strength` 0 these are
        some milliseconds, at 1 most of an hour; between them they grow exponentially."""
        largest = SMALLEST_MS * (LARGEST_MS / SMALLEST_MS) ** min(max(strength, 0.0), 1.0)
        size = round(self._draw.uniform(largest / 3, largest))
        return size if self._draw.random() < 0.5 else -size

    def skew(self, host: str, skew_ms: int) -> None:
        """Set the clock of `host` off by `skew_ms` from now on. Its processes see a jump."""
        self._world.trace("clock", host, skew_ms)
        if skew_ms:
            self._world.effects[Effect.CLOCK_SET] += 1
        for process in self._world.processes.values():
            if process.host == host:
                # A restarted process takes this value over.
                process.clock_skew_ms = skew_ms
        self._skews_ms[host] = skew_ms

    def jump(self, host: str, by_ms: int) -> None:
        """Set the clock of `host` off by `by_ms` more than it is off already."""
        self.skew(host, self._skews_ms.get(host, 0) + by_ms)

    def heal(self, host: str) -> None:
        """Set the clock of `host` right again, by a jump."""
        self.skew(host, 0)
