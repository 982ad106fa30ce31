"""Asks a process of the cluster whether it is ready, by the standard gRPC health check. It needs no generated code."""

import contextlib
import socket
from typing import Final, Self

import grpc

from oncelog.rpc.channel import open_blocking_channel
from oncelog.rpc.sessions import PeerTls

CHECK_TIMEOUT_S: Final = 2.0
CONNECT_TIMEOUT_S: Final = 0.2
_CHECK: Final = "/grpc.health.v1.Health/Check"
_SERVING: Final = b"\x08\x01"
"""HealthCheckResponse{status: SERVING} on the wire. The request about the whole process is the empty message."""


class HealthProbe:
    """Makes health checks of one address over one connection. Close it, or use it as a context manager."""

    def __init__(self, address: str, tls: PeerTls | None = None) -> None:
        self._address = address
        self._tls = tls
        self._channel: grpc.Channel | None = None

    def is_serving(self) -> bool:
        """True if the process says that it serves. False also when nobody listens or answers in time."""
        if self._channel is None:
            # A channel that failed to connect backs off for a second; a refused connection is known at once.
            if not _accepts(self._address):
                return False
            self._channel = open_blocking_channel(self._address, self._tls)
        check = self._channel.unary_unary(_CHECK, _as_is, _as_is)
        try:
            return bool(check(b"", timeout=CHECK_TIMEOUT_S) == _SERVING)
        except grpc.RpcError:
            return False

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_serving(address: str, tls: PeerTls | None = None) -> bool:
    """Make one health check of this address, and return whether the process serves."""
    with HealthProbe(address, tls) as probe:
        return probe.is_serving()


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S),
    ):
        return True
    return False


def _as_is(message: bytes) -> bytes:
    return message
