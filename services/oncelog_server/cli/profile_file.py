"""The file of profiles: names for the logs that a user works with, each with its addresses.

It is `~/.config/oncelog/config.toml` (or where ONCELOG_PROFILES says), for this user alone.
"""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from oncelog.errors import OncelogError
from oncelog.process.config_file import not_toml
from oncelog.process.variables import meant

FILE_VARIABLE: Final = "ONCELOG_PROFILES"
KEYS: Final = ("bootstrap", "gateway", "config", "token_file")


def profiles_path() -> Path:
    if given := os.environ.get(FILE_VARIABLE):
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "oncelog" / "config.toml"


@dataclass(slots=True)
class Profiles:
    """The profiles of the file, and which of them is the current one."""

    current: str | None = None
    """The profile that is used where none is named."""
    by_name: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls) -> Self:
        """Read the file; if there is none, there are no profiles. Raises OncelogError for a file that cannot be
        understood.
        """
        path, text = profiles_path(), ""
        try:
            text = path.read_text(encoding="utf-8")
            content = tomllib.loads(text)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise OncelogError(f"cannot read the profiles in {path}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise OncelogError(not_toml(path, text, error)) from error
        _refuse_unknown(path, "", content, ("profile", "profiles"))
        current, profiles = content.get("profile"), content.get("profiles", {})
        if not isinstance(profiles, dict) or not (current is None or isinstance(current, str)):
            raise OncelogError(
                f'{path}: write profile = "NAME" and a table [profiles.NAME] for each'
            )
        for name, values in profiles.items():
            if not isinstance(values, dict) or not all(
                isinstance(one, str) for one in values.values()
            ):
                raise OncelogError(f"{path}: [profiles.{name}] is not a table of texts")
            _refuse_unknown(path, f"[profiles.{name}] ", values, KEYS)
        return cls(current, profiles)

    def named(self, name: str) -> dict[str, str]:
        """Return the values of a profile, such as its addresses. For an unknown name it raises OncelogError, which
        suggests the nearest one.
        """
        if name not in self.by_name:
            raise OncelogError(
                f"there is no profile {name!r} in {profiles_path()}{meant(name, self.by_name)}; "
                "`oncelog profiles list` shows all, `oncelog profiles set` makes one"
            )
        return self.by_name[name]

    def write(self) -> None:
        """Write the file as a whole, readable for this user alone. Its comments are lost."""
        lines = [] if self.current is None else [f"profile = {_quoted(self.current)}", ""]
        for name in sorted(self.by_name):
            lines.append(f"[profiles.{_quoted(name)}]")
            lines += [f"{key} = {_quoted(value)}" for key, value in self.by_name[name].items()]
            lines.append("")
        path = profiles_path()
        partial = path.with_name(f"{path.name}.partial")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.touch(mode=0o600)
            partial.write_text("\n".join(lines), encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            raise OncelogError(f"cannot write the profiles to {path}: {error.strerror}") from error


def _refuse_unknown(
    path: Path, place: str, given: Mapping[str, object], known: tuple[str, ...]
) -> None:
    for key in given:
        if key not in known:
            raise OncelogError(
                f"{path}: {place}{key} is not known{meant(key, known)}; there are {', '.join(known)}"
            )


def _quoted(text: str) -> str:
    """Return the text as a TOML string. JSON's notation fits, except for one character that TOML wants escaped."""
    return re.sub("\x7f", r"\\u007f", json.dumps(text, ensure_ascii=False))
