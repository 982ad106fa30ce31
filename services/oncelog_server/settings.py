"""The settings of `oncelog up` and `oncelog cluster up` themselves. All other settings belong to the roles."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from oncelog.process.logs import LogFormat, LogLevel
from oncelog.process.sources import Flag, Sources, WrongUse


class EmbeddedSettings(BaseSettings):
    """One process, every role, one data folder: `oncelog up`."""

    model_config = SettingsConfigDict(env_prefix="ONCELOG_", frozen=True)

    data: Path = Field(Path("oncelog-data"), description="folder of everything that lasts")
    ephemeral: bool = Field(
        False, description="keep the data in a temporary folder, removed at the end"
    )
    host: str = Field("127.0.0.1", description="address the Kafka listener and the gateway bind to")
    port: int = Field(9092, ge=0, le=65535, description="Kafka port; 0 takes a free one")
    gateway_port: int = Field(8080, ge=0, le=65535, description="REST port; 0 takes a free one")
    advertised_host: str | None = Field(
        None, description="host told to clients; default: the one they used"
    )
    advertised_port: int | None = Field(
        None, ge=1, le=65535, description="port told to clients; default: the one they used"
    )
    postgres: bool = Field(
        False, description="keep metadata in a real embedded Postgres instead of SQLite"
    )
    ready_file: Path | None = Field(None, description="write the addresses here as JSON once ready")
    log_level: LogLevel = Field(LogLevel.WARNING, description="least important line that is logged")
    log_format: LogFormat = Field(
        LogFormat.LOGFMT, description="how a line is written; json for a log collector"
    )
    trace_late_ms: int = Field(
        10_000,
        ge=1,
        le=3_600_000,
        description="a transaction open for longer is traced whatever the sampler says; traces are on when "
        "OTEL_EXPORTER_OTLP_ENDPOINT is set",
    )


class ClusterSettings(BaseSettings):
    """One process per role on this machine: `oncelog cluster up`."""

    model_config = SettingsConfigDict(env_prefix="ONCELOG_CLUSTER_", frozen=True)

    port: int = Field(
        9092,
        ge=0,
        le=65535,
        description="Kafka port of the first listener, the next has the next; 0 takes free ones",
    )
    gateway_port: int = Field(8080, ge=0, le=65535, description="REST port; 0 takes a free one")


def kinds_of_roles() -> tuple[type[BaseSettings], ...]:
    """Return the settings class of every role, to know all settings that exist."""
    # Imported late: most commands need none of them.
    from oncelog_controller.settings import ControllerSettings
    from oncelog_coordinator.settings import CoordinatorSettings
    from oncelog_gateway.settings import GatewaySettings
    from oncelog_listener.settings import ListenerSettings
    from oncelog_marker_sender.settings import MarkerSenderSettings
    from oncelog_storage.settings import StorageSettings

    return (
        ControllerSettings,
        StorageSettings,
        CoordinatorSettings,
        MarkerSenderSettings,
        ListenerSettings,
        GatewaySettings,
    )


_BELOW_DATA = "`oncelog up` keeps it below [up] data"
_IS_ALONE = "there is one controller, in the process itself"
SET_BY_UP = {
    "controller": {
        "database_url": _BELOW_DATA,
        "controller_id": _IS_ALONE,
        "rpc_address": _IS_ALONE,
    },
    "storage": {"data_dir": _BELOW_DATA},
    "listener": {
        name: f"`oncelog up` takes [up] {name}"
        for name in ("host", "port", "advertised_host", "advertised_port")
    },
    "gateway": {
        "host": "`oncelog up` takes [up] host",
        "port": "`oncelog up` takes [up] gateway_port",
        "audit_path": _BELOW_DATA,
    },
}
"""Settings of roles that `oncelog up` sets itself, by table and key, each with the reason."""

_OF_EACH_PROCESS = "`oncelog cluster` gives each process its own"
_OF_THE_FOLDER = "`oncelog cluster` keeps it in the cluster's --folder"
_OF_THE_SHAPE = "it follows from the processes that the cluster has"
SET_BY_CLUSTER = {
    "process": {"metrics_port": _OF_EACH_PROCESS},
    "node": {
        "node_id": _OF_EACH_PROCESS,
        "host": _OF_EACH_PROCESS,
        "port": _OF_EACH_PROCESS,
        "controllers": _OF_THE_SHAPE,
    },
    "controller": {
        "database_url": _OF_THE_FOLDER,
        "bootstrap_storage_nodes": _OF_THE_SHAPE,
        "controller_id": _OF_EACH_PROCESS,
        "rpc_address": _OF_EACH_PROCESS,
    },
    "storage": {"data_dir": _OF_THE_FOLDER, "redis_url": _OF_THE_FOLDER},
    "coordinator": {"redis_url": _OF_THE_FOLDER},
    "marker_sender": {"redis_url": _OF_THE_FOLDER},
    "listener": {"host": _OF_EACH_PROCESS, "port": "`oncelog cluster` takes [cluster] port"},
    "gateway": {
        "host": _OF_EACH_PROCESS,
        "port": "`oncelog cluster` takes [cluster] gateway_port",
        "audit_path": _OF_THE_FOLDER,
        "redis_url": _OF_THE_FOLDER,
    },
}
"""Settings of roles that `oncelog cluster up` sets itself, as `SET_BY_UP` has them for `oncelog up`."""


def sources_of_up(flags: Mapping[str, Flag], config: Path | None) -> Sources:
    """Return where `oncelog up` reads its settings: flags, environment variables and the file `config`. Raises
    OncelogError for a setting that no role reads.
    """
    kinds: tuple[type[BaseSettings], ...] = (EmbeddedSettings, *kinds_of_roles())
    return Sources.of_program(kinds, flags, config, SET_BY_UP)


def sources_of_cluster(flags: Mapping[str, Flag], config: Path | None) -> Sources:
    """Return where `oncelog cluster up` reads its settings: flags, environment variables and the file `config`. Raises
    OncelogError for a setting that no process of a cluster reads.
    """
    from oncelog.process.run import ProcessSettings
    from oncelog.rpc.node_settings import NodeSettings

    read_whole: tuple[type[BaseSettings], ...] = (ProcessSettings, *kinds_of_roles())
    kinds: tuple[type[BaseSettings], ...] = (ClusterSettings, NodeSettings, *read_whole)
    sources = Sources.of_program(kinds, flags, config, SET_BY_CLUSTER)
    for kind in read_whole:
        # A value that cannot be is found here, not in twelve logs. A node's settings are not whole before it has an id.
        sources.read(kind)
    return sources


def embedded_settings(sources: Sources) -> EmbeddedSettings:
    """Return the settings of `oncelog up`. Raises OncelogError, one line with the name, its value and why."""
    settings = sources.read(EmbeddedSettings)
    data, ephemeral = (sources.rank(EmbeddedSettings, name) for name in ("data", "ephemeral"))
    if settings.ephemeral and data <= ephemeral:
        raise WrongUse(
            f"data={str(settings.data)!r} and ephemeral are both set, and ephemeral data is removed at the end; "
            "leave out --ephemeral to keep it in that folder, or leave out --data"
        )
    return settings
