"""The output of the demo: live bars on a terminal, plain lines elsewhere, and the proof as a table."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from oncelog_server.demo.proof import Check

PLAIN_LINE_EVERY_S = 5.0
PLAIN_WIDTH = 110


class Screen:
    """Shows how many rows the producer has committed and Spark has processed, and what the run waits for; each event
    gets a line. A context manager.
    """

    def __init__(self, row_count: int) -> None:
        is_terminal = sys.stdout.isatty()
        self.console = Console(highlight=False, width=None if is_terminal else PLAIN_WIDTH)
        self._row_count = row_count
        self._started_at = time.monotonic()
        self._last_plain_line_at = self._started_at
        self._shown = (0, 0)
        self._progress: Progress | None = None
        if is_terminal:
            self._progress = Progress(
                TextColumn("{task.description:<22}"),
                BarColumn(bar_width=40),
                TextColumn("{task.fields[rows]}"),
                TimeElapsedColumn(),
                console=self.console,
            )
            self._produced = self._bar("committed by producer", row_count)
            self._processed = self._bar("done by Spark", row_count)
            self._phase = self._bar("", None)
            self._progress.update(self._phase, visible=False)

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
        """Print a line with the seconds since the start."""
        elapsed_s = time.monotonic() - self._started_at
        self.console.print(f"[dim]{elapsed_s:6.1f} s[/dim]  {text}")

    def phase(self, name: str, more: str) -> None:
        """Show what the run waits for now. On a terminal that is a moving bar, until Spark makes progress or another
        phase begins.
        """
        self.event(f"{name} ({more})")
        if self._progress is not None:
            self._progress.reset(self._phase, description=name, visible=True)

    def progress(self, produced: int, processed: int) -> None:
        shown = (produced, min(processed, self._row_count))
        if self._progress is not None:
            self._show(self._progress, shown)
        elif (
            shown != self._shown
            and time.monotonic() - self._last_plain_line_at >= PLAIN_LINE_EVERY_S
        ):
            self._last_plain_line_at = time.monotonic()
            self._shown = shown
            self.event(f"committed {produced:,}, done by Spark about {shown[1]:,}")

    def _bar(self, description: str, total: int | None) -> TaskID:
        assert self._progress is not None
        return self._progress.add_task(description, total=total, rows="")

    def _show(self, bars: Progress, shown: tuple[int, int]) -> None:
        for bar, count in zip((self._produced, self._processed), shown, strict=True):
            bars.update(bar, completed=count, rows=f"{count:,}/{self._row_count:,}")
        if shown[1] != self._shown[1]:
            bars.update(self._phase, visible=False)
        self._shown = shown

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
