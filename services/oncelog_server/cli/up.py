"""`oncelog up`: the options of the command; `oncelog_server.up` does the work."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)

Data = Annotated[Path | None, typer.Option(help="data folder (default: oncelog-data)")]
Ephemeral = Annotated[
    bool,
    typer.Option("--ephemeral", help="use a temporary data folder, and remove it at the end"),
]
Host = Annotated[str | None, typer.Option(help="address to bind (default: 127.0.0.1)")]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Kafka port, 0 takes a free one (default: 9092)"),
]
GatewayPort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="REST port, 0 takes a free one (default: 8080)"),
]
AdvertisedHost = Annotated[
    str | None, typer.Option(help="host that clients connect to (default: the one they used)")
]
AdvertisedPort = Annotated[
    int | None,
    typer.Option(
        min=1, max=65535, help="port that clients connect to (default: the one they used)"
    ),
]
Postgres = Annotated[
    bool, typer.Option("--postgres", help="keep the metadata in an embedded Postgres")
]
ReadyFile = Annotated[
    Path | None, typer.Option(help="file that gets the addresses as JSON, once oncelog is ready")
]
FlushPolicy = Annotated[
    str | None,
    typer.Option(
        metavar="os|always",
        help="always: fsync before each acknowledgement, so records survive a power cut (default: os)",
    ),
]
Level = Annotated[
    str | None,
    typer.Option(
        metavar="debug|info|warning|error",
        help="lowest level that is logged (default: warning)",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(metavar="logfmt|json", help="format of a log line (default: logfmt)"),
]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="settings in TOML, a table for each role (or ONCELOG_CONFIG)"
    ),
]


@app.command()
def up(
    data: Data = None,
    ephemeral: Ephemeral = False,
    host: Host = None,
    port: Port = None,
    gateway_port: GatewayPort = None,
    advertised_host: AdvertisedHost = None,
    advertised_port: AdvertisedPort = None,
    postgres: Postgres = False,
    ready_file: ReadyFile = None,
    flush_policy: FlushPolicy = None,
    log_level: Level = None,
    log_format: Format = None,
    config: Config = None,
) -> None:
    """Start oncelog in this process: every role, one data folder. Ctrl-C stops it.

    Each option can also come from the environment: ONCELOG_PORT, ONCELOG_DATA and so on; or from the table
    up of a file, --config. settings.md of the documentation lists these and the settings of every role.
    """
    from oncelog.process.names import flag_of, variable_of
    from oncelog.process.sources import Flag
    from oncelog_server.settings import EmbeddedSettings, embedded_settings, sources_of_up
    from oncelog_server.up import up as run_up

    given: dict[str, object] = {
        "data": data,
        "ephemeral": ephemeral or None,
        "host": host,
        "port": port,
        "gateway_port": gateway_port,
        "advertised_host": advertised_host,
        "advertised_port": advertised_port,
        "postgres": postgres or None,
        "ready_file": ready_file,
        "log_level": log_level,
        "log_format": log_format,
    }
    flags = {
        variable_of(EmbeddedSettings, name): Flag(flag_of(EmbeddedSettings, name), value)
        for name, value in given.items()
    }
    flags["ONCELOG_STORAGE_FLUSH_POLICY"] = Flag("--flush-policy", flush_policy)
    sources = sources_of_up(flags, config)
    raise typer.Exit(run_up(embedded_settings(sources), sources))
