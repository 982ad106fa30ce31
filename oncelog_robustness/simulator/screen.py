"""A progress bar on a terminal, and nothing elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from oncelog_robustness.simulator.run import RunResult


@contextmanager
def showing_progress(total: int, *, is_wanted: bool) -> Iterator[Callable[[RunResult], None]]:
    """Call what it gives with each result."""
    if not is_wanted or total == 1 or not sys.stderr.isatty():
        yield lambda result: None
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
