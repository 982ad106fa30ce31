"""The settings of the gateway, each with its unit and its reason."""

from ipaddress import ip_network
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from oncelog.process.host_header import configured_names
from oncelog_gateway.access_settings import AccessSettings


class GatewaySettings(AccessSettings):
    """REST, console and metrics of one cluster."""

    model_config = SettingsConfigDict(env_prefix="ONCELOG_GATEWAY_", frozen=True)

    host: str = Field(
        "127.0.0.1",
        description="address to bind; on any other than a loopback address, authentication must be set",
    )
    port: int = Field(8080, ge=0, le=65535, description="port to bind; 0 takes a free one")
    allowed_hosts: str = Field(
        "",
        description="names that requests may carry as Host beside localhost, the loopback addresses and the bound "
        "address, separated by commas; any other is refused, or a web page could act here by DNS rebinding",
    )
    trusted_proxies: str = Field(
        "",
        description="addresses or networks of proxies, separated by commas; only theirs are X-Forwarded-User and "
        "X-Forwarded-For believed and written to the audit log",
    )
    audit_path: Path = Field(
        Path("audit.jsonl"),
        description="append-only JSON lines: every attempt to change something through REST",
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
    request_timeout_ms: int = Field(
        10_000,
        ge=100,
        le=600_000,
        description="how long a client may take for the head of a request, for its body, and to read a full buffer of "
        "the answer",
    )
    connections_max: int = Field(
        200,
        ge=8,
        le=10_000,
        description="connections at once; one more closes the one that has waited longest for its client. Three "
        "quarters as many requests are worked on at once, more are answered 503; /health is always answered",
    )
    metrics_partitions_max: int = Field(
        2_000,
        ge=0,
        description="partitions with series of their own in /metrics; a scrape must stay small",
    )

    metrics_groups_max: int = Field(
        500, ge=0, description="consumer groups with series of their own in /metrics"
    )
    metrics_internal_partitions: bool = Field(
        False,
        description="show every internal partition in /metrics; without it one is shown while something holds its LSO",
    )

    redis_url: str = Field(
        "",
        description="where roles tell what happens, redis://host:6379/0; timelines and live events are read from it. "
        "Empty: there are none, but in `oncelog up`, which needs no Redis",
    )
    history_events_max: int = Field(
        20_000,
        ge=100,
        le=1_000_000,
        description="newest events kept in memory for timelines; about 1 kB each",
    )
    event_streams_max: int = Field(
        32,
        ge=0,
        le=5_000,
        description="clients that may follow live events at once; one more is answered 503",
    )

    trace_url: str = Field(
        "",
        description="address of a trace in your viewer with {trace_id} in it, such as "
        "https://jaeger.example.com/trace/{trace_id}; transactions link to it. Empty: the trace id alone is shown",
    )

    prometheus_url: str = Field(
        "",
        description="a Prometheus that scrapes this cluster, http://prometheus:9090; the page of rates then shows "
        "seven days, and times before this gateway's start. Empty: a day at most, from the gateway's memory",
    )

    @field_validator("prometheus_url")
    @classmethod
    def _prometheus_url(cls, text: str) -> str:
        if text and not text.startswith(("http://", "https://")):
            raise ValueError(f"{text!r} must begin with http:// or https://")
        return text

    @field_validator("trace_url")
    @classmethod
    def _trace_url(cls, text: str) -> str:
        if text and not (text.startswith(("http://", "https://")) and "{trace_id}" in text):
            raise ValueError(
                f"{text!r} must begin with http:// or https:// and have {{trace_id}} where the id belongs"
            )
        return text

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, text: str) -> str:
        configured_names(text)
        return text

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies(cls, text: str) -> str:
        for one in filter(None, map(str.strip, text.split(","))):
            ip_network(one)
        return text
