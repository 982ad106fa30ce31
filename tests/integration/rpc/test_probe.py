"""The command that a container's health check runs, against a real server."""

import asyncio
import os
import socket
import sys

import pytest

from oncelog.rpc.probe import main
from oncelog.rpc.server import RpcServer
from oncelog.rpc.sessions import SessionLimits


async def probe(*arguments, **environment):
    """As a health check runs it: exit code, and the one line that it says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "oncelog.rpc.probe",
        *arguments,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    line = output.decode().removesuffix("\n")
    assert "\n" not in line
    return process.returncode, line


@pytest.fixture
async def server():
    server = RpcServer("127.0.0.1", 0, SessionLimits())
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def address(server):
    return f"127.0.0.1:{server.port}"


async def test_it_follows_readiness(server, address):
    assert await probe(address) == (1, f"{address}: NOT_SERVING")
    await server.set_ready(True)
    assert await probe(address) == (0, f"{address}: SERVING")
    await server.set_ready(False)
    assert await probe(address) == (1, f"{address}: NOT_SERVING")


async def test_a_process_that_is_not_ready_lives(server, address):
    assert await probe(address, "--service", "liveness") == (0, f"{address}: SERVING")


async def test_a_process_lives_until_its_server_stops(server, address):
    await server.set_ready(True)
    await server.stop()
    code, line = await probe(address, "--service", "liveness")
    assert (code, line.startswith(f"{address}: cannot be asked: UNAVAILABLE")) == (1, True)


async def test_a_name_that_the_process_does_not_know_is_named(server, address):
    code, line = await probe(address, "--service", "livelyness")
    assert code == 1
    assert "'livelyness'" in line
    assert "'liveness'" in line


async def test_without_an_address_it_asks_the_port_of_the_environment(server, address):
    await server.set_ready(True)
    assert await probe(ONCELOG_NODE_PORT=str(server.port)) == (0, f"{address}: SERVING")


async def test_a_proxy_of_the_environment_is_not_asked(server, address):
    await server.set_ready(True)
    code, _ = await probe(address, http_proxy="http://127.0.0.1:1", grpc_proxy="127.0.0.1:1")
    assert code == 0


def test_a_process_that_hangs_does_not_live():
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        address = f"127.0.0.1:{hangs.getsockname()[1]}"
        code, line = asyncio.run(probe(address, "--service", "liveness"))
        assert (code, "no answer within 3 s" in line) == (1, True)


@pytest.mark.parametrize("address", ["9090", "host", "host:", "host:0", "host:70000", ":9090"])
def test_an_address_that_cannot_be_is_a_wrong_use(address, capsys):
    with pytest.raises(SystemExit) as refused:
        main([address])
    assert refused.value.code == 2
    assert f"{address!r} is no HOST:PORT" in capsys.readouterr().err
