"""One run of the simulator: a seed, a scenario, a world; faults, healing, last reads, verdicts.

phase 1  a calm start, and the workloads' setup
phase 2  faults as planned while the workloads work; invariants are watched
phase 3  everything heals; the workloads go on a little, then end what they began, within bounded time
phase 4  last reads, the logs of every replica, and the checkers
"""

import asyncio
import logging
import time
import traceback
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from aiokafka.errors import KafkaError as ClientLibraryError

from oncelog.telemetry import spans
from oncelog.telemetry.recorder import TraceRecorder
from oncelog_robustness.checkers.all import judge
from oncelog_robustness.checkers.verdict import Answer, Verdict
from oncelog_robustness.clients.libraries import LIBRARIES, SIMULATED
from oncelog_robustness.fault_plan import FaultKind, PlannedFault, plan
from oncelog_robustness.history import History, Outcome
from oncelog_robustness.scenario import Scenario
from oncelog_robustness.simulator import seams
from oncelog_robustness.simulator.clocks import SimClocks
from oncelog_robustness.simulator.cluster import Member, SimCluster
from oncelog_robustness.simulator.contracts import Contracts
from oncelog_robustness.simulator.database import SimDatabase
from oncelog_robustness.simulator.disk import SimDisks
from oncelog_robustness.simulator.disk_calls import install_disks
from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.extremes import (
    SCRUB_PAUSE_S,
    draw_controller_settings,
    draw_coordinator_settings,
    draw_listener_settings,
    draw_marker_sender_settings,
    draw_storage_settings,
    extreme_count,
    replace_constants,
    replace_last_epoch,
)
from oncelog_robustness.simulator.grpc_network import install_grpc
from oncelog_robustness.simulator.hands import SimHands
from oncelog_robustness.simulator.injector import SimInjector
from oncelog_robustness.simulator.inspector import Inspector, InvariantBroken
from oncelog_robustness.simulator.kept_versions import older_contracts
from oncelog_robustness.simulator.lab import CONDUCTOR, SimLab, failure_text
from oncelog_robustness.simulator.labels import count_labels
from oncelog_robustness.simulator.network import SimNetwork, drawn_profile
from oncelog_robustness.simulator.process import owner
from oncelog_robustness.simulator.record_tags import install_record_tags
from oncelog_robustness.simulator.tcp import SimTcp, install_tcp
from oncelog_robustness.simulator.upgrades import RollingUpgrade
from oncelog_robustness.simulator.world import World
from oncelog_robustness.workload_facts import SparkBatchEnded, facts_of
from oncelog_robustness.workloads.catalog import facts_about, make_workload
from oncelog_robustness.workloads.contract import Workload

START_TIMEOUT_S: Final = 60.0
_LATE_MS: Final = 10_000
"""The duration, in milliseconds, from which a trace (of spans) counts as late and is therefore recorded. Production has
the same default."""
CALM_MS: Final = 3_000
"""The time after healing in which workloads still work before they are told to end, in milliseconds."""


@dataclass(slots=True)
class RunResult:
    """The result of a run, which crosses a pipe to the process that started it."""

    seed: int
    scenario: str
    digest: str = ""
    verdicts: list[Verdict] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Errors that ended the run before its time, or that are bugs outside the cluster."""
    unfinished: str = ""
    """The reason why the run was killed by its time limit before it had a result; empty if it was not.
    Such a run is neither good nor broken."""
    simulated_s: float = 0.0
    real_s: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    """The numbers of lines of the trace, of faults and of operations, each by kind."""
    labels: dict[str, int] = field(default_factory=dict)
    """The number of the state machines' decisions by label: which branches of them this run reached."""
    history_lines: list[str] = field(default_factory=list)

    @property
    def is_broken(self) -> bool:
        return bool(self.failures) or any(one.answer is Answer.BROKEN for one in self.verdicts)


@dataclass(frozen=True, slots=True)
class RunOptions:
    folder: Path
    """The folder of this run alone; the caller removes it."""
    trace: TextIO | None = None
    log_level: int | None = None
    keeps_history: bool = False


