"""`oncelog chaos`, `python -m oncelog_robustness.chaos`: break processes or pods, or watch any Kafka; judge it.

    python -m oncelog_robustness.chaos --minutes 10 --seed 7
    oncelog chaos --kubernetes --namespace shop --release oncelog

A cluster of processes needs the extra `server`, one of pods the extra `chaos`.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.contract import Target
from oncelog_robustness.chaos.folder import folder_of_run
from oncelog_robustness.chaos.options import (
    KEEP_MOST,
    MINUTES_LEAST,
    MINUTES_MOST,
    PACE_DEFAULT,
    PACE_LEAST,
    PACE_MOST,
    RECOVERY_BAR_MOST,
    Bootstrap,
    ClientConfig,
    Context,
    Folder,
    InContainers,
    Keep,
    Library,
    Minutes,
    Namespace,
    OnKubernetes,
    Only,
    OnMachines,
    Pace,
    RecoveryBar,
    Release,
    ScenarioName,
    Secure,
    Seed,
    ToolsImage,
    kinds_of,
    libraries_of,
    number_of,
    seed_of,
)
from oncelog_robustness.chaos.progress import Progress
from oncelog_robustness.chaos.report import write_report
from oncelog_robustness.chaos.run import ChaosRun, RunOptions, RunResult
from oncelog_robustness.chaos.steady import KIND as STEADY
from oncelog_robustness.chaos.steady import SteadyParameters
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.clients.libraries import CHOSEN_IN_CHAOS
from oncelog_robustness.fault_plan import FaultKind
from oncelog_robustness.scenario import Scenario, load_scenario
from oncelog_robustness.workloads.catalog import KINDS
from oncelog_server.cluster.plan import ClusterShape

DEFAULT_SCENARIO: Final = Path(__file__).parent / "default.toml"
COLOURS: Final = {Answer.OK: "green", Answer.BROKEN: "bold red", Answer.UNKNOWN: "yellow"}
PROOFS_SHOWN: Final = 3

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def main(
    minutes: Minutes = "10",
    seed: Seed = "0",
    bootstrap: Bootstrap = "",
    config: ClientConfig = "",
    secure: Secure = False,
    scenario: ScenarioName = str(DEFAULT_SCENARIO),
    folder: Folder = None,
    library: Library = None,
    containers: InContainers = False,
    only: Only = None,
    kubernetes: OnKubernetes = False,
    machines: OnMachines = False,
    namespace: Namespace = "",
    release: Release = "oncelog",
    context: Context = "",
    tools_image: ToolsImage = "",
    pace: Pace = PACE_DEFAULT,
    recovery_bar: RecoveryBar = "0",
    keep: Keep = "0",
) -> None:
    """Workloads under a seeded plan of faults, judged by the checkers of the simulator.

    Exit code 0: nothing is broken. 1: something is, or nothing could be judged. 2: it could not begin.
    """
    console = Console(stderr=True)
    # SIGTERM, such as a job's timeout sends, takes the cluster down as Ctrl-C does. A shell's background process would
    # ignore SIGINT without a handler.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with contextlib.ExitStack() as stack:
        try:
            given_minutes = number_of("--minutes", minutes, MINUTES_LEAST, MINUTES_MOST)
            chosen_seed = seed_of(seed) or secrets.randbelow(1_000_000) + 1
            hits_per_minute = number_of("--pace", pace, PACE_LEAST, PACE_MOST)
            bar_s = number_of("--recovery-bar", recovery_bar, 0, RECOVERY_BAR_MOST)
            keep_s = number_of("--keep", keep, 0, KEEP_MOST)
            libraries = libraries_of(library)
            chosen = _scenario(scenario)
            kinds = kinds_of(only)
            _refuse_both(containers, kubernetes, bootstrap, kinds)
            _refuse_login(config, secure, is_there=bool(bootstrap) or kubernetes, is_own=containers)
            made = stack.enter_context(_made(folder, chosen_seed)).absolute()
            if containers:
                target, arguments = _of_containers(kinds, chosen)
            elif kubernetes:
                place = Place(namespace, release, context, bootstrap, config, tools_image, machines)
                target, arguments = place.target(), place.arguments
            else:
                target, arguments = _target(made, bootstrap, config, chosen, is_secure=secure)
        except OncelogError as error:
            _say(console, "cannot begin", error)
            raise typer.Exit(2) from error
        options = RunOptions(
            folder=made,
            seed=chosen_seed,
            duration_ms=int(given_minutes * 60_000),
            scenario=chosen,
            libraries=libraries,
            replay=_replay(given_minutes, chosen_seed, arguments, scenario, pace),
            hits_per_minute=hits_per_minute,
            recovery_bar_ms=int(bar_s * 1000),
            suffix=f"-{int(time.time())}" if bootstrap or kubernetes else "",
        )
        result = _run(options, target, console)
    if result is None:
        raise typer.Exit(2)
    show_result(Console(), result, write_report(result))
    _stay(keep_s, made)
    raise typer.Exit(0 if result.is_sound else 1)


def _refuse_both(
    containers: bool, kubernetes: bool, bootstrap: str, kinds: Sequence[FaultKind]
) -> None:
    """Raise OncelogError for options that contradict each other. `kinds` are those of `--only`."""
    if containers and (kubernetes or bootstrap):
        raise OncelogError(
            "--containers starts its own cluster: give neither --kubernetes nor --bootstrap with it"
        )
    if kinds and not containers:
        raise OncelogError("--only is for --containers")


def _run(options: RunOptions, target: Target, console: Console) -> RunResult | None:
    """Do one run of chaos and return its result, or print why there is no verdict and return None."""
    with Progress(console, options.duration_ms, target.roles) as progress:
        try:
            return asyncio.run(ChaosRun(options, target, progress).run())
        except OncelogError as error:
            failure = error
    _say(console, "no verdict", failure)
    if any(options.folder.iterdir()):
        console.print(f"logs: {options.folder}", highlight=False, soft_wrap=True)
    return None


def _stay(seconds: float, folder: Path) -> None:
    """Sleep for `seconds` so that the report can be copied: a pod's files can be read only while it runs."""
    if seconds:
        message = (
            f"{folder} stays for {seconds:g} s: kubectl cp {socket.gethostname()}:{folder} chaos"
        )
        print(message, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(seconds)


def _say(console: Console, what: str, error: OncelogError) -> None:
    # Brackets in the error are a table of a file or a list, and not a colour.
    text = f"[bold red]{what}:[/] {escape(str(error))}"
    console.print(text, highlight=False, soft_wrap=True)


def _scenario(name_or_path: str) -> Scenario:
    """Load a scenario by its name or path. Here its workloads may also be of the kind `steady`, which the
    simulator does not have. Raises OncelogError for a scenario that cannot be played here."""
    kinds = {name: one.parameters for name, one in KINDS.items() if not one.is_simulated_only}
    scenario = load_scenario(name_or_path, {**kinds, STEADY: SteadyParameters})
    if scenario.upgrade is not None:
        raise OncelogError(
            f"{name_or_path}: [upgrade] is of the simulator, and nothing here is of another version: take it out"
        )
    for workload in scenario.workloads:
        wanted = workload.get("library", "") if workload["kind"] == STEADY else ""
        if wanted and wanted not in CHOSEN_IN_CHAOS:
            raise OncelogError(
                f"{name_or_path}: {STEADY}: no client library {wanted!r}; there are {', '.join(CHOSEN_IN_CHAOS)}"
            )
    return scenario


@contextlib.contextmanager
def _made(folder: Path | None, seed: int) -> Iterator[Path]:
    """Make the run's folder and yield it. It is `folder`, or if that is None a new temporary one with `seed` in its
    name. Raises OncelogError if it cannot be made or holds an earlier run."""
    is_new = folder is None
    try:
        chosen = folder or Path(tempfile.mkdtemp(prefix=f"oncelog-chaos-{seed}-"))
    except OSError as error:
        raise OncelogError(f"cannot make a folder: {error.strerror}") from error
    with folder_of_run(chosen, is_new=is_new) as made:
        yield made


@dataclass(frozen=True, slots=True)
class Place:
    """The namespace, release and access of a cluster of pods, as the command's options give them."""

    namespace: str
    release: str
    context: str
    bootstrap: str
    config: str
    tools_image: str
    on_machines: bool

    def target(self) -> Target:
        """Return these pods as the run's target. Raises OncelogError when there is no Kubernetes, or no
        client for it."""
        try:
            from oncelog_robustness.chaos.pods.api import Kubernetes
        except ModuleNotFoundError as error:
            raise OncelogError(
                f"--kubernetes needs {error.name}, which is not installed: pip install 'oncelog[chaos]'"
            ) from error
        from oncelog_robustness.chaos.pods.target import PodTarget

        kubernetes = Kubernetes(self.namespace, self.release, self.context)
        return PodTarget(
            kubernetes,
            self.bootstrap,
            self.tools_image,
            on_machines=self.on_machines,
            client_config=self.config,
        )

    @property
    def arguments(self) -> str:
        given = {
            "--namespace": self.namespace,
            "--release": self.release,
            "--context": self.context,
            "--bootstrap": self.bootstrap,
            "--config": self.config,
            "--tools-image": self.tools_image,
        }
        options = "".join(f" {option} {value}" for option, value in given.items() if value)
        return f" --kubernetes{' --machines' if self.on_machines else ''}{options}"


def _of_containers(kinds: Sequence[FaultKind], scenario: Scenario) -> tuple[Target, str]:
    """Return a cluster of our own containers as the run's target, and the command line's options that choose
    it in a replay. Raises OncelogError when there is no engine."""
    from oncelog_robustness.chaos.containers.engine import find_engine
    from oncelog_robustness.chaos.containers.plan import Images
    from oncelog_robustness.chaos.containers.target import ContainerTarget

    target = ContainerTarget(find_engine(), Images.of_environment(), kinds, scenario.settings)
    return target, " --containers" + "".join(f" --only {kind}" for kind in kinds)


def _refuse_login(config: str, secure: bool, *, is_there: bool, is_own: bool) -> None:
    """Raise OncelogError for options of a login that this target cannot have. `is_there`: the cluster runs
    already. `is_own`: the run starts it as containers."""
    if config and not is_there:
        raise OncelogError(
            "--config says how to log in at --bootstrap or at a release (--kubernetes); "
            "give one of these, or no --config"
        )
    if secure and (is_there or is_own):
        raise OncelogError("--secure is for a cluster of processes that chaos starts itself")


def _refuse_without_clients() -> None:
    """Raise OncelogError if confluent-kafka is not installed: workloads run with it, and it measures every run."""
    try:
        import confluent_kafka  # noqa: F401
    except ModuleNotFoundError as error:
        raise OncelogError(
            f"chaos needs {error.name}, which is not installed: pip install 'oncelog[chaos]'"
        ) from error


def _target(
    folder: Path, bootstrap: str, config: str, scenario: Scenario, *, is_secure: bool
) -> tuple[Target, str]:
    """Return the run's target (a Kafka at an address, or our own processes), and the command line's options
    that choose it in a replay. Raises OncelogError when a needed package is not installed."""
    _refuse_without_clients()
    if bootstrap:
        from oncelog_robustness.chaos.address import AddressTarget

        with_config = f" --config {config}" if config else ""
        return AddressTarget(bootstrap, config), f" --bootstrap {bootstrap}{with_config}"
    try:
        from oncelog_robustness.chaos.target import ClusterTarget
    except ModuleNotFoundError as error:
        raise OncelogError(
            f"a cluster of its own needs {error.name}, which is not installed: pip install "
            "'oncelog[server]'; or give --kubernetes"
        ) from error
    shape = scenario.shape
    counts = ClusterShape(
        controllers=shape.controllers,
        storage=shape.storage,
        coordinators=shape.coordinators,
        marker_senders=shape.marker_senders,
        listeners=shape.listeners,
    )
    target = ClusterTarget(folder, counts, scenario.settings, is_secure=is_secure)
    return target, " --secure" if is_secure else ""


def _replay(minutes: float, seed: int, where: str, scenario: str, pace: str) -> str:
    arguments = f"--minutes {minutes:g} --seed {seed}{where}"
    if scenario != str(DEFAULT_SCENARIO):
        arguments += f" --scenario {scenario}"
    if pace != PACE_DEFAULT:
        arguments += f" --pace {pace}"
    return (
        f"oncelog chaos {arguments}"
        if "--kubernetes" in where
        else f'make chaos ARGS="{arguments}"'
    )


def show_result(console: Console, result: RunResult, page: Path) -> None:
    table = Table(box=None, padding=(0, 2))
    for title in ("anomaly", "answer", "judged", ""):
        table.add_column(title, no_wrap=title == "anomaly")
    for verdict in result.verdicts:
        proof = "\n".join(verdict.proof[:PROOFS_SHOWN])
        table.add_row(
            verdict.checker,
            f"[{COLOURS[verdict.answer]}]{verdict.answer}[/]",
            str(verdict.judged),
            proof,
        )
    console.print(table)
    roles = Table(box=None, padding=(0, 2))
    for title in ("role", "hits", "next commit after: p50", "p99", "max", "kills", "their p99"):
        roles.add_column(title)
    for one in result.measures.roles:
        times = [_seconds(ms) for ms in (one.p50_ms, one.p99_ms, one.max_ms)]
        kills = (str(one.kills), _seconds(one.kills_p99_ms))
        roles.add_row(one.role, str(one.hits), *times, *kills)
    console.print(roles)
    measures = result.measures
    console.print(
        f"{len(measures.commits)} commits by the producer that never pauses; during "
        f"{measures.availability:.1%} of the time no gap between them was longer than a second; "
        f"{len(result.history.operations)} operations of all clients",
        highlight=False,
        soft_wrap=True,
    )
    broken = [one.checker for one in result.verdicts if one.answer is Answer.BROKEN]
    console.print(
        f"[bold red]broken[/]: {', '.join(broken)}" if broken else "[green]nothing is broken[/]",
        highlight=False,
        soft_wrap=True,
    )
    if not result.is_sound:
        console.print(f"again: {result.options.replay}", highlight=False, soft_wrap=True)
    console.print(f"report: {page}", highlight=False, soft_wrap=True)


def _seconds(ms: int | None) -> str:
    return "" if ms is None else f"{ms / 1000:.2f} s"


if __name__ == "__main__":
    sys.exit(app())
