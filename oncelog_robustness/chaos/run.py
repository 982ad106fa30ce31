"""One run of chaos: a target, workloads, a plan of faults, healing, the last reads, the verdicts, and the report.

start    everything is up, topics are there
storm    clients work, faults come and go by the plan
heal     nothing is broken any more; clients work on for a while
check    the last reads; then the cluster ends and its files are read
judge    every checker over the history and what was seen inside
"""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.contract import ChaosInjector, Target
from oncelog_robustness.chaos.lab import HISTORY, LabOrder
from oncelog_robustness.chaos.lab_process import LabProcess
from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.chaos.measures import FAULT_PLAN, Lag, Measures, measure
from oncelog_robustness.chaos.part import end_part, start_part
from oncelog_robustness.chaos.plan import HITS_PER_MINUTE, hits_for, name_of, plan_chaos, role_of
from oncelog_robustness.chaos.progress import Progress
from oncelog_robustness.chaos.steady import KIND as STEADY
from oncelog_robustness.checkers.all import judge
from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.fault_plan import PlannedFault
from oncelog_robustness.history import Fault, History
from oncelog_robustness.scenario import Scenario
from oncelog_robustness.workloads.catalog import facts_about

HEALED_S: Final = 5.0
"""The most seconds for which clients work on after healing; a short run has fewer."""
HEALED_S_SHORT: Final = 2.0
LOOK_S: Final = 0.5
WORK_END_TIMEOUT_S: Final = 180.0
CHECK_TIMEOUT_S: Final = 600.0
LAGS: Final = "lags.jsonl"
PULSE: Final = "pulse"


@dataclass(frozen=True, slots=True)
class RunOptions:
    folder: Path
    seed: int
    duration_ms: int
    scenario: Scenario
    libraries: tuple[str, ...]
    replay: str
    """The command that repeats this run."""
    hits_per_minute: float = HITS_PER_MINUTE
    recovery_bar_ms: int = 0
    """The most milliseconds that the 99th percentile of recoveries from kills may take; 0: this is not judged."""
    suffix: str = ""
    """The end of every topic's name, which sets the topics apart from those of earlier runs."""
    prefix: str = ""
    """The beginning of every name of a topic, a group and a transactional id."""
    topic_config: Mapping[str, str] = field(default_factory=dict)
    """The configuration that every topic gets beside what its workload wants."""
    judges_unread: bool = False
    """True if a run is judged also where the last reads could not be made; the report then names that as a limit."""


@dataclass(frozen=True, slots=True)
class RunResult:
    options: RunOptions
    target: str
    history: History
    plan: tuple[PlannedFault, ...]
    verdicts: tuple[Verdict, ...]
    measures: Measures
    wall_s: float
    limits: tuple[str, ...] = ()
    """The things that could not be done or seen, a sentence each."""

    @property
    def is_sound(self) -> bool:
        return all(verdict.answer is not Answer.BROKEN for verdict in self.verdicts)


