"""`oncelog up`: the options; `oncelog_server.up` does the work."""

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(add_completion=False)


@app.command()
def up(
    data: Annotated[
        Path | None, typer.Option(help="folder of everything that lasts (default: oncelog-data)")
    ] = None,
    ephemeral: Annotated[
        bool,
        typer.Option("--ephemeral", help="keep the data in a temporary folder, removed at the end"),
    ] = False,
    host: Annotated[str | None, typer.Option(help="address to bind (default: 127.0.0.1)")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Kafka port, 0 takes a free one (default: 9092)"),
    ] = None,
    gateway_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="REST port, 0 takes a free one (default: 8080)"),
    ] = None,
    advertised_host: Annotated[
        str | None, typer.Option(help="host told to clients (default: the one they used)")
    ] = None,
    advertised_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="port told to clients (default: the one they used)"),
    ] = None,
    postgres: Annotated[
        bool, typer.Option("--postgres", help="keep metadata in a real embedded Postgres")
    ] = False,
    ready_file: Annotated[
        Path | None, typer.Option(help="write the addresses here as JSON once ready")
    ] = None,
) -> None:
    """Start oncelog in this process: every role, one data folder. Ctrl-C stops it.

    Each option can also come from the environment: ONCELOG_PORT, ONCELOG_DATA and so on.
    """
    from oncelog_server.settings import EmbeddedSettings, read_settings
    from oncelog_server.up import up as run_up

    given: dict[str, Any] = {
        "data": data,
        "ephemeral": ephemeral or None,
        "host": host,
        "port": port,
        "gateway_port": gateway_port,
        "advertised_host": advertised_host,
        "advertised_port": advertised_port,
        "postgres": postgres or None,
        "ready_file": ready_file,
    }
    settings = read_settings(
        EmbeddedSettings, **{name: value for name, value in given.items() if value is not None}
    )
    raise typer.Exit(run_up(settings))
