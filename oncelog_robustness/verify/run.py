"""One run of `oncelog verify`: look at the cluster, let clients work under faults, clean up, judge, report."""

import asyncio
import os
import secrets
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_robustness.arguments import SEED_MAX
from oncelog_robustness.chaos.measures import Tried
from oncelog_robustness.chaos.progress import Progress
from oncelog_robustness.chaos.run import ChaosRun, RunOptions, RunResult
from oncelog_robustness.chaos.steady import KIND as STEADY
from oncelog_robustness.chaos.steady import SteadyParameters
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.clients.java_process import forget
from oncelog_robustness.clients.login import choose_login
from oncelog_robustness.scenario import Scenario, load_scenario
from oncelog_robustness.verify.cleaning import clean, prefix_of
from oncelog_robustness.verify.cluster import Found, installed, look
from oncelog_robustness.verify.drivers import Faults
from oncelog_robustness.verify.faults import Driver
from oncelog_robustness.verify.histories import keep_history
from oncelog_robustness.verify.judging import judged
from oncelog_robustness.verify.report import About, content_of, show, write_report
from oncelog_robustness.verify.target import VerifyTarget
from oncelog_robustness.workloads.catalog import KINDS
from oncelog_server.cli.client_config import read_client_config

SCENARIO: Final = Path(__file__).parent / "scenario.toml"
STOPS: Final = (
    "Ctrl-C: brokers are healed, the last reads are made, then comes the verdict; a second one ends "
    "it at once"
)


class Stopped(Exception):
    """A second Ctrl-C stopped the run. The message says what is left in the cluster."""


@dataclass(frozen=True, slots=True)
class Order:
    bootstrap: Sequence[str]
    client_config: str
    run: str
    folder: Path
    lasts_s: float
    fault_every_s: float
    libraries: tuple[str, ...]
    java_classpath: str
    """The jars of Kafka's Java client; empty: those of KAFKA_HOME."""
    seed: int
    """The seed of the run; 0: one is drawn."""

    @property
    def prefix(self) -> str:
        return prefix_of(self.run)

    @property
    def address(self) -> str:
        return ",".join(self.bootstrap)


def verify_cluster(order: Order, faults: Faults, console: Console) -> int:
    """Run the whole verification of a cluster, write the report, and return the exit code. Raises OncelogError when the
    run cannot begin, Stopped at a second Ctrl-C."""
    choose_login(read_client_config(order.client_config).login)
    try:
        return _verify(order, faults, console)
    finally:
        forget()


