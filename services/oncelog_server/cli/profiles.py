"""`oncelog profiles`: names for the logs that a user works with, each with its addresses.

They are in `~/.config/oncelog/config.toml` (or where ONCELOG_PROFILES says), for this user alone. A login stands in a
file of its own, which a profile names (`config`). The first of these gives an address: the option, `--profile`, the
address's variable, the profile of ONCELOG_PROFILE, the file's current profile, the default.
"""

import json
import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Self

import typer

from oncelog.errors import OncelogError
from oncelog.process.config_file import not_toml
from oncelog.process.variables import meant
from oncelog_server.cli.addresses import checked_bootstrap, checked_gateway
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import AsOutput, not_empty
from oncelog_server.cli.tables import printed_as_json, say, show_table

FILE_VARIABLE: Final = "ONCELOG_PROFILES"
KEYS: Final = ("bootstrap", "gateway", "config", "token_file")

app = command_group("Keep the addresses of the logs that you work with, by name.")
Name = Annotated[str, typer.Argument(callback=not_empty, help="the profile")]


def profiles_path() -> Path:
    if given := os.environ.get(FILE_VARIABLE):
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "oncelog" / "config.toml"


@dataclass(slots=True)
class Profiles:
    """The profiles that the file has."""

    current: str | None = None
    """The profile that is used where none is named."""
    by_name: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls) -> Self:
        """Read the file; without one there are no profiles. Raises OncelogError for a file that is not as it should
        be.
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
        """Return a profile's values. Raises OncelogError, with the nearest name that there is."""
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


@app.command("list")
def list_profiles(output: AsOutput = None) -> None:
    """List the profiles. Commands use the current one unless --profile names another."""
    found = Profiles.read()
    rows = [
        {"name": name, "current": name == found.current, **values}
        for name, values in sorted(found.by_name.items())
    ]
    if printed_as_json(rows, output):
        return
    show_table(
        ["profile", "current", "bootstrap", "gateway", "config", "token file"],
        [
            (
                row["name"],
                "*" if row["current"] else "",
                *(row.get(key) for key in KEYS),
            )
            for row in rows
        ],
        empty=f"No profiles in {profiles_path()}; make one with: oncelog profiles set NAME --bootstrap HOST:PORT",
    )


@app.command("set")
def set_profile(
    name: Name,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="its Kafka address")
    ] = None,
    gateway: Annotated[str | None, typer.Option(metavar="URL", help="its REST address")] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="how to log in: a client.properties of Kafka"),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="file with the token for that address")
    ] = None,
) -> None:
    """Create or change a profile. The first profile becomes the current one."""
    if bootstrap is None and gateway is None and config is None and token_file is None:
        raise typer.BadParameter("give --bootstrap, --gateway, --config, --token-file or several")
    if config is not None:
        from oncelog_server.cli.client_config import read_client_config

        read_client_config(str(config))
    given = {
        "bootstrap": bootstrap and checked_bootstrap(bootstrap),
        "gateway": gateway and checked_gateway(gateway),
        "config": config and str(config.expanduser().absolute()),
        "token_file": token_file and str(token_file.expanduser().absolute()),
    }
    found = Profiles.read()
    values = found.by_name.setdefault(name, {})
    values.update({key: one for key, one in given.items() if one})
    found.current = found.current or name
    found.write()
    say(f"profile {name} is written to {profiles_path()}")


@app.command("use")
def use_profile(name: Name) -> None:
    """Make a profile the current one."""
    found = Profiles.read()
    found.named(name)
    found.current = name
    found.write()
    say(f"{name} is the current profile")


@app.command("delete")
def delete_profile(name: Name) -> None:
    """Delete a profile. The log does not change."""
    found = Profiles.read()
    found.named(name)
    del found.by_name[name]
    found.current = None if found.current == name else found.current
    found.write()
    say(f"profile {name} is deleted")


def _refuse_unknown(path: Path, place: str, given: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            raise OncelogError(
                f"{path}: {place}{key} is not known{meant(key, known)}; there are {', '.join(known)}"
            )


def _quoted(text: str) -> str:
    """Return the text as a string of TOML. JSON's strings are TOML's, but for one character that JSON leaves as it
    is.
    """
    return re.sub("\x7f", r"\\u007f", json.dumps(text, ensure_ascii=False))
