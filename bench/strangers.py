"""Connections that never log in, and frames of garbage, while a client that logged in commits transactions.

    python -m bench.strangers             10,000 connections, then 100,000 frames
    python -m bench.strangers --tls       the same, where each would begin with a TLS handshake

For each this prints how long it took, and the client's p50 and p99 of a commit before and meanwhile. It also prints
by how much the server's resident memory grew. Nothing else may run on the machine. The bars: memory below + 100 MB,
and the p99 at most doubles.
"""

import argparse
import contextlib
import random
import socket
import struct
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from oncelog.security.pki import make_development_pki
from oncelog_server.demo.processes import OncelogServer

from .abuse import memory_mb, neighbour, percentile
from .apache_kafka import free_ports

_CONNECTIONS: Final = 10_000
_FRAMES: Final = 100_000
_HELD_MAX: Final = 2_000
"""The most connections held at once; the server ends most of them sooner."""
_GARBAGE_BYTES: Final = 64
_FRAMES_EACH: Final = 20
_QUIET_S: Final = 10.0
_USER, _PASSWORD = "client", "of a bench"
_MS: Final = 1000.0


def open_connections(address: tuple[str, int]) -> int:
    """Open connections as fast as the server takes them, and hold them without sending anything; return how many."""
    held: deque[socket.socket] = deque()
    count = 0
    while count < _CONNECTIONS:
        with contextlib.suppress(OSError):
            held.append(socket.create_connection(address, timeout=5))
        count += 1
        if len(held) > _HELD_MAX:
            held.popleft().close()
    for one in held:
        one.close()
    return count


def send_garbage(address: tuple[str, int]) -> int:
    """Send frames with a right length and random bytes; a connection ends at the first that cannot be read.
    Return how many."""
    chance = random.Random(1)
    count = 0
    while count < _FRAMES:
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=5) as stream:
            frames = b"".join(
                struct.pack(">i", _GARBAGE_BYTES) + chance.randbytes(_GARBAGE_BYTES)
                for _ in range(_FRAMES_EACH)
            )
            stream.sendall(frames)
        count += _FRAMES_EACH
    return count


def measure(
    name: str,
    server: OncelogServer,
    take: Callable[[], list[float]],
    address: tuple[str, int],
    does: Callable[[tuple[str, int]], int],
) -> bool:
    """Measure one kind of stranger, print the result, and return whether the bars hold."""
    take()
    time.sleep(_QUIET_S)
    quiet, before_mb = take(), memory_mb(server.pid, "VmRSS")
    began = time.monotonic()
    count = does(address)
    took_s, meanwhile = time.monotonic() - began, take()
    grown_mb = memory_mb(server.pid, "VmRSS") - before_mb
    ratio = percentile(meanwhile, 0.99) / percentile(quiet, 0.99)
    print(
        f"{name:14} {count:7,} in {took_s:5.1f} s"
        f"  commit p50 {percentile(quiet, 0.5) * _MS:5.1f} -> {percentile(meanwhile, 0.5) * _MS:5.1f} ms"
        f"  p99 {percentile(quiet, 0.99) * _MS:5.1f} -> {percentile(meanwhile, 0.99) * _MS:5.1f} ms ({ratio:.2f} times)"
        f"  rss {grown_mb:+.0f} MB",
        flush=True,
    )
    return ratio <= 2 and grown_mb < 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.strangers")
    parser.add_argument("--tls", action="store_true", help="a listener with TLS")
    protocol = "SASL_SSL" if parser.parse_args().tls else "SASL_PLAINTEXT"
    inside, outside = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="oncelog-strangers-") as folder, ExitStack() as stack:
        pki = Path(folder) / "pki"
        make_development_pki(pki)
        environment = {
            "ONCELOG_LISTENER_LISTENERS": f"PLAINTEXT://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
            "ONCELOG_LISTENER_LISTENER_SECURITY_PROTOCOL_MAP": f"OUTSIDE:{protocol}",
            "ONCELOG_LISTENER_SSL_CERTIFICATE_FILE": str(pki / "listener.pem"),
            "ONCELOG_LISTENER_SSL_KEY_FILE": str(pki / "listener.key"),
        }
        login = {
            "security.protocol": protocol,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": _USER,
            "sasl.password": _PASSWORD,
            "ssl.ca.location": str(pki / "ca.pem"),
        }
        server = stack.enter_context(
            OncelogServer(Path(folder) / "data", port=inside, environment=environment)
        )
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{inside}"})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion(_USER, info, _PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(30)
        address = ("127.0.0.1", outside)
        with neighbour(f"127.0.0.1:{outside}", login) as take:
            holds = [
                measure("connections", server, take, address, open_connections),
                measure("garbage frames", server, take, address, send_garbage),
            ]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
