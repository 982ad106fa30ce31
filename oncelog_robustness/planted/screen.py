"""Prints the output of `python -m oncelog_robustness.planted`: tables of bugs and of hunts, at most a hundred columns
wide, and the progress."""

import itertools
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from oncelog.wording import counted
from oncelog_robustness.planted.bug import Bug
from oncelog_robustness.planted.hunt import Hunted
from oncelog_robustness.planted.importing import bug_named

WIDTH_MAX: Final = 100


def print_bugs(bugs: Sequence[Bug]) -> None:
    """Print a table of the bugs, with the checkers meant to notice each and its scenario."""
    table = _table(bugs)
    table.add_column("scenario, seed")
    table.add_column("caught by one of")
    for bug in bugs:
        table.add_row(
            _text_of(bug), f"{bug.scenario} {bug.first_seed}", Text("\n".join(bug.caught_by))
        )
    _console().print(table)


def print_hunts(hunts: Sequence[Hunted]) -> None:
    """Print a table with one row for each bug: whether it was caught, by what, and how long that took."""
    bugs = [bug_named(hunt.bug) for hunt in hunts]
    table = _table(bugs)
    table.add_column("checker")
    table.add_column("tried", justify="right")
    table.add_column("took", justify="right")
    table.add_column("caught")
    for bug, hunt in zip(bugs, hunts, strict=True):
        table.add_row(
            _text_of(bug),
            hunt.checker or "-",
            str(hunt.tried),
            f"{hunt.seconds:.0f} s",
            Text("NO", style="bold red") if hunt.seed is None else Text(f"seed {hunt.seed}"),
        )
    _console().print(table)


@contextmanager
def showing_hunts(total: int) -> Iterator[Callable[[Hunted], None]]:
    """Yield a function that shows progress, to be called with each hunt that ended. It moves a bar, or prints
    a line where no terminal is."""
    if not sys.stderr.isatty():
        yield _lines(total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    missed = 0
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("bugs", total=total)

        def advance(hunt: Hunted) -> None:
            nonlocal missed
            missed += hunt.seed is None
            text = "bugs" if not missed else f"bugs, [red]{missed} not caught[/red]"
            progress.update(task, advance=1, description=text)

        yield advance


def _lines(total: int) -> Callable[[Hunted], None]:
    done = itertools.count(1)

    def advance(hunt: Hunted) -> None:
        caught = () if hunt.seed is None else (hunt.seed,)
        text = told(hunt.bug, caught, hunt.tried, hunt.unfinished, hunt.seconds)
        failure = f": {hunt.failure}" if hunt.failure else ""
        print(f"{next(done)} of {total}: {text}{failure}", file=sys.stderr, flush=True)

    return advance


def told(bug: str, caught: Sequence[int], tried: int, unfinished: int, seconds: float) -> str:
    """Return one line for people on how the hunt for a bug went: the seeds that caught it, how many were
    tried, how long it took."""
    seeds = ", ".join(map(str, caught))
    verdict = f"caught by seed {seeds}" if caught else "not caught"
    lost = f", {unfinished} of them unfinished" if unfinished else ""
    return f"{bug}: {verdict} ({counted(tried, 'seed')}{lost}, {seconds:.1f} s)"


def _text_of(bug: Bug) -> Text:
    return Text.assemble((bug.name, "bold"), "\n", (bug.promise, "dim"))


def _table(bugs: Sequence[Bug]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False, expand=True)
    # A name that is broken in two cannot be copied.
    longest = max(len(bug.name) for bug in bugs)
    table.add_column("bug, and the promise that it breaks", ratio=1, min_width=longest)
    return table


def _console() -> Console:
    return Console(width=min(WIDTH_MAX, shutil.get_terminal_size((WIDTH_MAX, 24)).columns))
