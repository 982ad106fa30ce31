"""The sources of a setting: a flag wins over the environment, the environment over the file, the file over the
default."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsError

from oncelog.errors import OncelogError
from oncelog.process.config_file import ConfigFile
from oncelog.process.documents import page
from oncelog.process.names import former_names, variable_of
from oncelog.process.variables import CONFIG_VARIABLE, refuse_unknown_variables

SettingsT = TypeVar("SettingsT", bound=BaseSettings)

FLAG: Final = 0
VARIABLE: Final = 1
FILE: Final = 2
DEFAULT: Final = 3

_NOTHING: Final[Mapping[str, Mapping[str, str]]] = {}


class WrongUse(OncelogError):
    """The error for a flag, a variable or a key with an impossible name or value. The text names it, its value, and the
    way out."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A command-line flag as the user spelled it, and its value; None: it was not given."""

    name: str
    value: object = None


class Sources:
    """The sources of a program's settings: its flags, the environment, and a file that either of them names."""

    def __init__(
        self,
        flags: Mapping[str, Flag] | None = None,
        file: ConfigFile | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the three sources. `flags` is keyed by the variable of the same meaning."""
        self._flags = dict(flags or {})
        self._file = file
        given = os.environ if environment is None else environment
        self._environment = {name.upper(): value for name, value in given.items()}

    @classmethod
    def of_program(
        cls,
        kinds: Sequence[type[BaseSettings]],
        flags: Mapping[str, Flag],
        config: Path | str | None,
        fixed: Mapping[str, Mapping[str, str]] = _NOTHING,
    ) -> "Sources":
        """Return the sources of settings for a program with these settings classes.

        Raises OncelogError for names in its environment or file that no program reads, and for `fixed` ones, which
        cannot be set (by table and key: the reason).
        """
        refuse_unknown_variables(kinds, os.environ)
        path = config or os.environ.get(CONFIG_VARIABLE)
        file = None
        if path:
            file = ConfigFile.read(Path(path))
            file.refuse_unknown(kinds, fixed)
        return cls(flags, file)

    @property
    def path(self) -> Path | None:
        """The path of the settings file, for another process to read; None: there is none."""
        return None if self._file is None else self._file.path.absolute()

    def rank(self, kind: type[BaseSettings], name: str) -> int:
        """Return which source a setting comes from, as a number: FLAG is the highest."""
        variable = variable_of(kind, name)
        if variable in self._flags and self._flags[variable].value is not None:
            return FLAG
        if self._given_variable(kind, name):
            return VARIABLE
        in_file = self._file is not None and name in self._file.values_of(kind)
        return FILE if in_file else DEFAULT

    def read(self, kind: type[SettingsT], **fixed: object) -> SettingsT:
        """Return the settings of one class, from the highest source of each. `fixed` values follow from other settings,
        and win. Raises WrongUse."""
        values = dict(fixed)
        for name in kind.model_fields:
            if name in fixed:
                continue
            rank = self.rank(kind, name)
            if rank == FLAG:
                values[name] = self._flags[variable_of(kind, name)].value
            elif rank == FILE:
                assert self._file is not None, "the rank says that the file has it"
                values[name] = self._file.values_of(kind)[name]
            elif rank == VARIABLE and variable_of(kind, name) not in self._environment:
                values[name] = self._environment[self._given_variable(kind, name)]
        try:
            return kind(**values)  # type: ignore[arg-type]
        except ValidationError as error:
            raise self._wrong(kind, error) from None
        except SettingsError as error:
            raise WrongUse(f"the environment of {kind.__name__}: {error}") from None

    def _given_variable(self, kind: type[BaseSettings], name: str) -> str:
        """Return the environment variable that is set for this setting, by its present or a former name; "" if none
        is."""
        variables = (variable_of(kind, one) for one in (name, *former_names(kind, name)))
        return next((one for one in variables if one in self._environment), "")

    def _wrong(self, kind: type[BaseSettings], error: ValidationError) -> WrongUse:
        first = error.errors()[0]
        if not first["loc"]:
            return WrongUse(
                f"{kind.__name__}: {first['msg']}; {page('settings.md')} lists every setting"
            )
        name = str(first["loc"][0])
        variable = variable_of(kind, name)
        flag = self._flags[variable].name if variable in self._flags else ""
        if first["type"] == "missing":
            return WrongUse(
                f"{flag} is missing: give it, or set {variable}; --help says what it is"
            )
        rank = self.rank(kind, name)
        given = self._given_variable(kind, name) or variable
        value, said = first["input"], first["msg"]
        if rank == FILE:
            assert self._file is not None, "the rank says that the file has it"
            return WrongUse(
                f"{self._file.place_of(kind, name)} = {value!r}: {said}; change it there"
            )
        if rank == VARIABLE and str(value).startswith("tcp://"):
            way = (
                "Kubernetes sets it for a service of this name: set enableServiceLinks: false for the pod, "
                "or give the service another name"
            )
        else:
            other = variable if rank == FLAG else flag
            way = f"change it here{f' or with {other}' if other else ''}, {page('settings.md')} says what it is"
        return WrongUse(f"{flag if rank == FLAG else given}={value!r}: {said}; {way}")
