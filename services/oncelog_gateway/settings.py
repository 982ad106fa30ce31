"""Every knob of the gateway, each with its unit and its reason."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class GatewaySettings(BaseSettings):
    """REST, console and metrics of one cluster."""

    model_config = SettingsConfigDict(env_prefix="ONCELOG_GATEWAY_", frozen=True)

    host: str = Field(
        "127.0.0.1",
        description="address to bind; the default keeps it on this machine, because REST has no login",
    )
    port: int = Field(8080, ge=0, le=65535, description="port to bind; 0 takes a free one")
    audit_path: Path = Field(
        Path("audit.jsonl"),
        description="append-only JSON lines: every attempt to end a transaction or to move what nodes do",
    )
    call_timeout_ms: int = Field(
        5_000,
        ge=1,
        le=120_000,
        description="longest wait for a role's answer; a page must not hang because a role does",
    )
    shutdown_timeout_ms: int = Field(
        2_000, ge=0, le=60_000, description="how long requests in flight may take when stopping"
    )
    request_bytes_max: int = Field(
        1 << 20,
        ge=1024,
        description="largest request body; the biggest real one is a few hundred bytes",
    )
    connections_max: int = Field(
        200, ge=1, le=10_000, description="connections and requests at once; more are answered 503"
    )
    metrics_partitions_max: int = Field(
        2_000,
        ge=0,
        description="partitions with series of their own in /metrics; a scrape must stay small",
    )
