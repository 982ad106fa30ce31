"""The progress of many runs: a bar on a terminal, and elsewhere a line now and then."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from oncelog_robustness.simulator.run import RunResult

_RUNS_A_LINE = 100


@contextmanager
def showing_progress(total: int, *, is_wanted: bool) -> Iterator[Callable[[RunResult], None]]:
    """Show how many runs are done, and yield the function to be called with each run's result. It moves a bar
    on a terminal, and elsewhere prints a line now and then. Nothing is shown if not `is_wanted`, or of a
    single run."""
    if not is_wanted or total == 1:
        yield lambda result: None
        return
    if not sys.stderr.isatty():
        yield _lines(total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    broken = 0
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("seeds", total=total)

        def advance(result: RunResult) -> None:
            nonlocal broken
            broken += result.is_broken
            text = "seeds" if not broken else f"seeds, [red]{broken} broken[/red]"
            progress.update(task, advance=1, description=text)

        yield advance


def _lines(total: int) -> Callable[[RunResult], None]:
    done = broken = 0

    def advance(result: RunResult) -> None:
        nonlocal done, broken
        done += 1
        broken += result.is_broken
        if done % _RUNS_A_LINE == 0 and done < total:
            print(f"{done} of {total} runs, {broken} broken", file=sys.stderr, flush=True)

    return advance
