"""Finds out whether a process is still there, by its port: a refused connection proves that it is gone, silence does
not.
"""

import asyncio
import contextlib

CONNECT_TIMEOUT_S = 1.0
RETRY_S = 0.1


async def refuses(address: str) -> bool:
    """True if the machine is up and nothing listens at `address`. False when that is not certain."""
    try:
        _, writer = await _connected(address)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError, ValueError):
        return False
    writer.close()
    return False


async def until_gone(address: str) -> None:
    """Return once a process that listened at `address` no longer does.

    This waits on an open connection, which ends with the process. A connection may end for other reasons, so only a
    refusal afterwards counts. A refusal before the first success does not count, for that process may just be starting.
    """
    has_listened = False
    while True:
        try:
            reader, writer = await _connected(address)
        except ConnectionRefusedError:
            if has_listened:
                return
        except (OSError, TimeoutError, ValueError):
            # Unreachable is not gone.
            pass
        else:
            has_listened = True
            with contextlib.suppress(OSError):
                try:
                    while await reader.read(4096):
                        pass
                finally:
                    writer.close()
            if await refuses(address):
                return
        await asyncio.sleep(RETRY_S)


async def _connected(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        return await asyncio.open_connection(host.strip("[]"), int(port))
