"""A process that serves Storage as scripted, to be killed and frozen. Prints its port; ends when its input ends."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@asynccontextmanager
async def peer_process():
    """Yields the running process and its address."""
    environment = dict(os.environ)
    folders = [str(ROOT), str(ROOT / "src"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.integration.rpc.peer_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
        cwd=ROOT,
    )
    try:
        async with asyncio.timeout(60):
            port = int(await process.stdout.readline())
        yield process, f"127.0.0.1:{port}"
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


if __name__ == "__main__":
    asyncio.run(_serve())
