"""Loads the commands of `oncelog` by name. A command's module is imported only when the command runs, is completed, or
is listed in the help.
"""

import difflib
import functools
import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from pydantic_settings import BaseSettings

    # Typer gives these no public names.
    from typer._click.core import Command, Context, Parameter


class Entry(NamedTuple):
    module: str
    attribute: str
    """The name of a Typer app, or of a function that becomes one command."""


COMMANDS: Final = {
    "up": Entry("oncelog_server.cli.up", "app"),
    "demo": Entry("oncelog_server.demo.cli", "demo"),
    "topics": Entry("oncelog_server.cli.topics", "app"),
    "produce": Entry("oncelog_server.cli.produce", "app"),
    "consume": Entry("oncelog_server.cli.consume", "app"),
    "transactions": Entry("oncelog_server.cli.transactions", "app"),
    "sinks": Entry("oncelog_server.cli.sinks", "app"),
    "groups": Entry("oncelog_server.cli.groups", "app"),
    "records": Entry("oncelog_server.cli.records", "app"),
    "partitions": Entry("oncelog_server.cli.partitions", "app"),
    "nodes": Entry("oncelog_server.cli.nodes", "app"),
    "features": Entry("oncelog_server.cli.features", "app"),
    "storage": Entry("oncelog_server.cli.storage", "app"),
    "acls": Entry("oncelog_server.cli.acls", "app"),
    "users": Entry("oncelog_server.cli.users", "app"),
    "tokens": Entry("oncelog_server.cli.tokens", "app"),
    "audit": Entry("oncelog_server.cli.audit", "audit"),
    "pki": Entry("oncelog_server.cli.pki", "pki"),
    "backup": Entry("oncelog_server.cli.backup", "backup"),
    "restore": Entry("oncelog_server.cli.backup", "restore"),
    "cluster": Entry("oncelog_server.cli.cluster", "app"),
    "mcp": Entry("oncelog_server.cli.assistant", "assistant"),
    "health": Entry("oncelog_server.cli.health", "app"),
    "smoke-test": Entry("oncelog_server.cli.smoke_test", "app"),
    "chaos": Entry("oncelog_robustness.chaos.__main__", "app"),
    "verify": Entry("oncelog_robustness.verify.__main__", "app"),
    "profiles": Entry("oncelog_server.cli.profiles", "app"),
    "completion": Entry("oncelog_server.cli.completion", "app"),
}


ADDRESS_VARIABLES: Final = {
    "ONCELOG_BOOTSTRAP",
    "ONCELOG_CLIENT_CONFIG",
    "ONCELOG_GATEWAY",
    "ONCELOG_PROFILE",
    "ONCELOG_TOKEN",
    "ONCELOG_TOKEN_FILE",
}
"""Environment variables that most commands read. If no other ONCELOG_ variable is set, a command skips the check for
unknown ones, whose imports take time.
"""


class HelpfulGroup(TyperGroup):
    """A command with subcommands. Called without one it prints its help, and exits with code 0."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(0)
        return super().parse_args(ctx, args)


def command_group(text: str) -> typer.Typer:
    """Return a Typer app for a command with subcommands, such as `oncelog topics`. `text` is its help."""
    return typer.Typer(add_completion=False, help=text, cls=HelpfulGroup, no_args_is_help=True)


class LazyGroup(HelpfulGroup):
    """The command `oncelog` itself, with all commands as subcommands that are imported when they are asked for."""

    def get_params(self, ctx: "Context") -> list["Parameter"]:
        return _with_bare_flags(super().get_params, ctx)

    def list_commands(self, ctx: "Context") -> list[str]:
        return [name for name, entry in COMMANDS.items() if _exists(entry)]

    def resolve_command(
        self, ctx: "Context", args: list[str]
    ) -> tuple[str | None, "Command | None", list[str]]:
        """Return the name of the command that was typed, the command, and its arguments. For a name that does not exist
        the error suggests similar names, without loading any command.
        """
        if args and args[0] not in COMMANDS and not ctx.resilient_parsing:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx))
            if near:
                meant = " or ".join(repr(one) for one in near)
                ctx.fail(f"No such command {args[0]!r}. Did you mean {meant}?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        entry = COMMANDS.get(cmd_name)
        if entry is None or not _exists(entry):
            return None
        found = getattr(importlib.import_module(entry.module), entry.attribute)
        if not isinstance(found, typer.Typer):
            app = typer.Typer(add_completion=False)
            app.command()(found)
            found = app
        command = typer.main.get_command(found)
        command.name = cmd_name
        _prepare(command, is_cluster=cmd_name == "cluster")
        return command


def _prepare(command: "Command", *, is_cluster: bool) -> None:
    """Add to a command, and to its subcommands, what all of them have: `--config` if it talks Kafka, and a check for
    unknown ONCELOG_ variables. The check runs before the command, but not before its help. `is_cluster`: it is `oncelog
    cluster`.

    With a misspelled ONCELOG_BOOTSTRAP a command would go to another log than was meant.
    """
    bare = functools.partial(_with_bare_flags, command.get_params)
    command.get_params = bare  # type: ignore[method-assign]
    for one in getattr(command, "commands", {}).values():
        _prepare(one, is_cluster=is_cluster)
    run = command.callback
    if run is None or isinstance(command, TyperGroup):
        return
    if any(one.name == "bootstrap" for one in command.params):
        # Imported late: `oncelog up` talks no Kafka.
        from oncelog_server.cli.client_config import add_config_option

        add_config_option(command)

    @functools.wraps(run)
    def checked(*arguments: object, **options: object) -> object:
        _refuse_unknown_variables(is_cluster=is_cluster)
        return run(*arguments, **options)

    command.callback = checked


def _with_bare_flags(
    get_params: Callable[["Context"], list["Parameter"]], ctx: "Context"
) -> list["Parameter"]:
    """Return a command's parameters, with flags shown without a value. Typer's help would say `<bool>` of each, as if a
    flag took one.
    """
    found = get_params(ctx)
    for one in found:
        if getattr(one, "is_flag", False) and one.metavar is None:
            one.metavar = ""
    return found


def _refuse_unknown_variables(*, is_cluster: bool) -> None:
    """Raise OncelogError for ONCELOG_ variables that no setting has; with `is_cluster`, those of `oncelog cluster`
    count too. `oncelog up` and the roles check again, with the names of all their settings.
    """
    names = {name for name in os.environ if name.upper().startswith("ONCELOG_")}
    if names <= ADDRESS_VARIABLES:
        return
    # Imported late, and mostly not at all.
    from oncelog.process.variables import refuse_unknown_variables

    kinds: tuple[type[BaseSettings], ...] = ()
    if is_cluster:
        from oncelog_server.settings import ClusterSettings

        kinds = (ClusterSettings,)
    refuse_unknown_variables(kinds, os.environ)


def _exists(entry: Entry) -> bool:
    try:
        return importlib.util.find_spec(entry.module) is not None
    except ModuleNotFoundError:
        return False
