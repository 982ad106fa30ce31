"""The marker sender's settings; each is read from ONCELOG_MARKER_SENDER_<NAME>."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class MarkerSenderSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="ONCELOG_MARKER_SENDER_", frozen=True)

    queued_markers_max: int = Field(
        100_000,
        ge=1,
        description="markers waiting in all, one per partition; over it coordinators are told OVERLOADED",
    )
    request_markers_max: int = Field(
        10_000, ge=1, description="markers in one request to a leader; keeps a request below 4 MB"
    )
    request_timeout_ms: int = Field(
        30_000,
        ge=1,
        le=3_600_000,
        description="longest wait for a leader's answer; then the markers go again",
    )
    retry_backoff_ms: int = Field(
        20, ge=1, le=60_000, description="first wait before a marker is sent again; doubles"
    )
    retry_backoff_max_ms: int = Field(
        1000, ge=1, le=600_000, description="longest wait before a marker is sent again"
    )
    redis_url: str = Field(
        "",
        description="where the live event feed goes, redis://host:6379/0; empty: there is none. "
        "Nothing waits for it",
    )
