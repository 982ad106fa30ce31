"""A whole simulated cluster with a network, disks and a database, in a forked child: for tests that need one."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from oncelog_robustness.scenario import Shape
from oncelog_robustness.simulator import seams
from oncelog_robustness.simulator.cluster import SimCluster
from oncelog_robustness.simulator.database import SimDatabase
from oncelog_robustness.simulator.disk import SimDisks
from oncelog_robustness.simulator.disk_calls import install_disks
from oncelog_robustness.simulator.grpc_network import install_grpc
from oncelog_robustness.simulator.network import SimNetwork
from oncelog_robustness.simulator.tcp import SimTcp, install_tcp
from oncelog_robustness.simulator.world import World
from tests.simulation.forked import run_forked
from tests.simulation.small_world import SHARED_MEMORY


class SmallCluster:
    """One process of each role, and `storage_count` storage nodes."""

    def __init__(self, root, seed, storage_count=1):
        self.world = world = World(seed)
        asyncio.set_event_loop(world.loop)
        seams.replace_clock_and_randomness(world)
        seams.replace_what_aiokafka_takes_from_c()
        self.network = SimNetwork(world)
        world.loop.network = SimTcp(self.network)
        install_tcp(self.network)
        install_grpc(self.network)
        self.disks, self.database = SimDisks(world, root), SimDatabase(world, root)
        install_disks(self.disks)
        self.database.install()
        shape = Shape(
            controllers=1, storage=storage_count, coordinators=1, marker_senders=1, listeners=1
        )
        self.cluster = SimCluster(world, shape, self.settings_of, self.network.address_of)

    def settings_of(self, member):
        """A subclass may say more."""
        settings = {"ONCELOG_CONTROLLER_DATABASE_URL": self.database.url}
        if member.role == "storage":
            settings["ONCELOG_STORAGE_DATA_DIR"] = str(self.disks.folder(member.name))
        return settings


def result_of(function, *arguments):
    """What `function(root, *arguments)` returns, in a child of its own. Its folder has the same name each time: nodes
    tell their folders to the controller, and two runs are the same only if those are."""
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    root = parent / f"oncelog-test-{os.getpid()}"
    root.mkdir()
    try:
        return run_forked(function, root, *arguments)
    finally:
        shutil.rmtree(root)
