"""Opens the gRPC channels of oncelog's processes, and has the options of channels and servers in one place."""

from collections.abc import Callable
from typing import Final

import grpc
import grpc.aio
from google.protobuf.message import Message

from oncelog.rpc.contract import SERVICES, Response
from oncelog.rpc.sessions import PeerTls, SessionLimits

CLUSTER_NAME: Final = "oncelog.internal"
"""The name that the certificate of every process carries."""

ChannelOption = tuple[str, int | str]
ChannelOptions = list[ChannelOption]

_WINDOW_BYTES: Final = 8 * 2**20
"""Bytes that a stream may send before its reader has taken them: two frames of a session."""


def open_channel(address: str, limits: SessionLimits) -> grpc.aio.Channel:
    """Open a channel to another process. Its connection is its own, and is made at the first call.

    Raises OncelogError where a file for TLS cannot be read.
    """
    options = _client_options(limits)
    if limits.tls is None:
        return grpc.aio.insecure_channel(address, options=options)
    options.append(_name_of_peers())
    return grpc.aio.secure_channel(address, limits.tls.channel_credentials(), options=options)


class PlainStub:
    """The methods of a service as plain gRPC calls, for commands and other programs outside the cluster."""

    def __init__(self, channel: grpc.Channel | grpc.aio.Channel, service: str) -> None:
        """Make a stub for the named service. Its methods block or are awaited, as the channel is of `grpc` or of
        `grpc.aio`.
        """
        self._channel = channel
        self._methods = SERVICES[service].methods

    def __getattr__(self, name: str) -> Callable[..., Response]:
        method = self._methods[name]
        request = "stream" if method.takes_stream else "unary"
        answer = "stream" if method.answers_stream else "unary"
        make = getattr(self._channel, f"{request}_{answer}")
        call: Callable[..., Response] = make(method.path, _serialized, method.response_from_string)
        return call


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def open_blocking_channel(address: str, tls: PeerTls | None) -> grpc.Channel:
    """Open a channel for programs without an event loop: commands and health checks.

    Raises OncelogError where a file for TLS cannot be read.
    """
    # A web proxy that the environment names is not for these connections.
    options: ChannelOptions = [("grpc.enable_http_proxy", 0)]
    if tls is None:
        return grpc.insecure_channel(address, options=options)
    options.append(_name_of_peers())
    return grpc.secure_channel(address, tls.channel_credentials(), options=options)


def _name_of_peers() -> ChannelOption:
    """Return the channel option by which TLS expects the name that every certificate of the cluster carries.

    Without it, TLS would expect the address of the process.
    """
    return "grpc.ssl_target_name_override", CLUSTER_NAME


def _client_options(limits: SessionLimits) -> ChannelOptions:
    return [
        *_message_sizes(limits),
        *_keepalive(limits),
        *_windows(),
        # Channels to one address would otherwise share a connection and the backoff of its last failure.
        ("grpc.use_local_subchannel_pool", 1),
        _proxy(limits),
        # Repeating is the caller's business, who knows what is safe.
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
    ]


def server_options(limits: SessionLimits) -> ChannelOptions:
    return [
        *_message_sizes(limits),
        *_keepalive(limits),
        *_windows(),
        # Two servers on one port would split the calls between them.
        ("grpc.so_reuseport", 0),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", min(1000, limits.keepalive_ms // 2)),
        ("grpc.http2.max_ping_strikes", 0),
    ]


def _proxy(limits: SessionLimits) -> ChannelOption:
    if limits.http_proxy:
        return "grpc.http_proxy", f"http://{limits.http_proxy}"
    # A web proxy that the environment names is not for these connections.
    return "grpc.enable_http_proxy", 0


def _message_sizes(limits: SessionLimits) -> ChannelOptions:
    # A frame with a message of the greatest size has a few bytes around it.
    room = limits.message_bytes_max + limits.frame_bytes
    return [("grpc.max_receive_message_length", room), ("grpc.max_send_message_length", room)]


def _windows() -> ChannelOptions:
    # gRPC would measure the way with a ping for about each heartbeat, and each wakes four threads of two processes for
    # seconds: a third of what an idle cluster cost. What it finds on a long way is such a window.
    return [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", _WINDOW_BYTES)]


def _keepalive(limits: SessionLimits) -> ChannelOptions:
    return [
        ("grpc.keepalive_time_ms", limits.keepalive_ms),
        # The first covers a ping sent when the connection falls quiet, the second every other.
        ("grpc.keepalive_timeout_ms", limits.keepalive_timeout_ms),
        ("grpc.http2.ping_timeout_ms", limits.keepalive_timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
