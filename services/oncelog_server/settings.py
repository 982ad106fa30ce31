"""What `oncelog up` can be told. Every other setting belongs to a role and is read from that role's environment."""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from oncelog.errors import OncelogError

SettingsT = TypeVar("SettingsT", bound=BaseSettings)


class EmbeddedSettings(BaseSettings):
    """One process, every role, one data folder."""

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


def read_settings(kind: type[SettingsT], **given: Any) -> SettingsT:
    """`given`, and the environment for the rest. Raises OncelogError: one line with the variable, its value and why."""
    try:
        return kind(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"]).upper()
        prefix = kind.model_config.get("env_prefix", "")
        raise OncelogError(f"{prefix}{name}={first['input']!r}: {first['msg']}") from None
    except SettingsError as error:
        raise OncelogError(f"the environment of {kind.__name__}: {error}") from None