class ChaosRun:
    """One run of chaos: it starts the target, lets clients work under planned faults, heals, and judges. Call
    `result = await ChaosRun(...).run()` once."""

    def __init__(self, options: RunOptions, target: Target, progress: Progress) -> None:
        self._options = options
        self._target = target
        self._progress = progress
        self._began_s = time.monotonic()
        self._faults: list[Fault] = []
        self._role_locks: dict[str, asyncio.Lock] = {}
        self._limits: list[str] = []
        self._stopping = asyncio.Event()
        self.has_ended = False
        """True when nothing of the run is active any more, and only the judging is left."""

    def now_ms(self) -> int:
        return int((time.monotonic() - self._began_s) * 1000)

    def stop(self) -> None:
        """End the faults now, heal, and judge what was done so far. Call this on the event loop of the
        run."""
        self._stopping.set()

    async def run(self) -> RunResult:
        """Run everything and return the result.
        Raises OncelogError when there is nothing to judge: no target, or workloads that failed."""
        options, progress = self._options, self._progress
        options.folder.mkdir(parents=True, exist_ok=True)
        progress.phase("starting")
        try:
            await self._started()
            progress.show(self._target.limits)
            with LabProcess(self._order(), options.folder / "lab.log") as lab:
                injector = self._target.injector(lab.kill_client)
                try:
                    plan, from_ms, until_ms = await self._storm(lab, injector)
                finally:
                    injector.close()
            progress.phase("reading what processes left")
            observations = await asyncio.to_thread(self._target.observe, self.now_ms())
        finally:
            await asyncio.to_thread(self._target.close)
        self.has_ended = True
        progress.phase("judging")
        history = await asyncio.to_thread(self._read_history)
        judged = await asyncio.to_thread(judge, history, observations)
        roles = self._target.roles
        pulse = history.facts["pulse"]
        measures = measure(history, pulse, from_ms, until_ms, roles, self._read_lags())
        struck = sum(role_of(fault.target) != CLIENTS for fault in plan)
        own = [
            came_back(injector.findings, struck),
            roles_hit(measures, options.duration_ms, options.hits_per_minute),
        ]
        if options.recovery_bar_ms:
            own.append(recovers_in(measures, options.recovery_bar_ms))
        return RunResult(
            options=options,
            target=self._target.name,
            limits=(*self._target.limits, *self._limits),
            history=history,
            plan=tuple(plan),
            verdicts=(*judged, *self._target.verdicts(), *own),
            measures=measures,
            wall_s=time.monotonic() - self._began_s,
        )

    async def _started(self) -> None:
        """Start the target in a thread, and wait for that even when the run is cancelled. A thread cannot be
        interrupted, and a half started target cannot be ended."""
        starting = asyncio.create_task(
            asyncio.to_thread(self._target.start, self._progress.process), name="starting"
        )
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])
            raise

    # ------------------------------------------------------------------------------------------------- the storm

    async def _storm(
        self, lab: LabProcess, injector: ChaosInjector
    ) -> tuple[list[PlannedFault], int, int]:
        """Let clients work while the planned faults come and go, heal, and make the last reads. Return the plan, and
        when the clients' work began and ended, in milliseconds of the run."""
        progress, options = self._progress, self._options
        await lab.event("ready")
        from_ms = self.now_ms()
        draw = random.Random(f"chaos/{options.seed}/faults")
        plan = plan_chaos(
            self._target.members,
            options.duration_ms,
            injector.can,
            draw,
            decks=self._target.decks,
            hits_per_minute=options.hits_per_minute,
        )
        progress.storm_begins()
        progress.phase("storm")
        with self._sampler():
            try:
                async with asyncio.TaskGroup() as group:
                    watching = group.create_task(self._watch(lab, injector))
                    until_ms = await self._strike(plan, from_ms, lab, injector)
                    watching.cancel()
            except ExceptionGroup as errors:
                raise first_of(errors) from errors
        progress.phase("last reads")
        lab.check()
        try:
            await self._within(CHECK_TIMEOUT_S, "the last reads were not done", lab.event("done"))
        except OncelogError as error:
            if not options.judges_unread:
                raise
            last = str(error).strip().splitlines()[-1]
            why = last.partition(": ")[2] or last
            self._limits.append(f"The last reads could not be made: {why}")
        return plan, from_ms, until_ms

    async def _strike(
        self, plan: Sequence[PlannedFault], from_ms: int, lab: LabProcess, injector: ChaosInjector
    ) -> int:
        """Carry out all faults, heal, and end the clients' work. Return when they were told to end. This time, like
        `from_ms` at which the plan begins, is in milliseconds of the run."""
        duration_ms = self._options.duration_ms
        async with asyncio.TaskGroup() as group:
            for fault in plan:
                group.create_task(self._carry_out(fault, from_ms, injector))
            group.create_task(self._pause(duration_ms / 1000))
        self._progress.phase("healing")
        await injector.heal()
        self._progress.phase("after healing")
        await asyncio.sleep(min(HEALED_S, HEALED_S_SHORT + duration_ms / 60_000))
        until_ms = self.now_ms()
        self._progress.phase("clients end")
        lab.end()
        await self._within(WORK_END_TIMEOUT_S, "clients did not end", lab.event("worked"))
        return until_ms

    async def _within(self, timeout_s: float, failure: str, event: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await event
        except TimeoutError as error:
            folder = self._options.folder
            raise OncelogError(f"{failure} within {timeout_s:.0f} s; see {folder}") from error

    async def _carry_out(self, fault: PlannedFault, from_ms: int, injector: ChaosInjector) -> None:
        await self._pause(max(0.0, (from_ms + fault.at_ms - self.now_ms()) / 1000))
        role = role_of(fault.target)
        # The one before may have lasted longer than planned: a process is not killed while it is being started.
        async with self._role_locks.setdefault(role, asyncio.Lock()):
            if self._stopping.is_set():
                return
            invoked_ms = self.now_ms()
            self._progress.fault_begins(name_of(fault), role, f"{fault.kind} {fault.target}")
            try:
                await injector.begin(fault)
                await self._pause(fault.lasts_ms / 1000)
            finally:
                await injector.end(fault)
                self._progress.fault_ends(name_of(fault))
                if name_of(fault) not in injector.missed:
                    self._faults.append(
                        Fault(
                            client=FAULT_PLAN,
                            invoked_ms=invoked_ms,
                            completed_ms=self.now_ms(),
                            kind=fault.kind,
                            target=fault.target,
                            facts=injector.facts.get(name_of(fault), ""),
                        )
                    )

    async def _pause(self, seconds: float) -> None:
        """Wait for this time, or until the run is stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _watch(self, lab: LabProcess, injector: ChaosInjector) -> None:
        while True:
            await injector.look_for_dead()
            lab.fail_if_it_failed()
            self._progress.counted(lab.counts, len(injector.findings))
            await asyncio.sleep(LOOK_S)

    # ------------------------------------------------------------------------------------------------- around it

    def _order(self) -> LabOrder:
        options = self._options
        named = [
            {"name": f"{one['kind']}-{number}", **one}
            for number, one in enumerate(options.scenario.workloads, start=1)
        ]
        workloads = tuple(
            {**one, "name": f"{options.prefix}{one['name']}{options.suffix}"} for one in named
        )
        return LabOrder(
            bootstrap=self._target.bootstrap,
            client_config=self._target.client_config,
            folder=str(options.folder),
            seed=options.seed,
            replicas=self._target.replicas,
            began_s=self._began_s,
            libraries=options.libraries,
            workloads=workloads,
            topic_config=dict(options.topic_config),
            facts={
                "target": self._target.name,
                "seed": str(options.seed),
                "scenario": options.scenario.name,
                "libraries": ", ".join(options.libraries),
                "replay": options.replay,
                "pulse": _pulse_of(workloads),
                **facts_about(workloads),
            },
        )

    @contextlib.contextmanager
    def _sampler(self) -> Any:
        folder = self._options.folder
        with (folder / LAGS).open("wb") as lags:
            process = start_part(
                "oncelog_robustness.chaos.sampler",
                self._target.bootstrap,
                self._target.client_config,
                self._options.prefix,
                log=folder / "sampler.log",
                output=lags,
            )
            try:
                yield
            finally:
                process.kill()
                end_part(process)

    def _read_lags(self) -> list[Lag]:
        found = []
        for line in (self._options.folder / LAGS).read_text().splitlines():
            try:
                sample = json.loads(line)
            except ValueError:
                # The last line is cut if the sampler was killed while it wrote.
                continue
            lags: dict[str, int] = sample["lags"]
            farthest = max(lags, key=lambda name: lags[name])
            at_ms = int((sample["answered_s"] - self._began_s) * 1000)
            found.append(Lag(at_ms, lags[farthest], farthest))
        return found

    def _read_history(self) -> History:
        """Read the clients' history, add the faults to it, and write them to its file too."""
        path = self._options.folder / HISTORY
        with path.open() as lines:
            history = History.from_lines(lines)
        for fault in self._faults:
            history.add(fault)
        with path.open("a") as lines:
            written = History(operations=list(self._faults)).lines()
            next(written)
            for line in written:
                print(line, file=lines)
        return history


def _pulse_of(workloads: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of the workload whose producer never pauses; a run is measured by its commits."""
    return next((str(one["name"]) for one in workloads if one["kind"] == STEADY), PULSE)


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error inside nested exception groups."""
    first = errors.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first


def came_back(findings: Sequence[str], judged: int) -> Verdict:
    """Return the verdict `process-lost`: broken if a process did not come back after a fault, or ended by
    itself. `judged` is the number of faults that did not strike clients."""
    if findings:
        return Verdict("process-lost", Answer.BROKEN, judged, tuple(findings))
    if judged == 0:
        return Verdict("process-lost", Answer.UNKNOWN, 0, ("no process was struck",))
    return Verdict("process-lost", Answer.OK, judged)


def roles_hit(
    measures: Measures, duration_ms: int, hits_per_minute: float = HITS_PER_MINUTE
) -> Verdict:
    """Check that the run's faults hit each role (controller, storage and so on) about as often as planned. Return the
    verdict `role-spared`: UNKNOWN if a role got clearly fewer, since such a run shows little, otherwise OK.
    """
    wanted = {
        one.role: int(hits_for(duration_ms, one.role, hits_per_minute) * 0.9)
        for one in measures.roles
    }
    missed = tuple(
        f"{one.role} was hit {one.hits} times, {wanted[one.role]} were wanted"
        for one in measures.roles
        if one.hits < wanted[one.role]
    )
    answer = Answer.UNKNOWN if missed else Answer.OK
    return Verdict("role-spared", answer, sum(one.hits for one in measures.roles), missed)


def recovers_in(measures: Measures, bar_ms: int) -> Verdict:
    """Return the verdict `slow-recovery`: broken if the 99th percentile of a role's recoveries from kills
    exceeds `bar_ms`. Kills during other lasting faults do not count: a frozen process stays away as long as
    planned."""
    judged = sum(one.kills for one in measures.roles)
    late = tuple(
        f"{one.role}: p99 of {one.kills} kills is {one.kills_p99_ms} ms, the bar is {bar_ms} ms"
        for one in measures.roles
        if one.kills_p99_ms is not None and one.kills_p99_ms > bar_ms
    )
    if late:
        return Verdict("slow-recovery", Answer.BROKEN, judged, late)
    if not judged:
        return Verdict(
            "slow-recovery", Answer.UNKNOWN, 0, ("nothing was killed while no other fault lasted",)
        )
    return Verdict("slow-recovery", Answer.OK, judged)
