"""Whatever is sent to whichever route, with a token or without: the gateway keeps next to nothing of it.

`ONCELOG_TEST_GATEWAY_FULL=1` sends 200 MB to each route in each framing; else only the login gets as many.
"""

import asyncio
import contextlib
import os
import re
import time
from pathlib import Path

import pytest
from tests.integration.gateway.test_gateway_access import ADMIN
from tests.integration.processes.deadlines import eventually
from tests.targets import cluster_folder

from oncelog_gateway.core.route_roles import OPEN, ROLE_OF
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import GATEWAY, ClusterShape

MIB = 1 << 20
GROWTH_MAX = 20 * MIB
SENT_AT_MOST = 200 * MIB
IS_FULL = bool(os.environ.get("ONCELOG_TEST_GATEWAY_FULL"))
SENT_TO_OTHERS = SENT_AT_MOST if IS_FULL else 32 * MIB
"""More than the growth that is allowed."""
AT_ONCE = 8
SETTLED_S = 2
LOGIN = ("POST", "/login")
ROUTES = (*sorted(OPEN - {LOGIN}), *sorted(ROLE_OF), ("POST", "/nowhere"), ("TRACE", "/"))
FRAMINGS = {
    "plain": "Content-Length: {size}",
    "chunked": "Transfer-Encoding: chunked",
    "a small length, then chunked": "Content-Length: 2\r\nTransfer-Encoding: chunked",
    "chunked, then a small length": "Transfer-Encoding: chunked\r\nContent-Length: 2",
    "a small length": "Content-Length: 2",
    "two lengths": "Content-Length: 2\r\nContent-Length: {size}",
    "HTTP/1.0 without a length": "Connection: close",
}
OF_OTHERS = FRAMINGS if IS_FULL else ("plain", "a small length, then chunked")
FORM = b"token=" + b"x" * 65_530
CHUNK = b"%x\r\n%b\r\n" % (len(FORM), FORM)
SHAPE = ClusterShape(
    controllers=1, storage=1, coordinators=1, marker_senders=1, listeners=1, gateways=1
)


class Gateway:
    """A process, and how much memory it had at most."""

    def __init__(self, port, pid):
        self.port = port
        self._status = Path(f"/proc/{pid}/status")
        self._seen = self._look_at = 0
        self._clear_refs = Path(f"/proc/{pid}/clear_refs")

    def bytes_of(self, name):
        found = re.search(rf"^{name}:\s+(\d+) kB$", self._status.read_text(), re.MULTILINE)
        return int(found[1]) * 1024

    def has_settled(self):
        """A gateway imports and reads for some seconds more once it is ready."""
        if time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + SETTLED_S
        before, self._seen = self._seen, self.bytes_of("VmRSS")
        return self._seen - before < MIB // 8

    def forget_peak(self):
        """From now on VmHWM is of what comes. Returns the bytes of now."""
        self._clear_refs.write_text("5")
        return self.bytes_of("VmRSS")

    async def send(self, route, framing, token, size):
        """As a client that reads no answer and goes on for as long as it may."""
        method, path = route
        version = "1.0" if framing.startswith("HTTP/1.0") else "1.1"
        lines = [
            f"{method} {re.sub('{[^}]*}', '1', path)} HTTP/{version}",
            f"Host: localhost:{self.port}",
            f"Origin: http://localhost:{self.port}",
            "Content-Type: application/x-www-form-urlencoded",
            *([f"Authorization: Bearer {ADMIN}"] if token else []),
            FRAMINGS[framing].format(size=size),
        ]
        _, writer = await asyncio.open_connection("localhost", self.port)
        writer.write("\r\n".join((*lines, "", "")).encode())
        piece = CHUNK if "chunked" in framing else FORM
        left = size
        with contextlib.suppress(OSError):
            while left > 0 and not writer.is_closing():
                writer.write(piece)
                await writer.drain()
                left -= len(piece)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@pytest.fixture(scope="module")
def gateway():
    with cluster_folder() as folder:
        folder.mkdir(parents=True, exist_ok=True)
        token_file = folder / "admin-token"
        token_file.write_text(ADMIN)
        environment = {
            "ONCELOG_GATEWAY_AUTHENTICATION": "required",
            "ONCELOG_GATEWAY_ADMIN_TOKEN_FILE": str(token_file),
        }
        with Cluster(folder, SHAPE, environment=environment) as running:
            (member,) = running.of_role(GATEWAY)
            found = Gateway(member.port, running.process(member.name).pid)
            asyncio.run(send_to_each(found, [LOGIN, *ROUTES], "plain", len(FORM)))
            eventually(found.has_settled)
            yield found


async def send_to_each(gateway, routes, framing, size):
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(route, token):
        async with turns:
            await gateway.send(route, framing, token, size)

    await asyncio.gather(*(one(route, token) for route in routes for token in (False, True)))


async def growth(gateway, routes, framing, size):
    """By how much the gateway was larger when it was largest."""
    # What a first request imports and keeps is no growth.
    await send_to_each(gateway, routes, framing, len(FORM))
    before = gateway.forget_peak()
    await send_to_each(gateway, routes, framing, size)
    grown = gateway.bytes_of("VmHWM") - before
    print(f"{framing}, {len(routes)} routes: {before // MIB} + {grown / MIB:.1f} MiB")
    return grown


@pytest.mark.parametrize("framing", FRAMINGS)
async def test_200_mb_to_the_login_do_not_stay(gateway, framing):
    assert await growth(gateway, [LOGIN], framing, SENT_AT_MOST) <= GROWTH_MAX


@pytest.mark.parametrize("framing", OF_OTHERS)
async def test_a_large_body_to_any_route_does_not_stay(gateway, framing):
    assert await growth(gateway, ROUTES, framing, SENT_TO_OTHERS) <= GROWTH_MAX
