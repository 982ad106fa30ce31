"""The `oncelog` command: a tree of small commands, each imported when it is asked for.

`oncelog up` must have its first transaction within a second of the process's start. So this package imports nothing but
typer until the command is known: no tables, no Kafka client. Exit codes: 0 done, 1 it failed, 2 used wrongly, 130
stopped by Ctrl-C.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from oncelog.errors import OncelogError
from oncelog_server.cli.lazy import LazyGroup
from oncelog_server.cli.options import (
    BOOTSTRAP_DEFAULT,
    CHOSEN,
    GATEWAY_DEFAULT,
    Globals,
    Output,
)

EXIT_FAILED = 1

root = typer.Typer(
    cls=LazyGroup,
    name="oncelog",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from oncelog.record.check import IS_WALK_COMPILED

        how = "records are checked by compiled code" if IS_WALK_COMPILED else "nothing is compiled"
        typer.echo(f"oncelog {version('oncelog')} ({how})")
        raise typer.Exit


@root.callback()
def oncelog(
    ctx: typer.Context,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            help=f"Kafka address (or ONCELOG_BOOTSTRAP; default: {BOOTSTRAP_DEFAULT})",
            metavar="HOST:PORT",
        ),
    ] = None,
    gateway: Annotated[
        str | None,
        typer.Option(
            help=f"REST address (or ONCELOG_GATEWAY; default: {GATEWAY_DEFAULT})", metavar="URL"
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="addresses by name, see `oncelog profiles` (or ONCELOG_PROFILE)", metavar="NAME"
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            help="how to log in: a client.properties of Kafka (or ONCELOG_CLIENT_CONFIG)",
            metavar="FILE",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="file with the token for REST (or ONCELOG_TOKEN, ONCELOG_TOKEN_FILE)",
            metavar="FILE",
        ),
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(help="why something is changed, for the gateway's audit log", metavar="TEXT"),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="tables for people, json for scripts")
    ] = Output.TABLE,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """A Kafka-compatible exactly-once log.

    `oncelog up` starts one. The other commands send requests to a running one.
    """
    ctx.obj = chosen = Globals(
        bootstrap=bootstrap,
        gateway=gateway,
        profile=profile,
        config=config,
        output=output,
        token_file=token_file,
        reason=reason,
    )
    CHOSEN.set(chosen)


def run(arguments: Sequence[str]) -> int:
    """Run one command with its arguments. Returns the exit code; a failure is printed as one line on stderr."""
    command = typer.main.get_command(root)
    try:
        command.main(list(arguments), prog_name="oncelog")
    except OncelogError as error:
        print(f"oncelog: {error}", file=sys.stderr)
        return EXIT_FAILED
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    finally:
        CHOSEN.set(Globals())
    return 0


def main() -> None:
    """Run the `oncelog` command with the arguments of this process: the entry point of the installed script."""
    sys.exit(run(sys.argv[1:]))
