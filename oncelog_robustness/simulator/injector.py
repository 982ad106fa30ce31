"""The fault injector of the simulator: it carries out the planned faults of a run on the simulated
cluster."""

import asyncio
from collections.abc import Callable
from typing import Final

from oncelog_robustness.fault_plan import FaultKind, PlannedFault
from oncelog_robustness.simulator.clocks import SimClocks
from oncelog_robustness.simulator.cluster import SimCluster
from oncelog_robustness.simulator.database import SimDatabase
from oncelog_robustness.simulator.disk import SimDisks
from oncelog_robustness.simulator.effects import UNDOABLE_HERE, Effect
from oncelog_robustness.simulator.lab import SimLab
from oncelog_robustness.simulator.moves import Mover
from oncelog_robustness.simulator.network import SimNetwork
from oncelog_robustness.simulator.operators import Operator
from oncelog_robustness.simulator.world import World

_DONE_AT_ONCE: Final = frozenset({FaultKind.RESET, FaultKind.GHOST, FaultKind.BIT_FLIP})
_DELAY_MAX_S: Final = 0.4
_FSYNC_MAX_S: Final = 1.5
_KILLED_IN_STEP: Final = 0.6
_STEPS_MAX: Final = 10
_STEP_COMES_WITHIN_S: Final = 0.5


