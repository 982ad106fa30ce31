"""What the demo shows: live bars on a terminal, plain lines elsewhere, and the proof as a table."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from oncelog_server.demo.proof import Check

PLAIN_LINE_EVERY_S = 5.0
PLAIN_WIDTH = 110


class Screen:
    """Two bars (rows committed by the producer, rows done by Spark) and a line for every event. A context manager."""

    def __init__(self, row_count: int) -> None:
        is_terminal = sys.stdout.isatty()
        self.console = Console(highlight=False, width=None if is_terminal else PLAIN_WIDTH)
        self._row_count = row_count
        self._started_at = time.monotonic()
        self._last_plain_line_at = self._started_at
        self._progress: Progress | None = None
        if is_terminal:
            self._progress = Progress(
                TextColumn("{task.description:<22}"),
                BarColumn(bar_width=40),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=self.console,
            )
            self._produced = self._progress.add_task("committed by producer", total=row_count)
            self._processed = self._progress.add_task("done by Spark", total=row_count)

    def __enter__(self) -> "Screen":
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def event(self, text: str) -> None:
        """A line with the seconds since the start."""
        elapsed_s = time.monotonic() - self._started_at
        self.console.print(f"[dim]{elapsed_s:6.1f} s[/dim]  {text}")

    def progress(self, produced: int, processed: int) -> None:
        processed = min(processed, self._row_count)
        if self._progress is not None:
            self._progress.update(self._produced, completed=produced)
            self._progress.update(self._processed, completed=processed)
        elif time.monotonic() - self._last_plain_line_at >= PLAIN_LINE_EVERY_S:
            self._last_plain_line_at = time.monotonic()
            self.event(f"committed {produced:,}, done by Spark about {processed:,}")

    def proof(self, checks: Sequence[Check]) -> None:
        table = Table(title="Proof, from an independent reader at read_committed")
        table.add_column("what")
        table.add_column("expected", justify="right")
        table.add_column("found", justify="right")
        table.add_column("holds")
        for check in checks:
            verdict = "[green]yes[/green]" if check.holds else "[bold red]NO[/bold red]"
            table.add_row(check.what, check.expected, check.found, verdict)
        self.console.print(table)
