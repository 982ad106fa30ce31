"""The settings of a process as a node of a cluster; each is read from ONCELOG_NODE_<NAME>."""

import socket
from pathlib import Path
from typing import Final, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from oncelog.rpc.sessions import SessionLimits

_DEFAULTS = SessionLimits()
EVERY_HOST = ("0.0.0.0", "::", "")

NO_NODE_ID: Final = 0
"""The node id of a process to which the controller gives its id."""


class NodeSettings(BaseSettings):
    """Set once per process.

    What makes a process a node of a cluster: its node id, its addresses, its controllers, the bounds of its calls, its
    TLS files.
    """

    model_config = SettingsConfigDict(env_prefix="ONCELOG_NODE_", frozen=True)

    node_id: int = Field(
        ge=0,
        description="unique in the cluster, the same after each restart, at most 1000; 0 in a listener, a marker "
        "sender or a gateway: the controller gives one from 1001 on, another after each start",
    )
    host: str = Field("127.0.0.1", description="address to serve other nodes on")
    port: int = Field(9090, ge=0, le=65535, description="port to serve other nodes on; 0: any free")
    advertised_address: str = Field(
        "",
        description="host:port that other nodes reach this one at; default: the address it serves on, "
        "by the machine's name when it serves on every address",
    )
    controllers: str = Field(
        "127.0.0.1:9090", description="host:port of every controller, separated by commas"
    )
    rack: str = Field(
        "", description="where this node is; evacuations and balancing spread replicas over racks"
    )
    register_log_interval_ms: int = Field(
        10_000, ge=100, le=600_000, description="between two lines about a registration that waits"
    )
    drain_silence_ms: int = Field(
        10_000,
        ge=100,
        le=600_000,
        description="a drain ends when no controller answered for this long: all are stopping. Longer than it takes "
        "to find the next one: an upgrade stops the active controller beside the others",
    )
    session_calls_max: int = Field(
        _DEFAULTS.calls_max, ge=1, le=100_000, description="calls in flight to one other node"
    )
    session_bytes_max: int = Field(
        _DEFAULTS.bytes_max, ge=1024, description="bytes of requests in flight to one other node"
    )
    connect_timeout_ms: int = Field(
        _DEFAULTS.connect_timeout_ms, ge=10, le=600_000, description="to open a session"
    )
    keepalive_ms: int = Field(
        _DEFAULTS.keepalive_ms,
        ge=100,
        le=3_600_000,
        description="between two pings on a quiet connection; a frozen host is noticed after this "
        "and the next",
    )
    keepalive_timeout_ms: int = Field(
        _DEFAULTS.keepalive_timeout_ms, ge=100, le=600_000, description="for the answer to a ping"
    )

    http_proxy: str = Field(
        "",
        description="host:port of an HTTP CONNECT proxy through which every other node is called; default: none",
    )

    tls_certificate_file: Path | None = Field(
        None,
        description="PEM file with this process's certificate for TLS between processes, which names its role "
        "(oncelog pki); unset: calls between processes are plain, and anybody may call anything",
    )
    tls_key_file: Path | None = Field(None, description="PEM file with that certificate's key")
    tls_ca_file: Path | None = Field(
        None, description="PEM file with the CA of the cluster's processes"
    )

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        files = (self.tls_certificate_file, self.tls_key_file, self.tls_ca_file)
        if any(files) and not all(files):
            raise ValueError(
                "tls_certificate_file, tls_key_file and tls_ca_file go together: set all three, or none"
            )
        return self

    @property
    def controller_addresses(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.controllers.split(",") if part.strip())

    @property
    def session_limits(self) -> SessionLimits:
        return SessionLimits(
            calls_max=self.session_calls_max,
            bytes_max=self.session_bytes_max,
            connect_timeout_ms=self.connect_timeout_ms,
            keepalive_ms=self.keepalive_ms,
            keepalive_timeout_ms=self.keepalive_timeout_ms,
            http_proxy=self.http_proxy,
        )

    def address(self, port: int) -> str:
        """Return the address that other nodes are told to call, once the port is known."""
        if self.advertised_address:
            return self.advertised_address
        host = socket.gethostname() if self.host in EVERY_HOST else self.host
        return f"{f'[{host}]' if ':' in host else host}:{port}"


class NamedNodeSettings(NodeSettings):
    """Set once per process.

    The settings of a node whose state belongs to its node id, such as a storage node. So the id must be set: the
    controller gives none.
    """

    @field_validator("node_id")
    @classmethod
    def _is_named(cls, node_id: int) -> int:
        if node_id == NO_NODE_ID:
            raise ValueError(
                "the state of this process belongs to its node id, so the controller gives it none; "
                "set one from 1 to 1000 that no other process has, and keep it"
            )
        return node_id