class SimInjector:
    """Begins, ends and heals the planned faults of a simulated run: kills, power cuts, partitions, bad disks,
    wrong clocks. It cannot do faults of Redis and of machines, which no simulated cluster has."""

    def __init__(
        self,
        world: World,
        cluster: SimCluster,
        network: SimNetwork,
        disks: SimDisks,
        database: SimDatabase,
        clocks: SimClocks,
        lab: SimLab,
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._network = network
        self._disks = disks
        self._database = database
        self._clocks = clocks
        self._lab = lab
        self._mover = Mover(world, cluster, network)
        self.operator = Operator(world, cluster, network)
        self._undo: dict[PlannedFault, Callable[[], object]] = {}
        self._restarts: set[asyncio.Task[None]] = set()
        self._draw = world.streams.stream("hands")

    def can(self, kind: FaultKind) -> bool:
        return kind not in UNDOABLE_HERE

    async def begin(self, fault: PlannedFault) -> None:
        self._world.trace("fault", fault.kind.value, fault.target, fault.lasts_ms)
        undo = self._begin(fault)
        if undo is not None:
            self._undo[fault] = undo

    async def end(self, fault: PlannedFault) -> None:
        undo = self._undo.pop(fault, None)
        if undo is not None:
            self._world.trace("fault-ends", fault.kind.value, fault.target)
            undo()

    async def heal(self) -> None:
        for undo in list(self._undo.values()):
            undo()
        self._undo.clear()
        self._network.heal_all()
        for name in self._cluster.members:
            self._disks.heal(name)
            self._clocks.heal(name)
        self._database.heal()
        for restart in list(self._restarts):
            restart.cancel()
        for name in self._cluster.members:
            self._cluster.resume(name)
            self._cluster.launch(name)

    # -------------------------------------------------------------------------------------------------- faults

    def _begin(self, fault: PlannedFault) -> Callable[[], object] | None:
        """Begin the fault and return the function that undoes it; None when there is nothing to undo."""
        match fault.kind:
            case FaultKind.KILL | FaultKind.POWER_CUT | FaultKind.KILL_ALL:
                return self._kill(fault)
            case FaultKind.PAUSE:
                self._cluster.pause(fault.target)
                return lambda: self._cluster.resume(fault.target)
            case FaultKind.RESTART | FaultKind.ROLLING_RESTART:
                self._restart(fault)
                return None
            case FaultKind.CLIENT_KILL:
                self._kill_client()
                return None
            case FaultKind.MOVE:
                self._mover.move(self._draw)
                return None
            case FaultKind.OPERATE:
                return self.operator.operate(self._draw)
            case FaultKind.SLOW_DISK | FaultKind.DISK_FULL | FaultKind.BIT_FLIP:
                return self._harm_disk(fault)
            case FaultKind.CLOCK_SKEW | FaultKind.CLOCK_JUMP:
                return self._harm_clock(fault)
            case FaultKind.DATABASE_OUTAGE:
                return self._harm_database(fault)
            case FaultKind.REDIS_OUTAGE | FaultKind.MACHINE_DRAIN | FaultKind.MACHINE_LOST:
                raise AssertionError(f"under simulation nothing has a {fault.kind}")
            case _:
                return self._harm_network(fault)

    def _kill(self, fault: PlannedFault) -> Callable[[], object]:
        names = self._targets(fault)
        unplugged: list[Callable[[], None]] = []
        for name in names:
            if fault.kind is FaultKind.KILL and fault.strength > _KILLED_IN_STEP:
                # The process dies during its next change of the disk, or at the latest in a moment.
                self._disks.crash_after(
                    self._cluster.process(name), self._draw.randrange(_STEPS_MAX)
                )
                self._world.loop.call_later(
                    _STEP_COMES_WITHIN_S, self._kill_unless_over, name, fault
                )
                continue
            if fault.kind is FaultKind.POWER_CUT:
                # The host is unplugged before its process ends, so that no peer learns of the end.
                unplugged.append(self._network.unplug(name))
            self._cluster.kill(name)
            if fault.kind is FaultKind.POWER_CUT:
                self._disks.power_cut(name)

        def start_again() -> None:
            for undo in unplugged:
                undo()
            for name in names:
                self._disks.disarm(self._cluster.process(name))
                self._cluster.launch(name)

        return start_again

    def _kill_unless_over(self, name: str, fault: PlannedFault) -> None:
        if fault in self._undo:
            self._cluster.kill(name)

    def _restart(self, fault: PlannedFault) -> None:
        task = self._world.loop.create_task(
            self._restart_each(self._targets(fault)), context=self._world.own_context
        )
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    async def _restart_each(self, names: list[str]) -> None:
        for name in names:
            await self._cluster.terminate(name)
            self._cluster.launch(name)
            await self._cluster.wait_ready(name)

    def _kill_client(self) -> None:
        living = self._lab.living()
        if living:
            self._draw.choice(living).kill()
            self._world.effects[Effect.CLIENT_KILLED] += 1

    def _harm_disk(self, fault: PlannedFault) -> Callable[[], object] | None:
        if fault.kind is FaultKind.BIT_FLIP:
            self._disks.flip_bit(fault.target)
            return None
        if fault.kind is FaultKind.DISK_FULL:
            self._disks.fill(fault.target)
        else:
            self._disks.slow(fault.target, fault.strength * _FSYNC_MAX_S)
        return lambda: self._disks.heal(fault.target)

    def _harm_database(self, fault: PlannedFault) -> Callable[[], object]:
        """Begin an outage of the metadata database for one controller or for all, and return the function
        that ends it. For one controller, the answer to one of its calls is lost, too."""
        host = fault.target if fault.target in self._cluster.members else ""
        if host:
            self._database.lose_answers(host)
        self._database.begin_outage(host, is_silent=fault.strength > 0.5)
        return lambda: self._database.end_outage(host)

    def _harm_clock(self, fault: PlannedFault) -> Callable[[], object]:
        wrong_by_ms = self._clocks.draw_ms(fault.strength)
        if fault.kind is FaultKind.CLOCK_JUMP:
            self._clocks.jump(fault.target, wrong_by_ms)
        else:
            self._clocks.skew(fault.target, wrong_by_ms)
        return lambda: self._clocks.heal(fault.target)

    def _harm_network(self, fault: PlannedFault) -> Callable[[], object] | None:
        network, target = self._network, fault.target
        match fault.kind:
            case FaultKind.RESET:
                network.reset(target)
                return None
            case FaultKind.GHOST:
                # The longer it gathers, the more is on its way when the connections break.
                network.ghost(target, 0.05 + fault.strength, 0.2 + 4 * fault.strength)
                return None
            case FaultKind.DELAY:
                added_s = fault.strength * _DELAY_MAX_S
                return network.delay(target, added_s, added_s)
            case FaultKind.CLOG:
                return network.clog(target)
            case FaultKind.PARTITION_PAIR:
                left, _, right = target.partition("+")
                return network.partition([left], [right])
        others = [name for name in self._cluster.members if name != target]
        clients = self._lab.hosts()
        return network.partition(
            [target], others + clients, one_way=fault.kind is FaultKind.PARTITION_ONE_WAY
        )

    def _targets(self, fault: PlannedFault) -> list[str]:
        if fault.kind in (FaultKind.KILL_ALL, FaultKind.ROLLING_RESTART):
            return self._cluster.names(fault.target)
        return [fault.target]
