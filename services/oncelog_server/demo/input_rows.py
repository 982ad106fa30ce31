"""Rows of a file that a user gives: CSV, JSON lines, a JSON array, or Arrow IPC, told apart by content, not by name.

A row becomes a JSON object of the file's columns with its number in front, under `row`: the number is how the proof
knows every row again. Columns whose values are numbers are summed per key; a column is numeric when every value in it
is a number or missing. CSV has no types: a column there is numeric when all its values read as numbers.
"""

import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from oncelog.errors import OncelogError

ROW_FIELD = "row"
ROW_PREFIX = b'{"row":'
ARROW_FILE_MAGIC = b"ARROW1"
ARROW_STREAM_MAGIC = b"\xff\xff\xff\xff"
FORMATS = "CSV with a header line, JSON lines, a JSON array of objects, or Arrow IPC"

Cell = str | int | float | bool | None


class UnreadableInput(OncelogError):
    """The file is not one of the formats, or lacks the key column."""


@dataclass(frozen=True, slots=True)
class Table:
    """All rows of one input file, stored column by column."""

    columns: dict[str, list[Cell]]
    key_column: str

    @property
    def row_count(self) -> int:
        return len(self.columns[self.key_column])

    @property
    def numeric_columns(self) -> tuple[str, ...]:
        """Columns that are summed: all their values are numbers or missing, and at least one is a number."""
        return tuple(
            name
            for name, cells in self.columns.items()
            if name != self.key_column
            and any(cell is not None for cell in cells)
            and all(cell is None or _is_number(cell) for cell in cells)
        )

    def key(self, row: int) -> str:
        """Return a row's key as text; a missing one is the empty string."""
        cell = self.columns[self.key_column][row]
        return "" if cell is None else str(cell)

    def value(self, row: int) -> bytes:
        cells = {name: cells[row] for name, cells in self.columns.items()}
        return json.dumps({ROW_FIELD: row, **cells}, separators=(",", ":")).encode()


def read_table(path: Path, key_column: str) -> Table:
    """Read `path` whole. Raises UnreadableInput, naming what is there, when it cannot be used."""
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise UnreadableInput(f"cannot read {path}: {error.strerror}") from error
    try:
        columns = _read_columns(path, start)
    except (ValueError, csv.Error) as error:
        raise UnreadableInput(f"{path} is not {FORMATS}: {error}") from error
    if ROW_FIELD in columns:
        raise UnreadableInput(f"{path} has a column named {ROW_FIELD!r}, which is taken: rename it")
    if key_column not in columns:
        known = ", ".join(columns) or "none"
        raise UnreadableInput(
            f"{path} has no column {key_column!r}; choose --key from its columns: {known}"
        )
    table = Table(columns, key_column)
    if table.row_count == 0:
        raise UnreadableInput(f"{path} has no rows")
    return table


def _read_columns(path: Path, start: bytes) -> dict[str, list[Cell]]:
    if start.startswith((ARROW_FILE_MAGIC, ARROW_STREAM_MAGIC)):
        return _read_arrow(path)
    text = start.decode("utf-8-sig", errors="ignore").lstrip()
    if text.startswith("["):
        return _from_objects(json.loads(path.read_text("utf-8-sig")))
    if text.startswith("{"):
        with path.open(encoding="utf-8-sig") as lines:
            return _from_objects(json.loads(line) for line in lines if line.strip())
    return _read_csv(path)


def _read_arrow(path: Path) -> dict[str, list[Cell]]:
    from pyarrow import ipc, memory_map

    with memory_map(str(path)) as source:
        is_file = source.read(len(ARROW_FILE_MAGIC)) == ARROW_FILE_MAGIC
        source.seek(0)
        reader = ipc.open_file(source) if is_file else ipc.open_stream(source)
        table = reader.read_all()
        return {
            name: [_cell(value) for value in table.column(name).to_pylist()]
            for name in table.column_names
        }


def _read_csv(path: Path) -> dict[str, list[Cell]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        names = next(reader, [])
        if len(names) < 1 or len(set(names)) != len(names):
            raise ValueError("the first line must name each column once")
        columns: dict[str, list[str]] = {name: [] for name in names}
        for cells in reader:
            if len(cells) != len(names):
                raise ValueError(
                    f"line {reader.line_num} has {len(cells)} fields, not {len(names)}"
                )
            for name, cell in zip(names, cells, strict=True):
                columns[name].append(cell)
    return {name: _typed(cells) for name, cells in columns.items()}


def _typed(texts: Sequence[str]) -> list[Cell]:
    for parse in (int, float):
        try:
            numbers = [None if text == "" else parse(text) for text in texts]
        except ValueError:
            continue
        if all(number is None or math.isfinite(number) for number in numbers):
            return list(numbers)
    return list(texts)


def _from_objects(objects: Iterable[object]) -> dict[str, list[Cell]]:
    columns: dict[str, list[Cell]] = {}
    for count, item in enumerate(objects):
        if not isinstance(item, dict):
            raise ValueError(f"item {count} is {type(item).__name__}, not an object")
        for name in item:
            if name not in columns:
                columns[name] = [None] * count
        for name, cells in columns.items():
            cells.append(_cell(item.get(name)))
    return columns


def _cell(value: object) -> Cell:
    """Return a value that JSON can carry. Other kinds (dates, nested values) become text, a decimal becomes a float,
    and a NaN becomes missing.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, Decimal):
        return float(value)
    return str(value)


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)
