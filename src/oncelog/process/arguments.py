"""Flags of a process, made from its settings classes, so that `--help` cannot forget a setting.

A flag wins over the environment, the environment over the file of `--config`, the file over the default
(`oncelog.process.sources`).
"""

import argparse
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Final, NoReturn

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from oncelog.errors import OncelogError
from oncelog.process.names import flag_of, former_names, table_of, variable_of
from oncelog.process.sources import Flag, Sources, WrongUse

__all__ = ["EXIT_USED_WRONGLY", "SettingsParser", "WrongUse"]

EXIT_USED_WRONGLY: Final = 2
_UNITS: Final = {"ms": "MS", "bytes": "BYTES", "port": "PORT", "host": "HOST", "url": "URL"}


class SettingsParser:
    """Parses the command line of one program into its settings classes."""

    def __init__(
        self,
        program: str,
        summary: str,
        kinds: Sequence[type[BaseSettings]],
        derived: frozenset[str] = frozenset(),
    ) -> None:
        self._kinds = tuple(kinds)
        self._derived = {
            table_of(kind): {
                name: "it follows from other settings of this program"
                for name in kind.model_fields
                if variable_of(kind, name) in derived
            }
            for kind in kinds
        }
        self._parser = _Parser(
            prog=f"python -m {program}",
            usage="%(prog)s [--help] [FLAG VALUE]...",
            description=f"{summary} Each flag is also an environment variable and a key of the file; a flag wins.",
            allow_abbrev=False,
        )
        self._parser.add_argument(
            "--config",
            metavar="FILE",
            help="TOML with a table for each group below [default: none] [ONCELOG_CONFIG]",
        )
        for kind in self._kinds:
            group = self._parser.add_argument_group(
                table_of(kind).replace("_", " "), _first_line(kind)
            )
            for name, field in kind.model_fields.items():
                if variable_of(kind, name) in derived:
                    continue
                group.add_argument(
                    flag_of(kind, name),
                    *(flag_of(kind, old) for old in former_names(kind, name)),
                    dest=variable_of(kind, name),
                    metavar=_metavar(name, field),
                    help=_help(kind, name, field),
                )

    def read(self, arguments: Sequence[str]) -> dict[type[BaseSettings], BaseSettings]:
        """Parse the arguments, and return an object of each settings class. Raises WrongUse; `--help` ends the
        process."""
        given = vars(self._parser.parse_args(arguments))
        config = given.pop("config")
        flags = {
            variable_of(kind, name): Flag(flag_of(kind, name), given.get(variable_of(kind, name)))
            for kind in self._kinds
            for name in kind.model_fields
        }
        try:
            sources = Sources.of_program(self._kinds, flags, config, self._derived)
        except OncelogError as error:
            raise WrongUse(str(error)) from None
        return {kind: sources.read(kind) for kind in self._kinds}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongUse(f"{message}; --help lists every flag")


def _first_line(kind: type[BaseSettings]) -> str:
    return str(kind.__doc__ or "").strip().partition("\n")[0]


def _metavar(name: str, field: FieldInfo) -> str:
    if isinstance(field.annotation, type) and issubclass(field.annotation, Enum):
        return "|".join(str(member.value) for member in field.annotation)
    if field.annotation is bool:
        return "true|false"
    words = name.split("_")
    for word in (words[-1], words[-2] if len(words) > 1 else ""):
        if word in _UNITS:
            return _UNITS[word]
    if field.annotation is int:
        return "N"
    return "PATH" if field.annotation is Path else "TEXT"


def _help(kind: type[BaseSettings], name: str, field: FieldInfo) -> str:
    default = "" if field.is_required() else f" [default: {_shown_default(field.default)}]"
    text = f"{field.description or name}{default} [{variable_of(kind, name)}]"
    return text.replace("%", "%%")


def _shown_default(default: object) -> str:
    if default is None:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    return str(default.value) if isinstance(default, Enum) else str(default)
