"""Options that most commands share, such as `--bootstrap`. Each may be given before the command's name or after it; the
latter wins.
"""

import os
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import quote

import typer

from oncelog.errors import OncelogError

BOOTSTRAP_DEFAULT: Final = "localhost:9092"
GATEWAY_DEFAULT: Final = "http://localhost:8080"
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Globals:
    """The options that all commands share, such as --bootstrap, as they were given before the command's name."""

    bootstrap: str | None = None
    gateway: str | None = None
    profile: str | None = None
    config: str | None = None
    output: Output = Output.TABLE
    token_file: Path | None = None
    reason: str | None = None

    def address(self, key: str, variable: str, default: str) -> str:
        """Return an address from the first source that has one: the option, --profile, the environment variable, the
        current profile, the default.
        """
        given: str | None = getattr(self, key)
        if given:
            return given
        if self.profile is not None:
            return self._of_profile(self.profile, key) or default
        if found := os.environ.get(variable):
            return found
        return self._of_profile(os.environ.get("ONCELOG_PROFILE"), key) or default

    def kafka(self, given: str, file: str | None) -> str:
        """Return the Kafka address for a command, with its login if there is one (`client_config.py`). `given` is the
        --bootstrap and `file` the --config after the command's name; empty: the options before it or the environment
        decide.
        """
        # Imported late: `oncelog up` needs none of it.
        from oncelog_server.cli.client_config import (
            KafkaAddress,
            file_of_environment,
            read_client_config,
        )

        address, file = given or self.bootstrap or "", file or self.config
        config = read_client_config(file)
        if file:
            address = address or config.servers
        elif self.profile is not None:
            config = read_client_config(self._of_profile(self.profile, "config"))
        elif file := file_of_environment():
            config = read_client_config(file)
        address = address or self.address("bootstrap", "ONCELOG_BOOTSTRAP", "")
        profile = address.profile if isinstance(address, OfProfile) else ""
        if not file and self.profile is None and (profile or not address):
            current = os.environ.get("ONCELOG_PROFILE")
            config = read_client_config(self._of_profile(current, "config"))
        return KafkaAddress(address or config.servers or BOOTSTRAP_DEFAULT, config.login, profile)

    def token(self, gateway: str) -> str:
        """Return the API token from the first source that has one; empty: none has. The order is --token-file,
        --profile, ONCELOG_TOKEN, ONCELOG_TOKEN_FILE, the current profile.

        A profile's token is sent to that profile's gateway alone.
        """
        if self.token_file is not None:
            return token_in(self.token_file)
        of_profile = ""
        if isinstance(gateway, OfProfile):
            of_profile = self._of_profile(gateway.profile, "token_file") or ""
        if of_profile and self.profile is not None:
            return token_in(Path(of_profile))
        if found := os.environ.get("ONCELOG_TOKEN"):
            return found.strip()
        path = os.environ.get("ONCELOG_TOKEN_FILE") or of_profile
        return token_in(Path(path)) if path else ""

    def _of_profile(self, name: str | None, key: str) -> str | None:
        # Imported late: most people have no profiles.
        from oncelog_server.cli.profile_file import Profiles

        profiles = Profiles.read()
        name = name or profiles.current
        found = None if name is None else profiles.named(name).get(key)
        return found and OfProfile(found, name or "")


CHOSEN: Final[ContextVar[Globals]] = ContextVar("chosen", default=Globals())  # noqa: B039 (it is frozen)
"""The shared options that were given before the name of the command that runs. An option after the name wins."""


class OfProfile(str):
    """An address (a str) that carries the name of its profile, for the error when nothing answers there."""

    __slots__ = ("profile",)
    profile: str

    def __new__(cls, address: str, profile: str) -> Self:
        found = super().__new__(cls, address)
        found.profile = profile
        return found


def token_in(path: Path) -> str:
    """Return the token in a file. Raises OncelogError for a file that holds no token."""
    try:
        token = path.expanduser().read_text(encoding="ascii").strip()
    except OSError as error:
        raise OncelogError(f"cannot read the token in {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        token = ""
    if len(token.split()) != 1:
        raise OncelogError(f"{path} holds no token; write one line with it")
    return token


def credentials(gateway: str) -> dict[str, str]:
    """Return the HTTP headers for the current command's request to the gateway: its token, and the reason that was
    given for the audit log.
    """
    found = CHOSEN.get()
    token = found.token(gateway)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if found.reason:
        headers["Oncelog-Reason"] = quote(found.reason)
    return headers


def named(address: str) -> str:
    """Return an address for an error's text, with the name of the profile that it is from, if any."""
    profile = getattr(address, "profile", "")
    return f"{address} of profile {profile}" if profile else address


def _globals(ctx: typer.Context) -> Globals:
    found = ctx.find_root().obj
    return found if isinstance(found, Globals) else Globals()


def _bootstrap(ctx: typer.Context, value: str) -> str:
    if ctx.resilient_parsing:
        return value
    from oncelog_server.cli.client_config import given_file

    return _globals(ctx).kafka(value, given_file(ctx))


def _gateway(ctx: typer.Context, value: str) -> str:
    if ctx.resilient_parsing:
        return value
    return value or _globals(ctx).address("gateway", "ONCELOG_GATEWAY", GATEWAY_DEFAULT)


def _output(ctx: typer.Context, value: str) -> str:
    return value or _globals(ctx).output.value


Bootstrap = Annotated[
    str,
    typer.Option(
        callback=_bootstrap,
        help=f"Kafka address (or ONCELOG_BOOTSTRAP; default: {BOOTSTRAP_DEFAULT})",
        metavar="HOST:PORT",
        show_default=False,
    ),
]
Gateway = Annotated[
    str,
    typer.Option(
        callback=_gateway,
        help=f"REST address (or ONCELOG_GATEWAY; default: {GATEWAY_DEFAULT})",
        metavar="URL",
        show_default=False,
    ),
]
AsOutput = Annotated[
    Output | None,
    typer.Option(
        "--output",
        "-o",
        callback=_output,
        help="tables for people, json for scripts",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask")]


Execute = Annotated[
    bool, typer.Option("--execute", help="do it; without this option, only show the effect")
]


def confirmed(question: str, *, yes: bool) -> None:
    """Ask the user before something that cannot be undone. Ends the command unless the answer is yes.

    Without a terminal nobody can answer: then the option `--yes` is needed.
    """
    if yes:
        return
    try:
        if typer.confirm(question, err=True):
            return
    except typer.Abort:
        typer.echo(err=True)
        if not sys.stdin.isatty():
            typer.echo("nobody is there to answer; --yes does it without asking", err=True)
    typer.echo("Nothing was changed.", err=True)
    raise typer.Exit(1)


def not_empty(value: str | None) -> str | None:
    """Return a name as it is. Raises BadParameter for an empty one, on which the client libraries would abort the whole
    process.
    """
    if value is not None and not value.strip():
        raise typer.BadParameter("an empty name is none")
    return value


def as_spelled(given: Sequence[str] | None, known: Sequence[str]) -> list[str] | None:
    """Return the given words as `known` spells them, in whatever case they were typed. Raises BadParameter for other
    words.
    """
    spelled = {one.casefold(): one for one in known}
    for one in given or ():
        if one.casefold() not in spelled:
            raise typer.BadParameter(f"{one!r} is not one of {', '.join(known)}")
    return None if given is None else [spelled[one.casefold()] for one in given]
