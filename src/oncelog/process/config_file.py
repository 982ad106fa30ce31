"""A file of settings in TOML: a table for each kind of them, `[storage]` with `flush_policy = "always"`.

One file serves every process of a cluster: each reads its own tables and leaves the others alone. A table that no
program has, and a key that its table does not have, are refused: a setting that is not read must not look set.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic_settings import BaseSettings

from oncelog.errors import OncelogError
from oncelog.process.documents import page
from oncelog.process.names import FORMER, TABLES, table_of
from oncelog.process.variables import meant


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The contents of a settings file. Values are kept as text, so that they mean the same as in an environment
    variable."""

    path: Path
    tables: Mapping[str, Mapping[str, str]]
    lines: Mapping[tuple[str, str], int]
    """(table, key) → line number; ("storage", "") is the table's own line."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file. Raises OncelogError if it cannot be read, is no TOML, or has a table that no program reads."""
        text = ""
        try:
            text = path.read_text(encoding="utf-8")
            content = tomllib.loads(text)
        except OSError as error:
            raise OncelogError(
                f"cannot read the settings in {path}: {error.strerror}; choose another file with --config"
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise OncelogError(not_toml(path, text, error)) from error
        lines = _lines(text)
        tables: dict[str, dict[str, str]] = {}
        for table, values in content.items():
            if not isinstance(values, dict):
                raise OncelogError(
                    f"{_place(path, lines, '', table)}: {table} stands outside of every table; "
                    f"put it below one of {_shown(TABLES)}"
                )
            if table not in TABLES:
                raise OncelogError(
                    f"{_place(path, lines, table, '')}: no program reads the table [{table}]{meant(table, TABLES)}; "
                    f"there are {_shown(TABLES)}"
                )
            read = {
                key: _text(f"{_place(path, lines, table, key)}: [{table}] {key}", value)
                for key, value in values.items()
            }
            tables[table] = _by_their_names(table, read)
        return cls(path, tables, lines)

    def values_of(self, kind: type[BaseSettings]) -> Mapping[str, str]:
        return self.tables.get(table_of(kind), {})

    def place_of(self, kind: type[BaseSettings], key: str) -> str:
        """Return where a setting stands, for an error: `oncelog.toml:7: [storage] flush_policy`."""
        table = table_of(kind)
        return f"{_place(self.path, self.lines, table, key)}: [{table}] {key}"

    def refuse_unknown(
        self, kinds: Sequence[type[BaseSettings]], fixed: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Raise OncelogError for a key in the file that none of these classes has. Raise it also for a key in `fixed`,
        which maps table and key to the reason."""
        for kind in kinds:
            for key in self.values_of(kind):
                why = fixed.get(table_of(kind), {}).get(key)
                if why is not None:
                    raise OncelogError(
                        f"{self.place_of(kind, key)} is not yours to set here: {why}"
                    )
                if key not in kind.model_fields:
                    raise OncelogError(
                        f"{self.place_of(kind, key)} is no setting{meant(key, kind.model_fields)}; "
                        f"correct it or take it out, {page('settings.md')} lists all"
                    )


def not_toml(path: Path, text: str, error: ValueError) -> str:
    """Return the error text of a file that is no TOML: `oncelog.toml:3: not TOML: …`, as every error in a file
    begins."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object[: error.start].count(b"\n") + 1
        return f"{path}:{line}: not TOML: no UTF-8"
    said, at, place = str(error).removesuffix(")").rpartition(" (at ")
    where = re.fullmatch(r"line (\d+), column (\d+)", place)
    if place == "end of document":
        return f"{path}:{text.rstrip().count(chr(10)) + 1}: not TOML: {said} at its end"
    if not at or where is None:
        return f"{path}: not TOML: {error}"
    return f"{path}:{where[1]}: not TOML: {said} in column {where[2]}"


def _by_their_names(table: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the values of a table with former names of keys replaced by the present ones. Where both are given, the
    present name counts."""
    former = FORMER.get(table, {})
    return {former[key]: value for key, value in values.items() if key in former} | {
        key: value for key, value in values.items() if key not in former
    }


def _text(place: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise OncelogError(
        f"{place} is a {type(value).__name__}; a setting is one text, number, true or false"
    )


def _shown(tables: Sequence[str]) -> str:
    return ", ".join(f"[{one}]" for one in tables)


def _place(path: Path, lines: Mapping[tuple[str, str], int], table: str, key: str) -> str:
    """Return the file's path with the line of this key, for an error. TOML has spellings in which a key has no line of
    its own."""
    line = lines.get((table, key))
    return str(path) if line is None else f"{path}:{line}"


def _lines(text: str) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([\w-]+)\s*\]", line):
            table = header[1]
            found.setdefault((table, ""), number)
        elif key := re.match(r"\s*\"?([\w-]+)\"?\s*=", line):
            found.setdefault((table, key[1]), number)
            found.setdefault((table, FORMER.get(table, {}).get(key[1], key[1])), number)
    return found
