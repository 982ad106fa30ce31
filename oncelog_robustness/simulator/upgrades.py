"""A rolling upgrade, or a rollback, while everything else goes on: processes end in order and come back as those of
the other version (docs/upgrades.md).

The seed draws its course: which of the two it is, how long each process rests, and whether somebody changes their
mind half-way. It also draws whether all roles go at the same time, as under `helm upgrade`, or one process of any
role after another. When faults end, the upgrade stops where it is: the rest of the run has both versions.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from oncelog_robustness.scenario import ROLES
from oncelog_robustness.simulator.cluster import SimCluster
from oncelog_robustness.simulator.contracts import Contracts
from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.world import World

_ROLLBACK_SHARE: Final = 0.4
_ROLE_BY_ROLE_SHARE: Final = 0.5
_TURNS_SHARE: Final = 0.4
_BEGINS_WITHIN: Final = 0.3
"""The share of the storm's time within which the upgrade begins."""
_REST_MAX_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class RollPlan:
    begins_older: bool
    after_s: float
    """The time in the storm at which the upgrade begins, in seconds."""
    lanes: tuple[tuple[str, ...], ...]
    """The processes in the order in which they are replaced: lanes go side by side, and within a lane one
    process follows another."""
    rest_s: float
    turns_after: int | None
    """The number of replaced processes after which somebody has them put back; None: nobody does."""

    @classmethod
    def drawn(cls, draw: random.Random, names: Mapping[str, Sequence[str]], storm_s: float) -> Self:
        """Draw the course of a rolling upgrade or rollback. `names` has the processes of each role, `storm_s`
        the seconds for which faults go on."""
        every = [name for role in ROLES for name in names[role]]
        begins_older = draw.random() >= _ROLLBACK_SHARE
        after_s = draw.uniform(0, _BEGINS_WITHIN * storm_s)
        rest_s = draw.uniform(0, _REST_MAX_S)
        turns_after = draw.randint(1, len(every)) if draw.random() < _TURNS_SHARE else None
        if draw.random() < _ROLE_BY_ROLE_SHARE:
            lanes = tuple(tuple(names[role]) for role in ROLES)
        else:
            lanes = (tuple(draw.sample(every, len(every))),)
        return cls(begins_older, after_s, lanes, rest_s, turns_after)


class RollingUpgrade:
    """Replaces the processes of a cluster by those of another version while the run goes on, and sometimes
    back. Call `begin` before the cluster starts, `roll` when faults begin, `stop` when everything must
    heal."""

    def __init__(self, world: World, cluster: SimCluster, older: Contracts, storm_ms: int) -> None:
        self._world = world
        self._cluster = cluster
        self._older = older
        names = {role: cluster.names(role) for role in ROLES}
        draw = world.streams.stream("upgrade")
        self.plan = RollPlan.drawn(draw, names, storm_ms / 1000)
        self._replaced: list[list[str]] = [[] for _ in self.plan.lanes]
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        plan = self.plan
        self._world.trace("upgrade", "rollback" if not plan.begins_older else "forward", plan.lanes)
        if plan.begins_older:
            self._cluster.contracts.update(dict.fromkeys(self._cluster.members, self._older))

    def roll(self) -> None:
        self._task = self._world.loop.create_task(
            self._roll(), name="rolling upgrade", context=self._world.own_context
        )
        self._task.add_done_callback(lambda task: task.cancelled() or task.result())

    def stop(self) -> None:
        """Stop the upgrade. A process that it was about to start is then started by the healing of the run."""
        if self._task is not None:
            self._task.cancel()

    async def _roll(self) -> None:
        plan = self.plan
        await asyncio.sleep(plan.after_s)
        async with asyncio.TaskGroup() as group:
            for lane, replaced in zip(plan.lanes, self._replaced, strict=True):
                group.create_task(self._forth(lane, replaced))
        if not self._has_turned:
            return
        self._world.trace("upgrade-turns")
        async with asyncio.TaskGroup() as group:
            for replaced in self._replaced:
                group.create_task(self._back(replaced))

    @property
    def _has_turned(self) -> bool:
        turns_after = self.plan.turns_after
        return turns_after is not None and sum(map(len, self._replaced)) >= turns_after

    async def _forth(self, lane: Sequence[str], replaced: list[str]) -> None:
        for name in lane:
            if self._has_turned:
                return
            await self._replace(name, is_older=not self.plan.begins_older)
            replaced.append(name)
            await asyncio.sleep(self.plan.rest_s)

    async def _back(self, replaced: Sequence[str]) -> None:
        for name in reversed(replaced):
            await self._replace(name, is_older=self.plan.begins_older)
            await asyncio.sleep(self.plan.rest_s)

    async def _replace(self, name: str, *, is_older: bool) -> None:
        # This comes before the end: every start from now on is of the other version, as with a pod's image.
        self._world.trace("replace", name, self._older.name if is_older else "this")
        if is_older:
            self._cluster.contracts[name] = self._older
        else:
            self._cluster.contracts.pop(name, None)
        await self._cluster.terminate(name)
        self._cluster.launch(name)
        await self._cluster.wait_ready(name)
        self._world.effects[Effect.VERSION_CHANGED] += 1
