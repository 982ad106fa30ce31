"""What commands print: tables that fit 80 columns for people, JSON for scripts, colours only on a terminal."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oncelog_gateway.core.wording import duration, size

__all__ = ["duration", "number", "say", "show_fields", "show_json", "show_table", "size", "warn"]


def show_json(value: Any) -> None:
    """One document, indented."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A column whose name starts with `>` is a number. Long texts are folded, never cut."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        is_number = column.startswith(">")
        table.add_column(
            column.lstrip(">"),
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="fold",
        )
    count = 0
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
        count += 1
    _out().print(table if count else Text(empty))


def show_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Names and values under each other."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields:
        grid.add_row(name, _cell(value))
    _out().print(grid)


def say(text: str) -> None:
    """A sentence on stdout."""
    _out().print(Text(text), soft_wrap=True)


def warn(text: str) -> None:
    """A sentence on stderr: results stay clean."""
    Console(stderr=True, highlight=False).print(Text(text, style="yellow"), soft_wrap=True)


def number(value: int | None) -> str:
    return "–" if value is None else str(value)


def _cell(value: object) -> Text:
    return value if isinstance(value, Text) else Text("–" if value is None else str(value))


def _out() -> Console:
    return Console(highlight=False)
