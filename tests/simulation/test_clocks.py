"""Wall clocks that are wrong."""

import time

from oncelog_robustness.simulator.clocks import LARGEST_MS, SimClocks
from oncelog_robustness.simulator.seams import EPOCH_MS
from tests.simulation.small_world import in_small_world

from oncelog.runtime import SystemClock


def now_of(process):
    return process.context().run(SystemClock().now) - EPOCH_MS


def test_skew_is_the_hosts_outlives_its_processes_and_is_undone():
    def steps(small):
        clocks = SimClocks(small.world)
        storage, other = small.world.new_process("storage-1"), small.world.new_process("other")
        neighbour = small.world.new_process("listener-1", host="storage-1")
        clocks.skew("storage-1", 5000)
        seen = [now_of(storage), now_of(neighbour), now_of(other)]
        clocks.jump("storage-1", -7000)
        storage.end()
        storage = small.world.new_process("storage-1")
        seen.append(now_of(storage))
        clocks.heal("storage-1")
        seen += [now_of(storage), now_of(neighbour)]
        clocks.jump("storage-1", 1)
        return [*seen, now_of(storage)]

    assert in_small_world(1, steps) == [5000, 5000, 0, -2000, 0, 0, 1]


def test_monotonic_clocks_are_never_wrong():
    def steps(small):
        process = small.world.new_process("storage-1")
        SimClocks(small.world).skew("storage-1", 5000)
        return process.context().run(time.monotonic), process.context().run(time.perf_counter)

    assert in_small_world(1, steps) == (0.0, 0.0)


def test_strength_says_how_wrong():
    def steps(small):
        clocks = SimClocks(small.world)
        return [[clocks.draw_ms(strength) for _ in range(200)] for strength in (0.0, 0.5, 1.0, 7.0)]

    weak, middling, strong, capped = in_small_world(1, steps)
    assert max(map(abs, weak)) <= 10
    assert min(map(abs, middling)) > 10
    assert max(map(abs, middling)) < min(map(abs, strong))
    assert max(map(abs, strong + capped)) <= LARGEST_MS
    assert min(strong) < 0 < max(strong)
    assert [weak, middling, strong, capped] == in_small_world(1, steps)
    assert weak != in_small_world(2, steps)[0]
