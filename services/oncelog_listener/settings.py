"""The listener's settings. Every one has a unit in its name and a reason; `ONCELOG_LISTENER_PORT=9192` sets one."""

from collections.abc import Mapping
from functools import cached_property
from typing import Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from oncelog_listener.core.endpoints import (
    EXTERNAL,
    MAIN,
    Endpoint,
    SecurityProtocol,
    endpoints_of,
    parsed_addresses,
    parsed_protocols,
)
from oncelog_listener.security_settings import SecuritySettings


class ListenerSettings(SecuritySettings):
    """Where Kafka clients connect, what they are told, and how much one of them may ask."""

    model_config = SettingsConfigDict(env_prefix="ONCELOG_LISTENER_", extra="ignore")

    host: str = Field("127.0.0.1", description="address to listen on; 0.0.0.0 is every interface")
    port: int = Field(9092, ge=0, le=65535, description="port to listen on; 0 lets the OS choose")
    advertised_host: str | None = Field(
        None, description="host told to clients; unset, the one the client connected to"
    )
    advertised_port: int | None = Field(
        None, ge=1, le=65535, description="port told to clients; unset, the one they connected to"
    )

    loopback_forwarded: bool = Field(
        False,
        description="who connects from this machine itself comes through a forwarded port, as of kubectl port-forward: "
        "told the address it connected to, and no other listener",
    )

    external_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="second port, for clients of another network; none: there is no second one",
    )
    external_advertised: str = Field(
        "",
        description="what clients of that port are told: NODE_ID=HOST:PORT of this listener; those of others, "
        "separated by commas, are left alone",
    )

    listeners: str = Field(
        "",
        description="listeners by name, NAME://HOST:PORT, separated by commas (listeners); the first is the one whose "
        "address the node registers; unset: one named PLAINTEXT at host and port",
    )
    listener_security_protocol_map: str = Field(
        "",
        description="NAME:PROTOCOL, separated by commas: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL "
        "(listener.security.protocol.map); a name that is a protocol needs none",
    )
    advertised_listeners: str = Field(
        "",
        description="NAME://HOST:PORT that clients of a listener are told, separated by commas (advertised.listeners); "
        "unset, what they connected to",
    )

    auto_create_topics: bool = Field(
        True,
        description="create a topic that a client's Metadata names (auto.create.topics.enable)",
    )
    num_partitions: int = Field(
        1, ge=1, le=10_000, description="partitions of an automatically created topic"
    )
    image_wait_ms: int = Field(
        1_000,
        ge=0,
        le=60_000,
        description="how long an answer waits for a change it caused to reach this node's metadata",
    )

    request_bytes_max: int = Field(
        104_857_600, ge=1024, description="largest frame (socket.request.max.bytes)"
    )
    fetch_bytes_max: int = Field(
        57_671_680, ge=1024, description="most bytes one Fetch answers with (fetch.max.bytes)"
    )
    fetch_sessions_max: int = Field(
        1_000,
        ge=0,
        description="consumers whose partitions are kept, so that a Fetch names only what changed "
        "(max.incremental.fetch.session.cache.slots)",
    )
    fetch_session_partitions_max: int = Field(
        60_000,
        ge=0,
        description="partitions kept for all those consumers together, of about 1 kB each",
    )
    connections_max: int = Field(
        2_000, ge=1, description="connections open at once; one more is closed at once"
    )
    connection_queue_bytes_max: int = Field(
        8_388_608, ge=1024, description="requests waiting on one connection before reading pauses"
    )
    connection_queue_requests_max: int = Field(
        100, ge=1, description="requests waiting on one connection before reading pauses"
    )
    queued_bytes_max: int = Field(
        268_435_456,
        ge=1024,
        description="request bytes held for all connections together (queued.max.request.bytes)",
    )
    unsent_bytes_max: int = Field(
        67_108_864,
        ge=1024,
        description="answer bytes that readers have not taken, all together; the nearer to it, the less a Fetch "
        "answers. Beyond half of it, readers that take nothing for `unread_max_ms` are closed",
    )
    unread_max_ms: int = Field(
        30_000,
        ge=100,
        description="how long a client may take nothing of its answer while answers hold more than half of "
        "`unsent_bytes_max`; a slow one takes something",
    )
    connection_idle_max_ms: int = Field(
        600_000,
        ge=100,
        description="a connection without a finished request this long is closed (connections.max.idle.ms)",
    )
    stood_still_max_ms: int = Field(
        5_000,
        ge=100,
        description="after standing still this long, requests that came meanwhile may be out of date; "
        "below a client's request timeout",
    )
    request_timeout_ms: int = Field(
        30_000, ge=100, description="longest wait for a coordinator or the controller"
    )
    repeat_max_ms: int = Field(
        10_000,
        ge=0,
        description="how long a request is repeated while a coordinator or leader is replaced; above an "
        "election, below a client's request timeout",
    )
    rebalance_wait_max_ms: int = Field(
        1_800_000,
        ge=1_000,
        description="longest wait of a JoinGroup or SyncGroup for the rest of its group; clients wait 5 min by default",
    )
    group_payload_bytes_max: int = Field(
        4_194_304,
        ge=1024,
        description="subscriptions of a JoinGroup or assignments of a SyncGroup; a group's record may have 1 MiB",
    )
    stop_grace_ms: int = Field(
        5_000, ge=0, description="how long stopping waits for requests in progress"
    )

    @field_validator("external_advertised")
    @classmethod
    def _addresses(cls, text: str) -> str:
        _external_addresses(text)
        return text

    @model_validator(mode="after")
    def _listeners_fit(self) -> Self:
        if self.listeners and self.external_port is not None:
            raise ValueError("external_port is for a listener without listeners; name it there")
        names = {one.name for one in self.endpoints}
        unknown = sorted(set(self.advertised) - names)
        if unknown:
            raise ValueError(
                f"advertised_listeners names {unknown[0]}, and there is no such listener"
            )
        return self

    @cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The listeners that the settings name; the node registers the address of the first one."""
        protocols = parsed_protocols(self.listener_security_protocol_map)
        addresses = parsed_addresses(self.listeners)
        if not addresses:
            addresses = {MAIN: (self.host, self.port)}
            if self.external_port is not None:
                addresses[EXTERNAL] = (self.host, self.external_port)
                protocols.setdefault(EXTERNAL, SecurityProtocol.PLAINTEXT)
        return endpoints_of(addresses, protocols)

    @cached_property
    def advertised(self) -> Mapping[str, tuple[str, int]]:
        """The host and port that clients are told in place of the real ones, by listener name."""
        return parsed_addresses(self.advertised_listeners)

    @cached_property
    def external_addresses(self) -> Mapping[int, tuple[str, int]]:
        """The host and port that clients of the listener EXTERNAL are told, by the node id of the listener."""
        return _external_addresses(self.external_advertised)


def _external_addresses(text: str) -> dict[int, tuple[str, int]]:
    found: dict[int, tuple[str, int]] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        node_id, _, address = part.partition("=")
        host, _, port = address.rpartition(":")
        is_number = node_id.isascii() and node_id.isdigit() and port.isascii() and port.isdigit()
        if not is_number or not host or not 0 < int(port) <= 65535:
            raise ValueError(
                f"{part!r} is not NODE_ID=HOST:PORT, such as 41=kafka.example.org:9094"
            )
        if int(node_id) in found:
            raise ValueError(f"node id {node_id} stands twice in it")
        found[int(node_id)] = host.strip("[]"), int(port)
    return found
