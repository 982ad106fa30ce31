"""Settings of a process, from flags and the environment: one rule, one line when a value is wrong.

A knob `checkpoint_bytes` of a class with the prefix `ONCELOG_STORAGE_` is the variable
`ONCELOG_STORAGE_CHECKPOINT_BYTES` and the flag `--storage-checkpoint-bytes`: the same words, so whoever knows one knows
the other. (A word that stands twice in a row is said once in the flag.) A flag wins over the environment, the
environment over the default. `--help` is made from the settings classes, so it cannot forget a knob.
"""

import argparse
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsError

from oncelog.errors import OncelogError

SettingsT = TypeVar("SettingsT", bound=BaseSettings)

EXIT_USED_WRONGLY: Final = 2
_UNITS: Final = {"ms": "MS", "bytes": "BYTES", "port": "PORT", "host": "HOST", "url": "URL"}


class WrongUse(OncelogError):
    """A flag or variable that cannot be: the text names it, its value, and the way out."""


class Knobs:
    """The settings classes of one program and the parser made from them."""

    def __init__(
        self,
        program: str,
        summary: str,
        kinds: Sequence[type[BaseSettings]],
        derived: frozenset[str] = frozenset(),
    ) -> None:
        self._kinds = tuple(kinds)
        self._parser = _Parser(
            prog=f"python -m {program}",
            usage="%(prog)s [--help] [FLAG VALUE]...",
            description=f"{summary} Each flag is also an environment variable; a flag wins.",
            allow_abbrev=False,
        )
        for kind in self._kinds:
            group = self._parser.add_argument_group(_title(kind), _first_line(kind))
            for name, field in kind.model_fields.items():
                if _variable(kind, name) in derived:
                    continue
                group.add_argument(
                    _flag(kind, name),
                    dest=_variable(kind, name),
                    metavar=_metavar(name, field),
                    help=_help(kind, name, field),
                )

    def read(self, arguments: Sequence[str]) -> dict[type[BaseSettings], BaseSettings]:
        """One object a class. Raises WrongUse; `--help` ends the process."""
        given = vars(self._parser.parse_args(arguments))
        return {kind: _read(kind, given) for kind in self._kinds}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongUse(f"{message}; --help lists every flag")


def _read(kind: type[SettingsT], given: Mapping[str, str | None]) -> SettingsT:
    from_flags = {
        name: value
        for name in kind.model_fields
        if (value := given.get(_variable(kind, name))) is not None
    }
    try:
        return kind(**from_flags)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:
            raise WrongUse(f"{kind.__name__}: {first['msg']}; --help lists every flag") from None
        name = str(first["loc"][0])
        variable, flag = _variable(kind, name), _flag(kind, name)
        if first["type"] == "missing":
            raise WrongUse(
                f"{flag} is missing: give it, or set {variable}; --help says what it is"
            ) from None
        source = flag if name in from_flags else variable
        other = variable if name in from_flags else flag
        raise WrongUse(
            f"{source}={first['input']!r}: {first['msg']}; change it here or with {other}, --help says what it is"
        ) from None
    except SettingsError as error:
        raise WrongUse(f"the environment of {kind.__name__}: {error}") from None


def _title(kind: type[BaseSettings]) -> str:
    prefix = kind.model_config.get("env_prefix", "")
    return prefix.removeprefix("ONCELOG_").strip("_").replace("_", " ").lower()


def _first_line(kind: type[BaseSettings]) -> str:
    return str(kind.__doc__ or "").strip().partition("\n")[0]


def _variable(kind: type[BaseSettings], name: str) -> str:
    return f"{kind.model_config.get('env_prefix', '')}{name}".upper()


def _flag(kind: type[BaseSettings], name: str) -> str:
    words = _variable(kind, name).removeprefix("ONCELOG_").lower().split("_")
    # ONCELOG_NODE_NODE_ID is --node-id.
    said_once = [
        word for word, before in zip(words, [None, *words], strict=False) if word != before
    ]
    return "--" + "-".join(said_once)


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
    text = f"{field.description or name}{default} [{_variable(kind, name)}]"
    return text.replace("%", "%%")


def _shown_default(default: Any) -> str:
    if default is None:
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    return str(default.value) if isinstance(default, Enum) else str(default)
