"""Prints the output of commands: tables that fit 80 columns, JSON for scripts, colours only on a terminal."""

import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, TypeVar

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from oncelog_gateway.core.wording import duration, size
from oncelog_server.cli.cluster_answers import Failure, InPartition
from oncelog_server.cli.options import Output

__all__ = [
    "duration",
    "listed",
    "of_partition",
    "printable",
    "printed_as_json",
    "say",
    "show_fields",
    "show_json",
    "show_paragraph",
    "show_rows",
    "show_table",
    "size",
    "warn",
    "warn_of_incomplete",
]

GAP: Final = 3
"""Blanks between two columns of a table."""


RowT = TypeVar("RowT", bound=Mapping[str, object])
Columns = Mapping[str, str | Callable[[RowT], object]]
"""Columns by heading, `>` before the heading of a number. The value is the row's field, or a function that makes the
cell.
"""


def show_json(value: object) -> None:
    """Print the value as one JSON document, indented."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def printed_as_json(value: object, output: Output | None) -> bool:
    """Print the value as JSON if JSON is wanted, and return True. Otherwise return False, so that the caller prints it
    for people.
    """
    if output == Output.JSON:
        show_json(value)
    return output == Output.JSON


def printable(text: str) -> str:
    """Return the text without control characters, which could move a terminal's cursor or fake another line. Anybody
    may choose names and reasons.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print a table. A column whose name starts with `>` is a number. Texts are folded between words, never cut.

    If the terminal is too narrow for that, each row is printed as lines of column and value instead. So a long name
    stays whole and can be copied.
    """
    names = [column.lstrip(">") for column in columns]
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        _out().print(Text(empty))
        return
    widths = _widths(names, cells, _out().width - GAP * (len(names) - 1))
    if widths is None:
        _show_one_by_one(names, cells)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column, name, width in zip(columns, names, widths, strict=True):
        table.add_column(
            name,
            justify="right" if column.startswith(">") else "left",
            width=width,
            overflow="fold",
        )
    for row in cells:
        table.add_row(*row)
    _out().print(table)


def show_rows(columns: Columns[RowT], rows: Iterable[RowT], *, empty: str) -> None:
    """Print a table of REST's rows. Each column has a heading, as in `show_table`, and a function from a row to its
    cell.
    """
    readers = [itemgetter(one) if isinstance(one, str) else one for one in columns.values()]
    cells = [[read(row) for read in readers] for row in rows]
    show_table(list(columns), cells, empty=empty)


def _widths(names: Sequence[str], cells: Sequence[Sequence[Text]], room: int) -> list[int] | None:
    """Return the width of each column, at least its longest word. None when there is no room for the longest words."""
    columns = [[Text(name), *(row[at] for row in cells)] for at, name in enumerate(names)]
    least = [max(_longest_word(one) for one in column) for column in columns]
    widths = [max(one.cell_len for one in column) for column in columns]
    if sum(least) > room:
        return None
    while (excess := sum(widths) - room) > 0:
        # The widest gives first: long sentences fold, and short columns stay as they are.
        at = max(
            (at for at in range(len(widths)) if widths[at] > least[at]), key=lambda at: widths[at]
        )
        widths[at] = max(least[at], widths[at] - excess)
    return widths


def _longest_word(cell: Text) -> int:
    return max((cell_len(word) for word in cell.plain.split()), default=0)


def _show_one_by_one(names: Sequence[str], cells: Sequence[Sequence[Text]]) -> None:
    """Print each row as lines of name and value, with an empty line between two rows."""
    width = max(map(len, names))
    for number, row in enumerate(cells):
        if number:
            _out().print()
        for name, cell in zip(names, row, strict=True):
            line = Text.assemble((name.ljust(width), "bold"), "  ", cell)
            _out().print(line, soft_wrap=True)


def show_paragraph(text: str, *, indent: int = 0, bullet: str = "", style: str = "") -> None:
    """Print a text folded between words. Lines after the first begin below the text, not below the bullet."""
    text = printable(text)
    room = max(_out().width - indent - len(bullet), 20)
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        head = bullet if number == 0 else " " * len(bullet)
        _out().print(Text(" " * indent + head + line, style=style), soft_wrap=True)


def show_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names and values under each other."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields:
        grid.add_row(name, _cell(value))
    _out().print(grid)


def of_partition(row: InPartition) -> str:
    """Return a partition's name as people write it: orders-0."""
    return f"{row['topic']}-{row['partition']}"


def listed(numbers: Iterable[int]) -> str | None:
    """Return numbers such as node ids as text with commas; None for no numbers."""
    return ", ".join(map(str, numbers)) or None


def warn_of_incomplete(incomplete: Sequence[Failure], what: str = "not complete") -> None:
    """Print the parts of an answer that could not be read. If there are any, end the command with exit code 1."""
    for failure in incomplete:
        warn(f"{what}: {failure['kafka_error_name']}, {failure['detail']}")
    if incomplete:
        raise typer.Exit(1)


def say(text: str) -> None:
    """Print a text on stdout."""
    _out().print(_lines(text), soft_wrap=True)


def warn(text: str) -> None:
    """Print a text on stderr, so that results on stdout stay clean."""
    Console(stderr=True, highlight=False).print(_lines(text, "yellow"), soft_wrap=True)


def _cell(value: object) -> Text:
    return (
        value if isinstance(value, Text) else Text("–" if value is None else printable(str(value)))
    )


def _lines(text: str, style: str = "") -> Text:
    """Return a text of one or several lines for a terminal, without control characters."""
    return Text("\n".join(printable(line) for line in text.split("\n")), style=style)


def _out() -> Console:
    return Console(highlight=False)
