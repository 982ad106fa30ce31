"""`oncelog verify`, `python -m oncelog_robustness.verify`: does this Kafka keep its promises about transactions?

oncelog verify localhost:9092
oncelog verify kafka:9092 --config client.properties --fault 'kubectl delete pod kafka-0' --fault-every 20s
oncelog verify --history history.jsonl.gz
"""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.markup import escape

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.folder import folder_of_run
from oncelog_robustness.chaos.options import libraries_of, seed_of
from oncelog_robustness.checkers.verdict import Answer
from oncelog_robustness.clients.libraries import LIBRARIES
from oncelog_robustness.history import Isolation
from oncelog_robustness.verify import options as given
from oncelog_robustness.verify.cleaning import clean, new_run, prefix_of
from oncelog_robustness.verify.drivers import Faults
from oncelog_robustness.verify.offline import judge_history
from oncelog_robustness.verify.options import (
    EVERY_LEAST_S,
    EVERY_MOST_S,
    FOR_LEAST_S,
    FOR_MOST_S,
    addresses_of,
    duration_s,
    isolation_of,
)
from oncelog_robustness.verify.report import About, content_of, show, write_report
from oncelog_robustness.verify.run import Order, Stopped, verify_cluster

FOR_DEFAULT: Final = "2m"
EVERY_DEFAULT: Final = "10s"

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass(frozen=True, slots=True)
class _Said:
    """The command's options, as they were typed."""

    bootstrap: str
    lasts: str
    config: str
    every: str
    libraries: Sequence[str] | None
    java_classpath: str
    folder: Path | None
    seed: str


@app.command()
def main(
    bootstrap: given.Bootstrap = "",
    lasts: given.For = FOR_DEFAULT,
    config: given.ClientConfig = "",
    fault: given.Fault = None,
    heal: given.Heal = "",
    fault_every: given.FaultEvery = EVERY_DEFAULT,
    pid_file: given.PidFile = None,
    restart: given.Restart = "",
    container: given.ContainerName = None,
    pods: given.Pods = "",
    namespace: given.Namespace = "",
    context: given.Context = "",
    library: given.Library = None,
    java_classpath: given.JavaClasspath = "",
    folder: given.Folder = None,
    seed: given.Seed = "0",
    history: given.HistoryFile = None,
    isolation: given.IsolationLevel = Isolation.READ_COMMITTED.value,
    clean: given.Clean = "",
) -> None:
    """Does this Kafka keep its promises about idempotence, transactions and read_committed? A verdict, with proof.

    Topics and groups of a run have a name of their own and go when it ends. Ctrl-C: the verdict on what was done so
    far; a second one: the end at once. Exit code 0: nothing found. 1: an anomaly, or too little could be judged. 2: it
    could not begin.
    """
    console = Console(stderr=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    said = _Said(bootstrap, lasts, config, fault_every, library, java_classpath, folder, seed)
    faults = Faults(
        tuple(fault or ()), heal, tuple(pid_file or ()), restart, tuple(container or ()), pods
    ).at(namespace, context)
    try:
        _refuse_both(bootstrap, history, clean, faults)
        if history is not None:
            code = _judge_file(history, isolation_of(isolation), folder)
        elif clean:
            code = _clean(said, clean)
        else:
            code = _run(said, faults, console)
    except Stopped as stopped:
        _say(console, "stopped", stopped)
        code = 130
    except OncelogError as error:
        _say(console, "cannot begin", error)
        code = 2
    raise typer.Exit(code)


def _refuse_both(bootstrap: str, history: Path | None, clean: str, faults: Faults) -> None:
    """Raise OncelogError for options that contradict each other."""
    if history is not None and (bootstrap or clean or faults.is_given):
        raise OncelogError("--history is judged by itself: give no BOOTSTRAP, --clean or faults")
    if history is None and not bootstrap:
        raise OncelogError("give BOOTSTRAP, host:port of any Kafka broker; or --history FILE")
    faults.refuse_bad()


def _run(said: _Said, faults: Faults, console: Console) -> int:
    addresses = addresses_of(said.bootstrap)
    lasts_s = duration_s("--for", said.lasts, FOR_LEAST_S, FOR_MOST_S)
    every_s = duration_s("--fault-every", said.every, EVERY_LEAST_S, EVERY_MOST_S)
    run = new_run()
    folder = said.folder or Path(f"oncelog-verify-{run}")
    libraries = libraries_of(list(said.libraries or ()), tuple(LIBRARIES), tuple(LIBRARIES))
    seed = seed_of(said.seed)
    with folder_of_run(folder) as made:
        order = Order(
            bootstrap=addresses,
            client_config=said.config,
            run=run,
            folder=made.absolute(),
            lasts_s=lasts_s,
            fault_every_s=every_s,
            libraries=libraries,
            java_classpath=said.java_classpath,
            seed=seed,
        )
        return verify_cluster(order, faults, console)


def _clean(said: _Said, run: str) -> int:
    from oncelog_robustness.clients.login import choose_login
    from oncelog_server.cli.client_config import read_client_config

    choose_login(read_client_config(said.config).login)
    prefix = prefix_of(run)
    print(asyncio.run(clean(addresses_of(said.bootstrap), prefix)))
    return 0


def _judge_file(path: Path, isolation: Isolation, folder: Path | None) -> int:
    found = judge_history(path, isolation)
    facts = found.facts
    about = About(
        target=facts.get("target", str(path)),
        run=facts.get("run", ""),
        clients=tuple(one for one in facts.get("libraries", "").split(", ") if one),
        limits=found.notes,
        again=f"oncelog verify --history {shlex.quote(str(path))}",
    )
    content = content_of(found.judgement, found.tried, found.measures, about)
    made = folder or Path(f"{path.name.partition('.')[0]}-verdict")
    try:
        made.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OncelogError(f"cannot make {made}: {error.strerror}; give --folder") from error
    show(Console(), content, write_report(made, content, found.measures))
    return 0 if found.judgement.answer is Answer.OK else 1


def _say(console: Console, what: str, error: Exception) -> None:
    # Brackets in the error are a list or a table, and not a colour.
    text = f"[bold red]{what}:[/] {escape(str(error))}"
    console.print(text, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(app())
