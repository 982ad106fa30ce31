"""`python -m robustness.chaos --minutes 10 --seed 7`: break a cluster, or watch any Kafka, and judge it."""

import asyncio
import os
import secrets
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from oncelog.errors import OncelogError
from oncelog_server.cluster.plan import ClusterShape
from robustness.chaos.progress import Progress
from robustness.chaos.report import write_report
from robustness.chaos.run import ChaosRun, RunOptions, RunResult
from robustness.chaos.target import AddressTarget, ClusterTarget, Target
from robustness.checkers.verdict import Answer
from robustness.clients.libraries import LIBRARIES
from robustness.scenario import Scenario, load_scenario

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
    minutes: Annotated[float, typer.Option(min=0.1, max=1440, help="of faults")] = 10.0,
    seed: Annotated[int, typer.Option(help="of the plan and the workloads; 0 draws one")] = 0,
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
    seed = seed or secrets.randbelow(1_000_000) + 1
    folder = folder or Path(tempfile.mkdtemp(prefix=f"oncelog-chaos-{seed}-"))
    try:
        _make(folder)
        chosen = load_scenario(scenario)
        options = RunOptions(
            folder=folder.absolute(),
            seed=seed,
            duration_ms=int(minutes * 60_000),
            scenario=chosen,
            libraries=_libraries(library),
            replay=_replay(minutes, seed, bootstrap, scenario),
            suffix=f"-{int(time.time())}" if bootstrap else "",
        )
        target = _target(options.folder, bootstrap, chosen)
    except OncelogError as error:
        console.print(f"[bold red]cannot begin:[/] {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from error
    with Progress(console, options.duration_ms, target.roles) as progress:
        try:
            result = asyncio.run(ChaosRun(options, target, progress).run())
        except OncelogError as error:
            result = None
            failure = error
    if result is None:
        console.print(f"[bold red]no verdict:[/] {failure}", highlight=False, soft_wrap=True)
        console.print(f"logs: {options.folder}", highlight=False, soft_wrap=True)
        raise typer.Exit(2)
    page = write_report(result)
    tell(Console(), result, page)
    raise typer.Exit(0 if result.is_sound else 1)


def _make(folder: Path) -> None:
    """Raises OncelogError for a folder that cannot be made, or that holds a run: its values would be taken for ours."""
    try:
        if (folder / "cluster").exists() or (folder / "history.jsonl").exists():
            raise OncelogError(
                f"{folder} holds an earlier run; take another --folder, or remove it"
            )
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OncelogError(f"cannot make {folder}: {error.strerror}") from error


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
