"""The progress of a run for people: a table that changes on a terminal, elsewhere a line every ten seconds."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

LINE_S: Final = 10.0
STARTS_SHOWN: Final = 3


class Progress:
    """The display of a run's progress. The runner calls it, on its own event loop."""

    def __init__(self, console: Console, duration_ms: int, roles: Sequence[str]) -> None:
        self._console = console
        self._duration_ms = duration_ms
        self._stack = ExitStack()
        self._live: Live | None = None
        self._phase = "starting"
        self._starting: list[str] = []
        self._storm_began_s: float | None = None
        self._hits: Counter[str] = Counter(dict.fromkeys(roles, 0))
        self._under_way: dict[str, str] = {}
        self._commits_seen: list[tuple[float, int]] = []
        self._counts: dict[str, Any] = {}
        self._findings = 0
        self._lined_s = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live = self._stack.enter_context(live)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def phase(self, name: str) -> None:
        self._phase = name
        if self._live is None:
            self._console.print(f"[bold]{name}[/]", highlight=False)
        self.refresh()

    def show(self, sentences: Sequence[str]) -> None:
        """Print sentences that stay on the screen, unlike the changing table."""
        for one in sentences:
            self._console.print(one, style="dim", markup=False, highlight=False, soft_wrap=True)

    def process(self, name: str, state: str) -> None:
        self._starting = [*self._starting, f"{name} {state}"][-STARTS_SHOWN:]

    def storm_begins(self) -> None:
        self._storm_began_s = time.monotonic()

    def fault_begins(self, name: str, role: str, text: str) -> None:
        self._hits[role] += 1
        self._under_way[name] = text

    def fault_ends(self, name: str) -> None:
        self._under_way.pop(name, None)

    def counted(self, counts: dict[str, Any], findings: int) -> None:
        now_s, commits = time.monotonic(), int(counts.get("commit ok", 0))
        self._counts, self._findings = counts, findings
        self._commits_seen.append((now_s, commits))
        while now_s - self._commits_seen[0][0] > 5.0:
            self._commits_seen.pop(0)
        self.refresh()

    @property
    def commits_per_s(self) -> float:
        if len(self._commits_seen) < 2:
            return 0.0
        (began_s, first), (ended_s, last) = self._commits_seen[0], self._commits_seen[-1]
        return (last - first) / max(ended_s - began_s, 0.001)

    def refresh(self) -> None:
        now_s = time.monotonic()
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
        elif self._storm_began_s is not None and now_s - self._lined_s >= LINE_S:
            self._lined_s = now_s
            self._console.print(self._line(), highlight=False, soft_wrap=True)

    @property
    def _elapsed_s(self) -> float:
        if self._storm_began_s is None:
            return 0.0
        return min(time.monotonic() - self._storm_began_s, self._duration_ms / 1000)

    @property
    def _left_s(self) -> float:
        """Return the seconds for which faults still go on; the last reads come after them."""
        return self._duration_ms / 1000 - self._elapsed_s

    def _line(self) -> str:
        hits = sum(self._hits.values())
        return (
            f"{self._elapsed_s:5.0f} s, {self._left_s:.0f} s left  {self._phase}: {hits} faults, "
            f"{self._counts.get('commit ok', 0)} commits ({self.commits_per_s:.0f}/s), "
            f"{self._findings} findings; under way: {', '.join(self._under_way.values()) or 'nothing'}"
        )

    def _picture(self) -> Group:
        head = Text.assemble(
            (f" {self._phase} ", "reverse bold"),
            f"  {self._elapsed_s:.0f} of {self._duration_ms / 1000:.0f} s, {self._left_s:.0f} s left  ",
            (f"{self.commits_per_s:.0f} commits/s", "cyan"),
            f"  {self._counts.get('operations', 0)} operations by "
            f"{self._counts.get('clients', 0)} clients  ",
            (
                f"{self._findings} findings" if self._findings else "nothing found so far",
                "bold red" if self._findings else "green",
            ),
        )
        if self._storm_began_s is None:
            return Group(head, Text("  ".join(self._starting), "dim"))
        bar = ProgressBar(total=self._duration_ms / 1000, completed=self._elapsed_s)
        table = Table(box=None, padding=(0, 2), show_header=False)
        for role, hits in self._hits.items():
            own = [text for text in self._under_way.values() if role in text.split(" ", 1)[1]]
            table.add_row(role, Text("▮" * min(hits, 40), "yellow"), str(hits), ", ".join(own))
        return Group(head, bar, table)