def run_seed(scenario: Scenario, seed: int, options: RunOptions) -> RunResult:
    """Run one seed and return its result. Clock, files and network of this operating system process are
    replaced for ever: call this in a fork that ends afterwards."""
    result = RunResult(seed, scenario.name)
    real_clock = time.perf_counter
    real_began = real_clock()
    world = World(seed, options.trace)
    run: _Run | None = None
    try:
        run = _Run(scenario, world, options, result)
        world.loop.run_until_complete(run.conduct())
    except Exception as error:  # Whatever stops the simulation is the run's result.
        if not result.failures:
            result.failures.append(failure_text("simulation", error))
        if run is not None:
            # The run ended before its time, but the observations until then are evidence all the same.
            run.judge()
    result.digest = world.trace_log.digest
    result.simulated_s = world.loop.time()
    result.real_s = real_clock() - real_began
    return result


class _Run:
    def __init__(
        self, scenario: Scenario, world: World, options: RunOptions, result: RunResult
    ) -> None:
        self.scenario = scenario
        self.result = result
        self.options = options
        self.world = world
        asyncio.set_event_loop(world.loop)
        seams.replace_clock_and_randomness(world)
        seams.replace_what_aiokafka_takes_from_c()
        draw = world.streams.stream("settings")
        # Some runs are calm, some are wild, and the rest in between.
        wildness = max(0.0, 1.4 * draw.random() - 0.2) if scenario.extreme_settings else 0.0
        wildness = min(1.0, wildness) * scenario.extreme_settings
        self.network = SimNetwork(world, drawn_profile(world, wildness))
        install_tcp(self.network)
        install_grpc(self.network)
        world.loop.network = SimTcp(self.network)
        self.disks = SimDisks(world, options.folder)
        install_disks(self.disks)
        self.database = SimDatabase(world, options.folder)
        self.database.install()
        self.clocks = SimClocks(world)
        _set_up_logging(world, options.log_level, result.failures)
        count_labels(result.labels, result.failures)
        if scenario.traces:
            _record_spans(world)
        self._drawn = (
            draw_controller_settings(draw, wildness)
            | draw_storage_settings(draw, wildness)
            | draw_coordinator_settings(draw, wildness)
            | draw_marker_sender_settings(draw, wildness)
            | draw_listener_settings(draw, wildness)
        )
        replace_constants(draw, wildness)
        if scenario.last_epoch is not None:
            replace_last_epoch(draw.randint(*scenario.last_epoch))
        world.effects[Effect.SETTING_EXTREME] += extreme_count(self._drawn)
        self._storm_draw = world.streams.stream("storm")
        self._storm_name, self._storm_drawn = scenario.storm_of(self._storm_draw)
        if FaultKind.POWER_CUT in self._storm_drawn.rates:
            # Otherwise cuts of two nodes may take what both have acknowledged, as in Kafka (ADR 0011).
            self._drawn["ONCELOG_STORAGE_FLUSH_POLICY"] = "always"
        self.history = History(
            facts={
                "seed": str(world.seed),
                "scenario": scenario.name,
                **facts_about(scenario.workloads),
            }
        )
        self.cluster = SimCluster(world, scenario.shape, self._settings_of, self.network.address_of)
        self.lab = SimLab(world, self.history, replicas=min(3, scenario.shape.storage))
        self.injector = SimInjector(
            world, self.cluster, self.network, self.disks, self.database, self.clocks, self.lab
        )
        self.lab.hands = SimHands(world, self.cluster, self.injector, self.lab)
        self.inspector = Inspector(world, self.cluster)
        self.older: Contracts | None = None
        self.upgrade: RollingUpgrade | None = None
        if scenario.upgrade is not None:
            install_record_tags()
            self.older = older_contracts(scenario.upgrade.older, scenario.upgrade.without)
            self.upgrade = RollingUpgrade(world, self.cluster, self.older, scenario.duration_ms)
        self.workloads: list[Workload] = []
        self._conductor = world.new_process(CONDUCTOR)

    # -------------------------------------------------------------------------------------------------- phases

    async def conduct(self) -> None:
        self.inspector.start()
        if self.upgrade is not None:
            self.upgrade.begin()
        async with asyncio.timeout(START_TIMEOUT_S):
            await self.cluster.start()
        self.lab.clients = self._clients()
        self.workloads = [_workload(one) for one in self.scenario.workloads]
        await self._all("setup", START_TIMEOUT_S)
        working = [
            self._as_conductor(workload.start(self.lab), workload.name)
            for workload in self.workloads
        ]
        await self._storm()
        await self._healed()
        # A workload that has ended by now has failed.
        await asyncio.wait(working, timeout=CALM_MS / 1000, return_when=asyncio.FIRST_COMPLETED)
        self.lab.end()
        await self._ended(working)
        await self._settled()
        try:
            await self._all("check", self.scenario.heal_timeout_ms / 1000)
        finally:
            # What the logs say is evidence, also of what made the last reads impossible.
            await self.inspector.finish()
        self.judge()

    async def _storm(self) -> None:
        draw = self._storm_draw
        low, high = self.scenario.intensity
        intensity = draw.uniform(low, high)
        duration_ms = self.scenario.duration_ms
        self.world.trace("storm", self._storm_name, intensity)
        self.result.counts[f"storm {self._storm_name}"] = 1
        faults = plan(self._storm_drawn, duration_ms, intensity, draw)
        began = self.world.loop.time()
        if self.upgrade is not None:
            self.upgrade.roll()
        steps = sorted(
            [(fault.at_ms, 0, index, fault) for index, fault in enumerate(faults)]
            + [
                (fault.at_ms + fault.lasts_ms, 1, index, fault)
                for index, fault in enumerate(faults)
                if fault.at_ms + fault.lasts_ms < duration_ms
            ],
            key=lambda step: step[:3],
        )
        for at_ms, is_end, _, fault in steps:
            await asyncio.sleep(max(0.0, began + at_ms / 1000 - self.world.loop.time()))
            if self.lab.failures:
                return
            if is_end:
                await self.injector.end(fault)
            else:
                self._note(fault)
                await self.injector.begin(fault)
        await asyncio.sleep(max(0.0, began + duration_ms / 1000 - self.world.loop.time()))

    def _note(self, fault: PlannedFault) -> None:
        self._count(f"fault {fault.kind.value}")
        for target in fault.target.split("+"):
            self._count(f"hit {target.rstrip('-0123456789')}")
        self.lab.note_fault(fault)

    async def _healed(self) -> None:
        if self.upgrade is not None:
            self.upgrade.stop()
        await self.injector.heal()
        self.world.trace("healed")
        async with asyncio.timeout(self.scenario.heal_timeout_ms / 1000):
            for name in self.cluster.members:
                await self.cluster.wait_ready(name)

    async def _ended(self, working: list["asyncio.Task[Any]"]) -> None:
        timeout_s = self.scenario.heal_timeout_ms / 1000
        done, pending = await asyncio.wait(working, timeout=timeout_s)
        for task in pending:
            self.result.failures.append(
                f"{task.get_name()}: did not end within {timeout_s:.0f} s after healing\n"
                + "".join(
                    line for frame in task.get_stack() for line in traceback.format_stack(frame)
                )
            )
        for task in done:
            error = task.exception()
            if error is not None:
                self.result.failures.append(failure_text(task.get_name(), error))

    async def _settled(self) -> None:
        """Wait until the cluster itself has decided every transaction and written every marker."""
        if FaultKind.BIT_FLIP in self._storm_drawn.rates:
            # Nothing shows that a bit has turned over; the scrub's next rounds find it.
            await asyncio.sleep(3 * SCRUB_PAUSE_S)
        give_up_at = self.world.loop.time() + self.scenario.heal_timeout_ms / 1000
        while (unsettled := self.inspector.unsettled()) is not None:
            if self.world.loop.time() >= give_up_at:
                self.result.failures.append(f"stuck after healing: {unsettled}")
                return
            await asyncio.sleep(0.25)

    async def _all(self, what: str, timeout_s: float) -> None:
        """Call one method (`what`: setup or check) of every workload, one after the other, each within
        `timeout_s` seconds."""
        for workload in self.workloads:
            async with asyncio.timeout(timeout_s):
                step: Coroutine[Any, Any, None] = getattr(workload, what)(self.lab)
                await self._as_conductor(step, f"{workload.name} {what}")

    def _as_conductor(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[Any]":
        return self._conductor.spawn(work, name)

    def judge(self) -> None:
        """Run every checker over the history and the inspector's observations, and put verdicts, failures and
        counts into the result."""
        result = self.result
        result.failures += self.lab.failures
        result.verdicts = judge(self.history, self.inspector.observations)
        for operation in self.history.operations:
            kind = type(operation).__name__
            outcome = getattr(operation, "outcome", None)
            self._count(f"operation {kind}" + (f" {outcome.value}" if outcome is not None else ""))
            if outcome is Outcome.OK:
                for workload in self.workloads:
                    if operation.client.startswith(f"{workload.name}-"):
                        self._count(f"work {workload.name}")
        for _, ended in facts_of(self.history, SparkBatchEnded):
            if ended.was is Outcome.OK:
                self._count(f"work {ended.sink}")
        for effect, times in self.world.effects.items():
            self._count(f"effect {effect.value}", times)
        if self.older is not None:
            self._count("older messages", self.older.messages)
            self._count("older messages-cut", self.older.messages_cut)
            self._count("older records-cut", self.older.records_cut)
        result.counts["restarts by itself"] = self.cluster.restarts_by_itself
        if self.options.keeps_history:
            result.history_lines = list(self.history.lines())

    def _count(self, key: str, times: int = 1) -> None:
        self.result.counts[key] = self.result.counts.get(key, 0) + times

    # ----------------------------------------------------------------------------------------------- the parts

    def _clients(self) -> list[Any]:
        return [LIBRARIES[name](self.cluster.bootstrap) for name in SIMULATED]

    def _settings_of(self, member: Member) -> dict[str, str]:
        shape = self.scenario.shape
        settings = {
            "ONCELOG_CONTROLLER_DATABASE_URL": self.database.url,
            "ONCELOG_CONTROLLER_BOOTSTRAP_STORAGE_NODES": str(min(3, shape.storage)),
        }
        if member.role == "storage":
            settings["ONCELOG_STORAGE_DATA_DIR"] = str(self.disks.folder(member.name))
        return settings | self._drawn | self.scenario.settings


def _record_spans(world: World) -> None:
    """Make all processes record trace spans. Traces then stand in messages and records; the spans are not
    exported."""
    clock = world.loop.time
    recorder = TraceRecorder(lambda _: None, 1.0, late_ms=_LATE_MS, monotonic_s=clock)
    seams.replace(spans, "recorder", recorder)


def _workload(parameters: Mapping[str, Any]) -> Workload:
    """Make a workload from its table in a scenario: a `kind`, perhaps a `name`, and the parameters of that
    kind."""
    given = dict(parameters)
    kind = str(given.pop("kind"))
    return make_workload(kind, str(given.pop("name", kind)), given)


def _set_up_logging(world: World, level: int | None, failures: list[str]) -> None:
    """Set up logging so that a bug fails the run even when production code catches and logs it: its text is added to
    `failures`. `level` is the least level that is printed; None: nothing is."""

    def where() -> str:
        process = owner()
        return "world" if process is None else process.name

    class Bugs(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = None if record.exc_info is None else record.exc_info[1]
            if record.name.startswith("aiokafka"):
                # Other people's clients log what they could not do; the history has the result.
                return
            if error is not None and not isinstance(error, OSError):
                failures.append(failure_text(f"{where()}: {record.getMessage()}", error))

    class Line(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            text = super().format(record)
            return f"{world.loop.time():10.4f} {where():<16} {record.levelname:<7} {record.name}: {text}"

    def unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, ClientLibraryError):
            failures.append(failure_text(f"{where()}: {context['message']}", error))
        if isinstance(error, InvariantBroken):
            # A replay is to end where it broke.
            world.loop.stop()

    world.loop.set_exception_handler(unhandled)
    bugs = Bugs(logging.ERROR)
    handlers: list[logging.Handler] = [bugs]
    if level is not None:
        shown = logging.StreamHandler()
        shown.setFormatter(Line())
        handlers.append(shown)
    logging.basicConfig(
        level=logging.ERROR if level is None else level, handlers=handlers, force=True
    )
