"""`python -m robustness.chaos --minutes 10 --seed 7`: break a cluster, or watch any Kafka, and judge it."""

import asyncio
import contextlib
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from oncelog.errors import OncelogError
from oncelog_server.cluster.plan import ClusterShape
from robustness.arguments import SEED_MAX
from robustness.chaos.progress import Progress
from robustness.chaos.report import write_report
from robustness.chaos.run import ChaosRun, RunOptions, RunResult
from robustness.chaos.steady import KIND as STEADY
from robustness.chaos.steady import SteadyParameters
from robustness.chaos.target import AddressTarget, ClusterTarget, Target
from robustness.checkers.verdict import Answer
from robustness.clients.libraries import LIBRARIES
from robustness.scenario import Scenario, load_scenario
from robustness.workloads.catalog import KINDS

DEFAULT_SCENARIO: Final = Path(__file__).parent / "default.toml"
COLOURS: Final = {Answer.OK: "green", Answer.BROKEN: "bold red", Answer.UNKNOWN: "yellow"}
PROOFS_SHOWN: Final = 3
MINUTES_LEAST, MINUTES_MOST = 0.1, 1440.0

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def main(
    minutes: Annotated[
        str,
        typer.Option(metavar="FLOAT", help=f"of faults, {MINUTES_LEAST:g} to {MINUTES_MOST:g}"),
    ] = "10",
    seed: Annotated[
        str, typer.Option(metavar="INTEGER", help="of the plan and the workloads; 0 draws one")
    ] = "0",
    bootstrap: Annotated[
        str, typer.Option(help="host:port[,…] of any Kafka; then only our own clients are broken")
    ] = "",
    scenario: Annotated[
        str,
        typer.Option(
            help="which workloads: a name, or a .toml file; its storm is not used; "
            "default: default.toml in robustness/chaos",
            show_default=False,
        ),
    ] = str(DEFAULT_SCENARIO),
    folder: Annotated[
        Path | None, typer.Option(help="for logs, data and the report; default: a new one")
    ] = None,
    library: Annotated[
        list[str] | None,
        typer.Option(
            help=f"client library: {', '.join(LIBRARIES)}; repeatable; default: every one"
        ),
    ] = None,
) -> None:
    """Workloads under a seeded plan of faults, judged by the checkers of the simulator.

    Exit code 0: nothing is broken. 1: something is, or nothing could be judged. 2: it could not begin.
    """
    console = Console(stderr=True)
    # Whoever ends it so, a job's timeout for one, wants the cluster gone as after Ctrl-C, which a shell's background
    # process would not even notice.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with contextlib.ExitStack() as stack:
        try:
            given_minutes = _minutes(minutes)
            chosen_seed = _seed(seed) or secrets.randbelow(1_000_000) + 1
            libraries = _libraries(library)
            chosen = _scenario(scenario)
            made = stack.enter_context(_made(folder, chosen_seed))
        except OncelogError as error:
            _say(console, "cannot begin", error)
            raise typer.Exit(2) from error
        options = RunOptions(
            folder=made.absolute(),
            seed=chosen_seed,
            duration_ms=int(given_minutes * 60_000),
            scenario=chosen,
            libraries=libraries,
            replay=_replay(given_minutes, chosen_seed, bootstrap, scenario),
            suffix=f"-{int(time.time())}" if bootstrap else "",
        )
        result = _run(options, _target(options.folder, bootstrap, chosen), console)
    if result is None:
        raise typer.Exit(2)
    page = write_report(result)
    tell(Console(), result, page)
    raise typer.Exit(0 if result.is_sound else 1)


def _run(options: RunOptions, target: Target, console: Console) -> RunResult | None:
    """None, after it was said why, when there is nothing to judge."""
    with Progress(console, options.duration_ms, target.roles) as progress:
        try:
            return asyncio.run(ChaosRun(options, target, progress).run())
        except OncelogError as error:
            failure = error
    _say(console, "no verdict", failure)
    if any(options.folder.iterdir()):
        console.print(f"logs: {options.folder}", highlight=False, soft_wrap=True)
    return None


def _say(console: Console, what: str, error: OncelogError) -> None:
    # What stands in brackets in it is a table of a file or a list, not a colour.
    text = f"[bold red]{what}:[/] {escape(str(error))}"
    console.print(text, highlight=False, soft_wrap=True)


def _minutes(text: str) -> float:
    """Raises OncelogError, as the next one does: typer's own words would not name the value."""
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not MINUTES_LEAST <= minutes <= MINUTES_MOST:
        raise OncelogError(
            f"--minutes {text!r} is no number from {MINUTES_LEAST:g} to {MINUTES_MOST:g}"
        )
    return minutes


def _seed(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        seed = -1
    if not 0 <= seed <= SEED_MAX:
        raise OncelogError(
            f"--seed {text!r} is no whole number from 1 to {SEED_MAX}, nor 0, which draws one"
        )
    return seed


def _scenario(name_or_path: str) -> Scenario:
    """Raises OncelogError. Here is one kind of workload more than in the simulator."""
    kinds = {name: kind.parameters for name, kind in KINDS.items()}
    scenario = load_scenario(name_or_path, {**kinds, STEADY: SteadyParameters})
    for workload in scenario.workloads:
        wanted = workload.get("library", "") if workload["kind"] == STEADY else ""
        if wanted and wanted not in LIBRARIES:
            raise OncelogError(
                f"{name_or_path}: {STEADY}: no client library {wanted!r}; there are {', '.join(LIBRARIES)}"
            )
    return scenario


@contextlib.contextmanager
def _made(folder: Path | None, seed: int) -> Iterator[Path]:
    """A folder for the run. It does not stay if we made it and nothing was put there.

    Raises OncelogError for one that cannot be made, or that holds a run: its values would be taken for ours.
    """
    try:
        is_ours = folder is None or not folder.exists()
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix=f"oncelog-chaos-{seed}-"))
        if (folder / "cluster").exists() or (folder / "history.jsonl").exists():
            raise OncelogError(
                f"{folder} holds an earlier run; take another --folder, or remove it"
            )
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OncelogError(f"cannot make {folder or 'a folder'}: {error.strerror}") from error
    try:
        yield folder
    finally:
        if is_ours:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _libraries(wanted: list[str] | None) -> tuple[str, ...]:
    for name in wanted or ():
        if name not in LIBRARIES:
            raise OncelogError(f"no client library {name!r}; there are {', '.join(LIBRARIES)}")
    return tuple(wanted or LIBRARIES)


def _target(folder: Path, bootstrap: str, scenario: Scenario) -> Target:
    if bootstrap:
        return AddressTarget(bootstrap)
    shape = scenario.shape
    counts = ClusterShape(
        controllers=shape.controllers,
        storage=shape.storage,
        coordinators=shape.coordinators,
        marker_senders=shape.marker_senders,
        listeners=shape.listeners,
    )
    return ClusterTarget(folder, counts, scenario.settings)


def _replay(minutes: float, seed: int, bootstrap: str, scenario: str) -> str:
    arguments = f"--minutes {minutes:g} --seed {seed}"
    if bootstrap:
        arguments += f" --bootstrap {bootstrap}"
    if scenario != str(DEFAULT_SCENARIO):
        arguments += f" --scenario {scenario}"
    return f'make chaos ARGS="{arguments}"'


def tell(console: Console, result: RunResult, page: Path) -> None:
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
    for title in ("role", "hits", "next commit after: p50", "max"):
        roles.add_column(title)
    for one in result.measures.roles:
        roles.add_row(one.role, str(one.hits), _seconds(one.p50_ms), _seconds(one.max_ms))
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