def _verify(order: Order, faults: Faults, console: Console) -> int:
    driver = faults.driver(order.folder)
    found, missing = _looked(order, console)
    limits = (*missing, *found.left_out)
    target = VerifyTarget(
        order.bootstrap, order.client_config, found, order.prefix, driver, _goes_by(order)
    )
    _begin(console, order, found, driver, limits)
    with Progress(console, int(order.lasts_s * 1000), target.roles) as progress:
        run = ChaosRun(_run_options(order, found), target, progress)
        result = None
        try:
            result, is_stopped = asyncio.run(_stoppable(run, target, order, console))
        except asyncio.CancelledError:
            left = f"topics and groups that begin with {order.prefix} are left"
            raise Stopped(f"{left}; {_goes_by(order)}") from None
        except OncelogError as error:
            failure = error
    if result is None:
        console.print(f"no verdict: {failure}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"logs: {order.folder}; {target.cleaned}", highlight=False, soft_wrap=True)
        return 1
    about = _about(order, result, limits, target.cleaned, is_stopped=is_stopped)
    judgement = judged(result.history, result.verdicts)
    content = content_of(judgement, Tried.of(result.history), result.measures, about)
    show(Console(), content, write_report(order.folder, content, result.measures))
    return 0 if judgement.answer is Answer.OK else 1


def _looked(order: Order, console: Console) -> tuple[Found, tuple[str, ...]]:
    """Look at the cluster before the run. Return what was found, and a sentence for each client library that is not
    installed. If this raises, the probe topic and group are deleted first."""
    wanted, missing = installed(order.libraries, order.java_classpath)
    if not wanted:
        raise OncelogError(". ".join(missing))

    def say(step: str) -> None:
        console.print(step, style="dim", markup=False, highlight=False)

    try:
        return asyncio.run(look(order.bootstrap, order.prefix, wanted, say)), missing
    except BaseException:
        _clean_quietly(order)
        raise


def _clean_quietly(order: Order) -> None:
    """Delete the run's topics and groups. An error of that is ignored: the caller raises an earlier one, which says
    more."""
    try:
        asyncio.run(clean(order.bootstrap, order.prefix))
    except OncelogError:
        return


def _begin(
    console: Console, order: Order, found: Found, driver: Driver | None, limits: Sequence[str]
) -> None:
    whom = counted(len(driver.names), driver.role) if driver else "no broker"
    for line in (
        f"run {order.run}: {counted(found.brokers, 'broker')}, {counted(found.replicas, 'replica')}, "
        f"clients: {', '.join(found.libraries)}; every {order.fault_every_s:g} s a fault of {whom} and of our clients",
        *limits,
        STOPS,
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _run_options(order: Order, found: Found) -> RunOptions:
    kinds = {name: one.parameters for name, one in KINDS.items() if not one.is_simulated_only}
    return RunOptions(
        folder=order.folder,
        seed=order.seed or secrets.randbelow(SEED_MAX) + 1,
        duration_ms=int(order.lasts_s * 1000),
        scenario=_with_all(
            load_scenario(str(SCENARIO), {**kinds, STEADY: SteadyParameters}), found.libraries
        ),
        libraries=found.libraries,
        replay=f"oncelog verify {order.address}",
        hits_per_minute=60 / order.fault_every_s,
        prefix=order.prefix,
        topic_config=found.topic_config,
        judges_unread=True,
    )


def _with_all(scenario: Scenario, libraries: Sequence[str]) -> Scenario:
    """Return the scenario with enough writers in each workload that every client library has one."""
    workloads = tuple(
        {**one, "writers": max(one["writers"], len(libraries))} if "writers" in one else one
        for one in scenario.workloads
    )
    return scenario.model_copy(update={"workloads": workloads})


async def _stoppable(
    run: ChaosRun, target: VerifyTarget, order: Order, console: Console
) -> tuple[RunResult, bool]:
    """Do the run, so that a Ctrl-C ends it early. Return its result, and whether that happened."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    signals = 0

    def interrupted() -> None:
        nonlocal signals
        signals += 1
        if signals == 1 and not run.has_ended:
            run.stop()
            console.print(STOPS, markup=False, highlight=False, soft_wrap=True)
        elif run.has_ended:
            # A thread judges, and nothing else runs any more.
            os._exit(130)
        else:
            target.is_hurried = True
            task.cancel()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    return await run.run(), signals > 0


def _goes_by(order: Order) -> str:
    config = f" --config {shlex.quote(order.client_config)}" if order.client_config else ""
    return f"they go by oncelog verify {order.address}{config} --clean {order.run}"


def _about(
    order: Order, result: RunResult, limits: Sequence[str], cleaned: str, *, is_stopped: bool
) -> About:
    failed = [
        sentence
        for verdict in result.verdicts
        if verdict.checker == "process-lost" and verdict.answer is Answer.BROKEN
        for sentence in verdict.proof
    ]
    kept = keep_history(order.folder)
    return About(
        target=result.target,
        run=order.run,
        clients=result.options.libraries,
        limits=(*dict.fromkeys((*limits, *result.limits)), *failed),
        again=f"oncelog verify --history {shlex.quote(str(kept))}",
        is_stopped=is_stopped,
        cleaned=cleaned,
    )
