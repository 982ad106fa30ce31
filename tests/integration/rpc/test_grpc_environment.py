"""gRPC's network work stays in the thread that waits for it (ADR 0054), and gRPC knows what it is told."""

import os
import subprocess
import sys

from oncelog.rpc import grpc_environment

SERVE = """
import asyncio
from oncelog.rpc.server import RpcServer
from oncelog.rpc.sessions import SessionLimits

async def main():
    server = RpcServer("127.0.0.1", 0, SessionLimits())
    await server.start()
    await server.stop(0)

asyncio.run(main())
"""


def said_by_a_server(environment):
    """What gRPC's library writes to standard error while a server starts and stops."""
    ran = subprocess.run(
        [sys.executable, "-c", SERVE],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
    )
    return ran.stderr


def test_grpc_knows_every_experiment_that_is_switched_off(monkeypatch):
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    assert said_by_a_server({}) == ""
    assert "Unknown experiment: of_no_version" in said_by_a_server(
        {"GRPC_EXPERIMENTS": "-of_no_version"}
    )


def test_the_pinned_version_is_the_one_that_was_tried(monkeypatch):
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    grpc_environment.prepare()
    assert os.environ["GRPC_EXPERIMENTS"].count("-event_engine") == 3


def test_an_operators_choice_of_experiments_stands(monkeypatch):
    monkeypatch.setenv("GRPC_EXPERIMENTS", "event_engine_client")
    grpc_environment.prepare()
    assert os.environ["GRPC_EXPERIMENTS"] == "event_engine_client"
