"""The command `oncelog demo`: its options, and the start of a run."""

import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from oncelog.errors import OncelogError
from oncelog_server.demo.given_log import GivenLog
from oncelog_server.demo.input_rows import read_table
from oncelog_server.demo.prerequisites import missing_prerequisites
from oncelog_server.demo.processes import OncelogServer
from oncelog_server.demo.run import DemoRun
from oncelog_server.demo.scenario import PaymentsScenario, Scenario, TableScenario
from oncelog_server.demo.screen import Screen

ROWS_DEFAULT = 500_000
ROWS_MIN = 1_000
ROWS_MAX = 20_000_000
EXIT_FAILED, EXIT_UNUSABLE, EXIT_TERMINATED = 1, 2, 143


def demo(
    rows: Annotated[
        int, typer.Option(min=ROWS_MIN, max=ROWS_MAX, help="payments to make and process")
    ] = ROWS_DEFAULT,
    seed: Annotated[int, typer.Option(help="another seed gives other payments")] = 1,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input", help="CSV, JSON lines, JSON array or Arrow IPC, instead of payments"
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="column of --input that becomes the key")] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="a log that runs already, by a client.properties with bootstrap.servers; it is not killed",
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="keep the data folder and the logs at the end")
    ] = False,
    stay: Annotated[
        bool, typer.Option("--stay", help="leave oncelog running at the end, until Ctrl-C")
    ] = False,
) -> None:
    """Send payments through Spark exactly once, with three kills on the way and a proof at the end.

    With --config oncelog itself is not killed, only Spark and the producer.

    Exit code 0: the proof holds. 1: it fails, or the run ends before it. 2: the demo cannot start.
    """
    missing = missing_prerequisites()
    if missing:
        typer.echo("The demo needs, and does not find:", err=True)
        for line in missing:
            typer.echo(f"  - {line}", err=True)
        raise typer.Exit(EXIT_UNUSABLE)
    # What was started here ends here, whichever way this process is told to go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    exit_code = EXIT_UNUSABLE
    try:
        scenario = _scenario(rows, seed, input_file, key)
        exit_code = EXIT_FAILED
        if config is not None and stay:
            raise OncelogError(
                "--stay leaves a log running that the demo started; leave out --config"
            )
        given = None if config is None else GivenLog(config)
        if run_demo(scenario, given, keep=keep, stay=stay):
            exit_code = 0
    except OncelogError as error:
        typer.echo(f"oncelog demo: {error}", err=True)
    raise typer.Exit(exit_code)


def _scenario(rows: int, seed: int, input_file: Path | None, key: str | None) -> Scenario:
    if input_file is None:
        if key is not None:
            raise OncelogError("--key names a column of --input; payments are keyed by account")
        return PaymentsScenario(rows, seed)
    if key is None:
        raise OncelogError(f"--input {input_file} needs --key COLUMN, the column to group by")
    return TableScenario(read_table(input_file, key), input_file.name)


def run_demo(scenario: Scenario, given: GivenLog | None = None, *, keep: bool, stay: bool) -> bool:
    """Run the demo in a folder of its own, on a log that it starts or on `given`. Returns True when every check of the
    proof holds.
    """
    folder = Path(tempfile.mkdtemp(prefix="oncelog-demo-"))
    started_at = time.monotonic()
    is_proven = False
    try:
        server = given or OncelogServer(folder / "data")
        with server, Screen(scenario.row_count) as screen:
            screen.event(f"{scenario.title}, in {folder}")
            screen.event(f"oncelog is up on {server.bootstrap}")
            checks = DemoRun(scenario, folder, server, screen).run()
            is_proven = all(check.holds for check in checks)
            elapsed_s = time.monotonic() - started_at
            screen.proof(checks)
            _verdict(screen, is_proven=is_proven, elapsed_s=elapsed_s)
            if isinstance(server, OncelogServer):
                _look_next(screen, server, folder, keep=keep, stay=stay)
                if stay:
                    _wait_for_ctrl_c(server)
    finally:
        if keep or not is_proven:
            typer.echo(f"kept: {folder} (data, spark.log, data.log, checkpoint)")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return is_proven


def _verdict(screen: Screen, *, is_proven: bool, elapsed_s: float) -> None:
    if is_proven:
        text = (
            "[bold green]Exactly once.[/bold green] Nothing lost, nothing doubled, no cent astray"
        )
    else:
        text = "[bold red]The proof FAILS[/bold red]"
    screen.console.print(f"{text}, after {elapsed_s:.0f} s.")


def _look_next(
    screen: Screen, server: OncelogServer, folder: Path, *, keep: bool, stay: bool
) -> None:
    port = server.bootstrap.rpartition(":")[2]
    gateway_port = server.addresses.gateway.rpartition(":")[2]
    lines = ["", "Where to look next"]
    if stay:
        lines += [
            f"  console and REST   {server.addresses.gateway}",
            f"  transactions       oncelog --gateway {server.addresses.gateway} transactions list",
        ]
    elif keep:
        again = f"oncelog up --data {folder / 'data'} --port {port} --gateway-port {gateway_port}"
        lines += [
            f"  start it again     {again}",
            f"  console and REST   {server.addresses.gateway} (once started)",
            f"  transactions       oncelog --gateway {server.addresses.gateway} transactions list",
        ]
    else:
        lines += [
            "  look inside        oncelog demo --stay (leaves it running, with its console)",
            "  keep the data      oncelog demo --keep",
        ]
    lines += [
        "  your own file      oncelog demo --input FILE --key COLUMN",
        "  how it works       docs/architecture/README.md",
    ]
    screen.console.print(escape("\n".join(lines)), soft_wrap=True)


def _wait_for_ctrl_c(server: OncelogServer) -> None:
    typer.echo("oncelog stays up; Ctrl-C stops it.")
    try:
        while server.is_running:
            time.sleep(0.2)
    except KeyboardInterrupt:
        typer.echo("stopping")
