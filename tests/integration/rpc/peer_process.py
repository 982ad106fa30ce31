"""Processes to be killed and frozen: one that serves Storage as scripted, one that is a node of a cluster.

Each prints one line when it is ready, and ends when its input ends.
"""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@asynccontextmanager
async def peer_process():
    """Yields a running process that serves Storage, and its address."""
    async with _process("peer") as (process, line):
        yield process, f"127.0.0.1:{int(line)}"


@asynccontextmanager
async def node_process(node_id, controller_address):
    """Yields a running process that is a living storage node."""
    async with _process("node", str(node_id), controller_address) as (process, _):
        yield process


@asynccontextmanager
async def _process(*arguments):
    environment = dict(os.environ)
    folders = [str(ROOT), str(ROOT / "src"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.integration.rpc.peer_process",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
        cwd=ROOT,
    )
    try:
        async with asyncio.timeout(60):
            line = await process.stdout.readline()
        yield process, line
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


async def _serve():
    from tests.contracts.stub import ScriptedStorage

    from oncelog.rpc.contract import STORAGE
    from oncelog.rpc.server import RpcServer
    from oncelog.rpc.sessions import SessionLimits

    server = RpcServer("127.0.0.1", 0, SessionLimits())
    server.served.add(STORAGE, ScriptedStorage())
    await server.start()
    print(server.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0.1)


async def _live(node_id, controller_address):
    from oncelog.api.v1 import controller_pb2 as pb
    from oncelog.rpc.node import Node
    from oncelog.rpc.node_settings import NodeSettings

    settings = NodeSettings(node_id=int(node_id), port=0, controllers=controller_address)
    node = Node(settings, [pb.ROLE_STORAGE])
    await node.start()
    await node.ready()
    await node.metadata.wait_for(lambda image: not image.nodes[node.node_id].fenced, 60)
    print(node.node_epoch, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await node.stop()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["peer"]:
            asyncio.run(_serve())
        case ["node", given_id, given_address]:
            asyncio.run(_live(given_id, given_address))
