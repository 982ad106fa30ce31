"""A world with disks and a database and nobody in it, in a forked child: for tests of the simulator's parts."""

import inspect
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oncelog_robustness.simulator import seams
from oncelog_robustness.simulator.database import SimDatabase
from oncelog_robustness.simulator.disk import SimDisks
from oncelog_robustness.simulator.disk_calls import install_disks
from oncelog_robustness.simulator.world import World
from tests.simulation.forked import run_forked

SHARED_MEMORY = Path("/dev/shm")


@dataclass
class SmallWorld:
    world: World
    disks: SimDisks
    database: SimDatabase

    @property
    def digest(self):
        return self.world.trace_log.digest


def in_small_world(seed: int, steps: Callable[[SmallWorld], Any]) -> Any:
    """What `steps(small_world)` returns; a coroutine function runs on the simulated loop."""
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    root = Path(tempfile.mkdtemp(prefix="oncelog-test-", dir=parent))
    try:
        return run_forked(_run_steps, seed, root, steps)
    finally:
        shutil.rmtree(root)


def _run_steps(seed: int, root: Path, steps: Callable[[SmallWorld], Any]) -> Any:
    world = World(seed)
    seams.replace_clock_and_randomness(world)
    small = SmallWorld(world, SimDisks(world, root), SimDatabase(world, root))
    install_disks(small.disks)
    small.database.install()
    result = steps(small)
    if inspect.iscoroutine(result):
        result = world.loop.run_until_complete(result)
    return result
