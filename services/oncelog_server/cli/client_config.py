"""`--config client.properties`: how a command logs in where the log wants a login, in the words of Kafka's tools.

The first of these counts: the option, `--profile`, ONCELOG_CLIENT_CONFIG, and the current profile if the address is
from there too. A file may name the address as well (`bootstrap.servers`).
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, Self

import typer

from oncelog.client.core.login import ClientLogin
from oncelog.errors import OncelogError

if TYPE_CHECKING:
    # Typer gives these no public names.
    from typer._click.core import Command, Context, Parameter

VARIABLE: Final = "ONCELOG_CLIENT_CONFIG"
_META: Final = "oncelog.client_config"
_SERVERS: Final = "bootstrap.servers"


class KafkaAddress(str):
    """A Kafka address (`HOST:PORT`, a str) that carries the login to use there, and the name of the profile that gave
    it.
    """

    __slots__ = ("login", "profile")
    login: ClientLogin | None
    profile: str

    def __new__(cls, address: str, login: ClientLogin | None, profile: str = "") -> Self:
        found = super().__new__(cls, address)
        found.login, found.profile = login, profile
        return found


class ClientConfig(NamedTuple):
    """The login and the address that a file gives."""

    login: ClientLogin | None = None
    servers: str = ""


def read_client_config(file: str | None) -> ClientConfig:
    """Read the login and the address from a file of client properties; empty ones for None. Raises OncelogError that
    names the file, and never shows a value that may be secret.
    """
    if not file:
        return ClientConfig()
    from oncelog.client.core.login import login_of
    from oncelog.client.core.properties import parse_properties
    from oncelog_server.cli.addresses import checked_bootstrap

    given = parse_properties(_text_of(file), file)
    servers = given.pop(_SERVERS, "")
    login = login_of(given, f"{file}: ")
    return ClientConfig(login, checked_bootstrap(servers) if servers else "")


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise OncelogError(f"cannot read {file} of --config: {why}") from error


def login_of_address(bootstrap: str) -> ClientLogin | None:
    return bootstrap.login if isinstance(bootstrap, KafkaAddress) else None


def login_properties(bootstrap: str) -> dict[str, str]:
    """Return the login that this address carries (see `KafkaAddress`) as client properties; empty if it
    carries none.
    """
    from oncelog.client.core.login import properties_of

    login = login_of_address(bootstrap)
    return {} if login is None else properties_of(login)


def spark_options(file: str) -> dict[str, str]:
    """Return the file's properties as options of the Spark source and sink. Raises OncelogError."""
    from oncelog.client.core.properties import parse_properties

    given = parse_properties(_text_of(file), file) if file else {}
    return {f"kafka.{name}": value for name, value in given.items() if name != _SERVERS}


def given_file(ctx: "Context") -> str | None:
    """Return the file that was given as `--config` after the command's name; None: none was given there."""
    found: str | None = ctx.meta.get(_META)
    return found


def file_of_environment() -> str | None:
    return os.environ.get(VARIABLE) or None


def add_config_option(command: "Command") -> None:
    """Add the option `--config` to a command that has `--bootstrap`, before it. The file is read before the address."""
    names = [one.name for one in command.params]
    if "bootstrap" in names and "config" not in names:
        command.params.insert(names.index("bootstrap") + 1, _config_option())


def _config_option() -> "Parameter":
    app = typer.Typer(add_completion=False)

    @app.command()
    def only(config: Config = None) -> None:
        """Declare `--config` for Typer, which makes options of signatures alone. Many commands have this option."""

    (option,) = typer.main.get_command(app).params
    return option


def _keep(ctx: typer.Context, value: str | None) -> None:
    if value:
        ctx.meta[_META] = value


Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_keep,
        help=f"how to log in: a client.properties of Kafka (or {VARIABLE})",
    ),
]
